"""specgrad for PyTorch: every operator on tensors, torch's own pooling names and modules, and
`accelerate` for existing models.

The functions are those of `specgrad` itself, which take tensors too; `specgrad.torch.functional`
has torch.nn.functional's names.
"""

from ..array_functions import (
    abs,
    add,
    batch_norm,
    broadcast_to,
    concatenate,
    cross_entropy,
    detach,
    div,
    equal,
    erf,
    exp,
    gelu,
    greater,
    greater_equal,
    layer_norm,
    less,
    less_equal,
    log,
    log_softmax,
    matmul,
    maximum,
    mean,
    minimum,
    mse_loss,
    mul,
    not_equal,
    pad,
    power,
    relu,
    reshape,
    scale,
    sigmoid,
    silu,
    slice,
    softmax,
    softplus,
    sqrt,
    stack,
    sub,
    sum,
    take,
    tanh,
    transpose,
    where,
)
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
from . import apply as _apply  # noqa: F401 - torch.compile reads calls by it, also in a process that has made none
from . import at_once as _at_once  # noqa: F401 - what `dispatch` asks first
from . import functional, modules
from .acceleration import Acceleration, accelerate
from .modules import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    AvgPoolNd,
    GlobalAvgPool,
    GlobalMaxPool,
    LPPool1d,
    LPPool2d,
    LPPool3d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
    MaxPoolNd,
    SmoothMaxPool1d,
    SmoothMaxPool2d,
    SmoothMaxPool3d,
)

__all__ = [
    "Acceleration", "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "AvgPoolNd", "GlobalAvgPool",
    "GlobalMaxPool", "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxPoolNd",
    "SmoothMaxPool1d", "SmoothMaxPool2d", "SmoothMaxPool3d", "abs", "accelerate", "adaptive_avg_pool",
    "adaptive_max_pool", "add", "avg_pool", "batch_norm", "broadcast_to", "concatenate", "conv", "conv_transpose",
    "cross_entropy", "detach", "div", "equal", "erf", "exp", "fold", "functional", "gelu", "global_avg_pool",
    "global_max_pool", "greater", "greater_equal", "layer_norm", "less", "less_equal", "linear", "log", "log_softmax",
    "lp_pool", "matmul", "max_pool", "max_unpool", "maximum", "mean", "min_pool", "minimum", "modules", "mse_loss",
    "mul",
    "not_equal", "pad", "power", "relu", "reshape", "scale", "sigmoid", "silu", "slice", "smooth_max_pool", "softmax",
    "softplus", "sqrt", "stack", "sub", "sum", "sum_pool", "take", "tanh", "transpose", "unfold", "where",
]  # fmt: skip
