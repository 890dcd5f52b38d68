"""How a kernel's name becomes launches: the suite that ships with gpusim, reached by name only.

Mental model: ``stream_triad:block_threads=256,blocks_per_sm=2`` names an entry of the suite and one
point of its shape axes; what is not said comes from the entry's default shape and, where an axis
describes the machine (``shared_bytes_per_sm``), from the GPU. The suite is a package of its own that
gpusim loads by name; gpusim knows of a case only that it has launches, a check and a work count. ``my.py:case:n=8``
names a case in a file of the user's (:mod:`gpusim.cases.user_kernels`) and is taken wherever an entry's name is.

Raises :class:`UnknownKernelError` for a name, :class:`UsageError` for a shape that makes no sense.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpusim.capturing import capture, dependence_of
from gpusim.cases.case_forms import GeneratedLaunches
from gpusim.cases.names import is_reference, no_axis, no_case, shape_text, suite, unknown, value_of
from gpusim.cases.native_cases import make_native_case
from gpusim.cases.native_entries import native_entry
from gpusim.cases.native_names import is_native
from gpusim.cases.native_shapes import complete_native_shape
from gpusim.cases.requests import parse_request
from gpusim.cases.user_entries import user_entry
from gpusim.cases.user_kernels import complete_user_shape, make_user_case
from gpusim.errors import ExecutionError, GpusimError, ToolchainError, UnknownKernelError, UsageError
from gpusim.gpus.spec import GpuSpec
from gpusim.io.memory_limit import limited_memory
from gpusim.launch.memory import DeviceMemory
from gpusim.trace.record import Trace

#: What a front end calls the function that raises what a kernel raised (:mod:`gpusim.frontend.protocol`).
_RAISES = "raise_pending"
#: Shape axes that describe the machine rather than the work, and where their value is found.
MACHINE_AXES = {"shared_bytes_per_sm": lambda gpu: gpu.sm.shared_max_bytes}


@dataclass(frozen=True)
class CaseTrace:
    """The trace of one launch of a case; ``timed`` is False for preparation (filling data, warming caches)."""

    trace: Trace
    timed: bool


def find_kernel(name: str) -> Any:
    """The suite's entry called ``name``, or that of a function in a file of the user's: name, purpose, axes, default,
    small, make."""
    if is_reference(name):
        return user_entry(name)
    if is_native(name):
        return native_entry(name)
    try:
        return suite().get(name)
    except KeyError:
        raise UnknownKernelError(unknown(name)) from None
    except ImportError as error:
        raise ToolchainError(f"{_NO_CUDA}; {error.msg}") from None


def complete_shape(
    name: str, shape: dict[str, Any], gpu: GpuSpec | None = None, *, small: bool = False
) -> dict[str, Any]:
    """Every axis of entry ``name`` with its value, in the entry's order: ``shape`` (axis -> value or its text),
    completed from the entry's default (or ``small``) shape and, for machine axes, from ``gpu`` if there is one."""
    if is_reference(name):
        return complete_user_shape(name, shape, small=small)
    if is_native(name):
        return complete_native_shape(name, shape)
    entry = find_kernel(name)
    base = dict(entry.small if small else entry.default)
    for axis, read in MACHINE_AXES.items():
        if axis in base and gpu is not None:
            base[axis] = read(gpu)
    for axis, value in shape.items():
        if axis not in base:
            raise no_axis(name, axis, base)
        base[axis] = _parse_value(entry, axis, value)
    return base


def split_workload(text: str) -> tuple[str, str, str]:
    """(kernel, shape as written, GPU or empty) of a workload's full name, ``kernel:axis=value,... @ gpu``."""
    workload, _, gpu = text.partition(" @ ")
    kernel, shape = parse_request(workload)
    return kernel, shape_text(shape), gpu


def make_case(name: str, shape: dict[str, Any], gpu: GpuSpec | None = None, *, small: bool = False) -> Any:
    """The case of entry ``name`` at ``shape``, completed as by :func:`complete_shape`."""
    base = complete_shape(name, shape, gpu, small=small)
    try:
        with limited_memory():
            if is_native(name):
                return make_native_case(name, base)
            return make_user_case(name, base) if is_reference(name) else find_kernel(name).make(**base)
    except (ValueError, TypeError) as error:  # of whatever library a value came to: say which values were given
        raise no_case(name, shape, error) from None
    except MemoryError:
        raise UsageError(f"kernel {name}: {_TOO_LARGE}") from None


