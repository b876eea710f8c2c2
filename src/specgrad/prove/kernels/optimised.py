"""Kernels after LLVM's optimisations, read back from LLVM's text for the interpreter.

The reader supports the instructions that occur in kernels; a kernel with any other is not
interpreted. Block copies and fills of memory become loops over cells. LLVM's annotations of a
result (for example, that it does not overflow) are ignored.
"""

from __future__ import annotations

import math
import re
import struct
from typing import Any

from llvmlite import binding, ir

from ...engines.cpu.codegen import object_code, translate
from ...engines.cpu.codegen.builder import Kernel
from ..interpreter import instructions
from ..interpreter.memory import SIZES
from .compare import Unplanned
from .plans import Emitted

NAME = r'%(?:"[^"]*"|[\w.$-]+)'
SCALARS: dict[str, Any] = {
    "float": ir.FloatType(),
    "double": ir.DoubleType(),
    "half": ir.HalfType(),
    "ptr": ir.PointerType(),
}
FLAGS = re.compile(r"^(?:(?:nuw|nsw|exact|inbounds|nusw|disjoint|nneg|samesign|tail|nnan|ninf|nsz|contract) +)+")
ATTRIBUTES = re.compile(r"(?:(?:noundef|nonnull|align \d+|dereferenceable\(\d+\)|noalias) +)+")
INTEGERS = ["add", "sub", "mul", "udiv", "urem", "sdiv", "srem", "and", "or", "xor", "shl", "lshr", "ashr"]
BINARY = [*INTEGERS, "fadd", "fsub", "fmul", "fdiv"]
CASTS = [*instructions.CASTS, "bitcast"]
EXTREMES = {"llvm.smax": "sgt", "llvm.smin": "slt", "llvm.umax": "ugt", "llvm.umin": "ult"}


def simplified(kernel: Kernel) -> str:
    """A kernel's module in LLVM's text, after the optimisation passes."""
    machine = translate.machine_of(translate.Target(*object_code.host()))
    module = binding.parse_assembly(str(kernel.module), binding.create_context())
    translate.simplify(module, machine)
    return str(module)


class Optimised(Emitted):
    """A kernel after LLVM's optimisations."""

    def __init__(self, kernel: Kernel) -> None:
        read = Kernel(kernel.module.name, kernel.vector)
        read.function.blocks.clear()
        read.parameters, read.scratch = kernel.parameters, kernel.scratch
        Reader(read, simplified(kernel))
        super().__init__(read)


