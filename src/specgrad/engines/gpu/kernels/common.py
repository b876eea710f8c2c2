"""Functions of all kernels: indices of lanes, comparison of candidates, pairs of smooth maxima.

All tensors have the canonical order (outer batch, depth, rows, columns, inner batch). A lane is a
flat index of (outer, column, inner), so that narrow planes leave no lane idle and neighbours in
memory are neighbours in a warp. Divisions are done once per program.
"""

import triton
import triton.language as tl

from ..calls import NVIDIA

NAMED = tl.constexpr(NVIDIA)
"""Whether inline assembly can be used."""


@triton.jit
def lane(sizes, columns, blocks, tile: tl.constexpr, LEFT: tl.constexpr = 0, RIGHT: tl.constexpr = 0):
    """(outer, column, inner, whether the lane exists, which of the `blocks` programs on these
    lanes).

    EVEN: all lanes exist; then the compiler knows that lanes are contiguous. LEFT, RIGHT: lanes at
    either end that the neighbouring program writes, here to share their data.
    """
    program = tl.program_id(0)
    block = program // blocks
    rest = program - block * blocks
    if tile.WIDE:
        block = block.to(tl.int64)
    at = block * (tile.BLOCK - LEFT - RIGHT) - LEFT + tl.arange(0, tile.BLOCK)
    if tile.EVEN:
        inside = tl.full((tile.BLOCK,), True, tl.int1)
    else:
        inside = at < sizes.lanes
        at = tl.minimum(at, sizes.lanes - 1)  # lanes that do not exist read the last lane's data, and write nothing
        if LEFT + RIGHT > 0:
            own = tl.arange(0, tile.BLOCK)
            inside = inside & (own >= LEFT) & (own < tile.BLOCK - RIGHT)
            at = tl.maximum(at, 0)
    column = at // sizes.inner
    outer = column // columns
    return outer, column - outer * columns, at - column * sizes.inner, inside, rest


@triton.jit
def outer_offset(outer, groups, step_outer, step_group):
    """The offset of an outer batch that was merged into two axes."""
    which = outer // groups
    return which * step_outer + (outer - which * groups) * step_group


@triton.jit
def both(lanes, condition):
    """A mask of lanes, and a scalar condition, of which Triton's interpreter makes an integer."""
    return (lanes & condition) != 0


