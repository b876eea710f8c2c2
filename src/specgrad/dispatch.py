"""Who runs an operator on these operands: a Var's own layer, or the first engine that offers to.

Anything with a method ``__specgrad__(op, operands)`` and a `level` (a tape's or a graph's Var) is
asked first, the innermost level before the others. A derivative is an operator too (see `derive`),
and is run by the engine of the operator it is derived from. Engines are listed in `ENGINES` from
the fastest to the specification itself, and are imported when first needed; to add one, write a
file and add a line.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import importlib
import inspect
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from . import threads
from .arithmetic import like
from .errors import ArgumentError, SlowPathWarning, describe, refusal
from .scalars.base import is_tensor, is_traced
from .scalars.foreign import as_numpy, home, is_foreign

ENGINES = {
    "cpu": "specgrad.engines.cpu",
    "torch": "specgrad.engines.tensors",
    "dask": "specgrad.dask",
    "reference": "specgrad.engines.reference",
}

ARRAYS = frozenset({np.ndarray})
DIRECTIONS = ARRAYS | {type(None)}

LARGE = 1_000_000  # elements of a float array from which the specification is worth a warning

tracer: Any = None
"""The part of `specgrad.torch`, once imported, that runs operators while torch.compile reads
Python; it reads no caches."""

shortcuts: dict[tuple[str, type], Callable[..., Any]] = {}
"""By rule ("value", "jvp" or "vjp", and "indices", which is asked for with True) and the exact
class of a lone operand: a function of the operator, the operand and its tangent or cotangent, which
returns the result or NotImplemented; and by "values" and the class of the first of several: a
function of the operator and these. `specgrad.torch` has the first and "indices", and the CPU engine
has those of small arrays."""

_forced: contextvars.ContextVar[str | None] = contextvars.ContextVar("specgrad_engine", default=None)


class Engine(Protocol):
    """What a module must offer to run operators."""

    TAKES: str
    """In words, which operators and arrays this engine takes."""

    def refuses(self, op: Any, operands: tuple[Any, ...]) -> str | None:
        """None if this engine runs the operator on these operands, else the reason why not."""

    def forward(self, op: Any, operands: tuple[Any, ...], out: Any = None) -> Any:
        """The value, written into `out` where one is given (`check_out` says whether it fits)."""

    def keep(self, op: Any, operands: tuple[Any, ...]) -> tuple[Any, Any]:
        """The value and what the derivatives need of it."""

    def indices(self, op: Any, operands: tuple[Any, ...], out: Any = None) -> tuple[Any, Any]:
        """The value and, per output cell, the winner's flat index in its spatial plane."""

    def push(self, op: Any, operands: tuple[Any, ...], kept: Any, tangents: tuple[Any, ...]) -> Any:
        """The output's tangent; a tangent of None is zero."""

    def pull(self, op: Any, operands: tuple[Any, ...], kept: Any, cotangent: Any) -> tuple[Any, ...]:
        """One cotangent per operand."""

    # What an engine may do besides, and is asked for only if its functions have the parameter:
    # `keep` and `push` may take `out`, an array to write into; `pull` may take `wanted`, one bool
    # per operand, and `out`, a tuple of arrays or None; and `recall(op, operands)` may give what
    # `keep` keeps without computing the value; `jvp(op, operands, tangents)` and `vjp(op, operands,
    # cotangent)` may do at once what `keep` and `push`, or `recall` and `pull`, do one after the
    # other, of which nobody keeps anything, and return NotImplemented where they do not.


@functools.cache
def load(name: str) -> Any:
    """An engine by its name."""
    with threads.loading:
        return importlib.import_module(ENGINES[name])


def choose(op: Any, operands: tuple[Any, ...]) -> Any:
    """The engine that runs this operator on these operands; the first that does not refuse, or the
    one that is forced."""
    alone = _forced.get()
    reason = "no engine is registered"
    refused: list[str] = []
    for name in ENGINES if alone is None else (alone,):
        candidate = load(name)
        reason = candidate.refuses(op, operands)
        if reason is None:
            if refused and name == "reference":
                warn_if_slow(op, operands, refused)
            return candidate
        refused.append(f"{name}: {reason}")
    remedy = "use another engine: " + ", ".join(name for name in ENGINES if name != alone)
    raise refusal(ArgumentError, op.name, "engine", alone, reason, remedy)


def warn_if_slow(op: Any, operands: tuple[Any, ...], refused: list[str], stacklevel: int = 5) -> None:
    """Say so when a large float array falls to the specification, which is a hundred times slower
    than an engine."""
    for operand in operands:
        is_array = isinstance(operand, np.ndarray)
        floats = operand.dtype.kind in "fV" if is_array else is_tensor(operand) and operand.is_floating_point()
        if floats and math.prod(operand.shape) > LARGE:
            words = (
                f"{op.name}: {describe(operand)} runs on the reference engine, slowly ({'; '.join(refused)}); "
                'give what another engine takes (see list_engines()), or say engine("reference") to mean it'
            )
            warnings.warn(words, SlowPathWarning, stacklevel=stacklevel)
            return


