"""Every way gpusim can refuse, one class each, with the exit code that a shell sees.

Mental model: a failure is a value of a class that says *what* went wrong; the
message says *where* (kernel, address, SASS text, thread, source line) and, where
there is one, the remedy. The CLI prints ``error: <message>`` on one line and
exits with ``exit_code``; library users catch :class:`GpusimError` or a subclass.

Exit codes (a contract): 0 clean, 1 confirmed divergence or regression, 2 usage or
configuration, 3 could not measure or run, 4 ambiguous under ``--strict``,
5 unsupported opcode or GPU, 6 a wrong result, 70 internal error.
"""

from __future__ import annotations


class GpusimError(Exception):
    """Root of all errors that gpusim raises on purpose; ``exit_code`` is for the shell."""

    exit_code = 70


class UsageError(GpusimError):
    """A command line, argument or configuration value that cannot be taken as given."""

    exit_code = 2


class UnknownKernelError(UsageError):
    """A kernel name that no suite and no file provides."""


class LaunchError(UsageError):
    """A launch that the GPU would refuse: block, grid or shared memory beyond its limits."""


class SpecError(UsageError):
    """A GPU description with a missing, unknown or impossible value."""


class TraceFormatError(UsageError):
    """A trace file that is damaged, truncated, of another version, or not a trace at all."""


class ResultFileError(UsageError):
    """A saved result that is damaged, of another version, or not a result at all."""


class MeasurementFormatError(UsageError):
    """A measurement, or a file of them, that is damaged or claims what cannot be."""


class StoreFormatError(UsageError):
    """A store of runs that is damaged, of a newer version, or another program's database."""


class UnknownRunError(UsageError):
    """A run's name or number that the store does not hold."""


class UnknownAlertError(UsageError):
    """An alert's number that the store does not hold."""


class AlertStateError(UsageError):
    """What cannot be done to an alert in the state that it is in."""


class ExpectationError(UsageError):
    """A file of expectations that is none, or names what is not there."""


class StoreError(GpusimError):
    """The store of runs could not be read or written: a full disk, no permission, a server that is not there."""

    exit_code = 3


class WireError(UsageError):
    """What came over a socket of the recorder or of a collector, and is no message of theirs."""


class CollectError(GpusimError):
    """The collector cannot go on: its folder, socket or disk."""

    exit_code = 3


class ProductionError(UsageError):
    """A trace of launches, or a file of ``gpusim production``, that is damaged, of an unknown form, or none at all."""


class ExecutionTraceError(UsageError):
    """An execution trace (Chakra) that is damaged, waits for itself, or names what is not there."""


class CoverageFileError(UsageError):
    """A coverage file that is damaged, of another version, or none at all."""


class FindingFileError(UsageError):
    """A finding's file that is damaged, of another version, or none at all."""


class PluginError(UsageError):
    """What an installed package declares as an entry point of gpusim cannot be loaded, or is no such thing."""


class ToolchainError(GpusimError):
    """Capture needs a package (NVVM, nvJitLink, nvdisasm) that is not installed here."""

    exit_code = 3


class CompileError(GpusimError):
    """The kernel does not compile for the asked architecture."""

    exit_code = 3


class ExecutionError(GpusimError):
    """The kernel compiled but could not be run to its end; the parent of the next ones."""

    exit_code = 3


class AddressError(ExecutionError):
    """A load, store or atomic outside every allocation, or misaligned."""


class DeadlockError(ExecutionError):
    """Warps wait for each other for ever: at a barrier in capture, or in the engine."""


class InstructionLimitError(ExecutionError):
    """The kernel executed more warp instructions than the limit allows."""


class WrongResultError(GpusimError, AssertionError):
    """A case's own check found that the kernel computed something wrong."""

    exit_code = 6


class UnsupportedOpcodeError(GpusimError):
    """An instruction form that no opcode's declaration accepts, refused before anything runs."""

    exit_code = 5


class UnknownGpuError(GpusimError):
    """A GPU name that is neither built in nor a readable TOML file."""

    exit_code = 5


class PlanError(UsageError):
    """A plan of ``gpusim watch`` that cannot be run: an unknown key, suite or GPU, or nothing in it."""


class HistoryError(UsageError):
    """A repository or a commit that a history cannot be taken from."""


class BusyError(GpusimError):
    """Another process is at the same work, and two would do it twice."""

    exit_code = 3


class WorkerAnswerError(ExecutionError):
    """What a worker process says is no answer."""


class SiliconError(GpusimError):
    """A real GPU could not be measured: there is none, its driver refused a call, a profiler did not run."""

    exit_code = 3


class NoDataError(GpusimError):
    """A comparison with no row to compare: zero rows is never success."""

    exit_code = 3
