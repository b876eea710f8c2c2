"""specgrad: sliding-window operators stated once, with both derivatives, over any scalar."""

from .dispatch import engine, list_engines
from .errors import ArgumentError, ScalarError, ShapeError, SlowPathWarning, SpecgradError
from .functional import (
    adaptive_avg_pool,
    adaptive_max_pool,
    avg_pool,
    conv,
    conv_transpose,
    global_avg_pool,
    global_max_pool,
    linear,
    max_pool,
    smooth_max_pool,
)
from .ops import (
    OPERATORS,
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AvgPool,
    Conv,
    ConvTranspose,
    GlobalAvgPool,
    GlobalMaxPool,
    Linear,
    MaxPool,
    SmoothMaxPool,
)
from .ranked import *  # noqa: F403 - the ranked names; their list is ranked.__all__
from .scalars.dual import Dual
from .threads import get_num_threads, num_threads, set_num_threads

__version__ = "0.1.0"