@triton.jit
def pieces(block, W: tl.constexpr, BLOCK: tl.constexpr):
    """The W columns of (BLOCK, W) as a tuple. The columns are in one thread, so no data moves."""
    if W == 1:
        found = (tl.reshape(block, (BLOCK,)),)
    elif W == 2:
        a, b = tl.split(block)
        found = (a, b)
    else:
        even, odd = tl.split(tl.reshape(block, (BLOCK, W // 2, 2)))
        evens = pieces(even, W // 2, BLOCK)
        odds = pieces(odd, W // 2, BLOCK)
        found = ()
        for i in tl.static_range(W // 2):
            found = found + (evens[i], odds[i])
    return found


@triton.jit
def bits(parts, W: tl.constexpr):
    """W parts, a power of two, as a block with log2(W) more axes of length 2."""
    if W == 1:
        block = parts[0]
    else:
        even = ()
        odd = ()
        for i in tl.static_range(W // 2):
            even = even + (parts[2 * i],)
            odd = odd + (parts[2 * i + 1],)
        block = tl.join(bits(even, W // 2), bits(odd, W // 2))
    return block


@triton.jit
def stacked(parts, W: tl.constexpr, BLOCK: tl.constexpr):
    """The inverse of `pieces`."""
    return tl.reshape(bits(parts, W), (BLOCK, W))


@triton.jit
def edges(at, columns, LEAD: tl.constexpr, CELLS: tl.constexpr, W: tl.constexpr):
    """Which of a lane's vectors of W columns exist; `at` is LEAD columns before the first of its
    CELLS."""
    real = ()
    for n in tl.static_range((LEAD + CELLS + W - 1) // W):
        real = real + ((at + n * W >= 0) & (at + n * W < columns),)
    return real


@triton.jit
def read_line(pointer, step, real, allowed, other, CELLS: tl.constexpr, TYPE: tl.constexpr, tile: tl.constexpr):
    """CELLS neighbouring columns of one row as a tuple, read W at once; `pointer` is LEAD columns
    before the first."""
    cells = ()
    for n in tl.static_range((tile.LEAD + CELLS + tile.W - 1) // tile.W):
        mask = both(real[n], allowed)
        if tile.W == 1:
            cells = cells + (tl.load(pointer + n * step, mask=mask, other=other).to(TYPE),)
        else:
            place = tl.expand_dims(pointer, 1) + tl.expand_dims(n * tile.W + tl.arange(0, tile.W), 0)
            found = pieces(tl.load(place, mask=tl.expand_dims(mask, 1), other=other), tile.W, tile.BLOCK)
            for i in tl.static_range(tile.W):
                if n * tile.W + i >= tile.LEAD and n * tile.W + i < tile.LEAD + CELLS:
                    cells = cells + (found[i].to(TYPE),)
    return cells


@triton.jit
def write_line(pointer, step, value, inside, column, columns, tile: tl.constexpr):  # fmt: skip
    """Write V neighbouring columns of one row. DENSE: all exist, contiguous in memory."""
    value = value.to(pointer.dtype.element_ty)
    if tile.DENSE:
        place = tl.expand_dims(pointer, 1) + tl.expand_dims(tl.arange(0, tile.V), 0)
        tl.store(place, value, mask=tl.expand_dims(inside, 1))
    else:
        parts = pieces(value, tile.V, tile.BLOCK)
        for v in tl.static_range(tile.V):
            tl.store(pointer + v * step, parts[v], mask=inside & (column + v < columns))


@triton.jit
def fetch(pointer):
    """Prefetch the data of a lane's next step into the L2 cache, which takes no register."""
    if NAMED:
        tl.inline_asm_elementwise("prefetch.global.L2 [$1]; mov.b32 $0, 0;", "=r,l", [pointer.to(tl.int64)], tl.int32,
                                  is_pure=False, pack=1)  # fmt: skip


@triton.jit
def clamped(index, last):
    """The index, clamped to 0 … last."""
    return tl.minimum(tl.maximum(index, 0), last)


@triton.jit
def took_lead(old, new):
    """Whether a later candidate becomes the argmax: strictly greater, or NaN."""
    return (new > old) | (new != new)


@triton.jit
def tied(cell, best):
    """Whether a cell equals the maximum."""
    return (cell == best) | ((cell != cell) & (best != best))


@triton.jit
def quotient(code, taps: tl.constexpr, codes):
    """code // taps, for codes that were read from `codes`."""
    if codes.dtype.element_ty == tl.uint8:
        return (code * (65536 // taps + 1)) >> 16  # division of a byte, which the compiler would compute in bytes
    return code // taps


@triton.jit
def divide(a, b, ACC: tl.constexpr):
    """a / b, rounded once."""
    by = b * tl.full((), 1, ACC)  # gives a type to a number that Triton took for a constant
    if tl.float32 == ACC:
        return tl.div_rn(a, tl.broadcast_to(by, a.shape))
    return a / by


@triton.jit
def scaled(total, number, reciprocal):
    """total / number, rounded once: an estimate by the reciprocal, plus a correction."""
    estimate = total * reciprocal
    missing = tl.fma(-estimate, tl.broadcast_to(number, total.shape), total)
    return tl.where(missing == missing, tl.fma(missing, tl.broadcast_to(reciprocal, total.shape), estimate), estimate)


@triton.jit
def pivot(peak):
    """The peak if it is finite, else 0."""
    return tl.where(peak - peak == 0, peak, 0)


@triton.jit
def power(exponent, ROUGH: tl.constexpr):
    """2^exponent. ROUGH: subnormal results are 0."""
    if ROUGH and NAMED:
        return tl.inline_asm_elementwise("ex2.approx.ftz.f32 $0, $1;", "=f,f", [exponent], tl.float32, is_pure=True,
                                         pack=1)  # fmt: skip
    return tl.exp2(exponent)


@triton.jit
def rough_logarithm(number):
    """log2(number), with an error of 2^-22."""
    if NAMED:
        return tl.inline_asm_elementwise("lg2.approx.f32 $0, $1;", "=f,f", [number], tl.float32, is_pure=True, pack=1)
    return tl.log2(number)


@triton.jit
def joined(peak, total, other_peak, other_total, beta):
    """The pair (peak, total) of the union of two sets of cells, where total = Σ exp(β(cell -
    pivot)), for β > 0."""
    most = tl.where(took_lead(peak, other_peak), other_peak, peak)
    shift = pivot(most)
    one = total * tl.exp(beta * (pivot(peak) - shift))
    other = other_total * tl.exp(beta * (pivot(other_peak) - shift))
    return most, tl.where(total != 0, one, 0) + tl.where(other_total != 0, other, 0)


@triton.jit
def ceiling(a, b):
    """ceil(a / b) if positive, else some number that is not positive."""
    return (a + b - 1) // b


@triton.jit
def tap_range(start, size, after, taps, dilation):
    """The first real tap, the tap after the last real one, and the number of existing taps, of
    windows that start at `start`."""
    first = tl.maximum(ceiling(-start, dilation), 0)
    last = tl.maximum(tl.minimum(ceiling(size - start, dilation), taps), 0)
    existing = tl.maximum(tl.minimum(ceiling(size + after - start, dilation), taps), 0)
    return first, last, existing
