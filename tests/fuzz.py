"""Malformed calls of every public function, drawn from a seed: each must give a right answer or a
SpecgradError, within a second.

`python tests/fuzz.py 100000 0` makes this many calls and prints the failures. Parameters are drawn
by name, and are well-formed more often than not, so that malformed values occur alone and together.
"""

import functools
import inspect
import math
import random
import signal
import sys
import time
import warnings
from fractions import Fraction

import numpy as np

import specgrad as sg
from specgrad import sizes
from specgrad.operator import Operator

SECONDS = 1.0
HUGE = [2**31 - 1, 10**8, 10**9, 10**12, 10**30, 2**62, 2**63, -(2**63), range(10**12), (10**9, 10**9),
        (5 * 10**8, 10**9), [10**6], (10**8, 1),
        ((10**8, 0),), ((0, 10**9), (10**9, 0)), 10**5000, (1,) * 70, (10**400,), [2**31 - 1, 2**31 - 1], 1e300,
        "x" * 10**6]  # fmt: skip
ODD = [None, True, 0, -1, 1.5, math.nan, math.inf, "same", "valid", "x", b"x", (), (0,), (-1, 2), (1.5,), ((1, 0),),
       ((1, 2), (0, 1)), [[1]],
       (None,), {}, set(), object(), 1j, Fraction(1, 2), np.int64(2), np.float64(2.0), np.array([2, 2]), np.array(3),
       (2, "a"), slice(1), ..., len,
       np.array([2.0]), [], [None, 1], (((1,),),), {"x": 1}, np.array([]), "", (True, False), int, np.float32, range(3),
       -5, 7, frozenset({1})]  # fmt: skip
ARRAYS = [
    np.arange(12.0).reshape(3, 4), np.arange(24.0).reshape(4, 2, 3), np.zeros((0, 3, 4)), np.zeros((3, 0)),
    np.array(2.0),
    np.arange(12).reshape(3, 4), np.arange(50, dtype=np.float32).reshape(1, 2, 5, 5), np.ones((3, 4), bool),
    np.arange(12, dtype=np.uint8).reshape(2, 6),
    np.array([[Fraction(1, 2), 3], [1, 2]], dtype=object), np.array([np.nan, np.inf, -np.inf, 0.0]),
    np.ones((3, 3), np.float16),
    np.asfortranarray(np.ones((4, 4))), np.arange(12.0).reshape(3, 4).astype(">f8"), np.broadcast_to(2.0, (3, 4)),
    [1.0, 2.0], 5,
    np.arange(8.0)[::-2], np.arange(2 * 3 * 4 * 5.0).reshape(2, 3, 4, 5), np.ones((2, 2, 3, 3), np.float32),
    np.ones((2, 1, 2), np.float32),
    sg.Dual(np.ones((3, 4)), np.ones((3, 4))),
]  # fmt: skip
NO_ARRAYS = [
    np.array([["a", "b"]]), np.array([1j, 2]), [[1], [1, 2]], np.array([[1], [1, 2], 3], dtype=object),
    np.array([None, 1.0]), np.datetime64("2020-01-01"),
    np.array([1.0, "a"], dtype=object), None, "abc", {}, np.zeros((2, 2), dtype=[("a", float)]), object(),
    np.ma.masked_array([1.0, 2.0], [True, False]),
    np.zeros((1,) * 40), np.timedelta64(3), np.array(["2020"], "M8[Y]"), range(10**12), (10**8, 1), 10**5000,
    np.float64, sg.MaxPool, math.nan,
]  # fmt: skip
INTS = [1, 2, 3, (1,), (2,), (1, 2), (2, 2), (1, 1), (1, 2, 2)]
BOOLS = [True, False]
GOOD = {
    "kernel_size": [(1,), (2,), (2, 2), (1, 2), (2, 1, 2), (3,), 2, 1],
    "output_size": [(1,), (2,), (3, 2), (None, 2), (5, 5), (2, 1, 3), 2],
    "stride": INTS, "padding": [0, 1, (1,), (1, 0), ((1, 0),), ((1, 1), (0, 2)), "same", "valid"], "dilation": INTS,
    "ceil_mode": BOOLS,
    "ties": ["first", "all", "split"], "return_indices": BOOLS, "axes": [None, (0,), (-1,), (0, 1), (1, 0), (2, 1, 0)],
    "count_include_pad": BOOLS,
    "divisor_override": [None, 3, -2], "beta": [1, -2.5, Fraction(1, 2)], "pad": ["zero", "skip"], "keepdims": BOOLS,
    "groups": [1, 2], "rank": [1, 2, 0],
    "output_padding": [0, (0,), (0, 0)], "p": [1, 2, 3.0, math.inf], "axis": [0, -1, 1, None, (0, 1)],
    "shape": [(3, 4), (12,), (-1, 4), (2, 6), (3, 1, 4), -1],
    "factor": [2, -1.5, Fraction(1, 2), 0], "exponent": [2, 0.5, -1, 0, 3],
    "mode": ["constant", "reflect", "replicate", "circular"], "fill": [0, 1.5],
    "value": [0, 1.5], "approximate": ["none", "tanh"], "relation": ["<", ">", "==", "!=", "<=", ">="],
    "count": [1, 2, 3], "eps": [1e-5, 0.1], "index": [0, (0, 1),
    slice(None, None, 2), ..., None, (..., -1), (slice(0, 1), 0)], "indices": [0, [0, 1], np.array([[1, 0]]), (0,)],
    "n": [1, 2], "name": ["reference", "cpu"],
    "argnums": [0, (0,), (0, 1)], "out": [None],
    "integer_labels": [np.array([0, 1, 1]), np.zeros((4, 2), int), [0, 1, 0]], "method": ["crown", "interval"],
    "needs": [(), ("real",)], "dtype": [np.float32, "float64"], "engine": ["cpu", "reference"],
    "alone": [None, True, False], "of": [None], "covers": ["real"],
}  # fmt: skip
OPERANDS = ("x", "y", "weight", "bias", "prediction", "target", "logits", "columns", "condition", "mean", "variance",
            "primal", "tangent", "lower", "upper")  # fmt: skip
