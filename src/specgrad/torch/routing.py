"""Whose kernel answers a call of torch's names: decided once for arguments that are written alike
and tensors that lie alike.

Torch's own answers what our engines do not take and what torch refuses, and small inputs, where a
call from Python costs more than our kernel gains; but no call that is listed in `defects`. While a
CUDA graph is captured calls cost nothing, and our kernels run.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from marshal import dumps
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..engines import reduction
from ..engines.torch_private import (
    TRACED,
    active_transform,
    aten_function,
    function_modes,
    is_capturing,
    is_dual,
    raw_stream,
    tracing_state,
)
from ..errors import SpecgradError
from ..ops import AdaptiveAvgPool, AdaptiveMaxPool, MaxPool
from . import eager, fast_path, prepared
from .defects import is_differentiated, is_right_throughout, is_wrong, lies_plainly
from .eager import is_eager
from .kernels import BFLOAT16, as_images, last_axes, suggests_channels_last
from .operators import FAMILIES, FIELDS, HALVES, decoded
from .parsing import Asked, Words, asking

SMALL = 1 << 17
"""Elements of a CPU input below which aten is called, and twice as many where a gradient is wanted:
two calls from Python instead of one. Measured with benchmarks/torch_front_end.py --small, where the
slower of maximum and average draws level with torch. 0 is for tests: nothing is small, on no
device."""

HALF = 32
"""How many times fewer the elements of half floats are, whose cells aten converts one by one."""
SHARED = 1 << 15
"""Elements from which torch's threads share the cells of a single sum."""
HOST = (40.0, 150.0)
"""Microseconds that a call of ours costs the host of a GPU more than torch's inside a network,
where its code lies in no cache: forwards, and forwards and back. A loop of calls takes a fifth of
that (`benchmarks/gpu_host.py`)."""
COMPILED, FUSED = 1.6e8, 9
"""Taps of a call, and of a window, up to which torch.compile's own kernels answer on a GPU. What it
generates calls our operators through torch's dispatcher and Python, which costs the host some
200 µs; and it puts small windows into the kernel that makes their cells, which saves more memory
traffic than ours does (×0.9 with ours at any batch, `benchmarks/gpu_networks.py`)."""
GAINS: dict[tuple[str, str, bool], tuple[float, float]] = {
    ("max", "sliding", False): (0, 2),
    ("max", "sliding", True): (6, 0),
    ("max", "bins", False): (0, 0),
    ("max", "bins", True): (11, 7),
    ("max", "whole", False): (130, 2),
    ("max", "whole", True): (130, 2),
    ("mean", "sliding", False): (0, 1),
    ("mean", "sliding", True): (0, 1),
    ("mean", "bins", False): (2, 4),
    ("mean", "bins", True): (50, 5),
    ("mean", "whole", False): (4, 1),
    ("mean", "whole", True): (4, 3),
}
"""Microseconds that our kernels take less than torch's on 50,000 cells, forwards and back, by what
is made of a window, how windows lie, and whether channels are stored last. Measured on an H200; the
least of several windows."""
TAPS, CELLS = 1.2, 8.0
"""And for each million of taps forwards, and of cells back."""

FLOATS = (torch.float32, torch.float64, torch.float16, *((torch.bfloat16,) if BFLOAT16 is not None else ()))
DEVICES = ("cpu", *(("cuda",) if all(map(find_spec, ("triton", "specgrad.engines.gpu"))) else ()))
"""Where there is an engine; elsewhere torch's own kernels are faster than the specification."""
PLAIN = eager.CLASSES
CLASSES = (*PLAIN, *TRACED)
MOST = 4096  # calls that are remembered for each function


