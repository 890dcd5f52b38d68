"""A claim about a kernel that a whole program launches and times itself.

Mental model: the program runs on the emulated device; its calls say what its timing waits for, the first launches of
the kernel say what they read and write, and all of them how much they execute. A kernel that does less from the second
launch on remembers, whatever it remembers in.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from gpusim.claims.check import judge_traces
from gpusim.claims.finding import ClaimFinding, Weight
from gpusim.claims.program_calls import ProgramCalls
from gpusim.claims.touched import touched_by
from gpusim.claims.trials import LEAST_SHARE
from gpusim.claims.verdict import JudgedClaim
from gpusim.claims.windows import window_findings
from gpusim.driver.device import make_device
from gpusim.driver.run import run_program
from gpusim.driver.wanted import Wanted
from gpusim.errors import ExecutionError, NoDataError
from gpusim.gpus.spec import GpuSpec
from gpusim.io.progress import say
from gpusim.launch.memory import Allocation
from gpusim.trace.record import Trace


@dataclass(frozen=True)
class ProgramClaim:
    """One launch of the kernel whose name ``kernel`` (a regular expression, empty: the only one) matches is claimed to
    take ``time_us`` in ``program``, called with ``arguments``; ``warm`` as in :class:`gpusim.claims.check.Claim`."""

    program: str
    arguments: Sequence[str]
    time_us: float
    gpu: str
    kernel: str = ""
    warm: bool = True
    pageable: bool = False


def check_program(claim: ProgramClaim) -> JudgedClaim:
    """The verdict on ``claim``. Raises ExecutionError where the program fails, NoDataError where it launches no such
    kernel, or several."""
    device = make_device(claim.gpu, claim.pageable)
    calls = ProgramCalls()
    with tempfile.TemporaryDirectory(prefix="gpusim-claim-") as folder:
        record = Path(folder, "traces")
        wanted = Wanted(kernel=claim.kernel, count=1)
        # Standard output is for the verdict.
        with calls.reading_clocks(claim.program), redirect_stdout(sys.stderr):
            ending, ledger = run_program(
                claim.program, claim.arguments, device, wanted=wanted, record=record, say=say, called=calls.called
            )
        if ending.exit_code:
            raise ExecutionError(
                f"{claim.program} ended with exit code {ending.exit_code}{': ' + ending.explanation if ending.explanation else ''}"
            )
        rows = [row for row in ledger.records() if wanted.matches(row["kernel"])]
        names = sorted({row["kernel"] for row in rows})
        if len(names) != 1:
            there = sorted({row["kernel"] for row in ledger.records()})
            raise NoDataError(
                f"{claim.program} launches {'no kernel that' if not names else 'several kernels: ' + ', '.join(names)}"
                f"{f' matches --kernel {claim.kernel!r} (it launches ' + (', '.join(there) or 'none') + ')' if not names else '; name the one that is claimed by --kernel'}"
            )
        traces = [Trace.load(path) for path in sorted(record.glob("*.trace"))]
        findings = [*window_findings(calls), *trace_findings(traces), *_work_findings(names[0], rows)]
        return judge_traces(claim.time_us, device.spec, traces, (), findings, warm=claim.warm)


def check_traces(paths: Sequence[Path], time_us: float, spec: GpuSpec, *, warm: bool) -> JudgedClaim:
    """The verdict on a claim that the launches of trace files take ``time_us`` together: bounds, prediction, and what
    is read and written. What is written is not known, so no result is looked at."""
    traces = [Trace.load(path) for path in paths]
    return judge_traces(time_us, spec, traces, (), trace_findings(traces), warm=warm)


def trace_findings(traces: Sequence[Trace]) -> list[ClaimFinding]:
    """What the accesses of launches say whose arrays are known by their addresses alone."""
    written = False
    for trace in traces:
        allocations = [Allocation(base, size, 0, "") for base, size in sorted(trace.launch.allocations)]
        if not allocations:
            return [
                ClaimFinding(
                    "unknown-arrays",
                    Weight.NOTE,
                    "the trace does not say where arrays lie: what is written was not looked at",
                )
            ]
        touched = touched_by(trace, allocations)
        written |= any(touched.written(index).any() for index in range(len(allocations)))
    return [] if written else [ClaimFinding("writes-nothing", Weight.INVALID, "the launches write no array")]


def _work_findings(kernel: str, rows: Sequence[dict]) -> list[ClaimFinding]:
    """Whether all launches of the same shape do the same work."""
    by_shape: dict[tuple, list[int]] = {}
    for row in rows:
        by_shape.setdefault((row["grid"], row["block"], row["shared_bytes"]), []).append(row["warp_instructions"])
    found = []
    for (grid, block, _), counts in by_shape.items():
        if min(counts) < LEAST_SHARE * max(counts):
            found.append(
                ClaimFinding(
                    "less-work", Weight.SUSPECT,
                    f"launches of {kernel} with grid {grid} and block {block} execute from {min(counts):,} to {max(counts):,} warp instructions: they do not all do the same work",
                )
            )  # fmt: skip
    return found


def program_traces(place: str) -> list[Path]:
    """The trace files that ``place`` is or holds; empty where it is neither a trace nor a folder."""
    path = Path(place)
    if path.is_dir():
        return sorted(path.glob("*.trace"))
    return [path] if path.is_file() and path.suffix == ".trace" else []