def capture_case(
    case: Any,
    gpu: GpuSpec,
    memory: DeviceMemory | None = None,
    folder: Path | None = None,
    check: Iterable[str] = (),
    instruction_limit: int | None = None,
    sample: bool = False,
) -> list[CaseTrace]:
    """Capture all launches of a case in order, on one device memory (a new one by default). With ``folder``
    each is written there as it runs (``0.trace``, ``1.trace`` ...), in bounded memory, and read from there.
    ``check`` and ``instruction_limit``, each launch's, as in :func:`gpusim.capturing.capture`; ``sample``: so that,
    where no later launch may depend on what one computes, only a few of its blocks are run, and the case's result is
    not computed."""
    memory = DeviceMemory() if memory is None else memory
    try:
        # What a kernel prints is not the command's answer, which may be JSON for another program.
        with limited_memory(), contextlib.redirect_stdout(sys.stderr):
            return _capture_all(case, gpu, memory, folder, check, instruction_limit, sample)
    except MemoryError:
        raise UsageError(f"{_name_of(case.launches[0].kernel)}: {_TOO_LARGE} and run there") from None


def _name_of(kernel: Any) -> str:
    return getattr(kernel, "__name__", None) or type(kernel).__name__


def _capture_all(
    case: Any,
    gpu: GpuSpec,
    memory: DeviceMemory,
    folder: Path | None,
    check: Iterable[str],
    instruction_limit: int | None,
    sample: bool,
) -> list[CaseTrace]:
    whole = launches_run_whole(case.launches, gpu) if sample else _ALL
    return [
        CaseTrace(
            _naming_what_threads_raise(
                capture,
                launch.kernel,
                launch.grid,
                launch.block,
                launch.args,
                gpu=gpu,
                shared_bytes=launch.shared_bytes,
                cluster=getattr(launch, "cluster", None),
                memory=memory,
                to=None if folder is None else folder / f"{index}.trace",
                check=check,
                instruction_limit=instruction_limit,
                sample=index >= whole,
            ),
            launch.timed,
        )
        for index, launch in enumerate(case.launches)
    ]


def launches_run_whole(launches: Any, gpu: GpuSpec) -> int:
    """How many launches of a case have to compute their results: up to the last one whose blocks may depend on memory.
    A generator looks at results itself."""
    if isinstance(launches, GeneratedLaunches):
        return _ALL
    every = list(launches)
    for index in range(len(every) - 1, 0, -1):
        try:
            dependent = dependence_of(every[index].kernel, every[index].args, gpu)
        except GpusimError:
            dependent = "it does not compile as it is"
        if dependent:
            return index
    return 0


def _naming_what_threads_raise(call: Callable[..., Trace], *args: Any, **options: Any) -> Trace:
    """``call(...)``, a capture; an exception that a thread of a debug kernel raised becomes an ExecutionError. (In
    Python a capture raises the class that the kernel's author wrote, as Numba does; a command line wants what, where
    and a code.)
    """
    try:
        return call(*args, **options)
    except GpusimError:
        raise
    except Exception as error:
        if traceback.extract_tb(error.__traceback__)[-1].name != _RAISES:
            raise
        raise ExecutionError(f"a thread of the kernel raised {type(error).__name__}: {error}") from error


_ALL = 1 << 62
_TOO_LARGE = "the arrays of this shape do not fit in the memory of this machine"
_NO_CUDA = (
    "capturing a kernel needs Numba's CUDA target: pip install 'numba-cuda[cu13]' "
    "(Linux; elsewhere simulate from trace files)"
)


def _parse_value(entry: Any, axis: str, value: Any) -> Any:
    """``value`` as the type of the axis' default; a whole number where ``make`` annotates none that may be a
    fraction."""
    parameter = inspect.signature(entry.make).parameters.get(axis)
    fractional = parameter is not None and parameter.annotation in (float, "float")
    return value_of(entry.name, axis, value, entry.default[axis], fractional)
