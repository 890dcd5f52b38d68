"""gpusim: run a CUDA kernel's own machine code on the CPU and predict its cycles on a described GPU.

The public names below are loaded when first used, so that ``import gpusim`` and ``gpusim --help`` are
instant and a machine without the CUDA wheels can still simulate from trace files::

    trace = gpusim.capture(kernel, grid, block, args, gpu="h200")
    result = gpusim.simulate(trace, gpu="h200")

A type checker reads the imports under ``TYPE_CHECKING``: to it, each name is the function or class itself.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

#: Public name -> the module that defines it; a test holds it against the imports below.
_HOMES = {
    "capture": "gpusim.capturing",
    "DeviceMemory": "gpusim.launch.memory",
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

if TYPE_CHECKING:
    from gpusim.capturing import capture as capture
    from gpusim.engine.gpu import simulate as simulate
    from gpusim.engine.result import Result as Result
    from gpusim.errors import (
        AddressError as AddressError,
    )
    from gpusim.errors import (
        CompileError as CompileError,
    )
    from gpusim.errors import (
        DeadlockError as DeadlockError,
    )
    from gpusim.errors import (
        ExecutionError as ExecutionError,
    )
    from gpusim.errors import (
        GpusimError as GpusimError,
    )
    from gpusim.errors import (
        InstructionLimitError as InstructionLimitError,
    )
    from gpusim.errors import (
        LaunchError as LaunchError,
    )
    from gpusim.errors import (
        MeasurementFormatError as MeasurementFormatError,
    )
    from gpusim.errors import (
        NoDataError as NoDataError,
    )
    from gpusim.errors import (
        ResultFileError as ResultFileError,
    )
    from gpusim.errors import (
        SiliconError as SiliconError,
    )
    from gpusim.errors import (
        SpecError as SpecError,
    )
    from gpusim.errors import (
        ToolchainError as ToolchainError,
    )
    from gpusim.errors import (
        TraceFormatError as TraceFormatError,
    )
    from gpusim.errors import (
        UnknownGpuError as UnknownGpuError,
    )
    from gpusim.errors import (
        UnknownKernelError as UnknownKernelError,
    )
    from gpusim.errors import (
        UnsupportedOpcodeError as UnsupportedOpcodeError,
    )
    from gpusim.errors import (
        UsageError as UsageError,
    )
    from gpusim.explore.workload import workload as workload
    from gpusim.gpus.load import list_gpus as list_gpus
    from gpusim.gpus.load import load_gpu as load_gpu
    from gpusim.gpus.spec import GpuSpec as GpuSpec
    from gpusim.launch.memory import DeviceMemory as DeviceMemory
    from gpusim.trace.record import Trace as Trace
    from gpusim.why.explain import explain as explain
else:

    def __getattr__(name: str) -> object:
        """Load a public name on first use (PEP 562)."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), "__version__", *_HOMES})
