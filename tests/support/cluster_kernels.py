"""Kernels of thread-block clusters (cluster_kernels.cu), compiled once for each architecture."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import gpusim
from gpusim.frontend.registry import front_end_of
from gpusim.gpus.names import capability_of
from gpusim.isa.architectures import architecture

_SOURCE = Path(__file__).with_name("cluster_kernels.cu")


@cache
def _cubin(arch: str) -> bytes:
    capability = capability_of(arch)
    assert capability is not None
    kernel = gpusim.cuda_cpp(_SOURCE, "shape", options=(f"-arch={architecture(capability).target}",))
    return front_end_of(kernel).compile(kernel, (), capability).cubin


def cluster_kernel(name: str, arch: str = "sm_90") -> Any:
    """Kernel ``name`` for architecture ``arch``."""
    return gpusim.cubin(_cubin(arch), name)