class Reader:
    """A parser from LLVM's text to llvmlite's instructions."""

    def __init__(self, kernel: Kernel, text: str) -> None:
        self.kernel, self.builder = kernel, ir.IRBuilder()
        body = text[text.index("define ") :]
        lines = body[: body.index("\n}")].split("\n")
        self.values: dict[str, Any] = dict(zip(re.findall(NAME, lines[0]), kernel.function.args, strict=True))
        blocks: dict[str, list[str]] = {}
        for line in lines[1:]:
            if label := re.match(r'("[^"]*"|[\w.$-]+):', line):
                blocks["%" + label[1]] = []
            elif line.strip():
                of = blocks[list(blocks)[-1]]
                if of and of[-1].startswith("switch") and not of[-1].endswith("]"):  # over several lines
                    of[-1] += " " + line.strip()
                else:
                    of.append(line.strip())
        self.blocks = {name: kernel.function.append_basic_block(name[1:].strip('"')) for name in blocks}
        self.kinds = [kind for word, kind in SCALARS.items() if word in body]
        waiting: list[tuple[Any, Any, str]] = []
        ends = {}
        for name in _in_order(blocks):
            self.builder.position_at_end(self.blocks[name])
            self.ends: list[Any] = []
            for line in blocks[name]:
                self._read(line, waiting)
            ends[name] = [*self.ends, self.builder.block]
        for phi, kind, words in waiting:
            for value, block in re.findall(rf"\[ (.*?), ({NAME}) \]", words):
                for end in ends[block]:
                    phi.add_incoming(self._value(kind, value), end)

    def _read(self, line: str, waiting: list[Any]) -> None:
        line = re.sub(r"(, ![\w.]+ !\d+)+$", "", line)
        target, _, words = line.rpartition(" = ") if re.match(rf"{NAME} = ", line) else ("", "", line)
        name, _, rest = words.partition(" ")
        rest = FLAGS.sub("", rest)
        if name == "tail":
            name, _, rest = rest.partition(" ")
        if name == "phi":
            kind, rest = self._type(rest)
            made = self.builder.phi(kind)
            waiting.append((made, kind, rest))
        else:
            made = self._made(name, rest)
        if target:
            self.values[target] = made

    def _made(self, name: str, rest: str) -> Any:
        b = self.builder
        if name in BINARY:
            kind, rest = self._type(rest)
            one, two = (self._value(kind, word) for word in _split(rest))
            method = {"and": "and_", "or": "or_"}.get(name, name)
            return getattr(b, method)(one, two)
        if name in ("icmp", "fcmp"):
            predicate, _, rest = rest.partition(" ")
            kind, rest = self._type(FLAGS.sub("", rest))
            one, two = (self._value(kind, word) for word in _split(rest))
            return self._compared(name, predicate, one, two)
        if name in CASTS:
            given, _, target = rest.rpartition(" to ")
            return getattr(b, name)(self._typed(given), self._type(target)[0])
        if name == "call":
            return self._called(rest)
        if name == "switch":
            return self._switched(rest)
        parts = _split(rest)
        if name == "br" and len(parts) == 1:
            return b.branch(self._block(rest))
        if name == "br":
            return b.cbranch(self._typed(parts[0]), *(self._block(part) for part in parts[1:]))
        if name == "ret":
            return b.ret(self._typed(rest))
        if name == "load":
            return b.load(self._typed(parts[1]), typ=self._type(parts[0])[0], align=_align(parts[2]))
        if name == "store":
            return b.store(*map(self._typed, parts[:2]), align=_align(parts[2]))
        if name == "getelementptr":
            return b.gep(self._typed(parts[1]), [self._typed(parts[2])], source_etype=self._type(parts[0])[0])
        if name == "shufflevector" and "poison" in parts[2]:  # an unused lane, read from the poison vector
            if not parts[1].endswith("poison"):
                raise Unplanned(f"LLVM made: {name} {rest}")
            parts[2] = parts[2].replace("poison", str(self._type(parts[0])[0].count))
        made = {"select": b.select, "shufflevector": b.shuffle_vector, "fneg": b.fneg}
        made |= {"insertelement": b.insert_element, "extractelement": b.extract_element}
        if name not in made:
            raise Unplanned(f"LLVM made: {name} {rest}")
        return made[name](*map(self._typed, parts))

    def _compared(self, name: str, predicate: str, one: Any, two: Any) -> Any:
        made = self.builder.icmp_signed("<", one, two) if name == "icmp" else self.builder.fcmp_ordered("<", one, two)
        made.op = predicate
        return made

    def _switched(self, rest: str) -> Any:
        """A switch as a chain of branches, each in its own block."""
        b, (given, default) = self.builder, _split(rest.partition("[")[0])
        number = self._typed(given)
        for case, block in re.findall(rf"(i\d+ -?\d+), (label {NAME})", rest.partition("[")[2]):
            after = self.kernel.function.append_basic_block("case")
            b.cbranch(self._compared("icmp", "eq", number, self._typed(case)), self._block(block), after)
            self.ends.append(b.block)
            b.position_at_end(after)
        return b.branch(self._block(default))

    def _called(self, rest: str) -> Any:
        kind, rest = self._type(rest) if not rest.startswith("void") else (ir.VoidType(), rest[5:])
        found = re.match(r"@([\w.]+)\((.*)\)$", rest.strip().split(" #")[0])
        if found is None or found[1].startswith("llvm.is.fpclass"):
            raise Unplanned(f"LLVM made: call {rest}")
        if found[1].startswith(("llvm.memcpy", "llvm.memset")):
            return self._block_of_memory(found[1], _split(found[2]))
        given = [self._typed(ATTRIBUTES.sub("", part)) for part in _split(found[2])]
        for name, predicate in EXTREMES.items():
            if found[1].startswith(name):
                return self.builder.select(self._compared("icmp", predicate, given[1], given[0]), given[1], given[0])
        functions = self.kernel.module.globals
        signature = ir.FunctionType(kind, [one.type for one in given])
        function = functions.get(found[1]) or ir.Function(self.kernel.module, signature, found[1])
        return self.builder.call(function, given)

    def _block_of_memory(self, name: str, parts: list[str]) -> None:
        """A copy of bytes, or zeros, as a loop over cells of the aligned size."""
        aligned = re.search(r"align (\d+)", parts[0])
        size = int(aligned[1]) if aligned else 1
        floats = [kind for kind in self.kinds if kind in SIZES and SIZES[kind] == size and kind != SCALARS["ptr"]]
        kind = floats[0] if floats else ir.IntType(8 * size)
        fills = name.startswith("llvm.memset")
        if fills and parts[1] != "i8 0":
            raise Unplanned(f"LLVM made: {name}")
        target, source, count = (self._typed(ATTRIBUTES.sub("", part)) for part in parts[:3])
        b, before = self.builder, self.builder.block
        head, body, after = (self.kernel.function.append_basic_block(word) for word in ("head", "body", "after"))
        cells = b.udiv(count, ir.Constant(count.type, size))
        b.branch(head)
        b.position_at_end(head)
        index = b.phi(count.type)
        index.add_incoming(ir.Constant(count.type, 0), before)
        b.cbranch(self._compared("icmp", "ult", index, cells), body, after)
        b.position_at_end(body)
        zero = ir.Constant(kind, 0.0 if floats else 0)
        cell = zero if fills else b.load(b.gep(source, [index], source_etype=kind), typ=kind, align=size)
        b.store(cell, b.gep(target, [index], source_etype=kind), align=size)
        index.add_incoming(b.add(index, ir.Constant(count.type, 1)), body)
        b.branch(head)
        b.position_at_end(after)

    def _block(self, words: str) -> Any:
        return self.blocks[words.strip().removeprefix("label ")]

    def _type(self, words: str) -> tuple[Any, str]:
        """The type at the start of `words`, and the remaining words."""
        words = words.strip()
        if found := re.match(r"<(\d+) x (\w+)>", words):
            return ir.VectorType(self._type(found[2])[0], int(found[1])), words[found.end() :].strip()
        found = re.match(r"i(\d+)|float|double|half|ptr", words)
        if found is None:
            raise Unplanned(f"LLVM made: {words}")
        kind = ir.IntType(int(found[1])) if found[1] else SCALARS[found[0]]
        return kind, words[found.end() :].strip()

    def _typed(self, words: str) -> Any:
        return self._value(*self._type(words))

    def _value(self, kind: Any, words: str) -> Any:
        words = words.strip()
        if words.startswith("%"):
            return self.values[words]
        if words in ("poison", "undef"):
            return ir.Constant(kind, ir.Undefined)
        if isinstance(kind, ir.VectorType):
            if words == "zeroinitializer":
                lanes = ["0"] * kind.count
            elif words.startswith("splat"):
                lanes = [words[words.index("(") + 1 : -1].split(" ", 1)[1]] * kind.count
            else:
                lanes = [part.strip().split(" ", 1)[1] for part in _split(words[1:-1])]
            return ir.Constant(kind, [self._value(kind.element, lane) for lane in lanes])
        if kind == SCALARS["ptr"]:
            raise Unplanned(f"LLVM made: {words}")
        if words in ("true", "false"):
            return ir.Constant(kind, int(words == "true"))
        return ir.Constant(kind, int(words) if isinstance(kind, ir.IntType) else _float(words))


