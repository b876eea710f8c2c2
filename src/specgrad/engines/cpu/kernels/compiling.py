"""How kernels are compiled: by Numba, in a shorter way where its version is known to allow that, else as it compiles everything.

Both ways give the same numbers; the ordinary one takes longer.
"""

from __future__ import annotations

from typing import Any

import numba
from numba.extending import register_jitable

TRIED = range(62, 69)  # minor versions 0.62 to 0.68


def ways() -> tuple[dict[str, Any], dict[str, Any]]:
    """Which compilers Numba is to use, by its version: of kernels, and of what they are made of."""
    major, minor = numba.version_info[:2]
    if major != 0 or minor not in TRIED:
        return {}, {}
    from .shortened import KernelCompiler, PartCompiler

    return {"pipeline_class": KernelCompiler, "_nrt": False}, {"pipeline_class": PartCompiler, "_nrt": False}


def hasten(kernel: Any) -> None:
    """Let what is kept of a kernel on disk be loaded the shorter way, too, if it was compiled so: others count references, by what only the longer way sets up."""
    if kernel.targetoptions.get("_nrt") is False:
        from .shortened import load_at_once

        load_at_once(kernel._cache)


_kernel, _part = ways()
# division by zero gives what IEEE says, and no branch; nobody calls from C
OPTIONS = {"error_model": "numpy", "no_cfunc_wrapper": True}
PART = {**OPTIONS, "no_cpython_wrapper": True, **_part}
inline = register_jitable(**PART)
compiled = numba.njit(nogil=True, **OPTIONS, **_kernel)