def fewest(op: Any, cuda: bool, last: bool, wanted: bool, half: bool = False) -> float:
    """Elements of an input below which calling us costs more than our kernel gains."""
    if not cuda or SMALL == 0:
        return max(SMALL * (1 + wanted) // (HALF if half else 1), 1)
    windows = "sliding" if hasattr(op, "kernel_size") else "whole" if set(op.output_size) == {1} else "bins"
    forwards, back = GAINS[reduction(op) or "", windows, last]
    taps = math.prod(op.kernel_size) / math.prod(op.stride) if windows == "sliding" else 0
    missing = HOST[wanted] - forwards - back * wanted
    gained = (TAPS * taps + CELLS * wanted) / 1e6
    return missing / gained if missing > 0 and gained else math.inf if missing > 0 else 0


def is_small(op: Any, x: Tensor, wanted: bool) -> bool:
    """Whether calling us costs more than our kernel gains."""
    return bool(x.numel() < fewest(op, x.is_cuda, last_axes(x) > 0, wanted, x.dtype in HALVES))


class Small(NamedTuple):
    """Calls with some arguments that are torch's whatever the shape, so that nothing else is asked:
    those on fewer elements where no defect is known. Pairs are for the CPU and a CUDA device."""

    fewest: tuple[float, float]
    """Whether or not a gradient is wanted."""
    right: tuple[bool, bool]
    """Whether no layout of float32 and float64 has a defect."""
    call: Callable[[Tensor, tuple[Any, ...]], Any]
    """Torch's own kernel, of the arguments as they were written: to a table 2, 2.0 and True are the
    same."""
    mended: Any = None
    """What answers images whose channels are stored last, on a CUDA device, with a gradient."""


class Route:
    """Who answers calls with the same arguments on tensors that lie alike."""

    __slots__ = ("aten", "ours", "seen", "torchs", "watches")

    def __init__(self, ours: Any, torchs: tuple[bool, bool], aten: Any = None) -> None:
        self.ours, self.torchs, self.aten = ours, torchs, aten
        """Our answer to an eager call on an ordinary tensor (None: there is none); whether torch
        answers all the same, without and with a gradient, since the input is small and torch is
        right; where torch's own function ends."""
        self.watches, self.seen = isinstance(ours, prepared.Prepared), 0
        """Whether a captured graph has our kernels, whoever answers else; and how often torch
        answered."""

    def is_captured(self) -> bool:
        """Whether a graph is being captured that our kernels can be part of: those of a call that
        was made before, to warm up."""
        if self.seen == 3:
            return bool(is_capturing())
        if self.seen < 2:
            self.seen += 1
            if self.seen == 2 and not is_capturing():
                self.ours.prepare()
                self.seen = 3
        return False


TORCHS = Route(None, (True, True))
is_compiled, is_grad_enabled, DOUBLE = torch.compiler.is_dynamo_compiling, torch.is_grad_enabled, torch.float64
FULL = (torch.float32, torch.float64)


FUNCTIONS: dict[str, Function] = {}


class Function:
    """One of torch's pooling functions; `theirs` calls it with an input, arguments, and whether
    indices are wanted. `padding` and `dilation` are the places of these among the arguments that
    make the operator; -1: there are none."""

    def __init__(
        self,
        name: str,
        kind: Any,
        words: Callable[..., Words | None],
        theirs: Callable[[Any, tuple[Any, ...], bool], Any],
        padding: int = -1,
        dilation: int = -1,
    ) -> None:
        self.name, self.rank, self.kind, self.theirs = name, int(name[-2]), kind, theirs
        self.channel = -self.rank - 1
        self.padding, self.dilation = padding, dilation
        self.asked = asking(kind, words)
        FUNCTIONS[name] = self
        self.routes: dict[Any, Route] = {}
        self.small: dict[Any, Small] = {}

    def answer(self, x: Any, arguments: tuple[Any, ...], indices: bool) -> Any:
        """What a call comes to."""
        if is_compiled():
            return (self.compiled if self.is_compilers(x, arguments, indices) else self.general)(x, arguments, indices)
        if type(x) not in PLAIN or tracing_state() is not None:  # while a trace is recorded, numbers are tensors
            return self.general(x, arguments, indices)
        try:
            small = self.small.get((SMALL, arguments))
            if small is not None and not indices:  # as little code as can be: inside a network it lies in no cache
                fewest, right, call, mended = small
                cuda = x.is_cuda
                if (
                    x.numel() < fewest[cuda]
                    and function_modes() == 0
                    # CUDA graphs are captured on other streams; on the CPU half floats have defects
                    and (raw_stream(x.get_device()) == 0 if cuda else x.dtype in FULL and not x.is_neg())
                ):
                    if right[cuda]:
                        return call(x, arguments)
                    wanted = x.requires_grad and is_grad_enabled()
                    # batches without derivatives, and channels that lie apart, have no known defect
                    if (
                        not wanted
                        and x.dtype is not DOUBLE
                        and x.ndim > -self.channel
                        and active_transform() is None
                        and not is_dual()
                    ) or (x.is_contiguous() and x.stride(self.channel) > 1):
                        return call(x, arguments)
                    if mended is not None and wanted:
                        if x.dtype is not DOUBLE and mended.is_needless(x):
                            return call(x, arguments)
                        if mended.takes(x):
                            return mended(x)
        except (IndexError, TypeError):  # too few axes, or a list
            pass
        return self.routed(x, arguments, indices)

    def is_compilers(self, x: Any, arguments: tuple[Any, ...], indices: bool) -> bool:
        """Whether torch.compile makes a kernel of its own of a call; of what aten does wrongly it
        makes none. It guards each name that is read here, at every call of what it has compiled, so
        these are few."""
        size = arguments[0]
        if indices or not is_compiled_for_cuda(x):
            return False
        if self.padding < 0:
            return self.kind is AdaptiveAvgPool and size in (1, (1,) * self.rank)
        if self.dilation >= 0 and arguments[self.dilation] not in (1, (1,) * self.rank):
            return False
        taps = 1
        for k in size if type(size) is tuple else (size,) * self.rank:
            taps *= k
        if x.ndim <= self.rank or (taps > FUSED and x.numel() * taps >= COMPILED):
            return False
        # of channels_last maxima are mended; cotangents of padded averages may be aten's
        right = self.kind is MaxPool or not x.requires_grad or arguments[self.padding] in (0, (0,) * self.rank)
        return lies_plainly(x, self.rank) or (x.dtype is not DOUBLE and right)

    def compiled(self, x: Tensor, arguments: tuple[Any, ...], indices: bool) -> Any:
        """What torch.compile makes a kernel of its own of. Its padded maxima, and aten's of
        channels_last, send the cotangent of a window that is all -inf to another cell; so such
        windows take the value of their first real cell, which has it."""
        y = self.theirs(x, arguments, indices)
        right = arguments[self.padding] in (0, (0,) * self.rank) and lies_plainly(x, self.rank)
        if self.kind is not MaxPool or right or not x.requires_grad:
            return y
        kernel, stride, padding = arguments[:3]
        first = x
        for i in range(self.rank):
            s, p = (v[i] if type(v) in (tuple, list) else v for v in (kernel if stride is None else stride, padding))
            axis = i - self.rank
            before = min(-(-p // s), y.shape[axis])  # windows that begin before the axis does
            others: Any = (..., slice(before * s - p, None, s), *(slice(None),) * (-axis - 1))
            parts = [first.narrow(axis, 0, 1)] * before
            first = torch.cat([*parts, first[others].narrow(axis, 0, y.shape[axis] - before)], axis)
        return torch.where(y == -math.inf, first, y)

    def routed(self, x: Tensor, arguments: tuple[Any, ...], indices: bool) -> Any:
        """What a call comes to by its route."""
        if not is_eager() or x.is_neg():
            return self.general(x, arguments, indices)
        try:
            key = x.shape, x.stride(), x.dtype, x.device, indices, SMALL, dumps(arguments, 2)
        except RuntimeError:  # a sparse or nested tensor, which has no strides
            return self.theirs(x, arguments, indices)
        except ValueError:  # an argument that `dumps` does not write
            return self.general(x, arguments, indices)
        route = self.routes.get(key) or self.add(key, x, arguments, indices)
        if route.torchs[x.requires_grad and is_grad_enabled()] and not (route.watches and route.is_captured()):
            if route.aten is not None and function_modes() == 0:
                return route.aten(x, arguments)
            return self.theirs(x, arguments, indices)
        return route.ours(x) if eager.is_ordinary(x) else self.general(x, arguments, indices)

    def add(self, key: Any, x: Tensor, arguments: tuple[Any, ...], indices: bool) -> Route:
        """A new route."""
        if len(self.routes) >= MOST:
            self.routes.clear()
        return self.routes.setdefault(key, self.route(x, arguments, indices))

    def route(self, x: Tensor, arguments: tuple[Any, ...], indices: bool) -> Route:
        """Who answers, decided."""
        rank = self.rank
        if (
            x.layout is not torch.strided
            or x.numel() == 0
            or x.dtype is torch.bool
            or x.ndim not in (rank + 1, rank + 2)
        ):
            return TORCHS
        found = self.asked(x.shape[-rank:], *arguments)
        if found is None or found.op is None:
            return TORCHS
        try:
            found.op.output_shape(tuple(x.shape))
        except SpecgradError:
            return TORCHS
        taken = x.dtype in FLOATS and x.device.type in DEVICES
        torchs = [
            not is_wrong(self.name, x, found.op, indices, wanted)
            and (not taken or is_small(found.op, x, wanted) or is_read_alone(found, x, wanted))
            and not is_shared(found, x)
            for wanted in (False, True)
        ]
        if not taken and all(torchs):
            return TORCHS
        direct = aten(self.name, self.kind, arguments, indices)
        if not indices:
            self.add_small(found, arguments, direct, x.is_cuda)
        made = Route(answer(found, x, indices), (torchs[0], torchs[1]), direct)
        # one program reads a whole plane, which takes long where planes are large and few
        made.watches &= not (is_whole_mean(found) and x.shape[-rank:].numel() > 1024)
        return made

    def add_small(self, asked: Asked, arguments: tuple[Any, ...], direct: Any, cuda: bool) -> None:
        """Enter the calls that need no route."""
        dilated = self.dilation >= 0 and arguments[self.dilation] not in (1, (1,) * self.rank)
        if direct is None or dilated or any(isinstance(value, list) for value in arguments):
            return
        least = [
            min(fewest(asked.op, device, last, wanted) for last in (False, True) for wanted in (False, True))
            for device in (False, True)
        ]
        if is_whole_mean(asked):
            least = [min(least[False], SHARED), math.inf]
        if len(self.small) >= MOST:
            self.small.clear()
        known = self.small.get((SMALL, arguments))
        mended = known and known.mended
        if cuda and self.name == "max_pool2d":
            kernel, stride, *others = arguments
            mended = mending().Mended(kernel, kernel if stride is None else stride, *others)
        right = is_right_throughout(self.name, "cpu", asked.op), is_right_throughout(self.name, "cuda", asked.op)
        self.small[SMALL, arguments] = Small((least[0], least[1]), right, direct, mended)

    def general(self, x: Any, arguments: tuple[Any, ...], indices: bool) -> Any:
        """The answer in any context."""
        usual = type(x) in CLASSES and x.layout is torch.strided and x.ndim in (self.rank + 1, self.rank + 2)
        if not usual or is_recorded() or (found := self.asked(x.shape[-self.rank :], *arguments)) is None:
            return self.theirs(x, arguments, indices)
        taken = x.dtype in FLOATS and x.device.type in DEVICES
        if not torch.compiler.is_compiling():  # there lengths may be symbols, which a comparison would fix
            op, wanted = found.op or decoded(found.kind, found.parameters), is_differentiated(x)
            small = is_small(op, x, x.requires_grad and torch.is_grad_enabled()) and not is_shared(found, x)
            if not taken or x.numel() == 0 or small:
                taken = x.numel() > 0 and x.dtype is not torch.bool and is_wrong(self.name, x, op, indices, wanted)
        if not taken:
            return self.theirs(x, arguments, indices)
        try:
            return ours(found, x, indices)
        except SpecgradError:
            return self.theirs(x, arguments, indices)


@functools.cache
def mending() -> Any:
    """The module of mended calls, which needs Triton."""
    return importlib.import_module(".mended", __package__)


def takes(x: Any, rank: int, small: bool) -> bool:
    """Whether a call composed of pooling and powers is ours: of plain float cells, batched or not;
    and, in eager calls, of half floats or of many cells, unless small inputs are ours too."""
    if type(x) not in CLASSES or x.layout is not torch.strided or x.ndim not in (rank + 1, rank + 2) or is_recorded():
        return False
    if x.dtype not in FLOATS or x.device.type not in DEVICES:
        return False
    least = 1 if small or x.dtype in HALVES else max(SMALL * (1 + (x.requires_grad and torch.is_grad_enabled())), 1)
    return torch.compiler.is_compiling() or x.numel() >= least


def is_recorded() -> bool:
    """Whether a call is recorded to be run without us."""
    return torch.onnx.is_in_onnx_export() if torch.compiler.is_compiling() else tracing_state() is not None


def is_whole_mean(asked: Asked) -> bool:
    """Whether these are means of whole planes, which aten reads at the speed of memory, too."""
    words = dict(zip(FIELDS[asked.kind], asked.parameters, strict=True))
    return asked.kind is AdaptiveAvgPool and set(words["output_size"]) == {1} and SMALL > 0


def is_compiled_for_cuda(x: Tensor) -> bool:
    """Whether torch.compile makes kernels of its own for this tensor; what is exported keeps our
    operators. The flag is read because torch.compile of 2.11 folds `is_exporting()` to True; where
    there is none, what is exported has aten's."""
    return x.is_cuda and not getattr(torch.compiler, "_is_exporting_flag", False)


def is_read_alone(asked: Asked, x: Tensor, wanted: bool) -> bool:
    """Whether these are means that are aten's to find. On the CPU no gradient is wanted, planes lie
    together, and are several, since threads share the cells of a single one in a way of their
    own."""
    if x.is_cuda or not x.is_cpu or wanted or not is_whole_mean(asked):
        return x.is_cuda and is_whole_mean(asked)
    return x.is_contiguous() and x.shape[: -asked.rank].numel() > 1


def is_shared(asked: Asked, x: Tensor) -> bool:
    """Whether torch's threads would share the cells of one plane on the CPU: then the bits of its
    mean differ with their number."""
    return x.is_cpu and x.numel() >= SHARED and is_whole_mean(asked) and x.shape[: -asked.rank].numel() == 1


def aten(name: str, kind: Any, arguments: tuple[Any, ...], indices: bool) -> Any:
    """Where torch's own function ends, of a tensor and arguments as they were written; None if it
    ends in several places, or has no such argument. Each count of arguments is written out: to hand
    over a tuple takes longer than all else that a small call costs."""
    if kind in (AdaptiveMaxPool, AdaptiveAvgPool):
        if isinstance(arguments[0], tuple | list) and None in arguments[0]:
            return None
        bins = aten_function(name)
        pair = kind is AdaptiveMaxPool and not indices
        return (lambda x, given: bins(x, given[0])[0]) if pair else (lambda x, given: bins(x, given[0]))
    if name == "avg_pool1d" and arguments[-1] is not None:
        return None
    call = aten_function(name + "_with_indices" * indices)

    def of_five(x: Tensor, given: tuple[Any, ...]) -> Any:
        a, b, c, d, e, *_ = given
        return call(x, a, a if b is None else b, c, d, e)

    def of_six(x: Tensor, given: tuple[Any, ...]) -> Any:
        a, b, c, d, e, f = given
        return call(x, a, a if b is None else b, c, d, e, f)

    return of_six if name in ("avg_pool2d", "avg_pool3d") else of_five


def answer(asked: Asked, x: Tensor, indices: bool) -> Callable[[Tensor], Any]:
    """Our answer to eager calls on ordinary tensors like x: on a GPU a prepared call."""
    op = asked.op
    special = asked.misses or _is_one_volume(op, x)
    found = None if special else prepared.find(op, x)
    if found is None:
        return lambda t: ours(asked, t, indices)
    return functools.partial(found, indices=True) if indices else found


def ours(asked: Asked, x: Tensor, indices: bool) -> Any:
    """What our operator gives, with torch's value for windows that have no real cell."""
    if is_widened(x, asked.rank):
        x = x.float()
    found = _run(asked, x, indices)
    if not asked.misses:
        return found
    value, *places = found if indices else (found,)
    value = _lowered(asked, value, x.shape)
    return (value, *places) if indices else value


def is_widened(x: Tensor, rank: int) -> bool:
    """Whether torch pools these half floats in float32: those of rank 3, under autocast on the
    CPU."""
    return rank == 3 and x.dtype in HALVES and x.device.type == "cpu" and torch.is_autocast_enabled("cpu")


def _lowered(asked: Asked, value: Tensor, shape: Sequence[int]) -> Tensor:
    """A maximum with torch's value, the lowest number of the dtype, for windows without a real
    cell."""
    words = dict(zip(FIELDS[asked.kind], asked.parameters, strict=True))
    lowest = -math.inf if value.is_floating_point() else torch.iinfo(value.dtype).min
    for i, axis in enumerate(words["axes"]):
        start = torch.arange(value.shape[axis], device=value.device) * words["stride"][i] - words["padding"][2 * i]
        cells = start[:, None] + torch.arange(words["kernel_size"][i], device=value.device) * words["dilation"][i]
        real = ((cells >= 0) & (cells < shape[axis])).any(1)
        value = torch.where(real.reshape(-1, *(1,) * (-axis - 1)), value, lowest)
    return value


def _run(asked: Asked, x: Tensor, indices: bool) -> Any:
    if eager.is_plain(x):
        op = asked.op or decoded(asked.kind, asked.parameters)
        if not _is_one_volume(op, x):
            return fast_path.run(op, x, indices)
        found = fast_path.run(
            op, x.unsqueeze(0), indices, 5
        )  # of which the results, too, have their channels stored last
        return tuple(part.squeeze(0) for part in found) if indices else found.squeeze(0)
    made, last = FAMILIES[asked.kind], last_axes(x)
    if not indices:
        return made.value(x, last, *asked.parameters)
    value, codes = made.keep(x, last, *asked.parameters)
    return value, made.places(codes, x.detach(), list(x.shape), last, *asked.parameters)


def _is_one_volume(op: Any, x: Tensor) -> bool:
    """Whether this is the maximum of a volume without a batch axis whose channels are stored last:
    torch keeps that layout, of maxima alone."""
    return x.ndim == 4 and type(op) is MaxPool and len(op.kernel_size) == 3 and suggests_channels_last(*as_images(x, 3))
