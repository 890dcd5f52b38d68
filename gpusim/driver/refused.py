"""What a device of this kind cannot do, and how it says so.

Mental model: a driver function that is not emulated is still there, returns CUDA_ERROR_NOT_SUPPORTED, and
leaves a sentence for the user; a package whose kernels come from elsewhere is refused when it is imported,
before it fails in its own way.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

from gpusim.errors import UsageError

#: Start of a driver function's name -> what it belongs to.
FAMILIES = {
    "cuGraphics": "graphics interoperation",
    "cuGL": "graphics interoperation",
    "cuEGL": "graphics interoperation",
    "cuVDPAU": "graphics interoperation",
    "cuGraphAddExternal": "external semaphores in CUDA graphs",
    "cuStreamBeginRecapture": "capturing into an older graph",
    "cuTexRef": "texture references, which left CUDA with version 12 (texture objects are there)",
    "cuSurfRef": "surface references, which left CUDA with version 12 (surface objects are there)",
    "cuMipmappedArray": "mipmapped arrays",
    "cuMulticast": "multicast memory",
    "cuLogicalEndpoint": "memory of other nodes",
    "cuFabric": "memory of other nodes",
    "cuGreenCtx": "green contexts",
    "cuDevSmResource": "green contexts",
    "cuDevResource": "green contexts",
    "cuImportExternal": "external memory and semaphores",
    "cuMemMapArray": "sparse arrays",
    "cuMemBatchDecompress": "decompression by the GPU",
    "cuCheckpoint": "checkpoints of processes",
    "cuCoredump": "core dumps of the GPU",
    "cuLaunchGrid": "launches in the form of CUDA 3 (cuLaunchKernel is there)",
    "cuParamSet": "launches in the form of CUDA 3 (cuLaunchKernel is there)",
    "cuLaunchCooperativeKernelMultiDevice": "cooperative launches on several GPUs",
    "cuGetExportTable": (
        "undocumented tables of the driver, which NVIDIA's own CUDA runtime asks for (build the program with nvcc -cudart shared,"
        " so that it finds gpusim's runtime; the default, -cudart static, has NVIDIA's in it)"
    ),
}
#: Top-level package -> why its kernels cannot run here.
PACKAGES = {
    "cupy": "CuPy's wheels hold a CUDA runtime library that wants proof that the driver is NVIDIA's, which gpusim does not forge",
    "nvshmem": "NVSHMEM runs on libraries with kernels of their own, which are not emulated",
    "cudf": "cuDF runs on libraries with kernels of their own, which are not emulated",
    "cuml": "cuML runs on libraries with kernels of their own, which are not emulated",
    "pycuda": "PyCUDA is not supported, only Numba's CUDA target and cuda.core",
}


def sentence(function: str) -> str:
    """What to tell the user who called the driver function ``function``."""
    for start, what in sorted(FAMILIES.items(), key=lambda item: -len(item[0])):
        if function.startswith(start):
            return f"{what} cannot be run without a GPU ({function})"
    return f"the driver function {function} is not emulated by gpusim run"


#: Settings of PyTorch's allocator: the first is the old name.
_ALLOCATOR = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
_SEGMENTS = re.compile(r"\bexpandable_segments\s*:\s*True\b")


def refuse_allocator(environment: Mapping[str, str]) -> str:
    """Why PyTorch's CUDA build, if that is what is installed, would end with a segmentation fault; empty if it would
    not."""
    setting = next((name for name in _ALLOCATOR if _SEGMENTS.search(environment.get(name, ""))), "")
    found = importlib.machinery.PathFinder.find_spec("torch") if setting else None
    if found is None or not found.origin or not (Path(found.origin).parent / "lib" / "libc10_cuda.so").exists():
        return ""
    return (
        f"{setting}={environment[setting]} makes PyTorch call NVML (libnvidia-ml.so.1), which is not emulated, and end where it is not"
        " there: leave expandable_segments out"
    )


class PackageRefusal(importlib.abc.MetaPathFinder):
    """Put first on ``sys.meta_path``: importing a package of PACKAGES raises ImportError with the reason."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if path is None and fullname in PACKAGES:
            raise ModuleNotFoundError(f"gpusim run: {PACKAGES[fullname]}", name=fullname)
        if path is None and fullname == "torch" and (reason := refuse_allocator(os.environ)):
            raise ModuleNotFoundError(f"gpusim run: {reason}", name=fullname)
        return None


def refuse_environment(environment: dict[str, str]) -> None:
    """Raise UsageError for a setting under which Numba would not use the driver at all."""
    remedies = {
        "NUMBA_ENABLE_CUDASIM": "Numba's own simulator would run the kernels as Python",
        "NUMBA_DISABLE_CUDA": "Numba would refuse every launch",
    }
    for name, reason in remedies.items():
        if environment.get(name, "0") not in ("", "0"):
            raise UsageError(f"{name}={environment[name]} is set, so that {reason}: unset it for gpusim run")
