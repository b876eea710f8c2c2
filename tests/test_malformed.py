"""Thousands of malformed calls: each gives a right answer or a SpecgradError."""

import math
from fractions import Fraction

import naive
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kinds import effort, examples

import specgrad as sg
from specgrad.ops.conv import Bilinear

pytestmark = pytest.mark.usefixtures("specification")

ODD = st.sampled_from(
    [None, True, 0, -1, 1.5, math.nan, math.inf, "same", "valid", "x", b"x", (), (0,), (-1, 2), (1.5,), ((1, 0),),
     ((1, 2), (0, 1)),
     [[1]], (None,), 10**30, 2**62, {}, object(), 1j, Fraction(1, 2), np.int64(2), np.float64(2.0), np.array([2, 2]),
     np.array(3), (2, "a")]
)  # fmt: skip
INTS = st.integers(0, 3) | st.tuples(st.integers(0, 3)) | st.tuples(st.integers(0, 3), st.integers(0, 3))
ANYTHING = INTS | ODD
ARRAYS = st.sampled_from(
    [
        np.arange(12.0).reshape(3, 4), np.arange(24.0).reshape(2, 3, 4), np.zeros((0, 3, 4)), np.zeros((3, 0)),
        np.array(2.0),
        np.arange(12).reshape(3, 4), np.ones((3, 4), bool), np.array([["a", "b"]]), np.array([1j, 2]), [1.0, 2.0],
        [[1], [1, 2]],
        np.array([[Fraction(1, 2), 3], [1, 2]], dtype=object), np.array([[1], [1, 2]], dtype=object),
        np.array([None, 1.0]),
        np.array([np.nan, np.inf, -np.inf, 0.0]), np.datetime64("2020-01-01"), np.array([1.0, "a"], dtype=object), None,
        "abc", 5, {},
        np.zeros((2, 2), dtype=[("a", float)]), np.ones((3, 3), np.float16), np.asfortranarray(np.ones((4, 4))),
        object(),
        np.arange(12.0).reshape(3, 4).astype(">f8"), np.ma.masked_array([1.0, 2.0], [True, False]),
        np.broadcast_to(2.0, (3, 4)),
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
@pytest.mark.filterwarnings("ignore")  # NumPy warns about object() and the like
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
    @settings(max_examples=effort(250, 500), suppress_health_check=list(HealthCheck))
    def call(x, second, words):
        nonlocal answered, refused
        try:
            y = getattr(sg, name)(x, second, **words)
        except sg.SpecgradError as error:
            refused += 1
            check_form(name, str(error))
            return
        answered += 1
        y = y[0] if isinstance(y, tuple) else y
        assert isinstance(y, np.ndarray)
        check_value(name, np.asarray(x), second, words, y)

    call()
    assert answered
    assert refused


def check_form(name, message):
    """`operator: argument=value on axis i: rule broken; remedy`."""
    head, _, remedy = message.partition("; ")
    assert head.startswith(f"{name}: ")
    assert "=" in head
    assert remedy


def check_value(name, x, second, words, y):
    """Compare the value of an answered call with loops over cells; a smooth maximum with its
    bounds."""
    words = {k: v for k, v in words.items() if k != "return_indices"}
    kind = getattr(sg, "".join(part.title() for part in name.split("_")))
    if issubclass(kind, Bilinear):
        weight = np.asarray(second)
        op = kind() if name == "linear" else kind(weight.shape[2:], **words)
        if name == "conv_transpose":  # the loops of its adjoint are checked
            assert y.shape == op.output_shape(x.shape, weight.shape)
            return
        with np.errstate(all="ignore"):
            values = naive.conv(op, (x, weight), (x, weight), y)[0]
    else:
        window = tuple(second) if isinstance(second, list | tuple | np.ndarray) else second
        op = kind(window, **words)
        with np.errstate(all="ignore"):
            if name == "smooth_max_pool":
                check_smooth(op, x, y)
                return
            wide = x.astype(np.float32) if x.dtype == np.float16 else x
            values = [naive.pool_entries(op, wide, taps)[0] for _, taps in naive.pool_windows(op, x.shape)]
    assert y.size == len(values)
    values = np.array([*values, None], dtype=object)[:-1]
    values = values.astype(y.dtype) if y.dtype != object else values
    assert all(a == b or (a != a and b != b) for a, b in zip(y.flat, values, strict=True))


def check_smooth(op, x, y):
    for (_, taps), got in zip(naive.pool_windows(op, x.shape), y.flat, strict=True):
        window = [float(x[tap]) if tap is not None else 0.0 for tap in taps if tap is not None or op.pad == "zero"]
        beta = float(op.beta)
        if not np.isfinite(window).all() or not window:
            continue
        low, high = min(window), max(window)
        edge, spare = (high, np.log(len(window)) / beta) if beta > 0 else (low, np.log(len(window)) / beta)
        slack = 1e-3 * (
            1 + abs(edge)
        )  # half floats are among the inputs; between the edge and the bound of equal cells
        assert min(edge, edge + spare) - slack <= float(got) <= max(edge, edge + spare) + slack


LABELS = ARRAYS | st.sampled_from(
    [np.array([0, 1, 1]), np.array([[0, 1, 2]]), np.array([3]), np.array(-1), np.array([0, 5, 9]),
     np.zeros((2, 3), int), [0, 1, 0]]
)  # fmt: skip
NUMBERS = st.sampled_from([2, -3, 0.5, Fraction(1, 3), 10**30, 10**400, math.nan, -math.inf, 300, True, 1j])
SHAPES = ANYTHING | st.sampled_from([12, -1, (2, 6), (-1, 4), (-1, -1), (4, 3), (24,), "12"])
CELLS = {"relu": lambda x: np.where((x > 0) | (x != x), x, np.zeros_like(x)), "detach": lambda x: x}
TWO = {"add": np.add, "sub": np.subtract, "mul": np.multiply}
WEIGHTED = dict.fromkeys(("conv", "conv_transpose", "linear"), (ARRAYS, ARRAYS, ARRAYS))
NETWORK = {
    **dict.fromkeys((*CELLS, "log_softmax"), (ARRAYS,)),
    **dict.fromkeys(TWO, (ARRAYS | NUMBERS, ARRAYS | NUMBERS)),
    "scale": (ARRAYS, ODD | NUMBERS),
    "reshape": (ARRAYS, SHAPES),
    "sum": (ARRAYS, ANYTHING),
    "mean": (ARRAYS, ANYTHING),
    "mse_loss": (ARRAYS, ARRAYS),
    "cross_entropy": (ARRAYS, LABELS),
    **WEIGHTED,
}
KEYWORDS = {"sum": ("keepdims",), "mean": ("keepdims",), **{name: FUNCTIONS[name] for name in WEIGHTED}}


@pytest.mark.parametrize("name", NETWORK)
@pytest.mark.filterwarnings("ignore")
def test_malformed_calls_of_network_functions_are_refused_or_answered_rightly(name):
    answered = refused = 0

    @given(st.tuples(*NETWORK[name]), st.fixed_dictionaries({}, optional={w: WORDS[w] for w in KEYWORDS.get(name, ())}))
    @settings(max_examples=examples(400), suppress_health_check=list(HealthCheck))
    def call(operands, words):
        nonlocal answered, refused
        try:
            y = getattr(sg, name)(*operands, **words)
        except sg.SpecgradError as error:
            refused += 1
            check_form(name, str(error))
            return
        answered += 1
        assert isinstance(y, np.ndarray)
        with np.errstate(all="ignore"):
            check_network(name, operands, words, y)

    call()
    assert refused
    assert answered or name in WEIGHTED  # three fitting operands are rare; the tests above have two


def check_network(name, operands, words, y):
    """Compare with NumPy's result if it is one expression; else check that the result is finite if
    the operands are."""
    x = np.asarray(operands[0])
    if name in CELLS:
        expected = CELLS[name](x)
    elif name in TWO:
        expected = TWO[name](x, np.asarray(operands[1]))
    elif name == "scale":
        expected = x * operands[1] if x.size else x
    elif name == "reshape":
        expected = x.reshape(operands[1])
    elif name in ("sum", "mean"):
        axis = (
            tuple(operands[1]) if isinstance(operands[1], list | np.ndarray) and np.ndim(operands[1]) else operands[1]
        )
        expected = getattr(np, name)(x, axis=axis, keepdims=bool(words.get("keepdims", False)))
    else:
        shape = {"log_softmax": x.shape, "mse_loss": (), "cross_entropy": ()}.get(name)
        assert shape is None or y.shape == shape
        finite = all(np.isfinite(np.asarray(operand).astype(complex)).all() for operand in operands)
        assert not finite or np.isfinite(y.astype(complex)).all()
        return
    expected = np.asarray(expected)
    assert y.shape == expected.shape
    for got, wanted in zip(y.flat, expected.flat, strict=True):  # both round half floats once
        assert got == wanted or (got != got and wanted != wanted) or abs(got - wanted) <= abs(wanted) * 2**-10


@pytest.mark.parametrize("call", [
    lambda: sg.add(np.arange(3), 1.5),
    lambda: sg.mul(Fraction(1, 2), np.arange(3)),
    lambda: sg.sub(np.array([Fraction(1)], object), math.nan),
    lambda: sg.add(np.ones(2), 10**400),
    lambda: sg.add(np.ones(2, np.int8), 300),
    lambda: sg.scale(np.ones(2, np.int8), 300),
    lambda: sg.scale(np.ones(2, np.uint8), -1),
    lambda: sg.scale(np.zeros(2, np.float32), 1e300),
    lambda: sg.mul(np.zeros(2, np.float32), 1e300),
    lambda: sg.mul(np.zeros(2, np.float16), 1e6),
    lambda: sg.pad(np.zeros(2, np.float32), ((1, 0),), "constant", 1e300),
    lambda: sg.pad(np.zeros(2, np.float16), ((1, 0),), "constant", 10**400),
])  # fmt: skip
def test_a_number_that_an_array_does_not_hold_is_refused_and_never_rounded(call):
    with pytest.raises(sg.SpecgradError, match="does not hold this number; cast the array first"):
        call()


def test_numbers_that_half_floats_compute_with_and_infinities_are_held():
    assert sg.scale(np.array([0, 2.0**-10], np.float16), 2.0**20).tolist() == [0, 1024]
    for x in (np.zeros(1, np.float16), np.zeros(1, np.longdouble)):
        assert sg.add(x, math.inf) == math.inf


def test_numbers_are_as_precise_as_the_longest_floats_that_they_meet():
    third = np.longdouble(1) / 3
    for dtype in (np.longdouble, np.clongdouble):
        one = np.ones(1, dtype)
        assert sg.scale(one, Fraction(1, 3))[0] == sg.mul(one, Fraction(1, 3))[0] == third
        assert sg.scale(one, 2**80 + 1)[0] == np.longdouble(2) ** 80 + 1


def test_arguments_of_equal_bytes_are_told_apart():
    """A cached result of an earlier call must not be used for arguments of another type with the
    same bytes."""
    x = np.arange(8.0)
    assert sg.max_pool(x, np.array([2]), ceil_mode=np.True_).tolist() == [1, 3, 5, 7]
    for kernel_size in (np.array([2, 0], np.int32), np.array(2), (np.array([2]),), np.array([1e-323])):
        with pytest.raises(sg.ArgumentError):
            sg.max_pool(x, kernel_size, ceil_mode=np.True_)
    for flag in (np.int8(1), np.array(True)):
        with pytest.raises(sg.ArgumentError):
            sg.max_pool(x, np.array([2]), ceil_mode=flag)


DIRECTIONS = st.none() | ARRAYS | st.tuples(ARRAYS) | st.tuples(ARRAYS, ARRAYS)


@given(
    DIRECTIONS, DIRECTIONS, st.sampled_from([sg.MaxPool((2,)), sg.AvgPool((1, 1)), sg.GlobalMaxPool(1), sg.Linear()])
)
@settings(max_examples=examples(700), suppress_health_check=list(HealthCheck))
@pytest.mark.filterwarnings("ignore")
def test_malformed_derivatives_are_refused_or_have_the_right_shape(operands, direction, op):
    for derivative in (op.jvp, op.vjp):
        try:
            results = derivative(operands, direction)
        except sg.SpecgradError:
            continue
        shapes = [np.shape(operand) for operand in operands]
        expected = [op.output_shape(*shapes)] * 2 if derivative == op.jvp else shapes
        assert [result.shape for result in results] == expected


RANKED = [
    (name, rank) for name in ("max_pool", "avg_pool", "adaptive_avg_pool", "adaptive_max_pool") for rank in (1, 2, 3)
]


@pytest.mark.parametrize(("name", "rank"), RANKED)
@pytest.mark.filterwarnings("ignore")
def test_ranked_names_refuse_or_answer_as_the_general_ones(name, rank):
    @given(ARRAYS, ANYTHING)
    @settings(max_examples=examples(150), suppress_health_check=list(HealthCheck))
    def call(x, window):
        try:
            y = getattr(sg, f"{name}{rank}d")(x, window)
        except sg.SpecgradError:
            return
        general = (
            tuple(window) if isinstance(window, list | tuple | np.ndarray) and np.ndim(window) else (window,) * rank
        )
        assert str(y.tolist()) == str(getattr(sg, name)(x, general).tolist())

    call()


@pytest.mark.parametrize("call", [
    lambda: sg.max_pool(np.zeros((2, 2)), (2**31 - 1, 1)),
    lambda: sg.max_pool(np.zeros((2, 2)), (10**30, 1)),
    lambda: sg.adaptive_avg_pool(np.zeros((2, 2)), (10**30,)),
    lambda: sg.max_pool(np.zeros((2, 2)), (1, 1), padding=2**31 - 1),
    lambda: sg.smooth_max_pool(np.zeros((2, 2)), (1, 1), beta=10**400),
    lambda: sg.sum([range(10**12)]),
])  # fmt: skip
def test_huge_parameters_are_refused_at_once(call):
    with pytest.raises(sg.SpecgradError):
        call()
