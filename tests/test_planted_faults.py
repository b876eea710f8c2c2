"""Faults that other projects shipped, planted in the specification: the tests detect each."""

import math

import numpy as np
import pytest
import test_geometry
import test_operators

from specgrad import AvgPool, MaxPool, geometry
from specgrad.conformance import operator_search
from specgrad.ops import OPERATORS, conv, pool
from specgrad.scalars.base import Elements
from specgrad.scalars.floats import Numbers

pytestmark = pytest.mark.usefixtures("specification")


def last_winner(patch):
    patch.setattr(Numbers, "gt", lambda self, a, b: np.greater_equal(a, b))
    patch.setattr(Elements, "gt", lambda self, a, b: np.greater_equal(a, b))


def zero_padding_in_max(patch):
    right = pool.argmax_fold
    patch.setattr(pool, "argmax_fold", lambda S, window, counted, lowest=False: right(S, window, "exists", lowest))


def disjoint_adaptive_bins(patch):
    right = geometry.Adaptive.taps

    def taps(self):
        cell, real, _ = right(self)
        stops = (np.arange(self.length)[:, None] + 1) * self.size // max(self.length, 1)
        kept = real & ((cell < stops) | (np.arange(cell.shape[1]) == 0))
        return geometry.Taps(np.where(kept, cell, 0), kept, kept)

    patch.setattr(geometry.Adaptive, "taps", taps)


def flipped_kernels(patch):
    right = conv.channel_geometry

    def flipped(x_shape, weight_shape, groups, outputs, spatial, transposed):
        turned = [t if transposed else geometry.Taps(*(table[:, ::-1] for table in t)) for t in spatial]
        return right(x_shape, weight_shape, groups, outputs, turned, transposed)

    patch.setattr(conv, "channel_geometry", flipped)


def float_sizes(patch):
    def length(self):
        room = self.size + self.before + self.after - self.extent
        length = (math.ceil if self.ceil_mode else math.floor)(room / self.stride) + 1
        return length - 1 if self.ceil_mode and (length - 1) * self.stride >= self.size + self.before else length

    patch.setattr(geometry.Sliding, "length", property(length))


def gradient_to_padding(patch):
    def row(self, S, window, kept):
        divisor = self.divisor(S, window)
        for tap in window:
            yield tap.entry(0, present=tap.exists, over=divisor)

    patch.setattr(pool.Average, "row", row)


def winner_compared_with_the_rows_start(patch):
    """An argmax loop that compares with the best cell at the start of the row, and so picks a wrong
    cell in some 2×2 windows."""
    right = pool.argmax_fold

    def argmax_fold(S, window, counted, lowest=False):
        best, took_lead = right(S, window, counted, lowest)
        if len(took_lead) != 4:
            return best, took_lead
        x = [tap.cells(0) for tap in window]
        start = S.where(S.gt(x[1], x[0]), x[1], x[0])
        took_lead = [took_lead[0], took_lead[1], S.gt(x[2], start), S.gt(x[3], start)]
        for cells, led in zip(x, took_lead, strict=True):
            best = S.where(led, cells, best)
        return best, took_lead

    patch.setattr(pool, "argmax_fold", argmax_fold)


def multiplied_before_subtracted(patch):
    """β·x - β·m instead of β·(x - m), which overflows more often."""

    def exponential(self, S, tap, pivot):
        beta = S.constant(self.beta)
        return S.exp(beta * S.where(tap.real, tap.cells(0), S.constant(0)) - beta * pivot)

    patch.setattr(pool.SmoothMaxPool, "_exponential", exponential)


FAULTS = [
    multiplied_before_subtracted,
    last_winner,
    zero_padding_in_max,
    disjoint_adaptive_bins,
    flipped_kernels,
    float_sizes,
    gradient_to_padding,
    winner_compared_with_the_rows_start,
]


def suite():
    """The tests that compare values and rows with definitions."""
    for fixed in test_operators.FIXED:
        test_operators.test_fixed_answers(fixed)
    for plane, winner in test_operators.WINNERS:
        test_operators.test_first_winners(plane, winner)
    test_geometry.test_sizes_beyond_floats_are_exact()
    test_geometry.test_sliding_taps_are_the_definition()
    for kind in test_operators.SUMS:
        test_operators.test_value_and_derivatives_are_the_definition(kind, test_operators.Fraction)


@pytest.fixture
def clean_geometry():
    """Clear cached geometries, so that a planted fault neither uses nor leaves one."""
    caches = {kind.geometry for kind in OPERATORS if hasattr(kind.geometry, "cache_clear")}
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


def test_nothing_is_reported_where_nothing_is_wrong(clean_geometry):
    suite()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.__name__)
def test_fault_is_caught(fault, monkeypatch, clean_geometry):
    fault(monkeypatch)
    with pytest.raises(AssertionError):
        suite()


def test_the_exact_check_reports_a_fault_with_a_small_counterexample(monkeypatch, clean_geometry):
    gradient_to_padding(monkeypatch)
    cells = operator_search.our_cells(60, 10.0, 0, ("witness",), (AvgPool, MaxPool))
    broken = [cell for cell in cells if cell.differences]
    assert {cell.operator for cell in broken} == {"AvgPool"}
    assert any(cell.claim == "witness" and len(cell.differences[0].outcome.words) < 400 for cell in broken)
