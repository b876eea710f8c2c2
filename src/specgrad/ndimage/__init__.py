"""SciPy's image filters, and scikit-image's `block_reduce`, on specgrad's engines.

Signatures, defaults, boundary modes, dtypes and types of errors are those of `scipy.ndimage`.
Neither SciPy nor scikit-image is imported. Maxima and minima have the same bits as SciPy's, sums
agree within a rounding bound. ``docs/ndimage.md`` has the details and the intended differences.

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
