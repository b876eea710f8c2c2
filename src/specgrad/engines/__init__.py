"""Engines: modules that run operators. `dispatch.ENGINES` lists them, `dispatch.Engine` says what they offer."""
