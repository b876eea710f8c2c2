"""What all kernels share: where a lane lies, which of two candidates leads, pairs of smooth maxima.

Canonical order of every tensor: (outer batch, depth, rows, columns, inner batch). A lane is (outer, column, inner), flat, so that no
width of a plane leaves lanes idle and neighbours in memory are neighbours in a warp. Divisions are done once per program.
"""

import triton
import triton.language as tl


@triton.jit
def lane(lanes, columns, inner, blocks, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    """(outer, column, inner, whether the lane exists, which of the `blocks` programs on these lanes this one is)."""
    program = tl.program_id(0)
    block = program // blocks
    rest = program - block * blocks
    if WIDE:
        block = block.to(tl.int64)
    at = block * BLOCK + tl.arange(0, BLOCK)
    inside = at < lanes
    at = tl.minimum(at, lanes - 1)  # lanes that do not exist read what the last one reads, and write nothing
    column = at // inner
    outer = column // columns
    return outer, column - outer * columns, at - column * inner, inside, rest


@triton.jit
def outer_offset(outer, groups, step_outer, step_group):
    """Where an outer batch lies, whose axes were merged into two."""
    which = outer // groups
    return which * step_outer + (outer - which * groups) * step_group


@triton.jit
def both(lanes, condition):
    """A mask of lanes, if a scalar condition holds (of which Triton's interpreter makes integers)."""
    return (lanes & condition) != 0


@triton.jit
def clamped(index, last):
    """The index, or the nearest that exists."""
    return tl.minimum(tl.maximum(index, 0), last)


@triton.jit
def leads(old, new):
    """Whether a later candidate takes the lead: strictly greater, or NaN."""
    return (new > old) | (new != new)


@triton.jit
def divide(a, b, ACC: tl.constexpr):
    """a / b, rounded once."""
    by = b * tl.full((), 1, ACC)  # a number that Triton took for a constant has no type of its own
    if tl.float32 == ACC:
        return tl.div_rn(a, tl.broadcast_to(by, a.shape))
    return a / by


@triton.jit
def scaled(total, scale, ACC: tl.constexpr):
    """total / number, rounded once, where `scale` holds a number and its reciprocal: an estimate, and its error added."""
    number = tl.load(scale).to(ACC)
    reciprocal = tl.load(scale + 1).to(ACC)
    estimate = total * reciprocal
    missing = tl.fma(-estimate, tl.broadcast_to(number, total.shape), total)
    return tl.where(missing == missing, tl.fma(missing, tl.broadcast_to(reciprocal, total.shape), estimate), estimate)


@triton.jit
def pivot(peak):
    """The peak if it is finite, else 0."""
    return tl.where(peak - peak == 0, peak, 0)


@triton.jit
def joined(peak, total, other_peak, other_total, beta):
    """The pair (peak, total) of two sets of cells, where total = Σ exp(β(cell - pivot)), for β > 0."""
    most = tl.where(leads(peak, other_peak), other_peak, peak)
    shift = pivot(most)
    one = total * tl.exp(beta * (pivot(peak) - shift))
    other = other_total * tl.exp(beta * (pivot(other_peak) - shift))
    return most, tl.where(total != 0, one, 0) + tl.where(other_total != 0, other, 0)


@triton.jit
def ceiling(a, b):
    """ceil(a / b) where that is positive, and something not positive elsewhere."""
    return (a + b - 1) // b


@triton.jit
def tap_range(start, size, after, taps, dilation):
    """The first real tap, the one after the last, and the number of existing ones, of windows that start here."""
    first = tl.maximum(ceiling(-start, dilation), 0)
    last = tl.maximum(tl.minimum(ceiling(size - start, dilation), taps), 0)
    existing = tl.maximum(tl.minimum(ceiling(size + after - start, dilation), taps), 0)
    return first, last, existing