def forced() -> str | None:
    """The engine that is forced here, if any."""
    return _forced.get()


@contextlib.contextmanager
def engine(name: str) -> Iterator[None]:
    """Run operators on one engine alone within a ``with`` block: ``with engine("reference"): …``.

    An operator that the engine does not run raises an error, in calls and in programs that are
    compiled in the block. To only prefer an engine, pass it to ``graph.compile``: the engines after
    it in `list_engines()` then run the other operators. Calls without a block try all engines.
    """
    if not isinstance(name, str) or name not in ENGINES:
        raise refusal(ArgumentError, "engine", "name", name, "is not an engine", "choose from " + ", ".join(ENGINES))
    before = _forced.get()
    try:
        _forced.set(name)
        yield
    finally:
        _forced.set(before)


def list_engines() -> dict[str, str]:
    """The installed engines, fastest first, with a description of what each one runs."""
    return {name: load(name).TAKES for name in ENGINES}


class Memory(NamedTuple):
    """What an engine keeps of a forward computation for its derivatives, and the engine."""

    engine: Any
    kept: Any


def plain(op: Any, operands: tuple[Any, ...], prefix: str = "") -> tuple[Any, ...]:
    """Operands with arrays of NumPy in place of foreign ones."""
    names = [f"{prefix}{slot.name}" for slot in op.slots]
    return tuple(as_numpy(op.name, n, o) if is_foreign(o) else o for n, o in zip(names, operands, strict=False))


def is_var(operand: Any) -> bool:
    """Whether an operand is recorded by a tape, a graph or a transform. The class is asked: a proxy
    of torch.fx claims every attribute."""
    return hasattr(type(operand), "__specgrad__")


def recorder(operands: Sequence[Any]) -> Any:
    """The Var of the innermost level among these operands, or None."""
    innermost = None
    for operand in operands:
        if is_var(operand) and (innermost is None or operand.level.serial > innermost.level.serial):
            innermost = operand
    return innermost


def _is_elsewhere(operands: Sequence[Any]) -> bool:
    """Whether some are arrays of another library, and none is JAX's own business."""
    return any(map(is_foreign, operands)) and not any(map(is_traced, operands))


def is_recorded(operands: Sequence[Any]) -> bool:
    """Whether derivatives of these operands are operators to be recorded, by a level or by JAX."""
    if ARRAYS.issuperset(map(type, operands)):
        return False
    return recorder(operands) is not None or any(map(is_traced, operands))


def _jax() -> Any:
    return importlib.import_module("specgrad.jax.primitive")


def traced(operands: tuple[Any, ...] = ()) -> bool:
    """Whether torch.compile is reading this call, of tensors."""
    return tracer is not None and bool(tracer.reads(operands))


def forward(op: Any, operands: tuple[Any, ...], out: Any = None) -> Any:
    rule = "value" if len(operands) == 1 else "values"
    at_once = shortcuts.get((rule, type(operands[0]))) if out is None else None
    if at_once is not None and (value := at_once(op, *operands)) is not NotImplemented:
        return value
    if is_subclassed(out):
        forward(op, operands, np.asarray(out))
        return out
    if tracer is not None and traced(operands) and not op.derived:
        return tracer.forward(op, operands, out)
    var = None
    if not ARRAYS.issuperset(map(type, operands)):
        var = recorder(operands)
        if var is None and any(map(is_traced, operands)):
            return _jax().apply(op, operands, out)
        if any(map(is_foreign, operands)):
            value = forward(op, plain(op, operands), out)
            return value if out is not None else home(operands)(value)
    if var is not None:
        if out is not None:
            rule, remedy = "a recorded value is not written into an array", "leave it out"
            raise refusal(ArgumentError, op.name, "out", out, rule, remedy)
        return var.__specgrad__(op, operands)
    if op.derived:  # a derivative is run by whoever runs its operator
        return write(op.name, op.evaluate(operands), out)
    if out is None:
        return choose(op, operands).forward(op, operands, None)
    apart = None if overlaps(out, operands) else out
    value = choose(op, operands).forward(op, operands, apart)
    return value if apart is out else write(op.name, value, out)


