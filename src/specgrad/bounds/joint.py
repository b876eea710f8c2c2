"""Joint bounds of relus that read the same few inputs: a negatively weighted sum of them is bounded
at the corners of their box.

-Σ|w| relu(z(x)) is concave in x, so an affine form a·x + b lies below it on a box if it does at the
corners. The relus of one window of a first convolution share the window's cells. Their joint form
is tighter than the sum of single chords, each of which is exact at two corners alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ..graph.ir import Node
from .affine import ROOM, TINY, Floats, gamma

MOST_CELLS, MOST_CORNERS = 9, 2**24


class Joint:
    """The relus of one node, in groups that read the same cells of one input of the graph."""

    def __init__(self, analysis: Any, node: Node) -> None:
        self.before = node.operands[0]
        source = analysis.graph.nodes[self.before]
        form = analysis.relaxations[self.before].above
        ((slot, rows),) = form.rows.items()
        self.source = source.operands[slot]
        box = analysis.boxes[self.source]
        low, high = box.lower.reshape(-1), box.upper.reshape(-1)
        groups: dict[bytes, list[int]] = {}
        for neuron in range(rows.shape[0]):
            cells = rows.indices[rows.indptr[neuron] : rows.indptr[neuron + 1]]
            groups.setdefault(np.sort(cells).tobytes(), []).append(neuron)
        cells = [np.frombuffer(key, rows.indices.dtype) for key in groups]
        width, most = max(map(len, cells)), max(map(len, groups.values()))
        count = len(groups)
        self.cells = np.zeros((count, width), np.intp)
        self.neurons = np.zeros((count, most), np.intp)
        self.real = np.zeros((count, most), np.bool_)
        inside = np.zeros((count, width), np.bool_)
        for group, (some, members) in enumerate(zip(cells, groups.values(), strict=True)):
            self.cells[group, : len(some)], inside[group, : len(some)] = some, True
            self.neurons[group, : len(members)], self.real[group, : len(members)] = members, True
        corner = np.array(list(np.ndindex(*(2,) * width)), np.float64)
        starts = np.where(inside, low[self.cells], 0.0)
        self.corners = np.where(
            corner[None].astype(bool), np.where(inside, high[self.cells], 0.0)[:, None], starts[:, None]
        )
        weights = np.zeros((count, most, width))
        for group in range(count):
            weights[group] = rows[self.neurons[group]].toarray()[:, self.cells[group]]
        self.weights = np.where(inside[:, None] & self.real[:, :, None], weights, 0.0)
        shift = np.where(self.real, form.constant[self.neurons], 0.0)
        z = np.einsum("gvk,gck->gvc", self.corners, self.weights) + shift[:, None]
        self.values = np.maximum(z, 0.0)
        reach = np.maximum(np.abs(low), np.abs(high))
        self.reach = np.where(inside, reach[self.cells], 0.0)
        self.size = np.einsum("gk,gck->gc", self.reach, np.abs(self.weights)) + np.abs(shift)
        self.open = (((z.min(axis=1) < 0) & (z.max(axis=1) > 0)) & self.real).any(axis=1)
        self._known: tuple[Floats, Floats, Floats, Any] | None = None
        flat = np.arange(count * width)
        self.scatter = sparse.csr_array(
            (inside.reshape(-1) * 1.0, (flat, self.cells.reshape(-1))), shape=(count * width, low.size)
        )

    @staticmethod
    def offered(analysis: Any, node: Node) -> bool:
        """Whether a relu's operands are affine forms of few cells of one input of the graph."""
        before = analysis.graph.nodes[node.operands[0]]
        relaxation = analysis.relaxations.get(before.index)
        if before.op is None or relaxation is None or len(relaxation.above.rows) != 1:
            return False
        ((slot, rows),) = relaxation.above.rows.items()
        linear = relaxation.below.rows is relaxation.above.rows
        if not linear or not analysis.graph.nodes[before.operands[slot]].is_input or rows.shape[0] == 0:
            return False
        width = int(np.diff(rows.indptr).max())
        return 0 < width <= MOST_CELLS and rows.shape[0] * 2**width <= MOST_CORNERS

    def gather(self, negative: Floats) -> Floats:
        """The weights (rows, groups, members) of the relus."""
        return np.where(self.real, negative[:, self.neurons], 0.0)

    def first(self, negative: Floats, slopes: Floats) -> Floats:
        """The slopes (rows, groups, cells) of the sums of single chords with these slopes."""
        weights = self.gather(negative) * np.where(self.real, slopes[self.neurons], 0.0)
        made: Floats = np.einsum("sgc,gck->sgk", weights, self.weights)
        return made

    def lowest(self, negative: Floats, a: Floats) -> tuple[Floats, Any]:
        """The least value over the corners of Σ w relu - a·x per row and group, and the corner."""
        known = self._known
        if known is not None and known[0] is a and np.array_equal(known[1], negative):
            return known[2], known[3]
        weights = self.gather(negative).swapaxes(0, 1)
        over = weights @ self.values.swapaxes(1, 2) - a.swapaxes(0, 1) @ self.corners.swapaxes(1, 2)
        corner = over.argmin(axis=2)
        least = np.take_along_axis(over, corner[:, :, None], 2)[:, :, 0].T
        self._known = a, negative, least, corner.T  # used again by the gradient of the same bound
        return least, corner.T

    def below(self, negative: Floats, a: Floats) -> tuple[Floats, Floats, Floats]:
        """Forms below Σ w relu for weights w ≤ 0: rows at the input, the constant and its error."""
        least, _ = self.lowest(negative, a)
        _, members, width = self.weights.shape
        size = np.einsum("sgc,gc->sg", np.abs(self.gather(negative)), self.size)
        spread = np.einsum("sgk,gk->sg", np.abs(a), self.reach)
        terms = least.shape[1] + members + 2 * width + 8
        error = gamma(terms) * (size + spread + np.abs(least)).sum(axis=1) * ROOM + TINY
        readers = int(np.bincount(self.cells.reshape(-1)).max()) + 2
        error = error + gamma(readers) * spread.sum(axis=1) * ROOM
        return np.asarray(a.reshape(len(a), -1) @ self.scatter), least.sum(axis=1), error

    def gradient(self, negative: Floats, a: Floats, at: Floats) -> Floats:
        """The gradient of the bound in the slopes `a`, where the form is least at inputs `at`."""
        _, corner = self.lowest(negative, a)
        chosen = self.corners[np.arange(corner.shape[1]), corner]
        return np.where(self.open[:, None], at[:, self.cells] - chosen, 0.0)
