"""One rule of a plan, prepared: which kernels run, with which arguments, on which memory. A run
allocates and launches, and decides nothing.

A program is made once for an operator, a rule, and operands of one shape, layout, dtype and device.
While it is made, its tensors are `Buffer`s, which know as much as launches are decided by.
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
    """A tensor of a program that is being made."""

    __slots__ = ("device", "dtype")

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self.dtype, self.device = dtype, device

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    def element_size(self) -> int:
        return self.dtype.itemsize


class Program:
    """Kernels in their order, the operands that they read, and the memory that they write: results,
    and what lies between two kernels."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.cuda = device, device.type == "cuda"
        self.given: list[Buffer] = []
        self.entries: list[tuple[int, Shape, Entry]] = []
        """Operands that must lie in one way: their number, their strides, and what brings another
        one into them."""
        self.memory: list[tuple[Shape, Shape, torch.dtype]] = []
        self.made: list[Buffer] = []
        self.results = 0
        self.zero = False
        """Whether results are zeros, of which no kernel knows."""
        self.steps: list[tuple[Call, tuple[Any, ...]]] = []
        self.picked: list[tuple[Call, Callable[[Any], tuple[Any, ...]]]] = []
        """The kernels, and the numbers of their tensors: operands, then memory, then tables. Each
        has two or more."""
        self.launches: list[tuple[Any, Callable[[Any], tuple[Any, ...]]]] = []
        """The same without Triton, once it was seen how."""
        self.tables: list[Any] = []
        self.addresses: list[int] = []

    def operand(self, dtype: torch.dtype, steps: Shape | None = None, entry: Entry | None = None) -> Buffer:
        """The next operand; laid out by `entry` if its strides are not those that are wanted."""
        if entry is not None:
            self.entries.append((len(self.given), () if steps is None else steps, entry))
        self.given.append(Buffer(dtype, self.device))
        return self.given[-1]

    def result(self, shape: Shape, steps: Shape, dtype: torch.dtype) -> Buffer:
        """The next result, in the caller's order of axes. All of them are asked for before anything
        else is allocated."""
        self.results += 1
        return self._allocate(shape, steps, dtype)

    def between(self, shape: Shape, dtype: torch.dtype) -> Buffer:
        """Memory for one run."""
        dense = torch.empty(shape, device="meta").stride()
        return self._allocate(tuple(shape), dense, dtype)

    def _allocate(self, shape: Shape, steps: Shape, dtype: torch.dtype) -> Buffer:
        self.memory.append((shape, steps, dtype))
        self.made.append(Buffer(dtype, self.device))
        return self.made[-1]

    def launch(self, call: Call, *tensors: Any) -> None:
        """The next kernel, on buffers and on tables, which are tensors."""
        self.steps.append((call, tensors))

    def ready(self) -> Program:
        """The program, after its last kernel was added: tensors become numbers, in the order
        operands, memory, tables."""
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
        """The results."""
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
        """The operands, laid out as they must be."""
        laid = list(operands)
        for number, steps, entry in self.entries:
            if laid[number].stride() != steps:
                laid[number] = entry(laid[number])
        return tuple(laid)

    def slowly(self, operands: tuple[Any, ...], tensors: list[Any], aligned: bool) -> list[Any]:
        """The results, by calls through Triton, on operands that were entered."""
        results = tensors[: self.results]
        if self.zero:
            return [result.zero_() for result in results]
        everything = [*operands, *tensors, *self.tables]
        for call, pick in self.picked:
            call(pick(everything), aligned)
        return results
