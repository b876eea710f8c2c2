"""The exact text of every message: the error, its place, and the remedy."""

import decimal
from fractions import Fraction

import flint
import numpy as np
import pytest
import sympy
import z3

import specgrad as sg
from specgrad import ArgumentError, ScalarError, ShapeError

X = np.zeros((2, 3, 4))
W = np.zeros((2, 3, 2))
OBJECTS = np.array([Fraction(1, 2), Fraction(1, 3)], dtype=object)


def read_only(shape):
    made = np.zeros(shape)
    made.flags.writeable = False
    return made


def sharing(shape):
    return np.lib.stride_tricks.as_strided(np.zeros(shape), strides=(0, *np.zeros(shape).strides[1:]))


MESSAGES = [
    # parameters
    (lambda: sg.max_pool(X, 3), ArgumentError,
     "max_pool: kernel_size=3: must be a tuple with one entry per spatial axis, got int; write e.g. (3, 3), "
     "or use max_pool2d for one int"),
    (lambda: sg.max_pool(X, None), ArgumentError,
     "max_pool: kernel_size=None: must be a tuple with one entry per spatial axis, got NoneType; write e.g. (3, 3), "
     "or use max_pool2d for one int"),
    (lambda: sg.max_pool(X, (2, 0)), ArgumentError,
     "max_pool: kernel_size=(2, 0) on axis 1: must be at least 1; write a larger integer"),
    (lambda: sg.max_pool(X, (2, 1.5)), ArgumentError,
     "max_pool: kernel_size=(2, 1.5) on axis 1: must be an integer, got float; write whole numbers"),
    (lambda: sg.max_pool(X, (True,)), ArgumentError,
     "max_pool: kernel_size=(True,) on axis 0: must be an integer, got bool; write whole numbers"),
    (lambda: sg.max_pool(X, (2,), stride=0), ArgumentError,
     "max_pool: stride=0: must be at least 1; write a larger integer"),
    (lambda: sg.max_pool(X, (2,), stride=2**40), ArgumentError,
     "max_pool: stride=1099511627776: must be at most 2147483647; write a smaller integer"),
    (lambda: sg.avg_pool(X, (2, 2), stride=(1, 2, 3)), ArgumentError,
     "avg_pool: stride=(1, 2, 3): has 3 entries for 2 spatial axes; give one integer, or one per spatial axis"),
    (lambda: sg.avg_pool(X, (2, 2), dilation=(1, -1)), ArgumentError,
     "avg_pool: dilation=(1, -1) on axis 1: must be at least 1; write a larger integer"),
    (lambda: sg.max_pool(X, (2, 2), padding=(1, -2)), ArgumentError,
     "max_pool: padding=(1, -2) on axis 1: must be at least 0; write a larger integer"),
    (lambda: sg.max_pool(X, (2,), padding=(1, 0)), ArgumentError,
     "max_pool: padding=(1, 0): has 2 entries for 1 spatial axis; nest a (before, after) pair: ((before, after),)"),
    (lambda: sg.max_pool(X, (2, 2), padding=((1, 0), 2)), ArgumentError,
     "max_pool: padding=((1, 0), 2): is not one (before, after) pair for each of 2 spatial axes; write e.g. ((1, 0), "
     "(1, 0))"),
    (lambda: sg.max_pool(X, (2,), padding="full"), ArgumentError,
     "max_pool: padding='full': is not a padding; write 'same' or 'valid', or integers"),
    (lambda: sg.conv_transpose(X, W, padding="same"), ArgumentError,
     "conv_transpose: padding='same': is not a padding; write integers"),
    (lambda: sg.max_pool(X, (2,), ties="last"), ArgumentError,
     "max_pool: ties='last': is not one of the choices; choose from 'first', 'all', 'split'"),
    (lambda: sg.max_pool(X, (2,), ceil_mode=1), ArgumentError,
     "max_pool: ceil_mode=1: must be a bool; write True or False"),
    (lambda: sg.smooth_max_pool(X, (2,), beta=0), ArgumentError,
     "smooth_max_pool: beta=0: must be a finite real number other than 0; write a positive number for a smooth "
     "maximum, a negative one for a smooth minimum"),
    (lambda: sg.smooth_max_pool(X, (2,), beta="2"), ArgumentError,
     "smooth_max_pool: beta='2': must be a finite real number other than 0, got str; write a positive number for a "
     "smooth maximum, a negative one for a smooth minimum"),
    (lambda: sg.scale(X, [2.0]), ArgumentError,
     "scale: factor=[2.0]: must be a finite real number, got list; write a number, or multiply by an array with mul"),
    (lambda: sg.max_pool(X, (np.zeros(2),)), ArgumentError,
     "max_pool: kernel_size=(float64 array of shape (2,),) on axis 0: must be an integer, got ndarray; "
     "write whole numbers"),
    (lambda: sg.smooth_max_pool(X, (2,), beta=1, pad="edge"), ArgumentError,
     "smooth_max_pool: pad='edge': is not one of the choices; choose from 'zero', 'skip'"),
    (lambda: sg.avg_pool(X, (2,), divisor_override=0), ArgumentError,
     "avg_pool: divisor_override=0: must not be 0; write another integer, or None"),
    (lambda: sg.adaptive_avg_pool(X, 2), ArgumentError,
     "adaptive_avg_pool: output_size=2: must be a tuple with one entry per spatial axis, got int; write e.g. (7, 7), "
     "or use adaptive_avg_pool2d for one int"),
    (lambda: sg.adaptive_avg_pool(X, (2, -1)), ArgumentError,
     "adaptive_avg_pool: output_size=(2, -1) on axis 1: must be at least 0; write a larger integer"),
    (lambda: sg.global_max_pool(X, 2, axes=(0,)), ArgumentError,
     "global_max_pool: axes=(0,): must name one array axis for each of 2 spatial axes; write a tuple such as (1, 2), "
     "or leave it out"),
    (lambda: sg.global_max_pool(X, 2, axes=(0, 3)), ArgumentError,
     "global_max_pool: axes=(0, 3) on axis 1: 3 is not an axis of an array with 3 axes; write integers from -3 to 2"),
    (lambda: sg.global_max_pool(X, 2, axes=(0, -3)), ArgumentError,
     "global_max_pool: axes=(0, -3): names an axis twice; name each axis once"),
    (lambda: sg.conv_transpose(X, W, output_padding=1), ArgumentError,
     "conv_transpose: output_padding=(1,) on axis 0: must be smaller than stride 1 or dilation 1; "
     "use a smaller output_padding"),
    (lambda: sg.conv(X, W, groups=3), ArgumentError,
     "conv: groups=3: must divide the input's 3 channels and the weight's first axis of 2; "
     "choose a common divisor of both"),
    # shapes
    (lambda: sg.max_pool(X, (1, 1, 1, 1)), ShapeError,
     "max_pool: x=array of shape (2, 3, 4): has 3 axes, fewer than the 4 spatial ones; "
     "give an array with more axes or a shorter kernel"),
    (lambda: sg.max_pool(X, (3, 5)), ShapeError,
     "max_pool: kernel_size=(3, 5) on axis 1: the kernel spans 5 cells but the padded input has 4; "
     "use a smaller kernel or dilation, or more padding"),
    (lambda: sg.max_pool(np.zeros((2, 0)), (1,)), ShapeError,
     "max_pool: x=array of shape (2, 0) on axis 1: a spatial axis must not be empty; drop the empty input"),
    (lambda: sg.conv(X, np.zeros(3)), ShapeError,
     "conv: weight=array of shape (3,): must have the form (out, in/groups, *kernel); reshape the weight"),
    (lambda: sg.Conv((3,))(X, W), ShapeError,
     "conv: weight=array of shape (2, 3, 2): must have the form (out, in/groups, *kernel) with kernel (3,); "
     "reshape the weight"),
    (lambda: sg.conv(np.zeros(4), W), ShapeError,
     "conv: x=array of shape (4,): needs a channel axis and 1 spatial axes; add the missing axes, e.g. x[None]"),
    (lambda: sg.conv(np.zeros((5, 4)), W), ShapeError,
     "conv: x=array of shape (5, 4) on axis 0: the weight reads 3 channels, the input has 5; "
     "give the weight that many input channels, or set groups"),
    (lambda: sg.conv(X, W, np.zeros(3)), ShapeError,
     "conv: bias=array of shape (3,): must have shape (2,): one number per output channel; reshape the bias"),
    (lambda: sg.conv(X, np.zeros((2, 0, 2))), ShapeError,
     "conv: weight=array of shape (2, 0, 2): reads no channel; give it one at least"),
    (lambda: sg.conv_transpose(X, np.zeros((3, 2, 1)), padding=2), ShapeError,
     "conv_transpose: padding=((2, 2),) on axis 0: leaves 0 cells of the result; use less padding"),
    (lambda: sg.max_pool2d(X, (1, 2, 3)), ArgumentError,
     "max_pool2d: kernel_size=(1, 2, 3): has 3 entries for 2 spatial axes; give one integer or 2, or call max_pool"),
    (lambda: sg.conv2d(X, W), ShapeError,
     "conv2d: weight=float64 array of shape (2, 3, 2): has 3 axes, not 4; give a weight of spatial rank 2, "
     "or call conv"),
    (lambda: sg.MaxPool((2,)).vjp((X,), X), ShapeError,
     "max_pool: cotangent=float64 array of shape (2, 3, 4): must have shape (2, 3, 2); reshape or broadcast it first"),
    (lambda: sg.MaxPool((2,)).jvp((X,), (X[0],)), ShapeError,
     "max_pool: tangent of x=float64 array of shape (3, 4): must have shape (2, 3, 4); reshape or broadcast it first"),
    (lambda: sg.MaxPool((2,)).jvp((X,), ()), ShapeError,
     "max_pool: tangents=0: 1 operands need as many tangents; give one per operand, None for zero"),
    (lambda: sg.MaxPool((2,))(X, X), ShapeError, "max_pool: operands=2: takes (x); give these operands"),
    (lambda: sg.Conv((2,))(X), ShapeError, "conv: operands=1: takes (x, weight, bias=None); give these operands"),
    (lambda: sg.Dual(X, X[0]), ShapeError,
     "Dual: tangent=float64 array of shape (3, 4): must have the primal's shape (2, 3, 4); "
     "give one tangent per element"),
    # scalars
    (lambda: sg.max_pool(None, (1,)), ScalarError,
     "max_pool: x=None: NoneType is not an array specgrad takes; give a NumPy array"),
    (lambda: sg.max_pool("abc", (1,)), ScalarError,
     "max_pool: x='abc': str is not an array specgrad takes; give a NumPy array"),
    (lambda: sg.max_pool([[1.0], [1.0, 2.0]], (1,)), ShapeError,
     "max_pool: x=[[1.0], [1.0, 2.0]]: is ragged; give rows of equal length"),
    (lambda: sg.max_pool(np.array([[1], [1, 2]], dtype=object), (1,)), ScalarError,
     "max_pool: x=object array of shape (2,): an element is a list, which is not a scalar specgrad takes; "
     "use one scalar type, in rows of equal length"),
    (lambda: sg.max_pool(np.array([True, False]), (1,)), ScalarError,
     "max_pool: x=bool array of shape (2,): bool is not a scalar specgrad takes; cast to a number first, e.g. "
     "x.astype(np.float64)"),
    (lambda: sg.max_pool(np.array([True, 1], dtype=object), (1,)), ScalarError,
     "max_pool: x=object array of shape (2,): an element is a bool, which is not a scalar specgrad takes; "
     "use one scalar type, in rows of equal length"),
    (lambda: sg.max_pool(np.ma.masked_array([1.0, 2.0], [True, False]), (1,)), ScalarError,
     "max_pool: x=float64 array of shape (2,): masked arrays are not taken; fill the mask first: x.filled(0)"),
    (lambda: sg.MaxPool((2,)).jvp((np.ones(2),), (np.ma.masked_array([1.0, 2.0], [True, False]),)), ScalarError,
     "max_pool: tangent of x=float64 array of shape (2,): masked arrays are not taken; fill the mask first: "
     "x.filled(0)"),
    (lambda: sg.AvgPool((2,)).vjp((np.ones(2),), np.ma.masked_array([1.0], [True])), ScalarError,
     "avg_pool: cotangent=float64 array of shape (1,): masked arrays are not taken; fill the mask first: x.filled(0)"),
    (lambda: sg.max_pool(np.ones(2), (2,), out=np.ma.masked_array([1.0], [True])), ArgumentError,
     "max_pool: out=float64 array of shape (1,): must be a writable float64 array of shape (1,); "
     "allocate it with np.empty(shape, dtype)"),
    (lambda: sg.max_pool(np.array(["a", "b"]), (1,)), ScalarError,
     "max_pool: x=<U1 array of shape (2,): <U1 is not a scalar specgrad takes; cast to a number first, e.g. "
     "x.astype(np.float64)"),
    (lambda: sg.max_pool(np.array([1j]), (1,)), ScalarError,
     "max_pool: x=complex128 array of shape (1,): complex numbers have no order; pool the real and imaginary parts "
     "apart"),
    (lambda: sg.avg_pool(np.array([1, 2]), (1,)), ScalarError,
     "avg_pool: x=int64 array of shape (2,): integers do not divide; cast first, e.g. x.astype(np.float64)"),
    (lambda: sg.avg_pool(np.array([1, 2], dtype=object), (1,)), ScalarError,
     "avg_pool: x=object array of shape (2,): integers do not divide; use Fraction elements instead: x * Fraction(1)"),
    (lambda: sg.smooth_max_pool(np.array([1, 2], dtype=object), (1,), beta=1), ScalarError,
     "smooth_max_pool: x=object array of shape (2,): integers have no exp and no log; use float, Decimal, "
     "mpmath.mpf or flint.arb elements instead"),
    (lambda: sg.smooth_max_pool(OBJECTS, (1,), beta=1), ScalarError,
     "smooth_max_pool: x=object array of shape (2,): Fraction has no exp and no log; use float, Decimal, "
     "mpmath.mpf or flint.arb elements instead"),
    (lambda: sg.max_pool(np.array([Fraction(1), 0.5], dtype=object), (1,)), ScalarError,
     "max_pool: x=object array of shape (2,): float does not mix with Fraction; convert all operands to one scalar "
     "type first"),
    (lambda: sg.conv(X, W.astype(np.float32)), ScalarError,
     "conv: weight=float32 array of shape (2, 3, 2): float32 does not mix with float64; "
     "convert all operands to one scalar type first"),
    (lambda: sg.MaxPool((2,)).vjp((OBJECTS,), np.array([0.5])), ScalarError,
     "max_pool: cotangent=float64 array of shape (1,): float64 does not mix with Fraction; "
     "convert all operands to one scalar type first"),
    (lambda: sg.MaxPool((2,)).vjp((OBJECTS,), np.array([decimal.Decimal(1)])), ScalarError,
     "max_pool: cotangent=object array of shape (1,): Decimal does not mix with Fraction; "
     "convert all operands to one scalar type first"),
    (lambda: sg.MaxPool((4,)).vjp((X,), np.ones((2, 3, 1), complex)), ScalarError,
     "max_pool: cotangent=complex128 array of shape (2, 3, 1): complex128 does not mix with float64; "
     "convert all operands to one scalar type first"),
    (lambda: sg.MaxPool((2,), ties="split").vjp((np.array([1, 1]),), np.array([1])), ScalarError,
     "max_pool: ties='split': integers do not divide; cast first, e.g. x.astype(np.float64)"),
    (lambda: sg.max_pool(np.array([flint.arb(1)]), (1,), return_indices=True), ScalarError,
     "max_pool: x=object array of shape (1,): the winner is not decided over such scalars; leave return_indices out"),
    (lambda: sg.smooth_max_pool(np.array([flint.fmpq(1)]), (1,), beta=1), ScalarError,
     "smooth_max_pool: x=object array of shape (1,): fmpq has no exp and no log; use float, Decimal, "
     "mpmath.mpf or flint.arb elements instead"),
    (lambda: sg.smooth_max_pool(np.array([z3.Real("a")]), (1,), beta=1), ScalarError,
     "smooth_max_pool: x=object array of shape (1,): over the reals z3 has no exp and no log; "
     "use flint.arb elements for enclosures instead"),
    (lambda: sg.smooth_max_pool(np.ones(2, np.float32), (1,), beta=1e39), ArgumentError,
     "smooth_max_pool: beta=1e+39: is 0 or infinite in the input's precision; use a wider float type, or another beta"),
    (lambda: sg.smooth_max_pool(np.ones(2), (1,), beta=Fraction(1, 10**400)), ArgumentError,
     "smooth_max_pool: beta=Fraction(1, 10000000000000000000000000...00000000000000000000000000000000000000): "
     "is 0 or infinite in the input's precision; use a wider float type, or another beta"),
    (lambda: sg.max_pool(np.array([sympy.I]), (1,)), ScalarError,
     "max_pool: x=object array of shape (1,): I is not a real expression; leave I, nan and zoo out"),
    (lambda: sg.MaxPool((2,)).vjp((np.ones(2, np.float32),), np.ones(1)), ScalarError,
     "max_pool: cotangent=float64 array of shape (1,): float64 does not mix with float32; "
     "convert all operands to one scalar type first"),
    (lambda: sg.MaxPool((2,)).vjp((np.ones(2),), np.ones(1, bool)), ScalarError,
     "max_pool: cotangent=bool array of shape (1,): bool does not mix with float64; "
     "convert all operands to one scalar type first"),
    (lambda: sg.Dual([[1], [1, 2]], 0), ShapeError, "Dual: primal=[[1], [1, 2]]: is ragged; give rows of equal length"),
    # calls
    (lambda: sg.MaxPool((2,)).jvp((X,), (X, X)), ShapeError,
     "max_pool: tangents=2: 1 operands need as many tangents; give one per operand, None for zero"),
    (lambda: sg.Conv((2,)).jvp((X, W), (X, W, np.zeros(2))), ShapeError,
     "conv: tangents=3: 2 operands need as many tangents; give one per operand, None for zero"),
    (lambda: sg.MaxPool((2,)).vjp(X, X), ShapeError,
     "max_pool: operands=float64 array of shape (2, 3, 4): must be a tuple with one entry per operand, got ndarray; "
     "write (x,) for a single one"),
    (lambda: sg.MaxPool((2,)).output_shape((2,), (2,)), ShapeError,
     "max_pool: shapes=2: takes the shapes of (x), of which 1 are required; give one shape per operand"),
    (lambda: sg.MaxPool((2,)).output_shape((2, -3)), ArgumentError,
     "max_pool: shape of x=(2, -3) on axis 1: must be at least 0; write a larger integer"),
    (lambda: sg.max_pool(np.zeros(3), (1,), padding=2**30), ArgumentError,
     "max_pool: padding=((1073741824, 1073741824),) on axis 0: the result would have 2147483651 cells there, "
     "most of them of padding alone; use less padding"),
    (lambda: sg.max_pool(np.zeros(3), (), padding=((1, 0),)), ArgumentError,
     "max_pool: padding=((1, 0),): is not one (before, after) pair for each of 0 spatial axes; write ()"),
    (lambda: sg.max_pool(X, (2,), stride=np.int64(0)), ArgumentError,
     "max_pool: stride=0: must be at least 1; write a larger integer"),
    (lambda: sg.max_pool(X, (2,), out=read_only((2, 3, 2))), ArgumentError,
     "max_pool: out=float64 array of shape (2, 3, 2): must be a writable float64 array of shape (2, 3, 2); "
     "allocate it with np.empty(shape, dtype)"),
    (lambda: sg.max_pool(X, (2,), out=sg.Dual(X, X)), ArgumentError,
     "max_pool: out=Dual of shape (2, 3, 4): must be a writable float64 array of shape (2, 3, 2); "
     "allocate it with np.empty(shape, dtype)"),
    (lambda: sg.max_pool(sg.Dual(X, X), (2,), out=np.zeros((2, 3, 2))), ArgumentError,
     "max_pool: out=float64 array of shape (2, 3, 2): takes the values of plain arrays only; "
     "allocate it with np.empty(shape, dtype)"),
    (lambda: sg.engine(["a"]).__enter__(), ArgumentError,
     "engine: name=['a']: is not an engine; choose from cpu, torch, dask, reference"),
    # out, engines
    (lambda: sg.max_pool(X, (2,), out=np.zeros(3)), ArgumentError,
     "max_pool: out=float64 array of shape (3,): must be a writable float64 array of shape (2, 3, 2); "
     "allocate it with np.empty(shape, dtype)"),
    (lambda: sg.max_pool(X, (2,), out=sharing((2, 3, 2))), ArgumentError,
     "max_pool: out=float64 array of shape (2, 3, 2): has cells that share memory; "
     "allocate it with np.empty(shape, dtype)"),
    (lambda: sg.trace(sg.relu, (2, 3)).compile(np.float64)(np.ones((2, 3)), out=sharing((2, 3))), ArgumentError,
     "program: out=float64 array of shape (2, 3): has cells that share memory; "
     "allocate it with np.empty(shape, dtype)"),
    (lambda: sg.engine("warp").__enter__(), ArgumentError,
     "engine: name='warp': is not an engine; choose from cpu, torch, dask, reference"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "text"), MESSAGES, ids=[m[2][:60] for m in MESSAGES])
