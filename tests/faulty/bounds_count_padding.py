"""Bounds of an average with count_include_pad=False, computed with count_include_pad=True."""

from dataclasses import replace

import numpy as np
from right import Right

import specgrad as sg


class Faulty(Right):
    name = "bounds count padding"

    def bounds(self, op, inputs, radius):
        (x,) = (a.astype(float) for a in inputs)
        found = sg.bounds(replace(op, count_include_pad=True), (x - radius, x + radius))
        return np.stack([found.lower, found.upper])


subject = Faulty()
