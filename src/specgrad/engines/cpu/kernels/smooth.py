"""Smooth maxima, one axis at a time, over (outer, n, inner) arrays: (1/β) log Σ exp(β cell), for β > 0.

A window is the pair (extreme, total): total = Σ exp(β(cell - pivot)), where the pivot is the extreme if that is finite, else 0. The next
axis folds pairs to pairs, and weights multiply along the chain: total_in·exp(β(pivot_in - pivot_out))/total_out. A padded tap that
counts as the value 0 adds its share, `mass` times exp(-β pivot), to the total and takes no part otherwise. β < 0 is the same of
the negated cells (`sign`).
"""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from .rows import at, compiled, either, greater, inline


def exponential(number):
    """exp(number) to about one unit in the last place, in arithmetic that a compiler turns into vector instructions."""
    raise NotImplementedError


@overload(exponential, strict=False, jit_options={"error_model": "numpy"})
def _exponential(number):
    # x = whole·log 2 + r, and e^r by a polynomial: Cephes' for float32, Taylor's for float64
    real = np.float32 if number == types.float32 else np.float64
    log2e, one, zero, infinity = real(1.4426950408889634), real(1), real(0), real(np.inf)
    if real is np.float32:
        magic, least, most = real(1.5 * 2**23), real(-87.0), real(88.0)
        high, low = real(0.693359375), real(-2.12194440e-4)
        a2, a3, a4 = real(5.0000001201e-1), real(1.6666665459e-1), real(4.1665795894e-2)
        a5, a6, a7 = real(8.3334519073e-3), real(1.3981999507e-3), real(1.9875691500e-4)

        def single(number):
            x = either(number > least, number, least)
            x = either(x < most, x, most)
            whole = (x * log2e + magic) - magic
            r = (x - whole * high) - whole * low
            p = (((((a7 * r + a6) * r + a5) * r + a4) * r + a3) * r + a2) * r * r + r + one
            p = either(number > least, scaled(p, whole), zero)
            p = either(number < most, p, infinity)
            return either(number == number, p, number)

        return single
    magic, least, most = real(1.5 * 2**52), real(-708.0), real(709.0)
    high, low = real(0.693145751953125), real(1.42860682030941723212e-6)
    a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13 = (real(1 / math.factorial(k)) for k in range(2, 14))

    def double(number):
        x = either(number > least, number, least)
        x = either(x < most, x, most)
        whole = (x * log2e + magic) - magic
        r = (x - whole * high) - whole * low
        p = (((((a13 * r + a12) * r + a11) * r + a10) * r + a9) * r + a8) * r + a7
        p = (((((p * r + a6) * r + a5) * r + a4) * r + a3) * r + a2) * r * r + r + one
        p = either(number > least, scaled(p, whole), zero)
        p = either(number < most, p, infinity)
        return either(number == number, p, number)

    return double


@intrinsic
def scaled(typingctx, number, whole):
    """number · 2^whole, where that is a normal number."""

    def codegen(context, builder, signature, args):
        size = number.bitwidth
        mantissa, bias = (23, 127) if size == 32 else (52, 1023)
        integer = ir.IntType(size)
        power = builder.shl(builder.add(builder.fptosi(args[1], integer), integer(bias)), integer(mantissa))
        return builder.fmul(args[0], builder.bitcast(power, args[0].type))

    return number(number, number), codegen


def pivot(extreme):
    """The extreme if it is finite, else 0."""
    raise NotImplementedError


@overload(pivot, strict=False, jit_options={"error_model": "numpy"})
def _pivot(extreme):
    zero = (np.float32 if extreme == types.float32 else np.float64)(0)
    return lambda extreme: either(extreme - extreme == zero, extreme, zero)


@inline
def exceed(most, n, cells, start, stride, limit, sign, blank):
    """most = max(most, sign * cells[start + i*stride]), where such a cell is real."""
    if start >= 0 and start + (n - 1) * stride < limit:
        inside = at(cells, start)
        for i in range(n):
            most[i] = greater(most[i], inside[i * stride] * sign)
        return
    for i in range(n):
        cell = start + i * stride
        real = min(max(cell, 0), limit - 1)
        most[i] = greater(most[i], either(real == cell, cells[real] * sign, blank))


@inline
def weigh(terms, n, cells, totals, extremes, start, stride, limit, beta, sign, zero):
    """terms = the share of cells[start + i*stride] in the total of window i, and 0 where there is no such cell."""
    if totals is None and start >= 0 and start + (n - 1) * stride < limit:
        inside = at(cells, start)
        for i in range(n):
            terms[i] = exponential(beta * (inside[i * stride] * sign - pivot(extremes[i])))
        return
    for i in range(n):
        cell = start + i * stride
        real = min(max(cell, 0), limit - 1)
        p = pivot(extremes[i])
        if totals is None:
            term = exponential(beta * (cells[real] * sign - p))
        else:
            term = exponential(beta * (pivot(cells[real]) - p)) * totals[real]
            term = either(totals[real] != zero, term, zero)
        terms[i] = either(real == cell, term, zero)


