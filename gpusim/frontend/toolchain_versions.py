"""Which tools compile and read kernels here: their packages with versions, as traces record it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version

_TOOLS = ("numba-cuda", "nvidia-nvvm", "nvidia-nvjitlink", "nvidia-cuda-nvdisasm")


@cache
def toolchain() -> str:
    """Names and versions of the installed tools that make machine code."""
    return ", ".join(installed(_TOOLS))


def installed(packages: Iterable[str]) -> Iterator[str]:
    """Name and version of each of ``packages`` that is installed."""
    for name in packages:
        with suppress(PackageNotFoundError):
            yield f"{name} {version(name)}"
