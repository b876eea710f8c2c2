"""A pytest plugin that runs SciPy's own tests of filters with our functions instead of SciPy's.

With this folder in PYTHONPATH: python -m pytest -p scipy_substitution --pyargs
scipy.ndimage.tests.test_filters scipy.ndimage.tests.test_morphology
"""

from __future__ import annotations

import scipy.ndimage
from scipy._lib._array_api import xp_capabilities_table

from specgrad import ndimage


def pytest_configure(config):
    """Replace SciPy's functions, if this module is used as a plugin."""
    for name in ndimage.__all__:
        if hasattr(scipy.ndimage, name):
            theirs, ours = getattr(scipy.ndimage, name), getattr(ndimage, name)
            xp_capabilities_table[ours] = xp_capabilities_table[theirs]
            setattr(scipy.ndimage, name, ours)
