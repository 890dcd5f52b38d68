"""gpusim: run a CUDA kernel's own machine code on the CPU and predict its cycles on a described GPU.

The public names below are loaded when first used, so that ``import gpusim`` and ``gpusim --help`` are
instant and a machine without the CUDA wheels can still simulate from trace files::

    trace = gpusim.capture(kernel, grid, block, args, gpu="h200")
    result = gpusim.simulate(trace, gpu="h200")

A type checker reads the imports under ``TYPE_CHECKING``: to it, each name is the function or class itself.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

#: Public name -> the module that defines it; a test holds it against the imports below.
_HOMES = {
    "bench": "gpusim.benchmarking",
    "cubin": "gpusim.frontend.native.kernels",
    "cuda_cpp": "gpusim.frontend.native.kernels",
    "cute": "gpusim.frontend.cute.kernels",
    "ptx": "gpusim.frontend.native.kernels",
    "triton": "gpusim.frontend.triton.kernels",
    "capture": "gpusim.capturing",
    "DeviceMemory": "gpusim.launch.memory",
    "Surface": "gpusim.launch.texture_argument",
    "TensorMap": "gpusim.launch.tensor_map_argument",
    "Texture": "gpusim.launch.texture_argument",
    "simulate": "gpusim.engine.gpu",
    "tune": "gpusim.search.tune",
    "tuning_objective": "gpusim.search.tune",
    "Result": "gpusim.engine.result",
    "explain": "gpusim.why.explain",
    "frame": "gpusim.report.frames",
    "workload": "gpusim.explore.workload",
    "Trace": "gpusim.trace.record",
    "load_gpu": "gpusim.gpus.load",
    "list_gpus": "gpusim.gpus.load",
    "GpuSpec": "gpusim.gpus.spec",
    "GpusimError": "gpusim.errors",
    "UsageError": "gpusim.errors",
    "UnknownKernelError": "gpusim.errors",
    "LaunchError": "gpusim.errors",
    "SiliconError": "gpusim.errors",
    "MeasurementFormatError": "gpusim.errors",
    "SpecError": "gpusim.errors",
    "TraceFormatError": "gpusim.errors",
    "ResultFileError": "gpusim.errors",
    "ToolchainError": "gpusim.errors",
    "CompileError": "gpusim.errors",
    "ExecutionError": "gpusim.errors",
    "AddressError": "gpusim.errors",
    "DeadlockError": "gpusim.errors",
    "InstructionLimitError": "gpusim.errors",
    "UnsupportedOpcodeError": "gpusim.errors",
    "UnknownGpuError": "gpusim.errors",
    "NoDataError": "gpusim.errors",
    "WrongResultError": "gpusim.errors",
}

__all__ = [
    "AddressError",
    "CompileError",
    "DeadlockError",
    "DeviceMemory",
    "ExecutionError",
    "GpuSpec",
    "GpusimError",
    "InstructionLimitError",
    "LaunchError",
    "MeasurementFormatError",
    "NoDataError",
    "Result",
    "ResultFileError",
    "SiliconError",
    "SpecError",
    "Surface",
    "TensorMap",
    "Texture",
    "ToolchainError",
    "Trace",
    "TraceFormatError",
    "UnknownGpuError",
    "UnknownKernelError",
    "UnsupportedOpcodeError",
    "UsageError",
    "WrongResultError",
    "bench",
    "capture",
    "cubin",
    "cuda_cpp",
    "cute",
    "explain",
    "frame",
    "list_gpus",
    "load_gpu",
    "ptx",
    "simulate",
    "triton",
    "tune",
    "tuning_objective",
    "workload",
]

if TYPE_CHECKING:
    from gpusim.benchmarking import bench
    from gpusim.capturing import capture
    from gpusim.engine.gpu import simulate
    from gpusim.engine.result import Result
    from gpusim.errors import (
        AddressError,
        CompileError,
        DeadlockError,
        ExecutionError,
        GpusimError,
        InstructionLimitError,
        LaunchError,
        MeasurementFormatError,
        NoDataError,
        ResultFileError,
        SiliconError,
        SpecError,
        ToolchainError,
        TraceFormatError,
        UnknownGpuError,
        UnknownKernelError,
        UnsupportedOpcodeError,
        UsageError,
        WrongResultError,
    )
    from gpusim.explore.workload import workload
    from gpusim.frontend.cute.kernels import cute
    from gpusim.frontend.native.kernels import cubin, cuda_cpp, ptx
    from gpusim.frontend.triton.kernels import triton
    from gpusim.gpus.load import list_gpus, load_gpu
    from gpusim.gpus.spec import GpuSpec
    from gpusim.launch.memory import DeviceMemory
    from gpusim.launch.tensor_map_argument import TensorMap
    from gpusim.launch.texture_argument import Surface, Texture
    from gpusim.report.frames import frame
    from gpusim.search.tune import tune, tuning_objective
    from gpusim.trace.record import Trace
    from gpusim.why.explain import explain
else:

    def __getattr__(name: str) -> object:
        """Load a public name on first use (PEP 562)."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext gpusim``: adds the magic ``%%gpusim`` (:mod:`gpusim.notebook`)."""
    import_module("gpusim.notebook").load(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), "__version__", *_HOMES})
