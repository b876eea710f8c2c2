"""One node of a model while it is read: its operands, and its attributes as the operator's own
schema declares them.

An operand is a value of the graph (`var`), or an array that is known while the model is read
(`known`): a shape, axes, a scale. Whatever the model says and nobody reads is refused: an attribute
that is ignored would give a wrong answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError, ModelError, SpecgradError, refusal
from ..graph.ir import GraphVar
from .reader import tensor

Array = np.ndarray[Any, Any]


class Unknown:
    """An output that specgrad does not compute; whoever reads it is refused, with the reason."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


class Node:
    """A checked NodeProto: `operator`, `version`, `attribute(name)`, `var(i)`, `known(i)`."""

    def __init__(self, model: Any, number: int, proto: Any) -> None:
        self.model, self.proto = model, proto
        self.operator = proto.op_type
        label = f" {proto.name!r}" if proto.name else ""
        self.where = f"onnx.load: node {number}{label} ({self.operator})"
        self.schema = self._schema()
        self.version = int(self.schema.since_version)
        self._given = {attribute.name: attribute for attribute in proto.attribute}
        self._read: set[str] = set()
        if len(self._given) < len(proto.attribute):
            raise self.refused("attributes", len(proto.attribute), "two have one name", "give each once")
        for what, given, least, most in (
            ("inputs", len(proto.input), self.schema.min_input, self.schema.max_input),
            ("outputs", len(proto.output), self.schema.min_output, self.schema.max_output),
        ):
            if not least <= given <= most:
                rule = f"the operator has from {least} to {most} {what}"
                raise self.refused(what, given, rule, "export the model again")

    def _schema(self) -> Any:
        import onnx

        domain = self.proto.domain
        try:
            if domain not in ("", "ai.onnx"):
                raise onnx.defs.SchemaError
            schema = onnx.defs.get_schema(self.operator, self.model.opset, "")
            if schema.deprecated:
                raise onnx.defs.SchemaError
        except onnx.defs.SchemaError:
            rule = f"is not an operator of ONNX's opset {self.model.opset}"
            remedy = "export with operators of ONNX's own, without custom ones"
            raise self.refused("domain", domain, rule, remedy) from None
        return schema

    def refused(self, argument: str, value: Any, rule: str, remedy: str) -> SpecgradError:
        """The refusal of this node."""
        return refusal(ModelError, self.where, argument, value, rule, remedy)

    def attribute(self, name: str) -> Any:
        """An attribute's value: the model's, or the schema's default; None where neither has
        one."""
        import onnx

        self._read.add(name)
        declared = self.schema.attributes.get(name)
        if declared is None:
            return None
        proto = self._given.get(name)
        if proto is None:
            if declared.required:
                raise self.refused("attribute", name, "is missing", "export the model again")
            proto = declared.default_value if declared.default_value.name else None
        elif proto.type != declared.type.value or proto.ref_attr_name:
            raise self.refused("attribute", name, f"must be of type {declared.type.name}", "export the model again")
        if proto is None:
            return None
        value = onnx.helper.get_attribute_value(proto)
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        if isinstance(value, onnx.TensorProto):
            return tensor(value, self.model.folder, f"attribute {name} of {self.where}")
        return tuple(value) if hasattr(value, "__len__") else value

    def finish(self) -> None:
        """Refuse attributes that nobody read."""
        for name in self._given:
            if name not in self._read:
                known = name in self.schema.attributes
                rule = "is not read by specgrad" if known else f"is not an attribute of {self.operator}"
                raise self.refused("attribute", name, rule, "export the model without it")

    def __len__(self) -> int:
        return len(self.proto.input)

    def has(self, place: int) -> bool:
        """Whether an optional operand is given."""
        return place < len(self) and self.proto.input[place] != ""

    def _name(self, place: int) -> str:
        if not self.has(place):
            raise self.refused("inputs", len(self), f"input {place} is missing", "export the model again")
        return str(self.proto.input[place])

    def var(self, place: int) -> GraphVar:
        """An operand as a value of the graph."""
        found: GraphVar = self.model.var(self._name(place), self)
        return found

    def value(self, place: int) -> Array | GraphVar:
        """An operand as it is: known, or a value of the graph."""
        found: Array | GraphVar = self.model.value(self._name(place), self)
        return found

    def shape(self, place: int) -> tuple[int, ...]:
        """An operand's shape."""
        return tuple(self.value(place).shape)

    def known(self, place: int) -> Array:
        """An operand's numbers, which must follow from constants alone."""
        found: Array = self.model.known(self._name(place), self)
        return found

    def is_known(self, place: int) -> bool:
        """Whether an operand follows from constants alone."""
        return bool(self.model.is_known(self._name(place), self))

    def limit(self, arrays: Sequence[Array]) -> None:
        """Refuse arrays that are known and too large to be broadcast together while the model is
        read."""
        try:
            cells = math.prod(np.broadcast_shapes(*(array.shape for array in arrays)))
        except ValueError:
            shapes = [array.shape for array in arrays]
            raise self.refused("inputs", shapes, "do not broadcast together", "export the model again") from None
        self.model.spend(cells, self)

    def integers(self, place: int, name: str) -> tuple[int, ...] | None:
        """Integers that an attribute gives in early opsets and an operand in later ones; None where
        they are left out."""
        if name in self.schema.attributes:
            given = self.attribute(name)
            return None if given is None else tuple(given)
        if not self.has(place):
            return None
        array = self.known(place)
        if array.dtype.kind not in "iu" or array.ndim > 1:
            raise self.refused(name, array, "must be a list of integers", "export the model again")
        return tuple(int(n) for n in array.reshape(-1))

    def number(self, place: int) -> int | float:
        """A known operand of one cell."""
        array = self.known(place)
        if array.size != 1:
            raise self.refused(f"input {place}", array, "must have one cell", "export the model again")
        item = array.reshape(-1)[0]
        return float(item) if array.dtype.kind in "fV" else int(item)

    def axes(self, given: tuple[int, ...], rank: int) -> tuple[int, ...]:
        """Axes counted from 0, each once."""
        if any(not -rank <= axis < rank for axis in given) or len({axis % rank for axis in given}) < len(given):
            rule, remedy = f"must be different axes of an array with {rank}", "export the model again"
            raise refusal(ArgumentError, self.where, "axes", given, rule, remedy)
        return tuple(axis % rank for axis in given)

    def axis(self, rank: int, name: str = "axis", beyond: int = 0) -> int:
        """The attribute `axis`, counted from 0; `beyond`: how many places after the last axis it
        may name."""
        given = self.attribute(name)
        if not -rank <= given < rank + beyond:
            rule, remedy = f"is not an axis of an array with {rank}", "export the model again"
            raise refusal(ArgumentError, self.where, name, given, rule, remedy)
        return int(given + rank if given < 0 else given)
