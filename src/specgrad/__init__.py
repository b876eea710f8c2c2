"""specgrad: sliding-window operators stated once, with both derivatives, over any scalar."""

from .autograd import Tape, grad, jvp, value_and_grad, vjp
from .dispatch import engine, list_engines
from .errors import ArgumentError, ScalarError, ShapeError, SlowPathWarning, SpecgradError
from .functional import (
    adaptive_avg_pool,
    adaptive_max_pool,
    add,
    avg_pool,
    conv,
    conv_transpose,
    cross_entropy,
    detach,
    global_avg_pool,
    global_max_pool,
    linear,
    log_softmax,
    max_pool,
    mean,
    mse_loss,
    mul,
    relu,
    reshape,
    scale,
    smooth_max_pool,
    sub,
    sum,
)
from .graph import Graph, Program, trace
from .ops import (
    OPERATORS,
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    Add,
    AvgPool,
    Conv,
    ConvTranspose,
    CrossEntropy,
    Detach,
    GlobalAvgPool,
    GlobalMaxPool,
    Linear,
    LogSoftmax,
    MaxPool,
    Mean,
    MseLoss,
    Mul,
    Relu,
    Reshape,
    Scale,
    SmoothMaxPool,
    Sub,
    Sum,
)
from .ranked import *  # noqa: F403 - the ranked names; their list is ranked.__all__
from .scalars.dual import Dual

__version__ = "0.1.0"
