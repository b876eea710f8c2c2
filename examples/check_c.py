"""A C kernel to check, called by ctypes: specgrad check examples/check_c.py:subject"""

import ctypes
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from specgrad.conformance import NotOffered

SOURCE = r"""
/* avg_pool of rows of n floats: kernel k, stride s, padding p on both sides, padding counted */
void avg_pool(const float *x, float *y, long rows, long n, long k, long s, long p, long outputs) {
    for (long r = 0; r < rows; r++)
        for (long o = 0; o < outputs; o++) {
            float total = 0;
            for (long j = 0; j < k; j++) {
                long c = o * s - p + j;
                if (c >= 0 && c < n) total += x[r * n + c];
            }
            y[r * outputs + o] = total / k;
        }
}
"""


def compiled():
    folder = Path(tempfile.mkdtemp())
    (folder / "pool.c").write_text(SOURCE)
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", folder / "pool.so", folder / "pool.c"], check=True)
    return ctypes.CDLL(str(folder / "pool.so")).avg_pool


class CAvgPool:
    """avg_pool of rank 1 over float32 rows."""

    name = "c avg pool"

    def __init__(self):
        self.run = compiled()

    def forward(self, op, inputs):
        x = np.ascontiguousarray(inputs[0])
        plain = op.name == "avg_pool" and len(op.kernel_size) == 1 and x.dtype == np.float32 and x.ndim
        if not (
            plain and op.axes is None and not op.ceil_mode and op.count_include_pad and op.divisor_override is None
        ):
            raise NotOffered("other than plain avg_pool of one axis of float32")
        if op.padding == "same" or op.padding[0][0] != op.padding[0][1] or op.dilation != (1,):
            raise NotOffered("padding that differs before and after, dilation")
        y = np.empty(op.output_shape(x.shape), np.float32)
        words = (x.size // x.shape[-1], x.shape[-1], op.kernel_size[0], op.stride[0], op.padding[0][0], y.shape[-1])
        pointers = (a.ctypes.data_as(ctypes.c_void_p) for a in (x, y))
        self.run(*pointers, *map(ctypes.c_long, words))
        return y


subject = CAvgPool
