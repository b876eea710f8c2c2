"""Whether torch's own kernel or an engine of specgrad runs a call of torch's pooling functions.

The decision is a `Route`. It is made once for equal arguments and tensors of equal shape, strides,
dtype and device, and cached. Torch runs what our engines do not support, what torch refuses, and
small inputs, for which a call of our engine from Python costs more time than its kernel saves.
Torch never runs a call that is listed in `defects`. While a CUDA graph is captured, the cost of a
call does not matter, and our kernels run.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from marshal import dumps
from typing import Any

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
"""The number of elements below which a CPU input is small. Inputs that need a gradient are small
below twice this number, since they take two calls from Python instead of one. Measured with
benchmarks/torch_front_end.py --small: the size from which both maximum and average are as fast as
torch. Tests set it to 0: then no input is small on any device."""

HALF = 16
"""The number by which `SMALL` is divided for half floats, whose cells aten converts one by one."""
SHARED = 1 << 15
"""The number of elements from which torch divides the cells of a single sum among threads."""
HOST = (40.0, 150.0)
"""The microseconds of host time by which our call on a GPU exceeds torch's: of a forward, and of a
forward and a backward together. Measured inside a network, where the processor's caches do not hold
our code; in a loop of equal calls it is a fifth (`benchmarks/gpu_host.py`)."""
COMPILED, FUSED = 1.6e8, 9
"""On a GPU, torch.compile generates its own kernel for calls with fewer taps than the first number,
and for windows with at most as many taps as the second. There are two reasons. Generated code calls
our operators through torch's dispatcher and Python, which takes some 200 µs of host time. And it
computes small windows in the kernel that computes their input, which saves more memory traffic than
our kernel does (`benchmarks/gpu_networks.py`)."""
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
"""The microseconds that our GPU kernels save on 50,000 cells, in the forward and in the backward.
The keys are the reduction, the kind of windows, and whether channels are stored last. Measured on
an H200; each number is the smallest of several geometries."""
TAPS, CELLS = 1.2, 8.0
"""The microseconds saved in addition per million taps in the forward, and per million cells in the
backward."""

FLOATS = (torch.float32, torch.float64, torch.float16, *((torch.bfloat16,) if BFLOAT16 is not None else ()))
DEVICES = ("cpu", *(("cuda",) if all(map(find_spec, ("triton", "specgrad.engines.gpu"))) else ()))
"""The devices that have an engine. On others torch's own kernels are faster than the
specification."""
PLAIN = eager.CLASSES
CLASSES = (*PLAIN, *TRACED)
MOST = 4096  # cached routes of each function


def fewest(op: Any, cuda: bool, last: bool, wanted: bool, half: bool = False) -> float:
    """The number of elements below which our call costs more time than our kernel saves. `last`:
    channels are stored last; `wanted`: a gradient is needed."""
    if not cuda or SMALL == 0:
        return max(SMALL * (1 + wanted) // (HALF if half else 1), 1)
    windows = "sliding" if hasattr(op, "kernel_size") else "whole" if set(op.output_size) == {1} else "bins"
    forwards, back = GAINS[reduction(op) or "", windows, last]
    taps = math.prod(op.kernel_size) / math.prod(op.stride) if windows == "sliding" else 0
    missing = HOST[wanted] - forwards - back * wanted
    gained = (TAPS * taps + CELLS * wanted) / 1e6
    return missing / gained if missing > 0 and gained else math.inf if missing > 0 else 0


def is_small(op: Any, x: Tensor, wanted: bool) -> bool:
    """Whether our call costs more time than our kernel saves."""
    return bool(x.numel() < fewest(op, x.is_cuda, last_axes(x) > 0, wanted, x.dtype in HALVES))


class Small:
    """The small calls with some arguments: torch runs them for every shape of fewer elements, if no
    defect is known, without a look at routes. The pairs are for the CPU and for a CUDA device."""

    __slots__ = ("call", "fewest", "limit", "mended", "right")

    def __init__(self, fewest: tuple[float, float], right: tuple[bool, bool], call: Any, mended: Any) -> None:
        self.fewest, self.limit = fewest, SMALL
        """The number of elements; and the value of `SMALL` from which it follows."""
        self.right = right
        """Whether no layout of float32 and float64 has a defect."""
        self.call: Callable[[Tensor, tuple[Any, ...]], Any] = call
        """Torch's own kernel, called with the arguments as the caller wrote them: as keys of a
        dict, 2, 2.0 and True are equal."""
        self.mended = mended
        """What runs channels_last images on a CUDA device if a gradient is needed, or None."""


class Route:
    """What runs calls with equal arguments on tensors of equal shape, strides, dtype and device."""

    __slots__ = ("aten", "ours", "seen", "torchs", "watches")

    def __init__(self, ours: Any, torchs: tuple[bool, bool], aten: Any = None) -> None:
        self.ours, self.torchs, self.aten = ours, torchs, aten
        """`ours` runs an eager call on an ordinary tensor by our engine, or is None. `torchs` says
        whether torch runs the call, without and with a gradient. `aten` is the innermost function
        that torch's own function calls."""
        self.watches, self.seen = isinstance(ours, prepared.Prepared), 0
        """`watches`: whether our kernels run while a CUDA graph is captured, even if torch runs the
        call otherwise. `seen`: the number of calls that torch has run."""

    def is_captured(self) -> bool:
        """Whether a CUDA graph is being captured and our kernels are prepared for it. They are
        prepared at the second call, which is one of the calls that warm up."""
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
    """One of torch's pooling functions. `theirs` calls torch's own function with an input, the
    arguments, and whether indices are returned. `padding` and `dilation` are the positions of these
    two among the arguments, or -1 if the function does not have them."""

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
        """The result of a call."""
        if is_compiled():
            return (self.compiled if self.is_compilers(x, arguments, indices) else self.general)(x, arguments, indices)
        if type(x) not in PLAIN:
            return self.general(x, arguments, indices)
        try:
            small = self.small.get(arguments)
            if (  # few reads and calls: between the kernels of a network each one misses the processor's caches
                small is not None
                and not indices
                and small.limit == SMALL
                # while a trace is recorded, a number of elements is a tensor
                and (x.numel() < small.fewest[cuda := (index := x.get_device()) >= 0]) is True
                and function_modes() == 0
                # CUDA graphs are captured on other streams; on the CPU half floats and negated rows
                # have defects
                and (raw_stream(index) == 0 if cuda else x.dtype in FULL and (self.rank > 1 or not x.is_neg()))
            ):
                # channels that lie apart, and batches without derivatives, have no known defect
                if small.right[cuda] or lies_plainly(x, self.rank):
                    return small.call(x, arguments)
                wanted = x.requires_grad and is_grad_enabled()
                if (
                    not wanted
                    and x.dtype is not DOUBLE
                    and x.ndim > -self.channel
                    and active_transform() is None
                    and not is_dual()
                ):
                    return small.call(x, arguments)
                mended = small.mended
                if mended is not None and wanted:
                    if x.dtype is not DOUBLE and mended.is_needless(x):
                        return small.call(x, arguments)
                    if mended.takes(x):
                        return mended(x)
        except (IndexError, TypeError):  # too few axes, or a list
            pass
        return self.routed(x, arguments, indices)

    def is_compilers(self, x: Any, arguments: tuple[Any, ...], indices: bool) -> bool:
        """Whether torch.compile generates its own kernel for a call. It does not where aten is
        wrong. torch.compile guards every global name that this method reads, at each call of the
        compiled code; therefore the method reads few."""
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
        # `compiled` corrects maxima; the backward of padded averages may be aten's, which is wrong
        right = self.kind is MaxPool or not x.requires_grad or arguments[self.padding] in (0, (0,) * self.rank)
        return lies_plainly(x, self.rank) or (x.dtype is not DOUBLE and right)

    def compiled(self, x: Tensor, arguments: tuple[Any, ...], indices: bool) -> Any:
        """A call for which torch.compile generates its own kernel. Its padded maxima, and aten's of
        channels_last tensors, send the cotangent of a window that is all -inf to a wrong cell. Such
        a window takes the value of its first real cell instead, which then gets the cotangent."""
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
        """The result of a call, by its route."""
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
        """Decide what runs calls like this one."""
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
        # our kernel reads a plane in one program, which is slow for few large planes
        made.watches &= not (is_whole_mean(found) and x.shape[-rank:].numel() > 1024)
        return made

    def add_small(self, asked: Asked, arguments: tuple[Any, ...], direct: Any, cuda: bool) -> None:
        """Record in `small` that calls with these arguments need no route."""
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
        known = self.small.get(arguments)
        mended = known and known.mended
        if cuda and self.name == "max_pool2d":
            kernel, stride, *others = arguments
            mended = mending().Mended(kernel, kernel if stride is None else stride, *others)
        right = is_right_throughout(self.name, "cpu", asked.op), is_right_throughout(self.name, "cuda", asked.op)
        self.small[arguments] = Small((least[0], least[1]), right, direct, mended)

    def general(self, x: Any, arguments: tuple[Any, ...], indices: bool) -> Any:
        """The result of a call in any context: also compiled, transformed or traced."""
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
    """Whether a call computes means of whole planes, which aten does at memory speed too."""
    words = dict(zip(FIELDS[asked.kind], asked.parameters, strict=True))
    return asked.kind is AdaptiveAvgPool and set(words["output_size"]) == {1} and SMALL > 0


