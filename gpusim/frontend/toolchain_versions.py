"""Which tools compile and read kernels here: their packages with versions, as traces record it."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

_TOOLS = ("numba-cuda", "nvidia-nvvm", "nvidia-nvjitlink", "nvidia-cuda-nvdisasm")


@cache
def toolchain() -> str:
    """Names and versions of the installed tools that make machine code."""
    parts = []
    for name in _TOOLS:
        try:
            parts.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join(parts)
