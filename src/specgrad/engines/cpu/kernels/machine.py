"""Which machine this is, where that decides between two ways."""

import platform

X86 = platform.machine().lower() in ("x86_64", "amd64")
