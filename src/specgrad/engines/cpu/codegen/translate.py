"""Compilation of LLVM assembly to an object file. Also a program: it reads a target and a module,
and writes an object file.

Some faults of LLVM end the process ("Cannot select"). Run as a program, they do not end the
caller's process.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from typing import Any, NamedTuple

from llvmlite import binding

WINDOWS = os.name == "nt"
MODEL = (
    "jitdefault" if WINDOWS else "small"
)  # LLVM's newer linker puts an object in one place; it does not link all of Windows'


class Target(NamedTuple):
    """A machine to translate for, in LLVM's words."""

    triple: str
    cpu: str
    features: str = ""


@functools.cache
def machine_of(target: Target) -> Any:
    """LLVM's machine for a target."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    if target.triple != binding.get_process_triple():
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
    made = binding.Target.from_triple(target.triple)
    return made.create_target_machine(target.cpu, target.features, opt=2, reloc="pic", codemodel=MODEL, jit=True)


def translate(text: str, target: Target) -> bytes:
    """The object file of a module; RuntimeError if LLVM refuses it."""
    machine = machine_of(target)
    module = binding.parse_assembly(text, binding.create_context())
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    module.verify()
    code: bytes = machine.emit_object(module)
    return code


if __name__ == "__main__":
    words, module_text = json.load(sys.stdin)
    sys.stdout.buffer.write(translate(module_text, Target(*words)))
