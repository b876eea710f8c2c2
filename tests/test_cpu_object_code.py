"""Object code: target machines, and errors of LLVM."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from tallies import compiled_for, machine_code, run, tally

from specgrad.engines.cpu.codegen import native_pool, object_code
from specgrad.engines.cpu.codegen.builder import Kernel
from specgrad.engines.cpu.codegen.values import CELLS, F32, I32, Value

TRIPLES = {"x86_64": "x86_64-unknown-linux-gnu", "aarch64": "aarch64-unknown-linux-gnu", "arm64": "arm64-apple-macosx"}
TARGETS = [(TRIPLES[machine], cpu) for machine, known in object_code.TARGETS.items() for cpu in known]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target[1])
def test_object_code_for_every_target(target):
    assert object_code.is_tested(object_code.Target(*target))
    code = compiled_for(tally(), *target)
    assert code[:4] == (b"\xcf\xfa\xed\xfe" if "apple" in target[1] else b"\x7fELF")
    machine = target[0].partition("-")[0].replace("arm64", "aarch64")
    for workers in (False, True):
        assert object_code.code_of(native_pool.emit(machine, workers), object_code.Target(*target))


@pytest.mark.parametrize(
    ("triple", "cpu", "features", "found"),
    [
        ("x86_64-linux", "anything", object_code.V4, "x86-64-v4"),
        ("x86_64-linux", "anything", object_code.V4 - {"avx512vl"}, "x86-64-v3"),
        ("x86_64-linux", "anything", object_code.V4 - {"fma"}, "x86-64"),
        ("aarch64-linux", "neoverse-v2", {"lse"}, "neoverse-n1"),
        ("aarch64-linux", "cortex-a72", {"lse"}, "generic"),
        ("aarch64-linux", "neoverse-n1", {}, "generic"),
        ("arm64-apple-darwin", "apple-m4", {}, "apple-m1"),
        ("riscv64-linux", "sifive", {"v"}, "sifive"),
    ],
)
def test_code_is_made_for_what_the_machine_can_run(triple, cpu, features, found, monkeypatch):
    flags = object_code.binding.FeatureMap({**dict.fromkeys(features, True), "other": False})
    monkeypatch.setattr(object_code.binding, "get_process_triple", lambda: triple)
    monkeypatch.setattr(object_code.binding, "get_host_cpu_name", lambda: cpu)
    monkeypatch.setattr(object_code.binding, "get_host_cpu_features", lambda: flags)
    target = object_code._host()
    assert target.cpu == found
    assert object_code.is_tested(target) == (found != "sifive")


def test_what_llvm_cannot_select_ends_another_process_only():
    """An AVX-512 instruction, for a processor without it."""
    kernel = Kernel("unselectable")
    wide = kernel.splat(kernel.cast(kernel.begin, F32), 16)
    root = kernel.call("llvm.x86.avx512.sqrt.ps.512", wide.type, wide, Value(kernel, I32(8)))
    kernel.store(root, kernel.room(16, CELLS["float32"]))
    kernel.finish()
    with pytest.raises(object_code.CodegenError, match="LLVM ERROR"):
        compiled_for(kernel, TRIPLES["x86_64"], "nehalem")
    assert compiled_for(tally(), TRIPLES["x86_64"], "nehalem")[:4] == b"\x7fELF"


def test_with_a_version_of_llvmlite_that_was_not_tried_another_process_compiles(monkeypatch):
    monkeypatch.setattr(object_code, "VERSIONS", ("0.0",))
    monkeypatch.setattr(object_code.translate, "translate", None)
    assert run(machine_code(tally()), 20, 2, [(3, 4)])[0] == 4
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(object_code.CodegenError, match="nowhere"):
        machine_code(tally())


def test_what_llvm_refuses_is_an_error_of_ours():
    kernel = Kernel("unfinished")  # a block without an end
    with pytest.raises(object_code.CodegenError, match="LLVM cannot compile"):
        machine_code(kernel)
    with pytest.raises(object_code.CodegenError, match="LLVM cannot compile"):
        compiled_for(tally(), "nowhere-unknown-none", "none", "")


def test_a_missing_symbol_is_an_error_of_ours():
    kernel = Kernel("missing")
    kernel.call("specgrad_no_such_function_{}", kernel.begin.type, kernel.begin)
    with pytest.raises(object_code.CodegenError, match="LLVM cannot load"):
        machine_code(kernel.finish())


def test_kernels_are_compiled_in_many_threads_at_once():
    with ThreadPoolExecutor(6) as makers:
        assert list(makers.map(lambda _: run(machine_code(tally()), 20, 2)[0], range(12))) == [0] * 12
