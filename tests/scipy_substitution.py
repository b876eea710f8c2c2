"""A plugin of pytest: SciPy's own tests of filters with our functions in the place of SciPy's.

With this folder in PYTHONPATH: python -m pytest -p scipy_substitution --pyargs
scipy.ndimage.tests.test_filters scipy.ndimage.tests.test_morphology
"""

from __future__ import annotations

import scipy.ndimage
from scipy._lib._array_api import xp_capabilities_table

from specgrad import ndimage

for _name in ndimage.__all__:
    if hasattr(scipy.ndimage, _name):
        theirs, ours = getattr(scipy.ndimage, _name), getattr(ndimage, _name)
        xp_capabilities_table[ours] = xp_capabilities_table[theirs]
        setattr(scipy.ndimage, _name, ours)
