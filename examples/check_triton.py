"""A Triton kernel to check: specgrad check examples/check_triton.py:subject (TRITON_INTERPRET=1
where there is no GPU)"""

import numpy as np
import torch
import triton
import triton.language as tl

from specgrad.conformance import NotOffered


@triton.jit
def max_pool(x, y, n, outputs, total, s, p, d, K: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row, output = at // outputs, at % outputs
    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    for j in tl.static_range(K):
        cell = output * s - p + j * d
        real = (at < total) & (cell >= 0) & (cell < n)
        value = tl.load(x + row * n + cell, mask=real, other=float("-inf"))
        best = tl.where((value > best) | (value != value), value, best)
    tl.store(y + at, best, mask=at < total)


class TritonMaxPool:
    """max_pool of rank 1 over float32 rows."""

    name = "triton max pool"
    conventions = ("empty window is -inf",)

    def forward(self, op, inputs):
        (x, *_) = inputs
        if op.name != "max_pool" or len(op.kernel_size) != 1 or x.dtype != np.float32 or op.axes or op.ceil_mode:
            raise NotOffered("other than max_pool of one axis of float32, without ceil_mode")
        if op.padding == "same" or x.size == 0:
            raise NotOffered("same padding, empty arrays")
        device = "cuda" if torch.cuda.is_available() else "cpu"
        given = torch.from_numpy(np.ascontiguousarray(x)).to(device)
        made = torch.empty(op.output_shape(x.shape), device=device)
        total, n, outputs = made.numel(), x.shape[-1], made.shape[-1]
        words = (n, outputs, total, op.stride[0], op.padding[0][0], op.dilation[0])
        max_pool[(triton.cdiv(total, 256),)](given, made, *words, K=op.kernel_size[0], BLOCK=256)
        return made.cpu().numpy()


subject = TritonMaxPool()
