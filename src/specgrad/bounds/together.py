"""Gradient ascent over joint forms above relus that read the same few inputs (`joint`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from .affine import Floats
from .alpha import Ascent, Found, either
from .analysis import Analysis
from .joint import Joint


def together(analysis: Analysis, start: int, rows: Floats, found: Found, steps: int, enough: Any) -> Found:
    """`found` with joint forms above relus chosen too; all other choices stay."""
    seen: dict[int, Any] = {}
    best, slopes = analysis.lower(start, rows, found.slopes, seen), found.slopes
    joint = {}
    for place in slopes.single:
        if Joint.offered(analysis, analysis.graph.nodes[place]):
            group, over = Joint(analysis, analysis.graph.nodes[place]), analysis.relaxations[place].above
            joint[place] = group, group.first(np.minimum(_dense(seen[place]), 0), over.rows[0].diagonal())
    ascent, kept = Ascent(0), {p: a for p, (_, a) in joint.items()}
    for step in range(1, steps + 1 if joint else 0):
        form = analysis.lower(start, rows, slopes._replace(joint=joint), seen)
        better = form.lower > best.lower
        kept = {p: either(better, a, kept[p]) for p, (_, a) in joint.items()}
        best = best._replace(lower=np.maximum(best.lower, form.lower))
        if (best.lower > enough + 1e-6 * np.abs(best.lower)).all():
            break
        for place, (group, a) in joint.items():
            box = analysis.boxes[group.source].reshaped((-1,))
            at = np.where(_dense(seen[group.source]) > 0, box.lower, box.upper)
            move = group.gradient(np.minimum(_dense(seen[place]), 0), a, at)
            scale = np.abs(a).max(axis=(1, 2), keepdims=True)
            joint[place] = group, a + ascent.move(("joint", place), move, step, scale)
    slopes = slopes._replace(joint={p: (group, kept[p]) for p, (group, _) in joint.items()})
    return Found(analysis.lower(start, rows, slopes), slopes)


def _dense(rows: Any) -> Floats:
    return np.asarray(rows.toarray() if sparse.issparse(rows) else rows)
