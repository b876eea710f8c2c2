"""specgrad for PyTorch: every operator on tensors, torch's own pooling names and modules, and `accelerate` for existing models.

The functions are those of `specgrad` itself, which take tensors too; `specgrad.torch.functional` has torch.nn.functional's names.
"""

from ..functional import (
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
from . import apply as _apply  # noqa: F401 - torch.compile reads calls by it, also in a process that has made none
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
    "Acceleration", "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "AvgPoolNd", "GlobalAvgPool", "GlobalMaxPool", "LPPool1d",
    "LPPool2d", "LPPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxPoolNd", "SmoothMaxPool1d", "SmoothMaxPool2d",
    "SmoothMaxPool3d", "accelerate", "adaptive_avg_pool", "adaptive_max_pool", "add", "avg_pool", "conv",
    "conv_transpose", "cross_entropy", "detach", "functional", "global_avg_pool", "global_max_pool", "linear", "log_softmax",
    "max_pool", "mean", "modules", "mse_loss", "mul", "relu", "reshape", "scale", "smooth_max_pool", "sub", "sum",
]  # fmt: skip
