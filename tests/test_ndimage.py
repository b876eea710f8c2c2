"""`specgrad.ndimage` against SciPy: bits of extrema, bounds of sums, errors, SciPy's own tests."""

import inspect
import itertools
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kinds import effort

from specgrad import SpecgradError
from specgrad import ndimage as ours
from specgrad.ndimage import integer_means
from specgrad.ndimage.arguments import Line
from specgrad.ndimage.edges import needs_no_edge, source

scipy_ndimage = pytest.importorskip("scipy.ndimage")

MODES = ["reflect", "nearest", "mirror", "wrap", "constant"]
DTYPES = [np.uint8, np.int8, np.int16, np.uint16, np.int32, np.uint64, np.int64, np.float32, np.float64, np.bool_]
EXTREMA = ["maximum_filter", "minimum_filter", "grey_dilation", "grey_erosion"]
COMPOSED = ["grey_opening", "grey_closing", "white_tophat", "black_tophat"]


@st.composite
def images(draw, dtypes=DTYPES):
    """An image, the window's sizes, and the other arguments of a filter."""
    rank = draw(st.sampled_from([1, 2, 2, 3]))
    shape = tuple(draw(st.lists(st.integers(1, 7), min_size=rank, max_size=rank)))
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    x = random.integers(0 if dtype.kind == "b" else 20, 2 if dtype.kind == "b" else 100, shape).astype(dtype)
    if dtype.kind in "if":  # negative numbers, with a range that leaves room for a structure's weights in every dtype
        x = x - dtype.type(60)
    axes = draw(st.none() | st.permutations(range(rank)).map(lambda p: tuple(p[: 1 + rank // 2])))
    count = rank if axes is None else len(axes)
    sizes = draw(st.lists(st.sampled_from([1, 2, 3, 3, 4, 7]), min_size=count, max_size=count))
    origins = [draw(st.integers(-(size // 2), (size - 1) // 2)) for size in sizes]
    whole = dtype.kind in "bu"
    options = {
        "mode": draw(st.sampled_from(MODES)),
        "cval": draw(st.sampled_from([0.0, 1.0] if dtype.kind == "b" else [0.0, 20.25, 50.0] if whole else [-2.5, 50])),
        "origin": origins if draw(st.booleans()) else 0,
        "axes": axes,
        "output": None if dtype.kind == "b" else draw(st.sampled_from([None, None, np.float64, np.int32])),
    }
    return x, sizes, options, random


@settings(max_examples=effort(35, 70))
@given(images(), st.sampled_from(EXTREMA * 2 + COMPOSED), st.sampled_from(["size", "footprint", "structure"]))
def test_extrema_have_the_bits_of_scipy(case, name, window):
    x, sizes, options, random = case
    if window == "size" or x.dtype == np.bool_:
        options["size"] = sizes
    else:
        marks = random.random(sizes) < 0.6
        marks.flat[random.integers(marks.size)] = True
        options["footprint"] = marks
        if window == "structure" and name not in EXTREMA[:2]:
            options["structure"] = random.integers(-3, 4, sizes) / 2
            options["cval"] = 20.0
    if "tophat" in name:  # SciPy subtracts integers of one dtype only
        options["output"] = None
    want = getattr(scipy_ndimage, name)(x, **options)
    got = getattr(ours, name)(x, **options)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


@settings(max_examples=effort(15, 25))
@given(images(), st.sampled_from([("maximum_filter1d", ours), ("minimum_filter1d", ours)]))
def test_extrema_along_an_axis_have_the_bits_of_scipy(case, which):
    x, sizes, options, _ = case
    origin = options["origin"][0] if options["origin"] else 0
    given = {**options, "origin": origin, "axis": -1, "size": sizes[0]}
    del given["axes"]
    want = getattr(scipy_ndimage, which[0])(x, **given)
    np.testing.assert_array_equal(getattr(ours, which[0])(x, **given), want)


def test_edges_are_left_out_only_where_each_cell_beyond_stands_for_one_of_the_window():
    for mode in MODES[:4]:
        for before, after, length in itertools.product(range(5), range(5), range(1, 8)):
            if needs_no_edge(Line(0, before, after, mode)):
                for cell in range(length):
                    window = np.arange(cell - before, cell + after + 1)
                    inside = window[(window >= 0) & (window < length)]
                    assert set(source(mode, length, window)) == set(inside)


def unit(dtype):
    return float(np.finfo(dtype).eps) / 2 if dtype.kind == "f" else 0.0


def gamma(terms, u):
    return terms * u / (1 - terms * u)


def sums_per_axis(x, sizes, axes):
    """Lengths and sizes of the filtered axes."""
    places = range(x.ndim) if axes is None else axes
    return [(x.shape[p], s) for p, s in zip(places, sizes, strict=True) if s > 1]


@settings(max_examples=effort(20, 40))
@given(images())
def test_uniform_filters_are_within_the_bound(case):
    """Ours: γ of a sum in any order. SciPy's: a running sum of float64, two additions per cell.

    Each of these additions errs by at most u times a sum of size + 1 cells. Means do not enlarge
    errors of earlier axes. Sums of small integers are exact in both, and their quotients cut alike.
    """
    x, sizes, options, _ = case
    want, got = (library.uniform_filter(x, sizes, **options) for library in (scipy_ndimage, ours))
    assert got.dtype == want.dtype
    if want.dtype.kind != "f":
        np.testing.assert_array_equal(got, want)
        return
    largest = max(float(np.abs(x.astype(float)).max()), abs(options["cval"]))
    u, double = max(unit(want.dtype), unit(x.dtype)), 2.0**-53
    axes = sums_per_axis(x, sizes, options["axes"])
    mine = gamma(math.prod(s for _, s in axes) + 1, u) + sum(gamma(s + 1, u) + u for _, s in axes)
    theirs = sum(gamma(s + 2 * n + 1, double) * (s + 1) / s + u for n, s in axes)
    np.testing.assert_allclose(got, want, rtol=0, atol=(mine + theirs) * (1 + mine + theirs) * largest)


@settings(max_examples=effort(10, 20))
@given(
    st.sampled_from([np.uint8, np.int8, np.uint16, np.int16, np.bool_]),
    st.lists(st.integers(1, 70), min_size=1, max_size=3),
    st.sampled_from([2, 5, 19]),
    st.sampled_from(MODES),
    st.data(),
)
def test_means_of_narrow_integers_have_the_bits_of_scipy(dtype, shape, size, mode, data):
    """All numbers of the dtype, over rows, columns, planes and channels, in any order."""
    axes = tuple(data.draw(st.permutations(range(len(shape))))[: data.draw(st.integers(1, len(shape)))])
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    least, most = (0, 1) if dtype is np.bool_ else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    x = random.integers(least, most + 1, shape).astype(dtype)
    options = {
        "mode": mode,
        "cval": most,
        "origin": data.draw(st.integers(-(size // 2), (size - 1) // 2)),
        "axes": axes,
    }
    if size == 5:  # other layouts
        x = np.asfortranarray(x)[::-1]
    want, got = (library.uniform_filter(x, size, **options) for library in (scipy_ndimage, ours))
    np.testing.assert_array_equal(got, want)


def test_means_of_narrow_integers_are_in_bands(monkeypatch):
    monkeypatch.setattr("specgrad.ndimage.integer_means.BAND", 2)
    x = np.random.default_rng(0).integers(0, 256, (61, 35)).astype(np.uint8)
    integer_means._step.cache_clear()
    np.testing.assert_array_equal(ours.uniform_filter(x, (3, 11)), scipy_ndimage.uniform_filter(x, (3, 11)))
    integer_means._step.cache_clear()


@pytest.mark.parametrize("mode", MODES)
def test_edges_of_means_are_those_of_the_copied_image(mode, monkeypatch):
    """With edges computed separately, and axis by axis; means of these integers are exact."""
    x = np.random.default_rng(0).integers(-99, 99, (12, 13, 7)) * 27.0
    for limit in ("SMALL", "LARGE"):
        monkeypatch.setattr(f"specgrad.ndimage.sums.{limit}", 5 if limit == "SMALL" else 0)
        for origin in (0, (1, -1, 0), (-1, 1, 1)):
            options = {"size": (3, 3, 3), "mode": mode, "cval": 54.0, "origin": origin}
            np.testing.assert_array_equal(ours.uniform_filter(x, **options), reference_mean(x, **options))
        monkeypatch.undo()


def reference_mean(x, size, mode, cval, origin):
    """The sum of the window in exact integers, divided once."""
    origins = [origin] * x.ndim if origin == 0 else origin
    around = [(s // 2 + o, s - 1 - s // 2 - o) for s, o in zip(size, origins, strict=True)]
    words = {"reflect": "symmetric", "nearest": "edge", "mirror": "reflect", "wrap": "wrap", "constant": "constant"}
    wide = np.pad(x, around, words[mode], **({"constant_values": cval} if mode == "constant" else {}))
    return np.lib.stride_tricks.sliding_window_view(wide, size).sum(tuple(range(-x.ndim, 0))) / math.prod(size)


@pytest.mark.parametrize("mode", MODES)
def test_windows_much_larger_than_the_image(mode):
    x = np.array([[1, 2, 3, 4, 9], [0, 5, 6, 7, 8]], np.uint8)
    for name in ("maximum_filter", "minimum_filter"):
        for side in (-1, 0, 1):  # a window far beyond the image reads the same cells as a window of 31
            want = getattr(scipy_ndimage, name)(x, 31, mode=mode, cval=10, origin=15 * side)
            got = getattr(ours, name)(x, 1_000_001, mode=mode, cval=10, origin=500_000 * side)
            np.testing.assert_array_equal(got, want)
    want = scipy_ndimage.uniform_filter1d(x / 1.0, 100_001, mode=mode)
    np.testing.assert_allclose(ours.uniform_filter1d(x / 1.0, 100_001, mode=mode), want, rtol=1e-9)
    want = scipy_ndimage.uniform_filter(x / 1.0, 1001, mode=mode, cval=8)
    np.testing.assert_allclose(ours.uniform_filter(x / 1.0, 1001, mode=mode, cval=8), want, rtol=1e-12)


@settings(max_examples=effort(20, 40))
@given(images([np.uint8, np.int16, np.int64, np.float32, np.float64]), st.sampled_from(["correlate", "convolve"]))
def test_weighted_sums_are_within_the_bound(case, name):
    """The bound: γ of n + 1 roundings of the sum, and one each for the weights and the result."""
    x, sizes, options, random = case
    weights = random.integers(-8, 9, sizes) / 8  # products and sums of integers are exact
    if options["output"] is None and x.dtype.kind == "u":
        options["output"] = np.int32
    if x.dtype.kind == "f":
        weights = weights + random.normal(size=sizes)
    want, got = (getattr(library, name)(x, weights, **options) for library in (scipy_ndimage, ours))
    assert got.dtype == want.dtype
    if x.dtype.kind != "f":
        np.testing.assert_array_equal(got, want)
        return
    size = np.abs(weights).sum() * max(float(np.abs(x).max()), abs(options["cval"]))
    u = 2.0**-24 if np.float32 in (x.dtype, want.dtype) else 2.0**-53
    cut = 1 if want.dtype.kind == "i" else 0  # an exact value next to an integer may be truncated either way
    np.testing.assert_allclose(got, want, rtol=0, atol=2 * gamma(weights.size + 3, u) * size + cut)


@pytest.mark.parametrize("name", ["correlate1d", "convolve1d"])
def test_weighted_sums_along_an_axis(name):
    x = np.arange(24).reshape(4, 6) % 7
    for axis, mode in [(0, "wrap"), (1, "mirror"), (-1, "constant")]:
        args = (x, [1, -2, 3, 1], axis)
        want = getattr(scipy_ndimage, name)(*args, mode=mode, origin=-1)
        np.testing.assert_array_equal(getattr(ours, name)(*args, mode=mode, origin=-1), want)


def test_complex_images():
    random = np.random.default_rng(0)
    x, w = random.integers(-9, 9, (2, 5, 6)), random.integers(-9, 9, (2, 3, 2))
    x, w = x[0] + 1j * x[1], w[0] + 1j * w[1]
    for name, args in [("correlate", (w,)), ("convolve", (w.real,)), ("convolve", (w,)), ("uniform_filter", ((2, 1),))]:
        for image in (x, x.real):
            want = getattr(scipy_ndimage, name)(image, *args, mode="constant", cval=2)
            np.testing.assert_array_equal(getattr(ours, name)(image, *args, mode="constant", cval=2), want)


def test_a_weight_of_zero_takes_no_part_under_infinite_cells():
    x = np.array([1.0, np.inf, 2.0, np.nan, 5.0, 6.0])
    want = scipy_ndimage.correlate(x, [1.0, 0.0, 1.0])
    np.testing.assert_array_equal(ours.correlate(x, [1.0, 0.0, 1.0]), want)


@pytest.mark.parametrize("name", ["correlate1d", "convolve1d"])
def test_along_an_axis_small_weights_and_zeros_take_part_as_in_scipy(name):
    weights = np.array([1.0, -2.0, 1.0]) * 1e-17
    x = np.array([1.0, 4.0, 9.0, 2.0]) * 1e20
    np.testing.assert_allclose(getattr(ours, name)(x, weights), getattr(scipy_ndimage, name)(x, weights))
    x = np.array([1.0, np.inf, 2.0, 3.0, 5.0])
    for image in (x, np.stack([x, x[::-1]], -1).view(complex)[..., 0]):
        want = getattr(scipy_ndimage, name)(image, [1.0, 0.0, 1.0])
        np.testing.assert_array_equal(getattr(ours, name)(image, [1.0, 0.0, 1.0]), want)


@pytest.mark.parametrize("name", ["maximum_filter", "grey_erosion", "uniform_filter"])
def test_a_window_of_one_cell_casts_as_scipy_does(name):
    for x in (np.array([2, 0, 256]), np.array([0.25, 2.0, 256.0])):
        want, got = (getattr(library, name)(x, 1, output=np.bool_) for library in (scipy_ndimage, ours))
        assert got.view(np.uint8).tolist() == want.view(np.uint8).tolist()


@pytest.mark.parametrize("name", [*EXTREMA, *COMPOSED, "uniform_filter"])
def test_output_may_lie_over_the_input_in_any_way(name):
    x = np.random.default_rng(0).integers(0, 99, (6, 7)).astype(np.float32)
    want = getattr(ours, name)(x, 3)
    for view in (slice(None), slice(None, None, -1)):
        y = x.copy()
        assert getattr(ours, name)(y, 3, output=y[view]).base is y or view == slice(None)
        np.testing.assert_array_equal(y[view], want)


def test_an_output_whose_cells_share_memory_is_refused():
    output = np.lib.stride_tricks.as_strided(np.zeros(4), (3, 4), (0, 8))
    with pytest.raises(SpecgradError, match=r"maximum_filter: output=.*: has cells that share memory; give np.empty"):
        ours.maximum_filter(X, 3, output=output)
    with pytest.raises(SpecgradError, match=r"maximum_filter: footprint=.*: must hold bools; mark cells by True"):
        ours.maximum_filter(X, footprint=np.zeros((3, 3), [("a", "i4")]))


def test_output_may_be_the_input_and_other_layouts():
    x = np.asfortranarray(np.random.default_rng(0).integers(0, 255, (9, 8)).astype(">i2"))[::2, ::-1]
    want = scipy_ndimage.grey_closing(np.ascontiguousarray(x).astype(np.int16), 3)
    np.testing.assert_array_equal(ours.grey_closing(x, 3), want)
    y = np.ascontiguousarray(x).astype(np.float32)
    want = scipy_ndimage.maximum_filter(y, (3, 2))
    assert ours.maximum_filter(y, (3, 2), output=y) is y
    np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("cval", [np.inf, -np.inf, np.nan, 1e300, -7.0])
def test_any_cval_is_taken_and_stays_at_the_edge(cval):
    for x in (np.array([3, 9, 6], np.uint8), np.array([3.0, 9.0, 6.0])):
        for name, inside in (("maximum_filter", 9), ("minimum_filter", 3), ("uniform_filter", 6)):
            assert getattr(ours, name)(x, size=3, mode="constant", cval=cval)[1] == inside
            assert getattr(ours, name)(x, size=3, cval=cval)[1] == inside


@pytest.mark.parametrize("name", [*EXTREMA, *COMPOSED, "uniform_filter", "correlate", "convolve"])
@pytest.mark.parametrize("x", [np.array(5.0), np.array(5, np.uint8), np.zeros((0, 3)), np.zeros((2, 0), np.int16)])
def test_single_and_no_cells(name, x):
    ones = np.ones((3, 2)[: x.ndim])
    args = {"correlate": {"weights": ones}, "convolve": {"weights": ones}, "uniform_filter": {"size": 3}}
    calls = [args[name]] if name in args else [{"size": 3}, {"footprint": ones}]
    for options in calls if name in args or name in EXTREMA[:2] else [*calls, {"structure": ones}]:
        want, got = (getattr(library, name)(x, **options) for library in (scipy_ndimage, ours))
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("window", [{"size": 3}, {"footprint": [1, 1, 1]}, {"structure": [0.5, 1.0, -0.5]}])
@pytest.mark.parametrize("name", EXTREMA[2:])
def test_a_window_with_nan_gives_nan_wherever_it_stands(name, window):
    for place in range(7):
        x = np.arange(7.0)
        x[place] = np.nan
        y = getattr(ours, name)(x, **window)
        assert np.flatnonzero(np.isnan(y)).tolist() == [i for i in range(7) if abs(i - place) <= 1]


def test_large_footprints_are_evaluated_in_slabs(monkeypatch):
    monkeypatch.setattr("specgrad.ndimage.extremum.SLAB", 8)
    x = np.random.default_rng(0).integers(0, 99, (23, 9)).astype(np.uint8)
    marks = np.hypot(*np.mgrid[-2:3, -2:3]) <= 2.2
    for mode in MODES:
        want = scipy_ndimage.minimum_filter(x, footprint=marks, mode=mode, cval=7)
        np.testing.assert_array_equal(ours.minimum_filter(x, footprint=marks, mode=mode, cval=7), want)


def test_integers_beyond_the_doubles_are_exact():
    x = np.array([2**53, 2**53 + 1, -(2**63)], np.int64)
    assert ours.maximum_filter(x, 3).tolist() == [2**53 + 1] * 2 + [2**53 + 1]
    assert ours.white_tophat(np.array([5, 9, 5], np.uint64), 2, output=np.int32).tolist() == [0, 4, 0]
    assert ours.minimum_filter(x, 2).tolist() == [2**53, 2**53, -(2**63)]


@pytest.mark.parametrize("func", [np.max, np.min, np.mean, np.sum, np.median])
@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float64])
def test_blocks(func, dtype):
    x = np.arange(35).reshape(5, 7).astype(dtype)
    wide = np.pad(x, [(0, 1), (0, 2)], constant_values=9)
    want = func(wide.reshape(3, 2, 3, 3), axis=(1, 3))
    got = ours.block_reduce(x, (2, 3), func, cval=9)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-15)


X = np.arange(12.0).reshape(3, 4)
REFUSED = {
    "no window": ("maximum_filter", (X,), {}),
    "no window of a morphology": ("grey_opening", (X,), {}),
    "empty footprint": ("minimum_filter", (X,), {"footprint": np.zeros((3, 3))}),
    "rank of a footprint": ("maximum_filter", (X,), {"footprint": [1, 0, 1]}),
    "rank of a structure": ("grey_erosion", (X,), {"structure": [1.0, 0.0]}),
    "rank of the weights": ("correlate", (X, [1.0, 2.0]), {}),
    "no weights": ("correlate1d", (X, []), {}),
    "number of sizes": ("uniform_filter", (X, (3, 3, 3)), {}),
    "number of origins": ("maximum_filter", (X, 3), {"origin": (0, 0, 0)}),
    "number of modes": ("maximum_filter", (X, 3), {"mode": ["wrap"]}),
    "modes of a footprint": ("maximum_filter", (X,), {"footprint": [[1, 0]], "mode": ["wrap", "wrap"]}),
    "name of a mode": ("uniform_filter", (X, 3), {"mode": "circular"}),
    "origin": ("maximum_filter", (X, 3), {"origin": 2}),
    "origin of weights": ("convolve", (X, np.ones((3, 3))), {"origin": 2}),
    "size": ("maximum_filter1d", (X, 0), {}),
    "axis": ("uniform_filter1d", (X, 3), {"axis": 2}),
    "axes": ("uniform_filter", (X, 3), {"axes": (0, 5)}),
    "an axis of no axes": ("maximum_filter1d", (1.0, 3), {}),
    "axes named twice": ("uniform_filter", (X, 3), {"axes": (0, 0)}),
    "axes in floats": ("uniform_filter", (X, 3), {"axes": (0.5,)}),
    "complex": ("maximum_filter", (X + 1j, 3), {}),
    "half floats": ("maximum_filter", (X.astype(np.float16), 3), {}),
    "text": ("minimum_filter", (np.array(["a", "b"]), 3), {}),
    "shape of the output": ("maximum_filter", (X, 3), {"output": np.zeros((2, 2))}),
    "real output of complex cells": ("uniform_filter", (X + 1j, 3), {"output": np.zeros((3, 4))}),
    "complex output of real cells": ("uniform_filter", (X, 3), {"output": np.complex64}),
    "complex output of a maximum": ("maximum_filter", (X, 3), {"output": np.zeros((3, 4), complex)}),
    "complex cval": ("correlate", (X, np.ones((2, 2)) * 1j), {"cval": 1j}),
}


@pytest.mark.parametrize("mistake", REFUSED)
def test_mistakes_are_refused_by_name_and_as_scipy_refuses_them(mistake):
    name, args, options = REFUSED[mistake]
    with pytest.raises(Exception, match=r".") as theirs:
        getattr(scipy_ndimage, name)(*args, **options)
    form = rf"^{name}: \w+=.*: .+; .+"
    with pytest.raises(SpecgradError, match=form) as mine:
        getattr(ours, name)(*args, **options)
    assert isinstance(mine.value, theirs.type)


@pytest.mark.parametrize("argument", ["input", "footprint", "weights", "structure", "image"])
def test_rows_of_several_lengths_are_refused_by_name(argument):
    calls = {"weights": ours.correlate, "structure": ours.grey_erosion, "image": ours.block_reduce}
    given = {argument: [[1], [1, 2]]} if argument in ("input", "image") else {"input": X, argument: [[1], [1, 2]]}
    with pytest.raises(SpecgradError, match=rf"^\w+: {argument}=\[\[1\], \[1, 2\]\]: has rows of several lengths"):
        calls.get(argument, ours.maximum_filter)(**given)
    with pytest.raises(SpecgradError, match="block_reduce: cval='a': must be a number"):
        ours.block_reduce(X, 2, np.max, cval="a")
    with pytest.raises(SpecgradError, match="block_reduce: func_kwargs=3: must be a dict of keyword arguments"):
        ours.block_reduce(X, 2, np.max, func_kwargs=3)
    with pytest.raises(SpecgradError, match="correlate1d: axis=2: specified axis"):
        ours.correlate1d(X, [1.0, 2.0], axis=2)
    with pytest.raises(SpecgradError, match="block_reduce: cval=300: int8 does not have it; cast the image"):
        ours.block_reduce(X.astype(np.int8), 5, np.max, cval=300)


def test_signatures_are_those_of_scipy():
    for name in set(ours.__all__) - {"block_reduce"}:
        want = inspect.signature(getattr(scipy_ndimage, name)).parameters
        got = inspect.signature(getattr(ours, name)).parameters
        assert [(p.name, p.kind, p.default) for p in got.values()] == [
            (p.name, p.kind, p.default) for p in want.values()
        ]


def test_the_tests_of_scipy_pass(tmp_path):
    """SciPy's tests of extrema and uniform filters; docs/ndimage.md names the other test that
    fails."""
    words = "(grey or tophat or minimum_filter or maximum_filter or uniform) and not gaussian and not mismatch"
    here = Path(__file__).parent
    suites = ["scipy.ndimage.tests.test_filters", "scipy.ndimage.tests.test_morphology"]
    command = [
        "-m",
        "pytest",
        "-q",
        "-p",
        "scipy_substitution",
        "-p",
        "no:cacheprovider",
        "-k",
        words,
        "--pyargs",
        *suites,
    ]
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(here), *sys.path])},
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert " passed" in done.stdout


@pytest.mark.parametrize("name", ["maximum_filter", "uniform_filter", "grey_closing"])
def test_along_an_axis_of_size_one_an_origin_means_nothing_as_in_scipy(name):
    x = np.arange(12.0).reshape(3, 4) ** 2
    options = {"size": (3, 1), "origin": (1, 2)}
    np.testing.assert_allclose(getattr(ours, name)(x, **options), getattr(scipy_ndimage, name)(x, **options))
