"""Nsight Compute around a child of our own: cycles and counters as the hardware counts them.

Mental model: ``ncu`` starts a second ``gpusim measure`` with the same kernels, which knows by an environment variable
that it is being looked at: it loads the cases, checks each result, and then launches every timed launch REPEATS times
between cuProfilerStart and cuProfilerStop. ``ncu`` profiles exactly those and prints a table; the child leaves a plan
that says which line belongs to which launch. Clocks are left alone (``--clock-control none``). For a cold row ncu
empties the caches before each of its passes over a launch (``--cache-control all``), for a warm one it does not, and
the child runs the whole case once before.

An ncu that lacks permission, or counters that this GPU does not have, end in a SiliconError with ncu's own words.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpusim.errors import SiliconError
from gpusim.frontend.toolchain_versions import toolchain
from gpusim.measure.builds import Pack
from gpusim.measure.driver import Driver
from gpusim.measure.passes import COLD, WARM
from gpusim.measure.rounds import base_row
from gpusim.measure.run import MeasureOptions, MeasureRequest, described, load_case
from gpusim.measure.workload import DeviceWorkload
from gpusim.silicon.estimate import median_estimate
from gpusim.silicon.imports import ncu_csv
from gpusim.silicon.row import Estimate, SiliconRow

#: Set in the child: where its plan goes, and the state of the caches.
PROFILED_VARIABLE = "GPUSIM_PROFILED"
REPEATS = 5
PERMISSION = "ERR_NVGPUCTRPERM"
#: Nsight Compute's names of what a warp waits for; available() drops those that a GPU has not.
STALL_REASONS = (
    "wait", "branch_resolving", "long_scoreboard", "short_scoreboard", "imc_miss", "barrier", "membar", "math_pipe_throttle",
    "lg_throttle", "mio_throttle", "tex_throttle", "not_selected", "no_instruction", "dispatch_stall", "drain", "sleeping", "misc",
)  # fmt: skip
#: What is collected: cycles, time, and counters that the model has too, by the same names.
METRICS = (
    "sm__cycles_elapsed.max",
    "gpu__time_duration.sum",
    "smsp__inst_executed.sum",
    "smsp__thread_inst_executed.sum",
    "sm__warps_launched.sum",
    "sm__warps_active.sum",
    "sm__ctas_launched.sum",
    "smsp__inst_executed_op_shared_ld.sum",
    "smsp__inst_executed_op_shared_st.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum",
    "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum",
    "l1tex__data_pipe_lsu_wavefronts.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "l1tex__t_output_wavefronts_pipe_lsu.sum",
    "l1tex__m_xbar2l1tex_read_sectors.sum",
    "l1tex__m_l1tex2xbar_write_sectors.sum",
    "lts__t_sectors_op_read.sum",
    "lts__t_sectors_op_write.sum",
    "lts__t_sectors_op_atom.sum",
    "lts__t_sectors_op_red.sum",
    "lts__t_sectors_op_read_lookup_hit.sum",
    "lts__t_sectors_op_write_lookup_hit.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    *(f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio" for reason in STALL_REASONS),
)
_QUERY_SECONDS = 120
#: Time for the child's start and compilation on top of the budget.
_GRACE_SECONDS = 120


@dataclass(frozen=True)
class ProfiledChild:
    """This process as ncu's child: where its plan goes and which state the caches are to be in."""

    plan: Path
    cache: str

    def run(self, driver: Driver, requests: Sequence[MeasureRequest], options: MeasureOptions) -> int:
        """Launch what is to be profiled and write the plan; returns the exit code."""
        facts, tools = driver.facts(), options.builder.toolchain() or toolchain()
        spec = described(facts, options.gpu)
        profiled = []
        for number, request in enumerate(requests):
            workload = load_case(driver, facts, request, spec, tools, options.builder)
            if not isinstance(workload, DeviceWorkload):
                continue
            for _ in range(REPEATS):
                workload.restore()
                if self.cache == WARM:
                    workload.run(lambda launch: driver.launch(launch.bound))
                    workload.restore()
                for launch in workload.launches:
                    if launch.index is None:
                        driver.launch(launch.bound)
                        continue
                    driver.profile(True)
                    driver.launch(launch.bound)
                    driver.profile(False)
                    row = json.loads(base_row(facts, workload, launch.index, tools).to_json())
                    profiled.append({"request": number, "kernel": launch.launch.binary.name, "row": row})
            workload.free()
        driver.synchronize()
        part = self.plan.with_suffix(".part")
        part.write_text(json.dumps(profiled))
        os.replace(part, self.plan)
        return 0


def profiled_child() -> ProfiledChild | None:
    """What this process is to do if ncu started it for us, else None."""
    text = os.environ.get(PROFILED_VARIABLE, "")
    cache, colon, plan = text.partition(":")
    return ProfiledChild(Path(plan), cache) if colon else None


def find_ncu() -> str | None:
    """The path of Nsight Compute's program, or None."""
    return shutil.which("ncu")