@compiled
def smooth_pass(z, totals, extremes, sums, numbers, ints, zeros, mass, start, stop, scratch):
    """extremes, sums = the pair of each window."""
    n, m, inner, taps, stride, before, dilation = ints[0], ints[1], ints[2], ints[3], ints[4], ints[5], ints[6]
    beta, sign, blank, zero = numbers[0], numbers[1], numbers[2], numbers[3]
    for outer in range(start, stop):
        for group in range(1 if inner == 1 else m):  # all windows of a line at once, or all inner cells of a window
            size = m if inner == 1 else inner
            here = outer * m * inner + group * inner
            most, total = at(extremes, here), at(sums, here)
            for i in range(size):
                padded = zeros[i if inner == 1 else group] > 0
                most[i] = zero if padded else blank
                total[i] = zero
            for turn in range(2):
                if turn == 1:
                    for i in range(size):
                        padded = zeros[i if inner == 1 else group]
                        if padded > 0:
                            total[i] = padded * mass[0 if inner == 1 else i] * exponential(-beta * pivot(most[i]))
                for j in range(taps):
                    cell, across, limit = j * dilation - before, stride, n
                    line = outer * n
                    if inner > 1:
                        row = group * stride + cell
                        if row < 0 or row >= n:
                            continue
                        line, cell, across, limit = (outer * n + row) * inner, 0, 1, inner
                    if turn == 0:
                        exceed(most, size, at(z, line), cell, across, limit, sign, blank)
                    else:
                        known = None if totals is None else at(totals, line)
                        weigh(scratch, size, at(z, line), known, most, cell, across, limit, beta, sign, zero)
                        for i in range(size):
                            total[i] += scratch[i]


@compiled
def smooth_value(extremes, sums, y, numbers, start, stop):
    """y = pivot + log(total)/β."""
    beta, sign = numbers[0], numbers[1]
    for i in range(start, stop):
        y[i] = sign * (pivot(extremes[i]) + np.log(sums[i]) / beta)


@inline
def share(terms, n, sums, totals, last, zero, one):
    """terms /= sums, where a line's share in a window is decided line by line: the cells of an infinite line share it among
    themselves, and those of a line that weighs nothing have nothing to share."""
    for i in range(n):
        weight = terms[i] / sums[i]
        if totals is not None:
            weight = either((terms[i] == sums[i]) & (sums[i] - sums[i] != zero), one, weight)
        weight = either(last | (sums[i] != zero), weight, zero)
        terms[i] = weight


@compiled
def smooth_move(z, totals, extremes, sums, moved, result, pulls, last, read, numbers, ints, start, stop, scratch):
    """result[o] = Σ weight·moved[i], or if `pulls` result[i] = Σ weight·moved[o]; `last`: no pass follows
    this one; `read`: which lines the passes that follow read at all."""
    n, m, inner, taps, stride, before, dilation = ints[0], ints[1], ints[2], ints[3], ints[4], ints[5], ints[6]
    beta, sign, zero = numbers[0], numbers[1], numbers[3]
    for outer in range(start, stop):
        plane = at(result, outer * (n if pulls else m) * inner)
        for i in range((n if pulls else m) * inner):
            plane[i] = zero
        if not read[outer % read.size]:
            continue
        for group in range(1 if inner == 1 else m):
            size = m if inner == 1 else inner
            here = outer * m * inner + group * inner
            most, total = at(extremes, here), at(sums, here)
            for j in range(taps):
                cell, across, limit = j * dilation - before, stride, n
                row = 0
                if inner > 1:
                    row = group * stride + cell
                    if row < 0 or row >= n:
                        continue
                    cell, across, limit = 0, 1, inner
                line = outer * n * inner + row * inner
                known = None if totals is None else at(totals, line)
                weigh(scratch, size, at(z, line), known, most, cell, across, limit, beta, sign, zero)
                share(scratch, size, total, known, last, zero, numbers[4])
                if pulls:
                    arriving, target = at(moved, here), at(plane, row * inner)
                    for i in range(size):
                        real = cell + i * across
                        if 0 <= real < limit:
                            target[real] += arriving[i] * scratch[i]
                else:
                    source, target = at(moved, line), at(plane, group * inner)
                    for i in range(size):
                        real = cell + i * across
                        if 0 <= real < limit:
                            target[i] += source[real] * scratch[i]