def _float(words: str) -> float:
    if words.startswith("0xH"):
        return float(struct.unpack(">e", bytes.fromhex(words[3:]))[0])
    if words.startswith("0x"):
        return float(struct.unpack(">d", bytes.fromhex(words[2:].rjust(16, "0")))[0])
    return {"+inf": math.inf, "-inf": -math.inf}.get(words) or float(words)


def _align(words: str) -> int:
    return int(words.strip().removeprefix("align "))


def _split(words: str) -> list[str]:
    """Split at commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(words):
        depth += (letter in "<([{") - (letter in ">)]}")
        if letter == "," and depth == 0:
            parts.append(words[start:place].strip())
            start = place + 1
    return [*parts, words[start:].strip()]


def _in_order(blocks: dict[str, list[str]]) -> list[str]:
    """The blocks in reverse postorder, so that a block follows all blocks that dominate it."""
    order: list[str] = []
    seen: set[str] = set()
    waiting = [(next(iter(blocks)), False)]
    while waiting:
        name, done = waiting.pop()
        if done:
            order.append(name)
        elif name not in seen:
            seen.add(name)
            last = blocks[name][-1]
            following = re.findall(rf"label ({NAME})", last) if last.startswith(("br", "switch")) else []
            waiting += [(name, True), *((one, False) for one in following)]
    return order[::-1]
