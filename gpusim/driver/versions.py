"""The CUDA versions that the emulated driver and the runtimes over it tell.

Mental model: a driver has the compiler of its own version in it; this one's is nvJitLink as it is installed, so
programs that were built by the compilers of the same release find a driver that is new enough.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

#: The documentation that its functions are written after; a compiler may be newer.
_LEAST_VERSION = 13000
#: Of the last release of CUDA 12.
_RUNTIME_12 = 12090


@cache
def driver_version() -> int:
    """As cuDriverGetVersion tells it: 1000 x major + 10 x minor."""
    try:
        numbers = version("nvidia-nvjitlink").split(".")
        return max(_LEAST_VERSION, 1000 * int(numbers[0]) + 10 * int(numbers[1]))
    except (PackageNotFoundError, ValueError, IndexError):
        return _LEAST_VERSION


def runtime_version(major: int) -> int:
    """As cudaRuntimeGetVersion of the runtime of CUDA ``major``, 12 or 13, tells it."""
    return _RUNTIME_12 if major == 12 else driver_version()
