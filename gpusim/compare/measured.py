"""Comparing the simulator with rows of measurements: capture, join, simulate, judge, explain.

Mental model: requests name launches, rows name measurements; the two are joined (:mod:`gpusim.compare.join`), each
joined launch is simulated at the row's clock and cache state (:mod:`gpusim.compare.case_simulator`) and judged
(:mod:`gpusim.compare.judge`); counters are laid side by side; with ``why`` the gaps are decomposed
(:mod:`gpusim.compare.gap`). What has no counterpart, on either side, and what could not be run stays in the result with
its reason.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpusim.cases.names import is_reference, kernel_names
from gpusim.cases.native_names import is_native
from gpusim.cases.suite import complete_shape, parse_request, shape_text
from gpusim.compare.case_simulator import CaseSimulator, cache_state
from gpusim.compare.counters import CounterDifference, compare_counters, wrong_reason
from gpusim.compare.error import Verdict
from gpusim.compare.gap import Decomposition, GapCase, Term, decompose
from gpusim.compare.join import LaunchFacts, Pair, join
from gpusim.compare.judge import Judgement, KnownError, Tolerance, judge, measured_cycles
from gpusim.compare.overall import Overall, summarise_pairs
from gpusim.compare.stalls import stall_metrics, stall_split
from gpusim.engine.result import LaunchResult
from gpusim.errors import GpusimError, NoDataError, ToolchainError, UnsupportedOpcodeError, UsageError
from gpusim.gpus.spec import GpuSpec
from gpusim.io.nearest import hint
from gpusim.io.progress import task
from gpusim.io.temporary_folder import temporary_folder
from gpusim.silicon.methods import method_of
from gpusim.silicon.row import Estimate, SiliconRow

_LIST = "`gpusim kernels list` names the kernels"
#: (kernel, its shape axis by axis or None for every shape that was measured).
Request = tuple[str, Mapping[str, Any] | None]


@dataclass(frozen=True)
class Entry:
    """One measured launch beside the simulated one. ``measured`` None and verdict NO-DATA where the row has no time;
    ``note`` says what was assumed, ``finding`` what is odd; ``terms`` of the gap are there with ``why``,
    ``stall_gap`` where the stall reasons were measured (:mod:`gpusim.compare.stalls`). ``seconds``: what it took to
    simulate, of a case's first launch also what it took to capture."""

    gpu: str
    name: str
    kernel: str
    shape: str
    launch: int
    cache: str
    method: str
    joined_by: str
    clock_mhz: float
    simulated_cycles: float
    measured: Estimate | None
    judgement: Judgement
    counters: tuple[CounterDifference, ...]
    result: LaunchResult
    finding: str
    note: str
    cubin_hash: str = ""
    terms: tuple[Term, ...] = ()
    stall_gap: Mapping[str, float] = field(default_factory=dict)
    seconds: float = field(default=0.0, compare=False)

    @property
    def verdict(self) -> Verdict:
        """What was found of this launch."""
        return self.judgement.verdict

    @property
    def interval_cycles(self) -> tuple[float, float]:
        """Between which cycles the measurement should lie (:mod:`gpusim.uncertainty`); NaN where the result has no
        description."""
        interval = self.result.interval
        if interval is None:
            return math.nan, math.nan
        one = self.simulated_cycles / self.result.time_us
        return interval.low_us * one, interval.high_us * one

    @property
    def within_interval(self) -> bool | None:
        """Whether it does; None where nothing was measured."""
        low, high = self.interval_cycles
        return None if self.measured is None or math.isnan(low) else low <= self.measured.median <= high


@dataclass(frozen=True)
class Uncompared:
    """What could not be compared: a request without a row, a row without a launch, a launch that does not run."""

    gpu: str
    name: str
    verdict: Verdict
    reason: str
    exit_code: int = 0


