"""Two states of the GPU engine on the cells of `gpu.py`, in turns, in one process: python
benchmarks/gpu_trees.py OLD_SRC [--json trees.json] [--micro]

OLD_SRC is the `src` folder of another state, which is imported next to this one. Calls of both
states alternate on the device, many times; a cell's figure is the new time over the old, the median
of all turns. `--micro` then compares this state with itself without a special case of
`engines/gpu/tuned.py`, in the cells whose launches the case changes, to show the gain of each case.
All kernels are compiled before, in parallel processes.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import importlib.util
import json
import math
import multiprocessing
import os
import statistics
import sys
import time
from pathlib import Path

import gpu as bench
import torch

from specgrad.engines import gpu
from specgrad.engines.gpu.tuned import TUNE

RULES = ("forward", "keep", "pull")
WITHOUT = {
    "lanes short": "lanes",
    "lanes inner": "lanes",
    "lanes bins": "lanes",
    "rows few": "rows small",
    "rows deep": "rows small",
    "rows max half": "rows max",
    "rows winners half": "rows winners",
    "wide winners ahead": "wide winners",
    "wide sum half": "rows sum",
    "columns winners half": "columns winners",
    "vectors": 1,
    "one call inner": "one call",
    "step low": "step",
    "segment large": "segment",
    "depth volume_forward winners": "depth volume_forward",
    "registers": 255,
    "registers half": 255,
    "registers volume_forward max": 255,
    "registers volume_forward winners": 255,
    "cells smooth half": "cells smooth",
    "taps narrow max": "taps narrow",
    "columns narrow": 0,
    "plane": 1,
    "taps ring": 0,
    "taps paired": 99,
    "chunks half": "chunks",
    "share sum": "share max",
    "unroll winners": "unroll",
}
"""Special cases of `tuned`, and the number, or the name of the number, that applies without the
case."""


def beside(source: str):
    """The benchmark's module with another state of specgrad, imported as `specgrad_old`."""
    package = Path(source).resolve() / "specgrad"
    for name, path, folders in (
        ("specgrad_old", package / "__init__.py", [str(package)]),
        ("gpu_old", Path(bench.__file__), None),
    ):
        spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=folders)
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    old = sys.modules["gpu_old"]
    old.sg, old.gpu = sys.modules["specgrad_old"], importlib.import_module("specgrad_old.engines.gpu")
    return old


@contextlib.contextmanager
def without(case: str):
    """A context without a special case, in which no programs are cached."""
    before, other = TUNE[case], WITHOUT[case]
    TUNE[case] = TUNE[other] if isinstance(other, str) else other
    gpu.plan.cache_clear()
    try:
        yield
    finally:
        TUNE[case] = before
        gpu.plan.cache_clear()


def programs(engine, op, shape, strides, dtype, device):
    return {
        rule: engine.prepare(op, rule, shape, strides, dtype, device, dtype if rule == "pull" else None)
        for rule in RULES
    }


def launches(index):
    """The launches of each rule of a cell, as now decided, without the plan's tables."""
    workload, dtype, layout = bench.cases()[index]
    x = torch.empty(workload.shape, dtype=dtype, device="meta")
    x = x.contiguous(memory_format=torch.channels_last) if layout == "channels_last" else x
    found = programs(gpu, workload.op, tuple(x.shape), x.stride(), dtype, torch.device("cpu"))
    return {
        rule: [(call.kernel, call.programs, call.numbers[-1], str(call.words)) for call, _ in program.steps]
        for rule, program in found.items()
    }


def changed(indices):
    """The rules whose launches a special case changes, by case and cell."""
    own, found = {i: launches(i) for i in indices}, {}
    for case in WITHOUT:
        with without(case):
            for i in indices:
                other = launches(i)
                rules = {rule for rule in RULES if own[i][rule] != other[rule]}
                if rules:
                    found[case, i] = rules
    return found


def calls(engine, op, x):
    """A call of each rule, and the bytes that it must read and write."""
    found = programs(engine, op, tuple(x.shape), x.stride(), x.dtype, x.device)
    y, kept = engine.keep(op, (x,))
    gy = torch.ones_like(y)
    read = (x,) if engine.reads_operand(op) else ()
    given = {"forward": (x,), "keep": (x,), "pull": (*read, gy, *kept)}
    again = read if len(kept) < 2 or hasattr(op, "beta") else ()
    size = {"forward": (x, y), "keep": (x, y, *kept), "pull": (gy, x, *kept, *again)}
    return {rule: (lambda p=found[rule], a=given[rule]: p(*a)) for rule in RULES}, {
        rule: bench.size(*size[rule]) for rule in RULES
    }