def is_compiled_for_cuda(x: Tensor) -> bool:
    """Whether torch.compile generates its own kernels for this tensor. Exported programs keep our
    operators. The private flag is read because torch.compile of 2.11 evaluates `is_exporting()` to
    True; without the flag, exported programs have aten's operators."""
    return x.is_cuda and not getattr(torch.compiler, "_is_exporting_flag", False)


def is_read_alone(asked: Asked, x: Tensor, wanted: bool) -> bool:
    """Whether aten computes these means of whole planes: always on a GPU; on the CPU those of
    several contiguous planes without a gradient. Of a single plane see `is_shared`."""
    if x.is_cuda or not x.is_cpu or wanted or not is_whole_mean(asked):
        return x.is_cuda and is_whole_mean(asked)
    return x.is_contiguous() and x.shape[: -asked.rank].numel() > 1


def is_shared(asked: Asked, x: Tensor) -> bool:
    """Whether torch would divide the cells of a single plane among threads on the CPU. The bits of
    the mean would then depend on the number of threads."""
    return x.is_cpu and x.numel() >= SHARED and is_whole_mean(asked) and x.shape[: -asked.rank].numel() == 1


def aten(name: str, kind: Any, arguments: tuple[Any, ...], indices: bool) -> Any:
    """The aten call in which torch's own function ends, as a function of a tensor and the arguments
    as the caller wrote them; None if there are several such calls. The arguments are written out
    one by one, because unpacking a tuple into a call costs more than the rest of a small call."""
    if kind in (AdaptiveMaxPool, AdaptiveAvgPool):
        if isinstance(arguments[0], tuple | list) and None in arguments[0]:
            return None
        bins = aten_function(name)
        pair = kind is AdaptiveMaxPool and not indices
        return (lambda x, given: bins(x, given[0])[0]) if pair else (lambda x, given: bins(x, given[0]))
    call = aten_function(name + "_with_indices" * indices)

    def of_five(x: Tensor, given: tuple[Any, ...]) -> Any:
        a, b, c, d, e = given
        return call(x, a, a if b is None else b, c, d, e)

    def of_six(x: Tensor, given: tuple[Any, ...]) -> Any:
        a, b, c, d, e, f = given
        return call(x, a, a if b is None else b, c, d, e, f)

    return of_five if len(arguments) == 5 else of_six


