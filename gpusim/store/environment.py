"""What a run ran with: versions and machine, so that two runs that differ can be told apart later.

Mental model: facts that need no version control and identify nobody: the host is a hash of its name.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
from functools import lru_cache

#: Packages whose version can move a capture or a simulation.
PACKAGES = ("numba", "numpy", "llvmlite", "simpy", "numba-cuda", "nvidia-nvjitlink", "nvidia-cuda-nvdisasm")
HOST_HASH_DIGITS = 16


def host_hash() -> str:
    """The first digits of the sha256 of the host's name."""
    return hashlib.sha256(platform.node().encode()).hexdigest()[:HOST_HASH_DIGITS]


@lru_cache(maxsize=1)
def environment() -> dict[str, str]:
    """Name -> version of Python, of the packages that matter and are there, of the platform; and its cores."""
    facts = {"python": platform.python_version(), "system": platform.system(), "machine": platform.machine()}
    facts["cores"] = str(os.cpu_count() or 1)
    for package in PACKAGES:
        try:
            facts[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return facts
