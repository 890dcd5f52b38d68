"""gpusim: run a CUDA kernel's own machine code on the CPU and predict its cycles on a described GPU.

The public names below are loaded when first used, so that ``import gpusim`` and ``gpusim --help`` are
instant and a machine without the CUDA wheels can still simulate from trace files::

    trace = gpusim.capture(kernel, grid, block, args, gpu="h200")
    result = gpusim.simulate(trace, gpu="h200")
"""

from __future__ import annotations

from importlib import import_module

__version__ = "0.1.0"

#: Public name -> the module that defines it.
_HOMES = {
    "DeviceMemory": "gpusim.capture.memory",
    "simulate": "gpusim.engine.gpu",
    "Result": "gpusim.engine.result",
    "explain": "gpusim.why.explain",
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
}

__all__ = ["__version__", "capture", *_HOMES]


def __getattr__(name: str) -> object:
    """Load a public name on first use (PEP 562)."""
    if name == "capture":  # a package that can be called, see there
        return import_module("gpusim.capture")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