@dataclass(frozen=True)
class MeasuredComparison:
    """All launches of one GPU. ``other_gpus``: rows that were measured elsewhere and left out."""

    gpu: str
    entries: tuple[Entry, ...]
    uncompared: tuple[Uncompared, ...]
    overall: Overall
    gap: Decomposition | None
    other_gpus: int

    @property
    def within_interval_percent(self) -> float:
        """Share of the measured launches within their prediction intervals; NaN without any."""
        found = [entry.within_interval for entry in self.entries if entry.within_interval is not None]
        return 100.0 * sum(found) / len(found) if found else math.nan

    @property
    def judged(self) -> list[Entry]:
        """The entries that have a measured time."""
        return [entry for entry in self.entries if entry.measured is not None]


def parse_requests(texts: Sequence[str], suites: Mapping[str, Sequence[Request]]) -> list[Request]:
    """Requests of a command line: names of pinned suites, ``KERNEL`` (all measured shapes) or
    ``KERNEL:axis=value,...``."""
    requests: list[Request] = []
    for text in texts:
        name, shape = parse_request(text)
        if name in suites and not shape:
            requests += suites[name]
        else:
            requests.append((name, shape or None))
    return requests


def rows_of_gpu(rows: Sequence[SiliconRow], names: Iterable[str]) -> tuple[list[SiliconRow], int]:
    """Rows measured on one of the named GPUs or on an unnamed device, and how many others there are."""
    wanted = set(names)
    mine = [row for row in rows if row.gpu in wanted or (not row.gpu and not row.device_name)]
    return mine, len(rows) - len(mine)


def compare_rows(
    requests: Sequence[Request],
    rows: Sequence[SiliconRow],
    spec: GpuSpec,
    *,
    measured_as: str = "",
    keeps_clock: bool = True,
    tolerance: Tolerance | None = None,
    known_error: Callable[[str], KnownError | None] = lambda kernel: None,
    why: bool = False,
    progress: Callable[[str], None] = lambda line: None,
) -> MeasuredComparison:
    """Compare ``rows`` with the simulation of ``spec``. No ``requests``: every row that names a kernel of the suite.

    ``measured_as``: the built-in GPU whose rows are used; ``keeps_clock``: simulate at the rows' clocks.
    ``known_error``: what the model is known to miss by for a kernel. Raises NoDataError when no row is of this GPU.
    """
    mine, others = rows_of_gpu(rows, (spec.name, measured_as))
    if not mine:
        elsewhere = (
            f"; there {'is 1 row' if others == 1 else f'are {others} rows'} of {', '.join(sorted({r.gpu or r.device_name for r in rows}))}"
            if others
            else ""
        )
        raise NoDataError(f"no measured row is of {measured_as or spec.name}{elsewhere}")
    mine, uncompared = _completed(mine, spec, requests)
    wanted, missing = _shapes(requests, mine, spec)
    uncompared += missing
    nameless = set() if wanted else {each.name for each in missing}
    with temporary_folder("compare") as folder:
        simulator = CaseSimulator(spec, folder)
        launches, failed = _capture(simulator, wanted)
        joined = join([row for row in mine if _asked(row, requests, wanted)], launches)
        bad = {(kernel, shape) for kernel, shape, _ in failed}
        uncompared += [Uncompared(spec.name, _name(k, s), *_failure(error)) for k, s, error in failed]
        uncompared += [
            Uncompared(spec.name, _name(row.kernel, row.shape), Verdict.NO_DATA, f"the row {reason}")
            for row, reason in joined.unmatched
            if (row.kernel, row.shape) not in bad and row.kernel not in nameless
        ]
        uncompared += [
            Uncompared(spec.name, launch.name, Verdict.NO_DATA, "no measured row fits this launch")
            for launch in joined.unmeasured
        ]
        entries, cases = [], []
        with task(f"comparing on {spec.name}", len(joined.pairs), "launches") as shown:
            for number, pair in enumerate(joined.pairs, 1):
                shown.to(number - 1)
                start = time.monotonic()
                try:
                    entry = _entry(pair, simulator, keeps_clock, tolerance or Tolerance(), known_error)
                except ToolchainError:
                    raise
                except GpusimError as error:
                    uncompared.append(Uncompared(spec.name, pair.launch.name, *_failure(error)))
                    progress(f"[{number:>3}/{len(joined.pairs)}] {pair.launch.name}: {uncompared[-1].reason}")
                    continue
                captured = simulator.capture_seconds.pop((pair.launch.kernel, pair.launch.shape), 0.0)
                entry = replace(entry, seconds=captured + time.monotonic() - start)
                entries.append(entry)
                progress(f"[{number:>3}/{len(joined.pairs)}] {entry.name} ({entry.cache}): {entry.judgement.reason}")
                if entry.measured is not None:
                    cases.append(GapCase(pair.row, pair.launch, entry.measured.median, entry.clock_mhz * 1e6))
            shown.to(len(joined.pairs))
        gap = decompose(cases, simulator) if why and cases else None
    if gap is not None:
        entries = _with_terms(entries, gap)
    judged = [entry for entry in entries if entry.measured is not None]
    overall = summarise_pairs(
        [entry.simulated_cycles for entry in judged],
        [entry.measured.median for entry in judged],
        (tolerance or Tolerance()).percent,
    )
    return MeasuredComparison(spec.name, tuple(entries), tuple(uncompared), overall, gap, others)