def profile_cases(
    kernels: Sequence[str],
    options: MeasureOptions,
    device: int,
    small: bool,
    say: Callable[[str], None] = lambda line: None,
) -> Iterator[SiliconRow]:
    """Rows of the requests ``kernels`` (as on the command line) by Nsight Compute, for each cache state. Raises
    SiliconError."""
    ncu = find_ncu()
    if ncu is None:
        raise SiliconError("ncu is not on PATH: install Nsight Compute, or measure with --method events")
    metrics = available(ncu, METRICS)
    for cache in options.caches:
        say(f"ncu, {cache}: {len(kernels)} kernels, {len(metrics)} metrics")
        yield from _profile(ncu, kernels, options, cache, device, small, metrics)


def available(ncu: str, metrics: Sequence[str]) -> list[str]:
    """Those of ``metrics`` that ncu says this GPU has (by their base names); all of them where it does not say."""
    try:
        done = subprocess.run(
            [ncu, "--query-metrics"], capture_output=True, text=True, timeout=_QUERY_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return list(metrics)
    known = {line.split()[0] for line in done.stdout.splitlines() if line.split()}
    found = [metric for metric in metrics if metric.split(".")[0] in known]
    return found if any("cycles_elapsed" in metric for metric in found) else list(metrics)


def command_line(ncu: str, table: Path, metrics: Sequence[str], cache: str, child: Sequence[str]) -> list[str]:
    """The whole command: ncu's options, then the child."""
    return [
        ncu, "--csv", "--page", "raw", "--print-units", "base", "--print-fp", "--log-file", str(table),
        "--metrics", ",".join(metrics), "--clock-control", "none", "--profile-from-start", "off",
        "--cache-control", "all" if cache == COLD else "none", "--target-processes", "application-only", *child,
    ]  # fmt: skip


def _profile(
    ncu: str,
    kernels: Sequence[str],
    options: MeasureOptions,
    cache: str,
    device: int,
    small: bool,
    metrics: Sequence[str],
) -> list[SiliconRow]:
    child = [sys.executable, "-m", "gpusim.cli", "measure", *kernels, "--device", str(device), "--method", "events"]
    child += ["--gpu", options.gpu] if options.gpu else []
    child += ["--small"] if small else []
    child += ["--cubins", str(options.builder.folder)] if isinstance(options.builder, Pack) else []
    with tempfile.TemporaryDirectory(prefix="gpusim-ncu-") as folder:
        table, plan = Path(folder) / "table.csv", Path(folder) / "plan.json"
        root = str(Path(__file__).parents[2])
        environment = {
            **os.environ,
            PROFILED_VARIABLE: f"{cache}:{plan}",
            "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")])),
        }
        command = command_line(ncu, table, metrics, cache, child)
        seconds = options.budget_seconds + _GRACE_SECONDS
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired:
            raise SiliconError(
                f"ncu did not end within {seconds:.0f} s: name fewer kernels or give --budget more"
            ) from None
        except OSError as error:
            raise SiliconError(f"ncu cannot be started: {error}") from None
        printed = table.read_text("utf-8", "replace") if table.exists() else ""
        if done.returncode or not plan.exists() or not ncu_csv.looks_like(printed):
            raise SiliconError(_why(done, printed))
        return join(json.loads(plan.read_text()), ncu_csv.parse(printed, "ncu"), cache)


def join(plan: list[dict], measured: list[SiliconRow], cache: str) -> list[SiliconRow]:
    """One row a launch: the plan's entries and ncu's lines in the same order, repeats of a launch joined."""
    if len(plan) != len(measured):
        raise SiliconError(f"ncu printed {len(measured)} launches, {len(plan)} were made: measure with --method events")
    groups: dict[tuple[int, int], list[tuple[SiliconRow, SiliconRow]]] = {}
    for entry, found in zip(plan, measured, strict=True):
        row = SiliconRow.from_mapping(entry["row"])
        groups.setdefault((entry["request"], row.launch), []).append((row, found))
    return [_joined([found for _, found in group], group[0][0], cache) for group in groups.values()]


def _joined(found: list[SiliconRow], row: SiliconRow, cache: str) -> SiliconRow:
    cycles = [each.cycles.median for each in found if each.cycles is not None]
    times = [each.time_us.median for each in found if each.time_us is not None]
    clocks = [each.sm_clock_mhz for each in found if each.sm_clock_mhz is not None]
    names = [name for name in found[0].counters if all(name in each.counters for each in found)]
    return replace(
        row,
        method="ncu",
        cache=cache,
        n=len(found),
        cycles=_estimate(cycles),
        time_us=_estimate(times),
        samples_us=tuple(times),
        sm_clock_mhz=median_estimate(clocks).median if clocks else None,
        counters={name: median_estimate([each.counters[name] for each in found]).median for name in names},
        source="gpusim measure, Nsight Compute",
    )


def _estimate(samples: list[float]) -> Estimate | None:
    return median_estimate(samples) if samples else None


def _why(done: subprocess.CompletedProcess, printed: str) -> str:
    text = "\n".join((printed, done.stderr, done.stdout))
    if PERMISSION in text:
        return (
            f"ncu may not read the GPU's counters ({PERMISSION}): run as root, or load the driver with"
            f" NVreg_RestrictProfilingToAdminUsers=0; CUDA events need no permission (--method events)"
        )
    lines = [line.strip() for line in text.splitlines()]
    told = [line for line in lines if line.startswith(("==ERROR==", "error:"))] or [line for line in lines if line][-1:]
    return f"ncu ended with code {done.returncode}: {' '.join(told)[:400] or 'it said nothing'}"
