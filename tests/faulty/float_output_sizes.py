"""Output sizes by rounding a float quotient."""

import numpy as np
from right import Right


class Faulty(Right):
    name = "float output sizes"

    def forward(self, op, inputs):
        y = super().forward(op, inputs)
        if not hasattr(op, "ceil_mode") or not op.kernel_size or y.size == 0:
            return y
        axis = op.spatial(tuple(inputs[0].shape[p] for p in op.positions(inputs[0].shape)))[-1]
        room = axis.size + axis.before + axis.after - axis.extent
        length = round(room / axis.stride) + 1
        p = op.positions(inputs[0].shape)[-1]
        return np.take(y, range(length), axis=p, mode="clip")


subject = Faulty()