def with_indices(op: Any, operands: tuple[Any, ...], out: Any = None) -> tuple[Any, Any]:
    at_once = shortcuts.get(("indices", type(operands[0]))) if out is None else None
    if at_once is not None and (found := at_once(op, operands[0], True)) is not NotImplemented:
        pair: tuple[Any, Any] = found
        return pair
    if is_subclassed(out):
        return out, with_indices(op, operands, np.asarray(out))[1]
    if tracer is not None and traced(operands):
        value, places = tracer.indices(op, operands, out)
        return value, places
    if recorder(operands) is None and any(map(is_traced, operands)):
        at: tuple[Any, Any] = _jax().with_indices(op, operands, out)
        return at
    if any(map(is_foreign, operands)):
        back = home(operands)
        value, places = with_indices(op, plain(op, operands), out)
        return value if out is not None else back(value), back(places)
    if recorder(operands) is not None:
        found = with_indices(op, tuple(bare(op.name, o) for o in operands))[1]
        return forward(op, operands, out), found
    apart = None if overlaps(out, operands) else out
    value, places = choose(op, operands).indices(op, operands, apart)
    return value if apart is out else write(op.name, value, out), places


def bare(name: str, operand: Any) -> Any:
    """The array under a Var, however many levels deep."""
    while is_var(operand):
        if not hasattr(operand, "value"):
            rule, remedy = "has no numbers before it runs", "leave return_indices out"
            raise refusal(ArgumentError, name, "x", operand, rule, remedy)
        operand = operand.value
    return operand


def keep(op: Any, operands: tuple[Any, ...]) -> tuple[Any, Memory | None]:
    """The value, and what an engine keeps of it; None where the derivatives are operators to be
    recorded."""
    if op.derived or is_recorded(operands):
        return forward(op, operands), None
    chosen = choose(op, operands)
    value, kept = chosen.keep(op, operands)
    return value, Memory(chosen, kept)


def recall(op: Any, operands: tuple[Any, ...], chosen: Any = None) -> Memory:
    """What an engine keeps, without the value where the engine can do without."""
    chosen = chosen or choose(op, operands)
    remembered = getattr(chosen, "recall", None)
    return Memory(chosen, remembered(op, operands) if remembered else chosen.keep(op, operands)[1])


@functools.cache
def takes(function: Any, parameter: str) -> bool:
    """Whether an engine's function has an optional parameter."""
    return parameter in inspect.signature(function).parameters


def keep_into(engine: Any, op: Any, operands: tuple[Any, ...], out: Any) -> Any:
    """Write the value into `out`; what the engine keeps of it."""
    if takes(engine.keep, "out"):
        return engine.keep(op, operands, out=out)[1]
    out[...], kept = engine.keep(op, operands)
    return kept


def push_into(memory: Memory, op: Any, operands: tuple[Any, ...], tangents: tuple[Any, ...], out: Any) -> None:
    """Write the output's tangent into `out`."""
    if takes(memory.engine.push, "out"):
        memory.engine.push(op, operands, memory.kept, tangents, out=out)
    else:
        out[...] = memory.engine.push(op, operands, memory.kept, tangents)


def pull_into(
    memory: Memory, op: Any, operands: tuple[Any, ...], cotangent: Any, out: tuple[Any, ...]
) -> tuple[Any, ...]:
    """The cotangents for which `out` has an array, written into it, or has True; None for the
    others."""
    wanted = tuple(o is not None for o in out)
    arrays = tuple(None if o is True else o for o in out)
    options: dict[str, Any] = {}
    if takes(memory.engine.pull, "wanted"):
        options["wanted"] = wanted
    if takes(memory.engine.pull, "out"):
        options["out"] = arrays
    pulled = memory.engine.pull(op, operands, memory.kept, cotangent, **options)
    for array, part in zip(arrays, pulled, strict=True):
        if array is not None and part is not array:
            array[...] = part
    return tuple(part if w else None for part, w in zip(pulled, wanted, strict=True))


def push(op: Any, operands: tuple[Any, ...], memory: Memory | None, tangents: tuple[Any, ...]) -> Any:
    """The output's tangent; a tangent of None is zero, and so is a result of None."""
    moved = tuple([t if slot.differentiable else None for slot, t in zip(op.slots, tangents, strict=False)])
    present = [t for t in moved if t is not None]
    if not present:
        return None
    if memory is None or is_recorded(present):
        return op.tangent(operands, moved)
    return memory.engine.push(op, operands, memory.kept, moved)


def pull(
    op: Any, operands: tuple[Any, ...], memory: Memory | None, cotangent: Any, wanted: Sequence[bool]
) -> tuple[Any, ...]:
    """One cotangent per operand that is wanted and differentiable; None is zero."""
    reached = tuple([w and slot.differentiable for slot, w in zip(op.slots, wanted, strict=False)])
    if memory is None or is_recorded((cotangent,)):
        return tuple(op.cotangent(s, operands, cotangent) if r else None for s, r in enumerate(reached))
    if not any(reached):
        return (None,) * len(operands)
    if all(reached):
        return tuple(memory.engine.pull(op, operands, memory.kept, cotangent))
    return pull_into(memory, op, operands, cotangent, tuple(True if r else None for r in reached))