FUNCTIONS = {
    "f": [lambda x=1.0, *_: sg.sum(x), lambda x=1.0, *_: sg.sum(sg.mul(x, x)), lambda *xs: sg.sum(xs), lambda x=1.0,
          *_: x, lambda *xs: xs, lambda *_: None,
          lambda x=1.0, *_: sg.max_pool(x, (2,)), lambda x=1.0, *_: sg.mean(sg.relu(x))],
    "graph": [lambda x=1.0, *_: sg.relu(x), lambda x=1.0, *_: sg.max_pool(x, (2,)), sg.trace(sg.relu, (3, 4)),
              sg.trace(lambda x: sg.sum(x), (2, 3))],
}  # fmt: skip
NAMES = [name for name in sg.__all__ if callable(getattr(sg, name)) and name not in ("pointwise",)
         and not (isinstance(getattr(sg, name), type) and issubclass(getattr(sg, name), BaseException))]  # fmt: skip


class Found(Exception):
    """A call with a wrong answer or a wrong error."""


class Draw:
    """Random arguments by parameter name."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def odd(self):
        return self.random.choice(HUGE if self.random.random() < 0.25 else ODD)

    def array(self):
        return self.random.choice(ARRAYS if self.random.random() < 0.9 else NO_ARRAYS)

    def value(self, name, wildness=0.25):
        if name in ("arrays", "primals", "tangents", "box"):
            several = tuple(self.array() for _ in range(self.random.choice([0, 1, 2, 2, 3])))
            return several if self.random.random() > wildness else self.odd()
        if name in OPERANDS:
            return self.array() if self.random.random() > wildness / 3 else self.odd()
        if self.random.random() < wildness or name not in {**GOOD, **FUNCTIONS}:
            odd = self.odd()
            return None if callable(odd) and name in FUNCTIONS else odd  # a user's function may raise anything
        return self.random.choice({**GOOD, **FUNCTIONS}[name])

    def arguments(self, function):
        """Positional and keyword arguments of a call; optional ones are usually left out."""
        given, words, parameters = [], {}, inspect.signature(function).parameters
        places = list(parameters)
        for parameter in parameters.values():
            required = parameter.default is parameter.empty
            if parameter.name.startswith("_"):
                continue
            if parameter.kind is parameter.VAR_POSITIONAL:
                given += [self.array() for _ in range(self.random.randint(0, 2))]
            elif parameter.kind is parameter.KEYWORD_ONLY:
                if required or self.random.random() < 0.3:
                    words[parameter.name] = self.value(parameter.name)
            elif required or (self.random.random() < 0.5 and len(given) == places.index(parameter.name)):
                given.append(self.value(parameter.name))
        return given, words


def follow_up(draw, made):
    """Use a result that is no array: call an operator or a function, enter a context."""
    if isinstance(made, Operator):
        operands = tuple(draw.array() for _ in made.slots)
        kind = draw.random.randrange(4)
        if kind == 0:
            return made(*operands)
        if kind == 1:
            return made.jvp(operands, tuple(draw.array() for _ in operands))[1]
        if kind == 2:
            return made.vjp(operands, draw.array())[0]
        shapes = [getattr(x, "shape", ()) if draw.random.random() < 0.7 else draw.odd() for x in operands]
        return made.output_shape(*shapes)
    if isinstance(made, sg.Graph):
        return made.forward(*(draw.array() for _ in range(draw.random.randint(0, 2))))
    if isinstance(made, tuple) and len(made) == 2 and callable(made[1]):
        return made[1](draw.array())
    if hasattr(made, "__enter__"):
        with made:
            return sg.relu(np.ones(2))
    return (
        made(*(draw.array() for _ in range(draw.random.randint(1, 2))))
        if callable(made) and not isinstance(made, sg.Tape | type)
        else made
    )


def graph_of(draw):
    """Make a graph by hand, and run it."""
    graph = sg.Graph()
    x = graph.input(*(draw.value(n) for n in ("name", "shape")), draw.random.choice([True, draw.odd()]))
    c = graph.constant(draw.value("x"), draw.value("shape"))
    graph.output(*draw.random.choice([(x,), (sg.relu(x), c), (sg.add(x, c),), (draw.odd(),), ()]))
    made = graph.compile(draw.value("dtype"), draw.value("engine")) if draw.random.random() < 0.5 else graph.forward
    return made(*(draw.array() for _ in range(draw.random.randint(0, 2))))


def tape_of(draw):
    """Make a tape with leaves, and sweep it."""
    tape, names = sg.Tape(), [None, "x", draw.odd()]
    x = tape.leaf(draw.value("x"), draw.random.choice(names), draw.random.choice([True, True, draw.odd()]))
    y = draw.random.choice([sg.relu, sg.sum, lambda v: v, lambda v: draw.odd()])(x)
    found = tape.backward(y, draw.random.choice([None, draw.array(), draw.odd()]))
    return found.get(x)


def own_of(draw):
    """Make a pointwise operator as a user does."""
    name, needs = draw.random.choice(["mine", draw.odd()]), draw.value("needs")
    function = draw.random.choice([lambda S, x: x, draw.odd()])
    return follow_up(draw, sg.pointwise(name, function, lambda S, x: x, needs))


@functools.cache
def models():
    """Small models of ONNX, as bytes."""
    import onnx
    from onnx import TensorProto, helper

    made = []
    for kind, words in (
        ("MaxPool", {"kernel_shape": [2, 2], "pads": [1, 0, 1, 0]}),
        ("Relu", {}),
        ("ReduceSum", {"keepdims": 1}),
    ):
        ends = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2, 4, 4][: 4 if name == "x" else None])
            for name in "xy"
        ]
        weight = helper.make_tensor("w", TensorProto.FLOAT, [4], [1.0, 2.0, 3.0, 4.0])
        nodes = [helper.make_node("Add", ["x", "w"], ["z"]), helper.make_node(kind, ["z"], ["y"], **words)]
        graph = helper.make_graph(nodes, "model", ends[:1], ends[1:], [weight])
        made.append(onnx.helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    return made


def model_of(draw):
    """Load a model with some bytes changed, cut off or repeated."""
    import specgrad.onnx

    model = bytearray(draw.random.choice(models()))
    for _ in range(draw.random.choice([0, 1, 1, 2, 5])):
        at = draw.random.randrange(len(model))
        part = draw.random.choice(
            [bytes([draw.random.randrange(256)]), b"", bytes(model[at : at + 9]) * 2, b"\xff" * 9]
        )
        model[at : at + 1] = part
    source = bytes(model) if draw.random.random() < 0.9 else draw.odd()
    graph = specgrad.onnx.load(source, shapes=draw.random.choice([None, None, {"x": draw.value("shape")}, draw.odd()]))
    return graph.forward(np.ones((1, 2, 4, 4), np.float32))


TENSORS = [
    name
    for name in sg.__all__
    if name.endswith(("_pool", "_pool1d", "_pool2d", "_pool3d", "conv", "norm", "loss", "softmax"))
] + ["conv_transpose", "conv2d", "power", "scale", "pad", "unfold", "sum", "mean", "relu", "add", "matmul", "linear"]


def tensors_of(draw):
    """Call a function on tensors: the result must be that of arrays of the same numbers, or a
    refusal."""
    import torch

    function = getattr(sg, draw.random.choice(TENSORS))
    given, words = draw.arguments(function)
    if given and (not isinstance(given[0], np.ndarray) or given[0].dtype not in (np.float32, np.float64)):
        given[0] = ARRAYS[1]

    def tensor(x):
        is_floats = isinstance(x, np.ndarray) and x.dtype in (np.float32, np.float64) and x.dtype.isnative
        return torch.from_numpy(x.copy()) if is_floats else x

    made = function(*map(tensor, given), **{name: tensor(one) for name, one in words.items()})
    expected = function(*given, **words)
    for got, wanted in zip(*(one if isinstance(one, tuple) else (one,) for one in (made, expected)), strict=True):
        if not np.array_equal(np.isnan(got.numpy()), np.isnan(wanted)) or tuple(got.shape) != np.shape(wanted):
            raise ArithmeticError(f"{got} for tensors, {wanted} for arrays")
    return True


def functional_of(draw):
    """Call a function under torch's name: the result must be torch's, if torch gives one."""
    import torch.nn.functional as F

    import specgrad.torch.functional as SF
    from specgrad.torch import routing

    names = [name for name in SF.__all__ if name[-1] == "d" and "unpool" not in name and hasattr(F, name)]
    name = draw.random.choice(names)
    (_, *given), words = draw.arguments(getattr(SF, name))
    x = torch_input(draw, int(name[-2]))
    huge = any(value is one for value in (*given, *words.values()) for one in HUGE)
    if huge and name.startswith("adaptive"):  # torch computes these for minutes
        return None
    try:
        expected = None if huge else getattr(F, name)(x, *given, **words)  # some of these would not end
    except Exception:  # torch's refusals have many types
        expected = None
    small, routing.SMALL = routing.SMALL, 1
    try:
        made = getattr(SF, name)(x, *given, **words)
    except Exception as error:
        if expected is not None and "can be had" not in str(error):
            raise ArithmeticError(f"{name}: torch answers, ours raises {error!r}") from error
        return None
    finally:
        routing.SMALL = small
    if expected is None:  # torch lacks a kernel, for example for half floats of three axes
        return True
    for got, wanted in zip(*(one if isinstance(one, tuple) else (one,) for one in (made, expected)), strict=True):
        if (got.shape, got.dtype) != (wanted.shape, wanted.dtype) or not got.isnan().equal(wanted.isnan()):
            raise ArithmeticError(f"{name}: {got}, torch's {wanted}")
    return True


def torch_input(draw, rank):
    """A random torch tensor, usually of a fitting rank."""
    import torch

    shape = [draw.random.choice([0, 1, 2, 3, 3, 4, 5, 6]) for _ in range(rank + draw.random.choice([0, 1, 1, 2, 2, 3]))]
    dtypes = [torch.float32, torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool]
    x = torch.arange(math.prod(shape)).reshape(shape).to(draw.random.choice(dtypes))
    return x.mT.contiguous().mT if len(shape) > 1 and draw.random.random() < 0.2 else x


EXTRA = {"a graph": graph_of, "a tape": tape_of, "pointwise": own_of, "onnx.load": model_of, "tensors": tensors_of,
         "torch's names": functional_of}  # fmt: skip
NAMES += EXTRA


def call(name, draw):
    if name in EXTRA:
        return EXTRA[name](draw)
    function = getattr(sg, name)
    given, words = draw.arguments(function)
    made = function(*given, **words)
    return made if isinstance(made, np.ndarray) else follow_up(draw, made)


def attempt(name, seed):
    """Make one call: True if answered, None if refused; raises Found."""
    threads, kept = sg.get_num_threads(), sg.get_memory_cache()
    begun = time.process_time()
    signal.setitimer(signal.ITIMER_REAL, 20 * SECONDS)
    try:
        result = call(name, Draw(seed))
    except sg.SpecgradError as error:
        result = None
        if len(str(error)) > 2000:
            raise Found(f"a message of {len(str(error))} characters: {str(error)[:300]}") from error
    except BaseException as error:
        raise Found(f"{type(error).__name__}: {str(error)[:200]}") from error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        took = time.process_time() - begun
        sg.set_num_threads(threads)
        if sg.get_memory_cache() != kept:
            sg.set_memory_cache(kept)
    if took > SECONDS:
        raise Found(f"took {took:.1f} s")
    if isinstance(result, np.ndarray):
        check_value(name, seed, result)
    return result is not None


def check_value(name, seed, result):
    """Compare with the specification's answer to the same call, whose sums are exact: all arrays
    hold small integers."""
    try:
        with sg.engine("reference"):
            expected = call(name, Draw(seed))
    except sg.SpecgradError as error:
        if "can be had" in str(error):  # a table was too large, which an engine does not need
            return
        raise Found(f"answered, but the specification refuses: {error}") from error
    if not isinstance(expected, np.ndarray) or (expected.shape, expected.dtype) != (result.shape, result.dtype):
        raise Found(
            f"{result.dtype} of {result.shape}, but the specification's is {getattr(expected, 'shape', expected)}"
        )
    if result.dtype != object and not np.array_equal(np.isnan(result), np.isnan(expected)):
        raise Found(f"{result.tolist()!s:.100} has NaN where the specification's {expected.tolist()!s:.100} has not")


def _stop(*_):
    raise TimeoutError


def run(count, seed, tell=None):
    """Make `count` calls, over all names in turn: the failures by name, and the numbers of answered
    and refused calls.

    The available memory is set low, so that large results are refused on every machine.
    """
    import specgrad.torch  # noqa: F401 - before a call is timed

    found, answered, refused = [], 0, 0
    sizes.SMALL, sizes.available = 2**24, lambda: 2**24
    signal.signal(signal.SIGALRM, _stop)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for turn in range(count):
            name, own = NAMES[turn % len(NAMES)], f"{seed} {turn}"
            try:
                if attempt(name, own):
                    answered += 1
                else:
                    refused += 1
            except Found as error:
                found.append((name, own, error))
                if tell is not None:
                    tell(name, own, error)
    return found, answered, refused


def limit_memory(most):
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (most, resource.getrlimit(resource.RLIMIT_DATA)[1]))


if __name__ == "__main__":
    limit_memory(6 * 2**30)
    seen = {}

    def tell(name, own, error):
        cause = error.__cause__
        tb = cause.__traceback__ if cause is not None else None
        last = ""
        while tb is not None:
            last = f"{tb.tb_frame.f_code.co_filename.rpartition('src/')[2]}:{tb.tb_lineno}"
            tb = tb.tb_next
        key = (type(cause).__name__, last)
        seen[key] = seen.get(key, 0) + 1
        if seen[key] <= 3:
            print(f"{name} {own!r}: {error} [{last}]", flush=True)

    begun = time.time()
    found, answered, refused = run(int(sys.argv[1]), int(sys.argv[2]), tell)
    print(f"{len(found)} found, {answered} answered, {refused} refused in {time.time() - begun:.0f} s")
    for key, n in sorted(seen.items(), key=lambda item: -item[1]):
        print(n, *key)