def in_turns(pair, turns=15):
    """(milliseconds of both calls, the median of the second's time over the first's), with all
    calls queued before the first starts."""
    for call in pair * 4:
        call()
    torch.cuda.synchronize()
    marks = [[[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in pair] for _ in range(turns)]
    torch.cuda._sleep(20_000_000)
    for row in marks:
        for call, (start, stop) in zip(pair, row, strict=True):
            start.record()
            call()
            stop.record()
    torch.cuda.synchronize()
    times = [[start.elapsed_time(stop) for start, stop in row] for row in marks]
    return [statistics.median(column) for column in zip(*times, strict=True)], statistics.median(
        b / a for a, b in times
    )


def run_once(task):
    """Compile a cell: of the old state, of this one, or of this one without a special case."""
    source, index, case = task
    engine, (workload, dtype, layout) = gpu, bench.cases()[index]
    if source:
        old = sys.modules.get("gpu_old") or beside(source)
        engine, (workload, dtype, layout) = old.gpu, old.cases()[index]
    x = bench.operand(workload, dtype, layout)
    with without(case) if case else contextlib.nullcontext():
        for call in calls(engine, workload.op, x)[0].values():
            call()
    torch.cuda.synchronize()


def compile_all(old, indices, processes, special):
    """Compile all kernels; returns `changed` if `special`."""
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(processes, mp_context=context) as pool:
        tasks = [(source, i, "") for i in indices for source in (old, "")]
        under_way = [(task, pool.submit(run_once, task)) for task in tasks]
        wanted = changed(indices) if special else {}
        under_way += [(("", i, case), pool.submit(run_once, ("", i, case))) for case, i in wanted]
        for task, done in under_way:
            if done.exception() is not None:
                print("failed:", task, str(done.exception())[-200:], flush=True)
    return wanted


def compare(old, speed):
    cells = []
    for (workload, dtype, layout), (before, _, _) in zip(bench.cases(), old.cases(), strict=True):
        x = bench.operand(workload, dtype, layout)
        ours, size = calls(gpu, workload.op, x)
        theirs, _ = calls(old.gpu, before.op, x)
        for rule in RULES:
            (_, ms), ratio = in_turns([theirs[rule], ours[rule]])
            words = {"name": workload.name, "dtype": str(dtype)[6:], "layout": layout, "rule": rule}
            cells.append({**words, "ms": ms, "limit": ms / 1e3 * speed / size[rule], "new/old": ratio})
        del x, ours, theirs
        torch.cuda.empty_cache()
    for c in sorted(cells, key=lambda c: c["new/old"]):
        if not 0.97 < c["new/old"] < 1.03 or ("k13" in c["name"] and c["rule"] == "pull"):
            place = f"{c['name']}, {c['dtype']}, {c['layout']}"
            print(f"{place:50}{c['rule']:9}{c['ms']:8.3f} ms{c['limit']:7.2f} × limit{c['new/old']:8.3f} new/old")
    mean = math.exp(statistics.mean(math.log(c["new/old"]) for c in cells))
    print(f"{len(cells)} cells, geometric mean of new/old {mean:.4f}, worst {max(c['new/old'] for c in cells):.3f}")
    return cells


def micro(wanted, until):
    """The gain of each special case: the time without it over the time with it."""
    found = []
    for (case, index), rules in wanted.items():
        if time.perf_counter() > until:
            print("no time for the rest, from", case)
            break
        workload, dtype, layout = bench.cases()[index]
        x = bench.operand(workload, dtype, layout)
        own, _ = calls(gpu, workload.op, x)
        try:
            with without(case):
                other, _ = calls(gpu, workload.op, x)
            for rule in sorted(rules):
                ratio = in_turns([own[rule], other[rule]])[1]
                place = f"{workload.name}, {str(dtype)[6:]}, {layout}, {rule}"
                found.append({"case": case, "cell": place, "without/with": ratio})
        except Exception as error:  # a cell that does not run without a case needs the case
            print(case, workload.name, type(error).__name__, str(error)[:100])
        del x, own
        torch.cuda.empty_cache()
    for case in dict.fromkeys(f["case"] for f in found):
        rows = [(f["without/with"], f["cell"]) for f in found if f["case"] == case]
        print(
            f"{case:36} buys at most {max(rows)[0] - 1:7.1%} ({max(rows)[1]}), at least {min(rows)[0] - 1:7.1%}",
            flush=True,
        )
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("old")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--micro", action="store_true")
    parser.add_argument("--seconds", type=float, default=280, help="after which special cases are no longer measured")
    parser.add_argument("--warm", type=int, default=max((os.cpu_count() or 4) - 2, 1))
    options = parser.parse_args()
    begun = time.perf_counter()
    wanted = compile_all(options.old, range(len(bench.cases())), options.warm, options.micro)
    print(f"compiled in {time.perf_counter() - begun:.0f} s", flush=True)
    cells = compare(beside(options.old), bench.bandwidth())
    print(f"compared after {time.perf_counter() - begun:.0f} s", flush=True)
    bought = micro(wanted, begun + options.seconds)
    print(f"{time.perf_counter() - begun:.0f} s")
    if options.json:
        options.json.write_text(json.dumps({"cells": cells, "special cases": bought}, indent=1))


if __name__ == "__main__":
    main()
