"""Image filters against scipy.ndimage, scikit-image, OpenCV and bottleneck.

python benchmarks/ndimage.py [--quick] [--threads N] prints the time of each peer over ours (above
1: ours is faster) on a 4096² image and a 256³ volume, for sizes 3 to 101. Peers that are not
installed, or lack the filter, are left out. The last lines list the cases in which ours is slower.
Large correlations, and SciPy's large disks, take minutes and are not run.

--only, --dtype, --sizes and --shape select cases; --json FILE adds the rows of this run to a file,
and --table FILE prints the rows of such a file as the table of docs/ndimage.md.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import specgrad as sg
from specgrad import ndimage

SIZES = (3, 5, 11, 31, 101)
PEERS = ("scipy", "skimage", "cv2", "bottleneck")
BUDGET = 1.0
"""Slower calls are not repeated, in seconds."""


def available() -> dict[str, Any]:
    """The peers that are installed, by name."""
    found: dict[str, Any] = {}
    for name in ("scipy.ndimage", "skimage.morphology", "cv2", "bottleneck"):
        try:
            found[name.partition(".")[0]] = __import__(name, fromlist=["_"])
        except ImportError:
            print(f"{name}: not installed, left out")
    return found


def cases(x: np.ndarray, size: int, peers: dict[str, Any]) -> Iterator[tuple[str, Callable[[], Any], dict[str, Any]]]:
    """Filters of one size: the name, ours, and each peer's call."""
    scipy, skimage, cv2, bottleneck = (peers.get(name) for name in ("scipy", "skimage", "cv2", "bottleneck"))
    plane, real = x.ndim == 2, x.dtype.kind == "f"
    box = np.ones((size,) * x.ndim, np.uint8)
    weights = np.random.default_rng(0).normal(size=(size,) * x.ndim).astype(np.float32)
    for word, ours, morphology, opencv, moving in (
        ("maximum", ndimage.maximum_filter, "dilation", "dilate", "move_max"),
        ("minimum", ndimage.minimum_filter, "erosion", "erode", "move_min"),
    ):
        others = {}
        if scipy:
            others["scipy"] = lambda word=word: getattr(scipy, f"{word}_filter")(x, size)
        if skimage and plane:
            others["skimage"] = lambda name=morphology: getattr(skimage, name)(x, box)
        if cv2 and plane:
            others["cv2"] = lambda name=opencv: getattr(cv2, name)(x, box)
        yield word, lambda ours=ours: ours(x, size), others
        if bottleneck and real:
            one = {"bottleneck": lambda name=moving: getattr(bottleneck, name)(x, size, axis=-1)}
            along = getattr(ndimage, f"{word}_filter1d")
            yield f"{word} along the last axis", lambda along=along: along(x, size, mode="nearest"), one
    if plane:
        disk = np.hypot(*(np.mgrid[:size, :size] - size // 2)) <= size / 2
        others = {}
        if scipy and size <= 11:
            others["scipy"] = lambda: scipy.maximum_filter(x, footprint=disk)
        if cv2:
            others["cv2"] = lambda: cv2.dilate(x, disk.astype(np.uint8))
        yield "maximum over a disk", lambda: ndimage.maximum_filter(x, footprint=disk), others
    others = {}
    if scipy:
        others["scipy"] = lambda: scipy.uniform_filter(x, size)
    if cv2 and plane:
        others["cv2"] = lambda: cv2.blur(x, (size, size), borderType=cv2.BORDER_REFLECT)
    yield "mean", lambda: ndimage.uniform_filter(x, size), others
    if size <= 11 and real:
        others = {}
        if scipy and (plane or size <= 5):
            others["scipy"] = lambda: scipy.correlate(x, weights)
        if cv2 and plane:
            others["cv2"] = lambda: cv2.filter2D(x, -1, weights, borderType=cv2.BORDER_REFLECT)
        yield "correlation", lambda: ndimage.correlate(x, weights), others


def seconds(call: Callable[[], Any], compiles: bool = False) -> float:
    """The least time of some calls after a first one, which may compile kernels; a slow call is not
    repeated."""
    start = time.perf_counter()
    call()
    first = time.perf_counter() - start
    times: list[float] = [] if compiles or first < BUDGET else [first]
    while len(times) < 3 and sum(times) < BUDGET:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def part(peers: dict[str, Any], shape: tuple[int, ...], dtype: str, size: int, only: str) -> Iterator[dict[str, Any]]:
    """The rows of one image and one size, printed during the run."""
    x = (np.random.default_rng(0).random(shape) * 255).astype(dtype)
    for name, ours, others in cases(x, size, peers):
        if only not in name:
            continue
        mine = seconds(ours, compiles=True)
        ratios = {peer: round(seconds(call) / mine, 2) for peer, call in others.items()}
        row = f"{'×'.join(map(str, shape)):>13} {dtype:>8} {size:>4} {name:<28} {mine * 1e3:9.2f} ms"
        print(row + "".join(f"  {peer} ×{ratio}" for peer, ratio in ratios.items()), flush=True)
        yield {"shape": shape, "dtype": dtype, "size": size, "filter": name, "ms": round(mine * 1e3, 2), **ratios}


def table(rows: list[dict[str, Any]]) -> str:
    """A table per image and filter: how many times as fast as each peer, by size."""
    groups: dict[tuple[Any, ...], dict[int, dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((tuple(row["shape"]), row["filter"], row["dtype"]), {})[row["size"]] = row
    lines = ["| filter | beside | " + " | ".join(map(str, SIZES)) + " |", "|---" * (2 + len(SIZES)) + "|"]
    for (shape, name, dtype), by_size in groups.items():
        for peer in PEERS:
            found = [by_size.get(size, {}).get(peer) for size in SIZES]
            if any(found):
                cells = ["" if ratio is None else f"**{ratio}**" if ratio < 1 else f"{ratio:.3g}" for ratio in found]
                lines.append(f"| {name}, {dtype}, {len(shape)}-D | {peer} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="images of 512² and 64³, sizes 3 and 31")
    parser.add_argument("--threads", type=int, default=sg.get_num_threads())
    parser.add_argument("--only", default="", help="filters whose name has this word")
    parser.add_argument("--dtype", choices=("uint8", "float32"))
    parser.add_argument("--sizes", type=int, nargs="+", default=None)
    parser.add_argument("--shape", type=int, nargs="+", default=None)
    parser.add_argument("--json", type=Path, help="add the rows to this file")
    parser.add_argument("--table", type=Path, help="print the rows of this file as a table, and end")
    arguments = parser.parse_args()
    if arguments.table:
        print(table(json.loads(arguments.table.read_text())["rows"]))
        return
    sg.set_num_threads(arguments.threads)
    peers = available()
    if "cv2" in peers:
        peers["cv2"].setNumThreads(arguments.threads)
    shapes = [(512, 512), (64, 64, 64)] if arguments.quick else [(4096, 4096), (256, 256, 256)]
    rows: list[dict[str, Any]] = []
    kept = json.loads(arguments.json.read_text())["rows"] if arguments.json and arguments.json.exists() else []
    about = {"machine": platform.processor() or platform.machine(), "threads": arguments.threads}
    for shape in [tuple(arguments.shape)] if arguments.shape else shapes:
        for dtype in [arguments.dtype] if arguments.dtype else ["uint8", "float32"]:
            for size in arguments.sizes or ((3, 31) if arguments.quick else SIZES):
                rows += part(peers, shape, dtype, size, arguments.only)
                if arguments.json:
                    arguments.json.write_text(json.dumps({**about, "rows": kept + rows}, indent=1) + "\n")
    behind = [row for row in rows if any(row.get(peer, math.inf) < 1 for peer in PEERS)]
    print(f"\nbehind in {len(behind)} places:", *behind, sep="\n")


if __name__ == "__main__":
    main()
