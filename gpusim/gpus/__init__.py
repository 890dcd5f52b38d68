"""GPU descriptions: frozen specs, and the TOML files that they are read from."""

from gpusim.gpus.describe import GpuValue, describe_gpu, diff_gpus
from gpusim.gpus.load import built_in_of, list_gpus, load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.gpus.spec import GpuSpec

__all__ = [
    "GpuSpec",
    "GpuValue",
    "built_in_of",
    "describe_gpu",
    "diff_gpus",
    "list_gpus",
    "load_gpu",
    "override_gpu",
]
