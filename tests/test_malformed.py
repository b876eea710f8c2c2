"""Thousands of malformed calls: each gives a right answer or a SpecgradError, never anything else."""

import math
from fractions import Fraction

import naive
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import specgrad as sg
from specgrad.ops.conv import Bilinear

ODD = st.sampled_from(
    [None, True, 0, -1, 1.5, math.nan, math.inf, "same", "valid", "x", b"x", (), (0,), (-1, 2), (1.5,), ((1, 0),), ((1, 2), (0, 1)),
     [[1]], (None,), 10**30, 2**62, {}, object(), 1j, Fraction(1, 2), np.int64(2), np.float64(2.0), np.array([2, 2]), np.array(3), (2, "a")]
)  # fmt: skip
INTS = st.integers(0, 3) | st.tuples(st.integers(0, 3)) | st.tuples(st.integers(0, 3), st.integers(0, 3))
ANYTHING = INTS | ODD
ARRAYS = st.sampled_from(
    [
        np.arange(12.0).reshape(3, 4), np.arange(24.0).reshape(2, 3, 4), np.zeros((0, 3, 4)), np.zeros((3, 0)), np.array(2.0),
        np.arange(12).reshape(3, 4), np.ones((3, 4), bool), np.array([["a", "b"]]), np.array([1j, 2]), [1.0, 2.0], [[1], [1, 2]],
        np.array([[Fraction(1, 2), 3], [1, 2]], dtype=object), np.array([[1], [1, 2]], dtype=object), np.array([None, 1.0]),
        np.array([np.nan, np.inf, -np.inf, 0.0]), np.datetime64("2020-01-01"), np.array([1.0, "a"], dtype=object), None, "abc", 5, {},
        np.zeros((2, 2), dtype=[("a", float)]), np.ones((3, 3), np.float16), np.asfortranarray(np.ones((4, 4))), object(),
    ]
)  # fmt: skip
WORDS = {
    "stride": ANYTHING,
    "padding": ANYTHING,
    "dilation": ANYTHING,
    "ceil_mode": ANYTHING | st.booleans(),
    "ties": ODD | st.sampled_from(["first", "all", "split"]),
    "return_indices": ODD | st.booleans(),
    "axes": ANYTHING,
    "count_include_pad": ODD | st.booleans(),
    "divisor_override": ANYTHING,
    "beta": ODD | st.sampled_from([1, -2.5]),
    "pad": ODD | st.sampled_from(["zero", "skip"]),
    "keepdims": ODD | st.booleans(),
    "groups": ANYTHING,
    "output_padding": ANYTHING,
}
FUNCTIONS = {
    "max_pool": ("stride", "padding", "dilation", "ceil_mode", "ties", "return_indices", "axes"),
    "avg_pool": ("stride", "padding", "dilation", "ceil_mode", "count_include_pad", "divisor_override", "axes"),
    "smooth_max_pool": ("stride", "padding", "dilation", "ceil_mode", "beta", "pad", "axes"),
    "adaptive_max_pool": ("ties", "return_indices", "axes"),
    "adaptive_avg_pool": ("axes",),
    "global_max_pool": ("ties", "keepdims", "axes"),
    "global_avg_pool": ("keepdims", "axes"),
    "conv": ("stride", "padding", "dilation", "groups"),
    "conv_transpose": ("stride", "padding", "dilation", "groups", "output_padding"),
    "linear": (),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.filterwarnings("ignore")  # object() and friends make NumPy wonder; what counts is the answer
def test_malformed_calls_are_refused_or_answered_rightly(name):
    answered = refused = 0
    required = {"beta"} if name == "smooth_max_pool" else set()

    @given(
        ARRAYS,
        ARRAYS if name in ("conv", "conv_transpose", "linear") else ANYTHING,
        st.fixed_dictionaries(
            {w: WORDS[w] for w in FUNCTIONS[name] if w in required},
            optional={w: WORDS[w] for w in FUNCTIONS[name] if w not in required},
        ),
    )
    @settings(max_examples=600, suppress_health_check=list(HealthCheck))
    def call(x, second, words):
        nonlocal answered, refused
        try:
            y = getattr(sg, name)(x, second, **words)
        except sg.SpecgradError as error:
            refused += 1
            head, _, remedy = str(error).partition("; ")
            assert head.startswith(f"{name}: ")
            assert "=" in head
            assert remedy
            return
        answered += 1
        y = y[0] if isinstance(y, tuple) else y
        assert isinstance(y, np.ndarray)
        check_value(name, np.asarray(x), second, words, y)

    call()
    assert answered
    assert refused


def check_value(name, x, second, words, y):
    """The value of a call that was answered, against cell-by-cell loops where those cover it."""
    words = {k: v for k, v in words.items() if k != "return_indices"}
    kind = "".join(part.title() for part in name.split("_"))
    if issubclass(getattr(sg, kind), Bilinear) or name == "smooth_max_pool" or x.dtype == np.float16:
        return
    window = tuple(second) if isinstance(second, list | tuple | np.ndarray) else second
    op = getattr(sg, kind)(window, **words)
    with np.errstate(all="ignore"):
        values = [naive.pool_entries(op, x, taps)[0] for _, taps in naive.pool_windows(op, x.shape)]
    assert y.size == len(values)
    assert all(a == b or (a != a and b != b) for a, b in zip(y.flat, values, strict=True))


@pytest.mark.parametrize("call", [
    lambda: sg.max_pool(np.zeros((2, 2)), (2**31 - 1, 1)),
    lambda: sg.max_pool(np.zeros((2, 2)), (10**30, 1)),
    lambda: sg.adaptive_avg_pool(np.zeros((2, 2)), (10**30,)),
    lambda: sg.max_pool(np.zeros((2, 2)), (1, 1), padding=2**31 - 1),
])  # fmt: skip
def test_huge_parameters_are_refused_at_once(call):
    with pytest.raises((sg.SpecgradError, MemoryError)):
        call()
