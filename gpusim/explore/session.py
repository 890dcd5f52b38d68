"""A search as the command runs it: over processes, kept in a folder, resumed from it.

Mental model: each worker runs a :class:`gpusim.explore.search.Search` of its own seed and its share of the examples and
appends every run to a file that only it writes; a line is whole or, after a kill, ignored. The parent puts the runs
together, makes findings of them and writes coverage and findings whole. The same seed, workers and examples
give the same runs.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpusim.errors import FindingFileError
from gpusim.explore.choices import make_property
from gpusim.explore.coverage import Coverage, Hits
from gpusim.explore.finding import Finding
from gpusim.explore.properties import Outcome
from gpusim.explore.report_findings import findings_of
from gpusim.explore.search import Search, Tried
from gpusim.explore.suite_coverage import suite_coverage
from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.sibling import load_sibling
from gpusim.suite import MACHINE_AXES

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """What to search: ``property`` with ``options``, on ``gpu`` with ``settings``, over ``kernels``."""

    kernels: tuple[str, ...]
    property: str
    options: Mapping[str, Any] = field(default_factory=dict)
    gpu: str = "h200"
    settings: tuple[str, ...] = ()
    seed: int = 0
    growth: float = 16.0
    max_examples: int = 100
    max_seconds: float = float("inf")
    steer: bool = True

    @property
    def spec(self) -> GpuSpec:
        """The GPU with its settings."""
        return override_gpu(load_gpu(self.gpu), self.settings)


def new_search(plan: Plan, seed: int | None = None) -> Search:
    """A search of ``plan`` that has not run yet."""
    spec = plan.spec
    load_sibling("workloads", "the workloads")
    strategies = importlib.import_module("gpusim.workloads.strategies")
    return Search(
        plan.kernels,
        make_property(plan.property, spec, plan.options),
        strategies.shapes,
        spec,
        seed=plan.seed if seed is None else seed,
        growth=plan.growth,
        marks=strategies.wave_marks(spec.sm_count),
        machine_axes={axis: read(spec) for axis, read in MACHINE_AXES.items()},
        known=suite_coverage(),
        steer=plan.steer,
    )


def explore(
    plan: Plan, folder: Path, *, jobs: int = 1, resume: bool = False, progress: Progress = lambda line: None
) -> tuple[Search, list[Finding]]:
    """Run ``plan``, keep runs, coverage and findings in ``folder``, and return the whole search and its findings.

    ``resume``: runs in the folder count and are not run again. Raises what properties raise, FindingFileError for a
    folder that holds something else, OSError from the file system.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not resume:
        for old in folder.glob("runs-*.jsonl"):
            old.unlink()
    whole = new_search(plan)
    shares = [plan.max_examples // jobs + (worker < plan.max_examples % jobs) for worker in range(jobs)]
    if jobs == 1:
        _work(plan, folder, 0, shares[0], progress)
    else:
        # spawn, not fork: a fork would copy locks of threads that do not exist in the child.
        with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
            futures = [pool.submit(_work, plan, folder, worker, share) for worker, share in enumerate(shares)]
            for worker, future in enumerate(futures):
                future.result()
                progress(f"worker {worker + 1} of {jobs} is done")
    for path in sorted(folder.glob("runs-*.jsonl")):
        for _, tried in read_runs(path):
            whole.restore(tried)
    findings = []
    with (folder / "runs-findings.jsonl").open("a", encoding="utf-8") as file:
        findings = findings_of(
            whole,
            options=plan.options,
            gpu=plan.gpu,
            settings=plan.settings,
            progress=progress,
            keep=lambda tried: _append(file, 0, tried),
        )
    whole.coverage.save(folder / "coverage.json")
    for finding in findings:
        finding.save(folder)
    return whole, findings


def _work(plan: Plan, folder: Path, worker: int, share: int, progress: Progress | None = None) -> None:
    """One worker's part: its runs go to its own file."""
    search = new_search(plan, plan.seed + 1_000_003 * worker)
    path = folder / f"runs-{worker}.jsonl"
    if path.exists():
        for round_number, tried in read_runs(path):
            search.restore(tried)
            search.rounds = max(search.rounds, round_number + 1)
        _drop_torn_line(path)
    with path.open("a", encoding="utf-8") as file:
        search.run(
            max_examples=share,
            max_seconds=plan.max_seconds,
            progress=progress or (lambda line: None),
            keep=lambda tried: _append(file, search.rounds, tried),
        )


def _drop_torn_line(path: Path) -> None:
    """Cut off what a kill left after the last whole line, so that the next line begins a line."""
    data = path.read_bytes()
    if data and not data.endswith(b"\n"):
        with path.open("r+b") as file:
            file.truncate(data.rfind(b"\n") + 1)


def _append(file: Any, round_number: int, tried: Tried) -> None:
    outcome = tried.outcome
    line = {
        "round": round_number,
        "kernel": tried.kernel,
        "shape": dict(tried.shape),
        "divergence": outcome.divergence,
        "detail": outcome.detail,
        "launches": outcome.coverage.launches,
        "new_bins": tried.new_bins,
        "bins": [[*each, hits.count, *hits.examples[:1]] for each, hits in outcome.coverage.hits.items()],
    }
    file.write(json.dumps(line, allow_nan=False) + "\n")
    file.flush()


def read_runs(path: Path) -> Iterator[tuple[int, Tried]]:
    """(round, run) of every whole line; a last line that a kill cut short is left out, any other that is no run
    raises FindingFileError with its number."""
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    for number, line in enumerate(lines[:-1], start=1):
        try:
            row = json.loads(line)
            hits = {(str(b[0]), str(b[1])): Hits(int(b[2]), tuple(map(str, b[3:4]))) for b in row["bins"]}
            outcome = Outcome(float(row["divergence"]), str(row["detail"]), Coverage(hits, int(row["launches"])))
            yield int(row["round"]), Tried(str(row["kernel"]), dict(row["shape"]), outcome, int(row["new_bins"]))
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise FindingFileError(f"{path} line {number} is no run of a search: {error}") from None
