"""How much of a test's effort an operator gets."""

from specgrad.ops.conv import Bilinear
from specgrad.ops.pool import Pool


def share(kind, examples):
    """So many examples of an operator with windows; a third of them where there is no geometry to
    vary."""
    return examples if issubclass(kind, Pool | Bilinear) else max(examples // 3, 5)
