"""specgrad for JAX: pooling and convolution inside jit, grad, jvp, vmap and shard_map, in any
nesting and to any order.

The functions are those of `specgrad` itself, which accept JAX arrays too. An operator such as
`specgrad.MaxPool((2, 2))` is a pytree without leaves, so it can be a layer, and an argument of a
function under `jit`.
"""

import jax as _jax

from ..conv_functions import conv, conv_transpose, fold, linear, unfold
from ..functional import (
    adaptive_avg_pool,
    adaptive_max_pool,
    avg_pool,
    global_avg_pool,
    global_max_pool,
    lp_pool,
    max_pool,
    max_unpool,
    min_pool,
    smooth_max_pool,
    sum_pool,
)
from ..ops import OPERATORS as _OPERATORS
from .primitive import composed

for _kind in _OPERATORS:
    _jax.tree_util.register_static(_kind)

__all__ = [
    "adaptive_avg_pool",
    "adaptive_max_pool",
    "avg_pool",
    "composed",
    "conv",
    "conv_transpose",
    "fold",
    "global_avg_pool",
    "global_max_pool",
    "linear",
    "lp_pool",
    "max_pool",
    "max_unpool",
    "min_pool",
    "smooth_max_pool",
    "sum_pool",
    "unfold",
]