def _completed(
    rows: Sequence[SiliconRow], spec: GpuSpec, requests: Sequence[Request]
) -> tuple[list[SiliconRow], list[Uncompared]]:
    """The rows with every axis in their shapes, as the suite writes them, and those whose shapes the suite refuses. A
    case of the user's is asked for its axes where a request names it: a row alone runs no code."""
    known = {*kernel_names(), *(kernel for kernel, _ in requests if is_reference(kernel) or is_native(kernel))}
    completed, refused = [], []
    for row in rows:
        if row.shape and row.kernel in known:
            try:
                shape = parse_request(f"{row.kernel}:{row.shape}")[1]
                row = replace(row, shape=shape_text(complete_shape(row.kernel, shape, spec)))
            except UsageError as error:
                reason = f"the row's shape is not the suite's: {error}"
                refused.append(Uncompared(spec.name, _name(row.kernel, row.shape), Verdict.NO_DATA, reason))
                continue
        completed.append(row)
    return completed, refused


def _shapes(
    requests: Sequence[Request], rows: Sequence[SiliconRow], spec: GpuSpec
) -> tuple[list[tuple[str, dict[str, Any]]], list[Uncompared]]:
    """The cases to capture, each once, and the requests that no row can belong to."""
    known = set(kernel_names())
    foreign = any(row.kernel not in known for row in rows)
    wanted: dict[tuple[str, str], dict[str, Any]] = {}
    missing: list[Uncompared] = []
    for kernel, shape in requests or [(name, None) for name in sorted({r.kernel for r in rows} & known)]:
        of_kernel = [row for row in rows if row.kernel == kernel]
        shapes = (
            [dict(shape)] if shape is not None else [_parsed(row) for row in of_kernel] or ([{}] if foreign else [])
        )
        if not of_kernel and not foreign:
            name = _name(kernel, shape_text(complete_shape(kernel, dict(shape or {}), spec)))
            missing.append(Uncompared(spec.name, name, Verdict.NO_DATA, "nobody has measured this kernel here"))
            continue
        for one in shapes:
            complete = complete_shape(kernel, one, spec)
            wanted.setdefault((kernel, shape_text(complete)), complete)
    if not requests:
        missing += [
            Uncompared(
                spec.name,
                name,
                Verdict.NO_DATA,
                "a kernel of your own: name the launches to join it to, as in gpusim compare " + name
                if is_reference(name) or is_native(name)
                else f"no kernel of the suite ({hint(name, kernel_names(), _LIST)}): name the launches to join it to",
            )
            for name in sorted({row.kernel for row in rows} - known)
            if not wanted
        ]
    return [(kernel, shape) for (kernel, _), shape in wanted.items()], missing


