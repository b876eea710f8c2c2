"""Checking implementations against the specification: telling cases, derived error bounds, the self-check."""
