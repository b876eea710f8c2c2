"""Statements about the number of windows of a sliding axis: both roundings, padding "same",
transposed convolution."""

from __future__ import annotations

from dataclasses import replace

from ...geometry import Index, Sliding, same_padding, transposed_size
from ..integers import assume, lemma
from .vocabulary import Claim, believed, holds


def padded(axis: Sliding) -> Index:
    """The length of an axis with its padding."""
    return axis.size + axis.before + axis.after


def ends(axis: Sliding, output: Index) -> Index:
    """The end of a window, in coordinates of the padded axis."""
    return output * axis.stride + axis.extent


@holds("floor: there is a window exactly if the kernel's extent fits the padded axis")
def a_window_fits(floor: Sliding) -> Claim:
    return (floor.length >= 1) == (floor.extent <= padded(floor))


@holds("floor: every window ends inside the padded axis")
def windows_end_inside(floor: Sliding, o: Index) -> Claim:
    assume(o < floor.length)
    return ends(floor, o) <= padded(floor)


@holds("floor: every window that ends inside the padded axis is counted")
def windows_are_counted(floor: Sliding, o: Index) -> Claim:
    assume(ends(floor, o) <= padded(floor))
    return o < floor.length


@holds("floor: with `stride` more cells there is one more window")
def a_stride_more(floor: Sliding) -> Claim:
    return replace(floor, size=floor.size + floor.stride).length == floor.length + 1


@holds("floor: with one more cell there are as many windows, or one more")
def a_cell_more(floor: Sliding) -> Claim:
    more = replace(floor, size=floor.size + 1).length
    return (floor.length <= more) & (more <= floor.length + 1)


@holds("a dilated kernel has as many windows as an undilated one of its extent")
def extent_decides(axis: Sliding) -> Claim:
    return replace(axis, kernel=axis.extent, dilation=1).length == axis.length


@holds("ceil: if there is a window o + 1, window o ends before the end of the padded axis")
def ceil_windows_are_begun(ceil: Sliding, o: Index) -> Claim:
    assume(o + 1 < ceil.length)
    return ends(ceil, o) < padded(ceil)


@holds("ceil: if window o ends before the padded axis does, and o + 1 starts before size + before, o + 1 is counted")
def ceil_windows_are_counted(ceil: Sliding, o: Index) -> Claim:
    assume(ends(ceil, o) < padded(ceil), (o + 1) * ceil.stride < ceil.size + ceil.before)
    return o + 1 < ceil.length


@holds("ceil: at most one more window than floor")
def ceil_is_at_most_one_more(ceil: Sliding) -> Claim:
    return ceil.length <= replace(ceil, ceil_mode=False).length + 1


@holds("ceil: at least as many windows as floor, where after < extent")
def ceil_is_at_least_floor(ceil: Sliding) -> Claim:
    assume(ceil.after < ceil.extent)
    return ceil.length >= replace(ceil, ceil_mode=False).length


@believed("ceil: at least as many windows as floor, for any padding")
def ceil_is_always_at_least_floor(ceil: Sliding) -> Claim:
    return ceil.length >= replace(ceil, ceil_mode=False).length


@holds("ceil: every window starts before size + before, where after <= extent")
def ceil_windows_start_inside(ceil: Sliding, o: Index) -> Claim:
    assume(o < ceil.length, ceil.after <= ceil.extent)
    return ceil.start(o) < ceil.size


@believed("ceil: every window starts before size + before, for any padding")
def ceil_windows_always_start_inside(ceil: Sliding, o: Index) -> Claim:
    assume(o < ceil.length)
    return ceil.start(o) < ceil.size


@holds("ceil equals floor if the stride divides padded size - extent, and after < extent")
def ceil_is_floor_where_even(ceil: Sliding) -> Claim:
    assume(ceil.after < ceil.extent, (padded(ceil) - ceil.extent) % ceil.stride == 0)
    return ceil.length == replace(ceil, ceil_mode=False).length


@holds("undilated windows padded by at most half the kernel (PyTorch's rule) have a real cell each")
def half_padding_leaves_a_cell(axis: Sliding, o: Index) -> Claim:
    assume(axis.dilation == 1, 2 * axis.before <= axis.kernel, 2 * axis.after <= axis.kernel, o < axis.length)
    return axis.reads(o).count >= 1


def same(n: Index, k: Index, s: Index, d: Index, ceil_mode: bool = False) -> Sliding:
    """A sliding axis with padding="same"."""
    before, after = same_padding(n, k, s, d)
    return Sliding(n, k, s, before, after, d, ceil_mode)


@holds('"same": ceil(size / stride) windows')
def same_divides(n: Index, k: Index, s: Index, d: Index) -> Claim:
    return same(n, k, s, d).length == -(-n // s)


@holds('"same": a stride of 1 keeps the size')
def same_keeps_the_size(n: Index, k: Index, d: Index) -> Claim:
    return same(n, k, 1, d).length == n


@holds('"same": ceil_mode changes nothing')
def same_is_exact(n: Index, k: Index, s: Index, d: Index) -> Claim:
    return same(n, k, s, d, ceil_mode=True).length == same(n, k, s, d).length


@holds('"same": no padding is negative, and the two sides differ by at most one cell, the greater after')
def same_is_balanced(n: Index, k: Index, s: Index, d: Index) -> Claim:
    axis = same(n, k, s, d)
    return (axis.before >= 0) & (axis.before <= axis.after) & (axis.after <= axis.before + 1)


@holds('"same": with one cell less of padding there is at least one window less')
def same_is_least(n: Index, k: Index, s: Index, d: Index) -> Claim:
    axis = same(n, k, s, d)
    assume(axis.after >= 1)
    fewer = replace(axis, after=axis.after - 1)
    lemma(axis.length == -(-n // s))
    lemma(padded(fewer) - fewer.extent < (axis.length - 1) * s)
    return fewer.length < axis.length


@holds('"same": every undilated window has a real cell')
def same_windows_have_a_cell(n: Index, k: Index, s: Index, o: Index) -> Claim:
    axis = same(n, k, s, 1)
    assume(o < axis.length)
    lemma(axis.length == -(-n // s))
    lemma(o * s < n)
    return axis.reads(o).count >= 1


def transposed(floor: Sliding, extra: Index) -> Sliding:
    """The output axis of a transposed convolution of `size` cells: the convolution on this axis is
    its adjoint."""
    padding = floor.before, floor.after
    size = transposed_size(floor.size, floor.kernel, floor.stride, padding, floor.dilation, extra)
    return replace(floor, size=size)


@holds("transposed: a convolution of the result has the input's size, where output_padding < stride")
def transposed_inverts(floor: Sliding, extra: Index) -> Claim:
    assume(extra < floor.stride)
    return transposed(floor, extra).length == floor.size


@holds("transposed: a convolution of the result is at least as long as the input, for any output_padding")
def transposed_is_long_enough(floor: Sliding, extra: Index) -> Claim:
    return transposed(floor, extra).length >= floor.size


@holds(
    "transposed: every size whose convolution has the input's size is reached by one output_padding below the stride"
)
def transposed_reaches_every_size(floor: Sliding, c: Index) -> Claim:
    axis = replace(floor, size=c)
    assume(c >= 1, axis.length == floor.size)
    extra = c - transposed(floor, 0).size
    return (extra >= 0) & (extra < floor.stride)