def _parsed(row: SiliconRow) -> dict[str, Any]:
    """The axes of a row's shape."""
    return dict(parse_request(f"{row.kernel}:{row.shape}")[1]) if row.shape else {}


def _asked(row: SiliconRow, requests: Sequence[Request], wanted: Sequence[tuple[str, dict[str, Any]]]) -> bool:
    """Whether the requests speak of this row: by kernel and shape, or because it names no kernel of the suite."""
    if not requests:
        return True
    for kernel, shape in requests:
        if row.kernel == kernel and (shape is None or not row.shape):
            return True
    asked = {(kernel, shape_text(shape)) for kernel, shape in wanted}
    return (row.kernel, row.shape) in asked or row.kernel not in kernel_names()


def _capture(
    simulator: CaseSimulator, wanted: Sequence[tuple[str, dict[str, Any]]]
) -> tuple[list[LaunchFacts], list[tuple[str, str, GpusimError]]]:
    launches: list[LaunchFacts] = []
    failed = []
    with task("capturing", len(wanted), "workloads") as shown:
        for number, (kernel, shape) in enumerate(wanted, 1):
            try:
                launches += simulator.add(kernel, shape)
            except ToolchainError:
                raise
            except GpusimError as error:
                failed.append((kernel, shape_text(shape), error))
            shown.to(number)
    return launches, failed


def _failure(error: GpusimError) -> tuple[Verdict, str, int]:
    unsupported = isinstance(error, UnsupportedOpcodeError)
    verdict = Verdict.UNSUPPORTED if unsupported else Verdict.NO_DATA
    return verdict, " ".join(str(error).split()), error.exit_code


def _entry(
    pair: Pair,
    simulator: CaseSimulator,
    keeps_clock: bool,
    tolerance: Tolerance,
    known_error: Callable[[str], KnownError | None],
) -> Entry:
    row, launch = pair.row, pair.launch
    state, state_note = cache_state(row)
    described_mhz = simulator.spec.clock_hz / 1e6
    clock_mhz = row.sm_clock_mhz if row.sm_clock_mhz and keeps_clock else described_mhz
    if clock_mhz < 1:
        raise UsageError(f"{launch.name}: the row's clock of {clock_mhz} MHz is none")
    result = simulator.simulate(launch, state, clock_mhz * 1e6)
    cycles = simulator.cycles(row, launch, clock_mhz * 1e6)
    measured, time_note = measured_cycles(row, clock_mhz)
    if measured is None:
        judgement = Judgement(Verdict.NO_DATA, time_note, float("nan"), tolerance.percent)
    else:
        judgement = judge(cycles, measured, tolerance, known_error(launch.kernel), row.flags)
    differences = tuple(compare_counters({**result.counters, **stall_metrics(result.stalls)}, row.counters))
    split = stall_split(cycles, result.stalls, measured.median, row.counters) if measured else {}
    finding = wrong_reason(list(differences)) if judgement.verdict == Verdict.SAME else ""
    unnamed = "" if row.gpu else "the row names no GPU"
    method = method_of(row)
    besides_us = method.besides_us(clock_mhz * 1e6, generation=simulator.spec.generation) if method else 0.0
    added = f"as {method.name} measures: {besides_us:.2g} us added for {method.added}" if method and besides_us else ""
    return Entry(
        simulator.spec.name,
        launch.name,
        launch.kernel,
        launch.shape,
        launch.index,
        state,
        row.method,
        pair.how,
        clock_mhz,
        cycles,
        measured,
        judgement,
        differences,
        result,
        finding,
        "; ".join(filter(None, (pair.note, state_note, time_note if measured else "", added, unnamed, *row.flags))),
        launch.cubin_hash,
        stall_gap=split,
    )


def _with_terms(entries: Sequence[Entry], gap: Decomposition) -> list[Entry]:
    terms = iter(gap.terms)
    return [replace(entry, terms=next(terms)) if entry.measured is not None else entry for entry in entries]


def _name(kernel: str, shape: str) -> str:
    return f"{kernel}:{shape}" if shape else kernel
