"""Bounds of a padded maximum, in which padding takes part as the value 0."""

import numpy as np
from right import Right

import specgrad as sg


class Faulty(Right):
    name = "unsound bounds"

    def bounds(self, op, inputs, radius):
        x, *rest = (a.astype(float) for a in inputs)
        found = sg.bounds(lambda x: op(x, *rest), (x - radius, x + radius))
        geometry = op.geometry(*(a.shape for a in inputs))
        padded = geometry.block(0, geometry.outputs).count("real") < geometry.taps
        low = np.where(padded.reshape(found.lower.shape), np.maximum(found.lower, 0), found.lower)
        return np.stack([low, found.upper])


subject = Faulty()
