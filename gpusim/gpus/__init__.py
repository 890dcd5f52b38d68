"""GPU descriptions: frozen specs, and the TOML files that they are read from."""

from gpusim.gpus.load import describe_gpu, list_gpus, load_gpu, override_gpu
from gpusim.gpus.spec import GpuSpec

__all__ = ["GpuSpec", "describe_gpu", "list_gpus", "load_gpu", "override_gpu"]
