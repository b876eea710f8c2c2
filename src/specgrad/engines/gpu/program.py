"""Programs: the kernels of one rule of a plan, with their arguments and memory. A run only
allocates and launches.

A program is made once for an operator, a rule, and operands of one shape, layout, dtype and device.
During its construction tensors are `Buffer`s, with the properties on which launches depend.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

import torch

from ...geometry import Shape
from .. import torch_private
from . import calls
from .calls import Call

Entry = Callable[[Any], Any]


class Buffer:
    """A tensor of a program under construction."""

    __slots__ = ("device", "dtype")

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self.dtype, self.device = dtype, device

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    def element_size(self) -> int:
        return self.dtype.itemsize


class Program:
    """Kernels in order, their operands, and their memory: results and temporary buffers."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.cuda = device, device.type == "cuda"
        self.given: list[Buffer] = []
        self.entries: list[tuple[int, Shape, Entry]] = []
        """Operands that need a fixed layout: number, strides, and the function that lays another
        operand out."""
        self.memory: list[tuple[Shape, Shape, torch.dtype]] = []
        self.made: list[Buffer] = []
        self.results = 0
        self.zero = False
        """Whether all results are zeros, written without a kernel."""
        self.steps: list[tuple[Call, tuple[Any, ...]]] = []
        self.picked: list[tuple[Call, Callable[[Any], tuple[Any, ...]]]] = []
        """The kernels, and for each the indices of its tensors: operands, then memory, then tables.
        Each kernel has at least two tensors."""
        self.launches: list[tuple[Any, Callable[[Any], tuple[Any, ...]]]] = []
        """The direct launches, once Triton's calls were recorded."""
        self.tables: list[Any] = []
        self.addresses: list[int] = []

    def operand(self, dtype: torch.dtype, steps: Shape | None = None, entry: Entry | None = None) -> Buffer:
        """The next operand; laid out by `entry` if its strides differ from `steps`."""
        if entry is not None:
            self.entries.append((len(self.given), () if steps is None else steps, entry))
        self.given.append(Buffer(dtype, self.device))
        return self.given[-1]

    def result(self, shape: Shape, steps: Shape, dtype: torch.dtype) -> Buffer:
        """The next result, in the caller's order of axes. Results must be requested before other
        memory."""
        self.results += 1
        return self._allocate(shape, steps, dtype)

    def between(self, shape: Shape, dtype: torch.dtype) -> Buffer:
        """A temporary buffer of one run."""
        dense = torch.empty(shape, device="meta").stride()
        return self._allocate(tuple(shape), dense, dtype)

    def _allocate(self, shape: Shape, steps: Shape, dtype: torch.dtype) -> Buffer:
        self.memory.append((shape, steps, dtype))
        self.made.append(Buffer(dtype, self.device))
        return self.made[-1]

    def launch(self, call: Call, *tensors: Any) -> None:
        """Add a kernel on buffers and on tables, which are tensors."""
        self.steps.append((call, tensors))

    def ready(self) -> Program:
        """Finish the program: replace tensors by indices, in the order operands, memory, tables."""
        known: dict[int, int] = {id(buffer): n for n, buffer in enumerate([*self.given, *self.made])}
        for _, tensors in self.steps:
            for tensor in tensors:
                if id(tensor) not in known:
                    known[id(tensor)] = len(known)
                    self.tables.append(tensor)
        self.addresses = [table.data_ptr() for table in self.tables]
        self.picked = [(call, itemgetter(*(known[id(t)] for t in tensors))) for call, tensors in self.steps]
        return self

    def __call__(self, *operands: Any) -> list[Any]:
        """Run the program; returns the results."""
        index = self.device.index
        if self.cuda and torch_private.current_device() != index:
            with torch.cuda.device(index):
                return self(*operands)
        if self.entries:
            operands = self.entered(operands)
        if not self.cuda:
            tensors = [torch.empty_strided(*room[:2], dtype=room[2], device=self.device) for room in self.memory]
            return self.slowly(operands, tensors, calls.INTERPRETED)
        tensors = [torch_private.empty_cuda(shape, steps, dtype) for shape, steps, dtype in self.memory]
        addresses, bits = [tensor.data_ptr() for tensor in operands], 0
        for address in addresses:
            bits |= address
        aligned = bits % 16 == 0
        if not aligned or not (self.launches or self.direct()) or calls.hooked():
            return self.slowly(operands, tensors, aligned)
        addresses += [tensor.data_ptr() for tensor in tensors]
        addresses += self.addresses
        stream = torch_private.raw_stream(index)
        for launch, pick in self.launches:
            launch(stream, pick(addresses))
        return tensors if len(tensors) == self.results else tensors[: self.results]

    def direct(self) -> bool:
        """Whether all kernels can be launched without Triton."""
        if not self.zero and all(call.launch is not None for call, _ in self.picked):
            self.launches = [(call.launch, pick) for call, pick in self.picked]
        return bool(self.launches)

    def entered(self, operands: tuple[Any, ...]) -> tuple[Any, ...]:
        """The operands in their required layouts."""
        laid = list(operands)
        for number, steps, entry in self.entries:
            if laid[number].stride() != steps:
                laid[number] = entry(laid[number])
        return tuple(laid)

    def slowly(self, operands: tuple[Any, ...], tensors: list[Any], aligned: bool) -> list[Any]:
        """The results, by calls through Triton; operands have their required layouts."""
        results = tensors[: self.results]
        if self.zero:
            return [result.zero_() for result in results]
        everything = [*operands, *tensors, *self.tables]
        for call, pick in self.picked:
            call(pick(everything), aligned)
        return results
