"""A graph compiled for one dtype and engine: steps in a fixed order, in memory that is planned once
and reused.

The values of the graph live in the plan's buffers, outputs in fresh arrays or in those of the
caller, and what an engine takes beside them in a reserve of its step: from the second call on
nothing else is allocated. A workspace belongs to one call at a time, so that a program may be
called from several threads; there are as many as calls that ever ran together.
"""

from __future__ import annotations

import collections
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import dispatch, tree
from ..arguments import flag
from ..arithmetic import is_open, settled
from ..caches import cached_property
from ..derive import ShapeOnly
from ..errors import ArgumentError, ScalarError, ShapeError, SpecgradError, refusal
from ..memory import Reserve, empty, here
from ..operator import Operator
from ..scalars import find_family
from ..scalars.floats import Numbers
from ..scalars.foreign import home
from .document import DTYPES, VERSION, bfloat16, document, fields, from_document, read, wrong
from .ir import GraphBase, Node, example_of, given_inputs
from .plan import Plan, planned
from .steps import DerivedStep, Step, scheduled
from .transform import lowered, simplified, value_and_grad


class Program:
    """A compiled graph: call it with one array per input. `plan` describes its memory, and `str`
    its steps.

    >>> import numpy as np, specgrad as sg
    >>> graph = sg.trace(lambda x: sg.sum(sg.relu(x) * x), (3,))
    >>> program = graph.compile(np.float64, engine="reference")
    >>> program(np.array([1.0, -2.0, 3.0]))
    array(10.)
    >>> program.value_and_grad(np.array([1.0, -2.0, 3.0]))
    (array(10.), (array([2., 0., 6.]),))
    >>> print(program.plan)
    2 values in 1 buffers, 1 written in place: 24 bytes instead of 48
    """

    def __init__(self, graph: GraphBase, dtype: Any, engine: str, alone: bool | None = None) -> None:
        if not isinstance(graph, GraphBase):
            rule, remedy = f"must be a Graph, got {type(graph).__name__}", "trace the function first"
            raise refusal(ArgumentError, "compile", "graph", graph, rule, remedy)
        graph.validate()
        candidates = _candidates(engine)
        forced = dispatch.forced() if alone is None else engine if flag("compile", "alone", alone) else None
        self.source = graph.copy()
        self.engine = forced or engine
        self.alone = forced is not None
        self.dtype = _native(dtype)
        composes = self.dtype != object and not Numbers(self.dtype).rounds
        self.graph = simplified(lowered(graph) if composes else graph)
        nodes = self.graph.nodes
        self._inputs, self._integers = self.graph.inputs, self.graph.integers
        self._steps = scheduled(self.graph)
        candidates = candidates if forced is None else [forced]
        for step in self._steps:
            try:
                self._assign(step, candidates)
            except SpecgradError as error:
                raise type(error)(f"node {nodes[step.writes[0]].name}: {error}") from None
        self._read = {index for step in self._steps for index in step.reads} | {*self.graph.outputs}
        self._outputs = [index for index in dict.fromkeys(self.graph.outputs) if nodes[index].op is not None]
        outside = [node.index for node in nodes if node.op is None] + self._outputs
        shapes = [node.shape for node in nodes]
        self.plan: Plan = planned([step.use() for step in self._steps], shapes, outside, self.dtype.itemsize)
        self._constants = {n.index: self._constant(n) for n in nodes if n.op is None and not n.is_input}
        self._free: collections.deque[tuple[list[Any], list[Reserve]]] = collections.deque()

    def __reduce__(self) -> Any:
        return Program, (self.source, self.dtype, self.engine, self.alone)

    def save(self, path: str | Path) -> None:
        """Write this program, with its graph and all constants, as JSON for `Program.load`."""
        if self.dtype.name not in (*DTYPES, "object"):
            remedy = f"compile for one of {', '.join(DTYPES)}"
            raise refusal(ScalarError, "save", "dtype", self.dtype.name, "is of this machine alone", remedy)
        about = {"format": "specgrad.program", "version": VERSION, "dtype": self.dtype.name, "engine": self.engine}
        words = json.dumps({**about, "alone": self.alone, "graph": document(self.source)}, ensure_ascii=False)
        Path(path).write_text(words, encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path, operators: Sequence[type[Operator]] = ()) -> Program:
        """Read a program from a file and compile it. No code is run; operators must be specgrad's
        or listed in `operators`."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise wrong("text", str(path), "is not JSON", "give a file that save wrote") from None
        names = {"dtype": str, "engine": str, "alone": bool, "graph": dict}
        dtype, engine, alone, graph = fields("document", read(text), "specgrad.program", **names)
        if dtype not in (*DTYPES, "object"):
            raise wrong("dtype", dtype, "is not a known dtype")
        _candidates(engine)
        found = _native(bfloat16() if dtype == "bfloat16" else dtype)
        return cls(from_document(GraphBase, graph, operators), found, engine, alone)

    def __repr__(self) -> str:
        return f"Program({self.source!r}, {self.dtype}, {self.engine!r})"

    def _assign(self, step: Step, candidates: Sequence[str]) -> None:
        """Choose the first engine that takes a step, or refuse what none takes."""
        op, shapes = step.run_by
        if step.alias or op.derived:
            return
        whole = [slot.integer for slot in op.slots[: len(shapes)]]
        operands = tuple(np.zeros(shape, np.intp if w else self.dtype) for shape, w in zip(shapes, whole, strict=True))
        if self.dtype != object:
            numbers = [(s.name, x) for s, x in zip(op.slots, operands, strict=False) if not s.integer]
            family = find_family(op.name, [name for name, _ in numbers], [x for _, x in numbers])
            family.require(op.name, numbers[0][0], numbers[0][1], op.needs)
        refused: list[str] = []
        for name in candidates:
            engine = dispatch.load(name)
            reason = engine.refuses(op, operands)
            refused.append(f"{name}: {reason}")
            if reason is None:
                if len(refused) > 1 and name == "reference":
                    dispatch.warn_if_slow(op, operands, refused[:-1])
                step.engine = engine
                if isinstance(step, DerivedStep) and self.dtype != object:
                    step.stands = step.stand_ins(np.zeros((), self.dtype))
                return
        raise refusal(ArgumentError, op.name, "engine", self.engine, reason or "", "compile for another engine")

    def _constant(self, node: Node) -> Any:
        """A constant in the program's dtype; over objects, whose scalar is not known yet, as it
        is."""
        if node.index in self._integers or self.dtype == object:
            return node.constant
        if is_open(node.constant):
            return settled(np.zeros((), self.dtype), node.constant, node.shape)
        if not isinstance(node.constant, np.ndarray) or not np.can_cast(node.constant.dtype, self.dtype, "same_kind"):
            rule, remedy = f"does not mix with {self.dtype}", "make the constant of the program's dtype"
            raise refusal(ScalarError, "compile", node.name, node.constant, rule, remedy)
        with np.errstate(all="ignore"):
            constant = node.constant.astype(self.dtype)
            is_held = (
                node.constant.dtype.kind not in "iu" or (constant.astype(node.constant.dtype) == node.constant).all()
            )
        if not is_held:
            rule, remedy = f"has integers that {self.dtype} does not hold", "cast it to floats"
            raise refusal(ScalarError, "compile", node.name, node.constant, rule, remedy)
        return constant

    def __call__(self, *xs: Any, out: Any = None) -> Any:
        """The outputs for these inputs: one array, or a tuple; written into `out` (an array, or a
        tuple) where it is given."""
        results = self._run(xs, out)
        return results[0] if len(results) == 1 else results

    def value_and_grad(self, *xs: Any, out: Any = None) -> tuple[Any, tuple[Any, ...]]:
        """The value, of one cell, and one gradient per differentiable input; `out` takes an array
        for each of these, in order."""
        value, *gradients = self.gradient._run(xs, out)
        return value, tuple(gradients)

    @cached_property
    def gradient(self) -> Program:
        """The program of value and gradients together."""
        return Program(value_and_grad(self.source), self.dtype, self.engine, self.alone)

    def _run(self, xs: Sequence[Any], out: Any) -> tuple[Any, ...]:
        given = self._given(xs)
        results = self._fresh() if out is None else self._checked(out, given)
        try:
            workspace = self._free.pop()
        except IndexError:
            workspace = self._workspace()
        values = list(workspace[0])
        for node, x in zip(self._inputs, given, strict=True):
            values[node.index] = x
        for index, constant in self._constants.items():
            values[index] = constant
            if self.dtype == object and index not in self._integers:
                values[index] = settled(self._example(given), constant, self.graph.nodes[index].shape)
        written = set()
        for index, result in zip(self.graph.outputs, results, strict=True):
            if index in self._outputs and index not in written:
                values[index] = result
                written.add(index)
        memories: dict[int, Any] = {}
        before = here.reserve
        try:
            for step, reserve in zip(self._steps, workspace[1], strict=True):
                here.reserve, reserve.taken = reserve, 0
                step.run(values, memories)
        finally:
            here.reserve = before  # at once: an interrupt would come at the beginning of an `__exit__`
            self._free.append(workspace)
        for index, result in zip(self.graph.outputs, results, strict=True):
            if values[index] is not result:
                result[...] = values[index]
        if out is not None:
            return _each(out)
        return tuple(map(home(leaf for _, leaf in tree.leaves(xs)), results))

    def _given(self, xs: Sequence[Any]) -> list[Any]:
        """The inputs, once all fit: checked before anything runs, so that a refused call changes
        nothing."""
        given = given_inputs("program", "input", self._inputs, self._integers, xs)
        given = [x.astype(_native(x.dtype)) if isinstance(x, np.ndarray) and not x.dtype.isnative else x for x in given]
        for node, x in zip(self._inputs, given, strict=True):
            is_read = node.index in self._read or node.differentiable
            if node.index in self._integers or not is_read or (isinstance(x, np.ndarray) and x.dtype == self.dtype):
                continue
            is_array = isinstance(x, np.ndarray)
            remedy = f"cast it, or compile the graph for {x.dtype}" if is_array else "give a NumPy array"
            rule = f"this program takes {self.dtype}"
            raise refusal(ScalarError, "program", f"input {node.name}", x, rule, remedy)
        by_place = {node.index: x for node, x in zip(self._inputs, given, strict=True)}
        for step in self._steps:
            if any(slot.integer for slot in step.op.slots) and not step.op.derived:
                known = {**by_place, **self._constants}
                step.op.check([known.get(p, ShapeOnly(s)) for p, s in zip(step.reads, step.shapes, strict=True)])
        return given

    def _example(self, given: Sequence[Any]) -> Any:
        return example_of(self._inputs, self._integers, given)

    def _fresh(self) -> list[Any]:
        return [empty(self.graph.nodes[index].shape, self.dtype) for index in self.graph.outputs]

    def _checked(self, out: Any, given: Sequence[Any]) -> list[Any]:
        """Arrays of the caller to write the outputs into, which must not lie over an input or over
        each other."""
        arrays = [np.asarray(o) if dispatch.is_subclassed(o) else o for o in _each(out)]
        if len(arrays) != len(self.graph.outputs):
            rule = f"the program has {len(self.graph.outputs)} outputs"
            raise refusal(ShapeError, "program", "out", len(arrays), rule, "give one array for each")
        for number, (index, array) in enumerate(zip(self.graph.outputs, arrays, strict=True)):
            dispatch.check_out("program", array, self.graph.nodes[index].shape, self.dtype)
            if any(_share_cells(array, other) for other in [*given, *arrays[:number]]):
                rule, remedy = "shares memory with an input or another output", "give arrays of their own"
                raise refusal(ArgumentError, "program", "out", array, rule, remedy)
        return arrays

    def _workspace(self) -> tuple[list[Any], list[Reserve]]:
        """Every planned value as a view of its buffer, and what each step takes for itself."""
        buffers = [empty((size,), self.dtype) for size in self.plan.buffers]
        views: list[Any] = [None] * len(self.graph.nodes)
        for index, buffer_number in self.plan.buffer_of.items():
            shape = self.graph.nodes[index].shape
            views[index] = buffers[buffer_number][: math.prod(shape)].reshape(shape)
        return views, [Reserve() for _ in self._steps]

    def __str__(self) -> str:
        names = self.graph.nodes
        lines = [f"{', '.join(names[index].name for index in step.writes)} = {step}" for step in self._steps]
        return "\n".join([*lines, "return " + ", ".join(names[index].name for index in self.graph.outputs)])


def _share_cells(array: Any, other: Any) -> bool:
    """Whether arrays have memory in common; interleaved ones, as of two channels, do not."""
    try:  # NumPy's stubs know no bounds of work
        return np.may_share_memory(array, other) and np.shares_memory(array, other, 10_000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _each(out: Any) -> tuple[Any, ...]:
    """The arrays that a caller gave to write into."""
    return tuple(out) if isinstance(out, list | tuple) else (out,)


def _native(dtype: Any) -> np.dtype[Any]:
    """A dtype as NumPy reads the word, in the byte order of this machine."""
    try:
        found: np.dtype[Any] = np.dtype(dtype).newbyteorder("=")
    except (TypeError, ValueError):
        rule, remedy = "is not a dtype of NumPy", "write e.g. np.float32, or object for exact scalars"
        raise refusal(ArgumentError, "compile", "dtype", dtype, rule, remedy) from None
    return found


def _candidates(name: str) -> list[str]:
    """The named engine, and those after it for what it does not take."""
    order = list(dispatch.ENGINES)
    if not isinstance(name, str) or name not in order:
        rule, remedy = "is not an engine", "choose from " + ", ".join(order)
        raise refusal(ArgumentError, "compile", "engine", name, rule, remedy)
    return order[order.index(name) :]