def answer(asked: Asked, x: Tensor, indices: bool) -> Callable[[Tensor], Any]:
    """What runs eager calls on ordinary tensors like x by our engine: on a GPU a prepared call."""
    op = asked.op
    special = asked.misses or _is_one_volume(op, x)
    found = None if special else prepared.find(op, x)
    if found is None:
        return lambda t: ours(asked, t, indices)
    return functools.partial(found, indices=True) if indices else found


def ours(asked: Asked, x: Tensor, indices: bool) -> Any:
    """The result of our operator, with torch's value for windows that have no real cell."""
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
    return rank == 3 and is_cast(x)


def is_cast(x: Tensor) -> bool:
    """Whether autocast makes these float32 for a function that it runs in float32 on the CPU."""
    return x.dtype in HALVES and x.device.type == "cpu" and torch.is_autocast_enabled("cpu")


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
        found = fast_path.run(op, x.unsqueeze(0), indices, 5)  # 5: the results have their channels stored last
        return tuple(part.squeeze(0) for part in found) if indices else found.squeeze(0)
    made, last = FAMILIES[asked.kind], last_axes(x)
    if not indices:
        return made.value(x, last, *asked.parameters)
    value, codes = made.keep(x, last, *asked.parameters)
    return value, made.places(codes, x.detach(), list(x.shape), last, *asked.parameters)


def _is_one_volume(op: Any, x: Tensor) -> bool:
    """Whether this is a maximum of a channels_last volume without a batch axis. Its result is
    channels_last too, as torch's; results of other operators are not."""
    return x.ndim == 4 and type(op) is MaxPool and len(op.kernel_size) == 3 and suggests_channels_last(*as_images(x, 3))