def test_message(call, kind, text):
    with pytest.raises(sg.SpecgradError) as caught:
        call()
    assert str(caught.value) == text
    assert type(caught.value) is kind
    assert isinstance(caught.value, ValueError)


def test_geometry_is_checked_for_empty_batches_too():
    with pytest.raises(ShapeError, match="the kernel spans 5 cells"):
        sg.max_pool(np.zeros((0, 4)), (5,))


def test_numbers_are_kept_exactly_however_they_are_written():
    assert sg.SmoothMaxPool((2,), beta=decimal.Decimal("0.1")).beta == Fraction(1, 10)
    assert sg.SmoothMaxPool((2,), beta=np.array(0.1)).beta == sg.SmoothMaxPool((2,), beta=np.float64(0.1)).beta == 0.1
    assert sg.Scale(np.array(3)).factor == 3


@pytest.mark.parametrize("beta", [float("nan"), float("inf"), float("-inf"), 0.0, None, "1", True, 1j])
def test_beta_must_be_finite_and_not_zero(beta):
    with pytest.raises(ArgumentError, match="finite real number other than 0"):
        sg.smooth_max_pool(X, (2,), beta=beta)


WINDOW = {"kernel_size": (2,), "stride": 1, "padding": 0, "dilation": 1, "ceil_mode": False}
ORDERS = {
    sg.MaxPool: {**WINDOW, "ties": "all", "axes": None},
    sg.AvgPool: {**WINDOW, "axes": None, "count_include_pad": True, "divisor_override": 3},
    sg.SmoothMaxPool: {**WINDOW, "axes": None, "beta": 1, "pad": "skip"},
    sg.LpPool: {**WINDOW, "axes": None, "p": 2},
    sg.AdaptiveMaxPool: {"output_size": (1,), "ties": "all", "axes": None},
    sg.GlobalMaxPool: {"rank": 1, "keepdims": True, "ties": "all", "axes": None},
    sg.ConvTranspose: {"kernel_size": (2,), "stride": 1, "padding": 0, "dilation": 1, "groups": 1, "output_padding": 0},
}


@pytest.mark.parametrize("kind", ORDERS, ids=lambda kind: kind.__name__)
def test_of_several_wrong_arguments_the_first_of_the_window_is_told(kind):
    given = dict.fromkeys(ORDERS[kind], "?")
    for name, right in ORDERS[kind].items():
        with pytest.raises(ArgumentError, match=rf"^{kind.name}: {name}='\?'"):
            kind(**given)
        given[name] = right
    kind(**given)
