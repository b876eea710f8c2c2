"""SciPy's image filters, and scikit-image's `block_reduce`, on the windows of this library.

Signatures, defaults, boundary modes, dtypes and kinds of errors are those of `scipy.ndimage`.
Neither SciPy nor scikit-image is imported. Maxima and minima have SciPy's bits, sums are within a
rounding bound: ``docs/ndimage.md`` states both, and where the libraries differ on purpose.

>>> import numpy as np
>>> from specgrad import ndimage
>>> ndimage.maximum_filter(np.array([2, 8, 0, 4, 1, 9, 9, 0]), size=3)
array([8, 8, 8, 4, 9, 9, 9, 9])
"""

from .blocks import block_reduce
from .extremum import maximum_filter, maximum_filter1d, minimum_filter, minimum_filter1d
from .morphology import black_tophat, grey_closing, grey_dilation, grey_erosion, grey_opening, white_tophat
from .sums import convolve, convolve1d, correlate, correlate1d, uniform_filter, uniform_filter1d

__all__ = [
    "black_tophat",
    "block_reduce",
    "convolve",
    "convolve1d",
    "correlate",
    "correlate1d",
    "grey_closing",
    "grey_dilation",
    "grey_erosion",
    "grey_opening",
    "maximum_filter",
    "maximum_filter1d",
    "minimum_filter",
    "minimum_filter1d",
    "uniform_filter",
    "uniform_filter1d",
    "white_tophat",
]