def jvp(op: Any, operands: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    are_plain = DIRECTIONS.issuperset(map(type, (*operands, *tangents)))
    if not are_plain and _is_elsewhere((*operands, *tangents)):
        value, moved = jvp(op, plain(op, operands), plain(op, tangents, "tangent of "))
        back = home((*operands, *tangents))
        return back(value), back(moved)
    if not op.derived and (are_plain or not is_recorded((*operands, *tangents))):
        chosen = choose(op, operands)
        at_once = chosen.jvp(op, operands, tangents) if hasattr(chosen, "jvp") else NotImplemented
        if at_once is not NotImplemented:
            both: tuple[Any, Any] = at_once
            return both
        value, kept = chosen.keep(op, operands)
        memory: Memory | None = Memory(chosen, kept)
    else:
        value, memory = keep(op, operands)
    moved = push(op, operands, memory, tangents)
    return value, like(value, 0, value.shape) if moved is None else moved


def vjp(op: Any, operands: tuple[Any, ...], cotangent: Any) -> tuple[Any, ...]:
    are_plain = ARRAYS.issuperset(map(type, (*operands, cotangent)))
    if not are_plain and _is_elsewhere((*operands, cotangent)):
        arriving = as_numpy(op.name, "cotangent", cotangent) if is_foreign(cotangent) else cotangent
        return tuple(map(home((*operands, cotangent)), vjp(op, plain(op, operands), arriving)))
    memory = None
    if not op.derived and (are_plain or not is_recorded((*operands, cotangent))):
        chosen = choose(op, operands)
        at_once = chosen.vjp(op, operands, cotangent) if hasattr(chosen, "vjp") else NotImplemented
        if at_once is not NotImplemented:
            all_of_them: tuple[Any, ...] = at_once
            return all_of_them
        memory = recall(op, operands, chosen)
    pulled = pull(op, operands, memory, cotangent, (True,) * len(operands))
    return tuple(
        [
            like(operand, 0, operand.shape) if p is None and slot.differentiable else p
            for slot, operand, p in zip(op.slots, operands, pulled, strict=False)
        ]
    )


def is_subclassed(out: Any) -> bool:
    """Whether an `out` is of a class of its own, such as a memory map or a matrix: engines write
    into its plain array, since a subclass may reshape what is written or read."""
    return isinstance(out, np.ndarray) and type(out) is not np.ndarray and not isinstance(out, np.ma.MaskedArray)


def overlaps(out: Any, operands: Sequence[Any]) -> bool:
    """Whether writing into `out` could change an operand that is still to be read."""
    return isinstance(out, np.ndarray) and any(
        np.may_share_memory(out, x) for x in operands if isinstance(x, np.ndarray)
    )


def cells_overlap(array: np.ndarray[Any, Any]) -> bool:
    """Whether two cells of an array share memory, as those of a broadcast array do."""
    if array.flags.c_contiguous or array.flags.f_contiguous or not array.size:
        return False
    axes = sorted((abs(stride), n) for stride, n in zip(array.strides, array.shape, strict=True) if n > 1)
    span, nested = array.itemsize, True  # bytes of the axes with shorter strides, which none may enter
    for stride, n in axes:
        nested = nested and stride >= span
        span += stride * (n - 1)
    if nested:
        return False
    starts = np.zeros(1, np.intp)
    for stride, n in axes:
        starts = np.add.outer(starts, stride * np.arange(n)).ravel()
    starts.sort()
    return bool((np.diff(starts) < array.itemsize).any())


def check_out(name: str, out: Any, shape: tuple[int, ...], dtype: Any) -> None:
    """Refuse an `out` that a value of this shape and dtype cannot be written into."""
    is_array = isinstance(out, np.ndarray) and not isinstance(out, np.ma.MaskedArray)
    fits = is_array and out.shape == shape and out.dtype == dtype and out.flags.writeable
    if fits and dtype is not None and not cells_overlap(out):
        return
    if dtype is None:
        rule = "takes the values of plain arrays only"
    else:
        rule = "has cells that share memory" if fits else f"must be a writable {dtype} array of shape {shape}"
    raise refusal(ArgumentError, name, "out", out, rule, "allocate it with np.empty(shape, dtype)")


def write(name: str, value: Any, out: Any) -> Any:
    """The value itself, or `out` with the value written into it."""
    if out is None or out is value:
        return value
    check_out(name, out, value.shape, value.dtype if isinstance(value, np.ndarray | np.generic) else None)
    out[...] = value
    return out
