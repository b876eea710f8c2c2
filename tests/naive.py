"""The operators as plain Python loops over cells, written from the definitions without the
library's code.

The library's index tables are compared with these slow loops. Arithmetic is that of the elements,
so that np.float32 scalars give float32 results in exactly this order.
"""

import itertools
import math

import numpy as np


def sliding_axis(n, k, s, pad, d, ceil):
    """For each output, the cells that its taps read: an index, or None for padding; taps that do
    not exist are left out."""
    if pad == "same":
        total = max((math.ceil(n / s) - 1) * s + d * (k - 1) + 1 - n, 0)
        pad = (total // 2, total - total // 2)
    a, b = pad
    room = n + a + b - d * (k - 1) - 1
    length = (math.ceil(room / s) if ceil else room // s) + 1
    if ceil and (length - 1) * s >= n + a:
        length -= 1
    assert length >= 1
    outputs = []
    for o in range(length):
        cells = [o * s - a + j * d for j in range(k)]
        outputs.append([c if 0 <= c < n else None for c in cells if c <= n + b - 1])
    return outputs


def adaptive_axis(n, m):
    return [list(range(math.floor(o * n / m), math.ceil((o + 1) * n / m))) for o in range(m)]


def pool_axes(op, sizes):
    if hasattr(op, "kernel_size"):
        pads = [op.padding] * len(sizes) if op.padding == "same" else op.padding
        parameters = zip(sizes, op.kernel_size, op.stride, pads, op.dilation, strict=True)
        return [sliding_axis(n, k, s, p, d, op.ceil_mode) for n, k, s, p, d in parameters]
    if hasattr(op, "output_size"):
        return [adaptive_axis(n, n if m is None else m) for n, m in zip(sizes, op.output_size, strict=True)]
    return [adaptive_axis(n, 1) for n in sizes]


def pool_windows(op, shape):
    """Every output position with its taps in row-major order: (position, [input position or None,
    …])."""
    rank = len(getattr(op, "kernel_size", getattr(op, "output_size", range(getattr(op, "rank", 0)))))
    where = tuple(range(len(shape) - rank, len(shape))) if op.axes is None else tuple(p % len(shape) for p in op.axes)
    axes = pool_axes(op, [shape[p] for p in where])
    lengths = [n if p not in where else len(axes[where.index(p)]) for p, n in enumerate(shape)]
    for position in itertools.product(*map(range, lengths)):
        taps = []
        for cells in itertools.product(*(axes[i][position[p]] for i, p in enumerate(where))):
            read = list(position)
            for p, cell in zip(where, cells, strict=True):
                read[p] = cell
            taps.append(None if None in cells else tuple(read))
        yield position, taps


def beats(new, best, lowest=False):
    return new != new or (new < best if lowest else new > best)


def pool_entries(op, x, taps):
    """The value of one window, and its row: [(input position, function that multiplies by the
    slope), …]."""
    zero = x.reshape(-1)[0] * 0 if x.size else 0
    zero = zero if zero == zero else type(zero)(0)
    real = [tap for tap in taps if tap is not None]
    kind = type(op).__name__
    if kind == "SumPool":
        return sum((x[tap] for tap in real), zero), [(tap, lambda u: u) for tap in real]
    if ("Max" in kind or kind == "MinPool") and "Smooth" not in kind:
        if not real:
            return zero, []
        best = real[0]
        for tap in real[1:]:
            if beats(x[tap], x[best], kind == "MinPool"):
                best = tap
        if op.ties == "first":
            return x[best], [(best, lambda u: u)]
        tied = [tap for tap in real if x[tap] == x[best] or (x[tap] != x[tap] and x[best] != x[best])]
        count = type(zero)(len(tied)) if op.ties == "split" else None
        first = best if x[best] != x[best] else tied[0]
        return x[first], [(tap, (lambda u: u / count) if count is not None else lambda u: u) for tap in tied]
    if "Avg" in kind:
        divisor = len(taps)
        if getattr(op, "divisor_override", None) is not None:
            divisor = op.divisor_override
        elif not getattr(op, "count_include_pad", True):
            divisor = max(len(real), 1)
        divisor = type(zero)(divisor)
        total = zero
        for tap in real:
            total = total + x[tap]
        return total / divisor, [(tap, lambda u: u / divisor) for tap in real]
    raise AssertionError(kind)


def pool(op, x, dx, gy):
    """Value, JVP and VJP of a pooling operator: two flat lists and an array."""
    zero = type(gy.flat[0])(0) if gy.size else 0
    values, pushed = [], []
    pulled = np.empty(x.shape, x.dtype)
    pulled[...] = zero
    for (_, taps), g in zip(pool_windows(op, x.shape), gy.flat, strict=True):
        value, row = pool_entries(op, x, taps)
        values.append(value)
        total = zero
        for place, slope in row:
            total = total + slope(dx[place])
        pushed.append(total)
        for place, slope in row:
            pulled[place] = pulled[place] + slope(g)
    return values, pushed, pulled


def conv(op, operands, tangents, gy):
    """Value, JVP and the VJPs of a convolution."""
    (x, w), (dx, dw) = operands[:2], tangents[:2]
    zero = type(x.reshape(-1)[0])(0) if x.size else 0
    rank = w.ndim - 2
    batch, sizes = x.shape[: x.ndim - rank - 1], x.shape[x.ndim - rank :]
    kernel = getattr(op, "kernel_size", ())
    groups = getattr(op, "groups", 1)
    pads = [getattr(op, "padding", ())] * rank if getattr(op, "padding", ()) == "same" else getattr(op, "padding", ())
    axes = [
        sliding_axis(n, k, s, p, d, False)
        for n, k, s, p, d in zip(
            sizes, kernel, getattr(op, "stride", ()), pads, getattr(op, "dilation", ()), strict=True
        )
    ]
    written, read = w.shape[0], w.shape[1]
    pulled = [np.full(a.shape, zero, a.dtype) for a in operands]
    values, pushed = [], []
    outputs = itertools.product(*map(range, batch), range(written), *(range(len(axis)) for axis in axes))
    for position, g in zip(outputs, gy.flat, strict=True):
        b, oc, o = position[: len(batch)], position[len(batch)], position[len(batch) + 1 :]
        total, tangent = zero, zero
        for ic in range(read):
            channel = oc // (written // groups) * read + ic
            for j in itertools.product(*map(range, kernel)):
                cells = tuple(axes[i][o[i]][j[i]] for i in range(rank))
                if None in cells:
                    continue
                at, wt = (*b, channel, *cells), (oc, ic, *j)
                total = total + x[at] * w[wt]
                tangent = tangent + dx[at] * w[wt]
                tangent = tangent + x[at] * dw[wt]
                pulled[0][at] = pulled[0][at] + g * w[wt]
                pulled[1][wt] = pulled[1][wt] + g * x[at]
        if len(operands) == 3:
            total, tangent = total + operands[2][oc], tangent + tangents[2][oc]
            pulled[2][oc] = pulled[2][oc] + g
        values.append(total)
        pushed.append(tangent)
    return values, pushed, pulled


def same(u):
    return u


def larger(op, number, p, q):
    """The larger number, or the smaller by the class of op, and its slopes; equal cells share the
    slope, unless the first takes it."""
    if p == q:
        halved = {0: lambda u: u / number(2), 1: lambda u: u / number(2)}
        return p, halved if op.ties == "split" else {0: same}
    first = p > q if type(op).__name__ == "Larger" else p < q
    return (p, {0: same}) if first else (q, {1: same})


def powered(op, number, p):
    n = op.exponent
    if n in (0, 1):
        return (p, {0: same}) if n else (number(1), {})
    slope = number(n) * np.power(p, number(n - 1)) if number is np.float32 else n * p ** (n - 1)
    return np.power(p, number(n)) if number is np.float32 else p**n, {0: lambda u: u * slope}


POINTWISE = {
    "Relu": lambda op, number, p: (p, {0: same}) if p > 0 else (number(0), {}),
    "Abs": lambda op, number, p: (p, {0: same}) if p > 0 else (-p, {0: lambda u: -u}) if p < 0 else (number(0), {}),
    "Add": lambda op, number, p, q: (p + q, {0: same, 1: same}),
    "Sub": lambda op, number, p, q: (p - q, {0: same, 1: lambda u: -u}),
    "Mul": lambda op, number, p, q: (p * q, {0: lambda u: u * q, 1: lambda u: u * p}),
    "Div": lambda op, number, p, q: (p / q, {0: lambda u: u / q, 1: lambda u: u * -(p / q) / q}),
    "Power": powered,
    "Larger": larger,
    "Smaller": larger,
    "Compare": lambda op, number, p, q: (number(eval(f"p {op.relation} q", {"p": p, "q": q})), {}),
    "Where": lambda op, number, c, p, q: (p, {1: same}) if c != 0 else (q, {2: same}),
}
"""(op, the number type, one cell per operand) -> the value, and per operand a function that
multiplies by the slope."""


def sliced(op):
    return tuple(slice(*part) if isinstance(part, tuple) else part for part in op.index)


MOVES = {
    "Transpose": lambda op, x: np.transpose(x, op.axes),
    "Slice": lambda op, x: x[sliced(op)],
    "Take": lambda op, x: np.take(x, np.array(op.indices, int), op.axis),
    "Concatenate": lambda op, *xs: np.concatenate(xs, op.axis),
    "BroadcastTo": lambda op, x: np.broadcast_to(x, op.shape),
    "Pad": lambda op, x: (
        x
        if x.ndim == 0
        else np.pad(
            x,
            [(0, 0)] * (x.ndim - len(op.padding)) + list(op.padding),
            {"replicate": "edge", "circular": "wrap"}.get(op.mode, op.mode),
            **({"constant_values": -1} if op.mode == "constant" else {}),
        )
    ),
}
"""NumPy's functions that move cells without arithmetic."""


def patches(op, shape):
    """For every cell of the columns in order, the index of its cell in an array of this shape; None
    for padding."""
    rank = len(op.kernel_size)
    *batch, channels = shape[: len(shape) - rank]
    axes = [
        sliding_axis(n, k, s, p, d, False)
        for n, k, s, p, d in zip(
            shape[len(shape) - rank :], op.kernel_size, op.stride, op.padding, op.dilation, strict=True
        )
    ]
    for b in np.ndindex(*batch):
        for c, *tap in itertools.product(range(channels), *map(range, op.kernel_size)):
            for patch in itertools.product(*(range(len(axis)) for axis in axes)):
                cells = [axis[o][j] for axis, o, j in zip(axes, patch, tap, strict=True)]
                yield None if None in cells else (*b, c, *cells)


def products(x, y):
    """For every cell of a matrix product in order, its terms as indices of both factors."""
    left, right = x.reshape(1, -1) if x.ndim == 1 else x, y.reshape(-1, 1) if y.ndim == 1 else y
    numbers = [np.arange(a.size).reshape(a.shape) for a in (left, right)]
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    spread = [np.broadcast_to(n, (*batch, *n.shape[-2:])) for n in numbers]
    for *b, i, j in np.ndindex(*batch, left.shape[-2], right.shape[-1]):
        yield [
            tuple(
                np.unravel_index(n, a.shape)
                for n, a in zip((spread[0][(*b, i, k)], spread[1][(*b, k, j)]), (x, y), strict=True)
            )
            for k in range(left.shape[-1])
        ]


def network_rows(op, operands):
    """Every output in order: its value, and its row [(operand, position, function that multiplies
    by the slope), …]."""
    x, y = operands[0], operands[-1]
    one = type(x.reshape(-1)[0])(1) if x.size else 1
    kind = type(op).__name__
    if kind in POINTWISE:
        shape = np.broadcast_shapes(*(a.shape for a in operands))
        for out in np.ndindex(*shape):
            at = [
                tuple(0 if a.shape[i] == 1 else out[len(shape) - a.ndim + i] for i in range(a.ndim)) for a in operands
            ]
            value, slopes = POINTWISE[kind](op, type(one), *(a[place] for a, place in zip(operands, at, strict=True)))
            yield value, [(slot, at[slot], slope) for slot, slope in slopes.items()]
    elif kind in ("Scale", "Reshape", "Detach"):
        factor = type(one)(getattr(op, "factor", 1))
        for place in np.ndindex(*x.shape):
            if kind == "Scale":
                yield x[place] * factor, [(0, place, lambda u: u * factor)]
            else:
                yield x[place], [(0, place, lambda u: u)] if kind == "Reshape" else []
    elif kind in MOVES:
        ends = np.cumsum([0, *(a.size for a in operands)])
        numbers = [np.arange(s, e).reshape(a.shape) for s, e, a in zip(ends, ends[1:], operands, strict=False)]
        for n in np.ravel(MOVES[kind](op, *numbers)):
            slot = int(np.searchsorted(ends, n, "right")) - 1
            place = np.unravel_index(n - ends[slot], operands[slot].shape) if n >= 0 else None
            yield (type(one)(op.fill), []) if n < 0 else (operands[slot][place], [(slot, place, same)])
    elif kind == "Unfold":
        for place in patches(op, x.shape):
            yield (one * 0, []) if place is None else (x[place], [(0, place, same)])
    elif kind == "Fold":
        shape = op.output_shape(x.shape)
        readers = {place: [] for place in np.ndindex(*shape)}
        for column, place in zip(np.ndindex(*x.shape), patches(op, shape), strict=True):
            if place is not None:
                readers[place].append(column)
        for columns in readers.values():
            yield sum((x[c] for c in columns), one * 0), [(0, c, same) for c in columns]
    elif kind == "MaxUnpool":
        batch, cells = x.shape[: x.ndim - len(op.output_size)], math.prod(op.output_size)
        for *b, out in np.ndindex(*batch, cells):
            found = [p for p in np.ndindex(*x.shape[len(batch) :]) if y[(*b, *p)] == out]
            yield (x[(*b, *found[-1])], [(0, (*b, *found[-1]), same)]) if found else (one * 0, [])
    elif kind == "Matmul":
        for terms in products(x, y):
            total, row = one * 0, []
            for p, q in terms:
                total = total + x[p] * y[q]
                row += [(0, p, lambda u, f=y[q]: u * f), (1, q, lambda u, f=x[p]: u * f)]
            yield total, row
    elif kind in ("Sum", "Mean"):
        axes = range(x.ndim) if op.axis is None else [p % x.ndim for p in op.axis]
        for out in np.ndindex(*(1 if i in axes else n for i, n in enumerate(x.shape))):
            total, row = one * 0, []
            for inside in np.ndindex(*(n if i in axes else 1 for i, n in enumerate(x.shape))):
                place = tuple(a + b for a, b in zip(out, inside, strict=True))
                total = total + x[place]
                row.append(place)
            count = type(one)(len(row))
            if kind == "Mean":
                yield total / count, [(0, place, lambda u, count=count: u / count) for place in row]
            else:
                yield total, [(0, place, lambda u: u) for place in row]
    else:
        assert kind == "MseLoss"
        count, total, row = type(one)(x.size), one * 0, []
        for slot, sign in ((0, 2), (1, -2)):
            for place in np.ndindex(*x.shape):
                gap = x[place] - y[place]
                total = total + gap * gap if slot == 0 else total
                twice = gap * type(one)(sign)
                row.append((slot, place, lambda u, twice=twice: u * twice / count))
        yield total / count, row


def network(op, operands, tangents, gy):
    """Value, JVP and the VJPs of a pointwise operator, a reduction or a loss."""
    zero = type(gy.flat[0])(0) if gy.size else 0
    pulled = [np.full(a.shape, zero, object) for a in operands]
    values, pushed = [], []
    for (value, row), g in zip(network_rows(op, operands), gy.flat, strict=True):
        values.append(value)
        tangent = zero
        for slot, place, slope in row:
            tangent = tangent + slope(tangents[slot][place])
            pulled[slot][place] = pulled[slot][place] + slope(g)
        pushed.append(tangent)
    reached = [slot.differentiable for slot in op.slots]
    return values, pushed, [p if r else None for p, r in zip(pulled, reached, strict=True)]
