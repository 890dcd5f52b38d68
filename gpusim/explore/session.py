"""A search as the command runs it: over processes, kept in a folder that others may use too, resumed from it.

Mental model: each worker runs a :class:`gpusim.explore.search.Search` of its own seed and its share of the examples and
keeps its runs in the example database (:mod:`gpusim.explore.examples`), from which it also takes what others have run
already. The parent puts the runs of its workers together, makes findings of them and writes coverage and findings
whole. The same seed, workers and examples give the same runs, whoever simulated them.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from gpusim import errors as errors_module
from gpusim.cases.names import is_reference
from gpusim.cases.native_names import split_native
from gpusim.cases.suite import MACHINE_AXES
from gpusim.errors import ExecutionError
from gpusim.explore.coverage import Coverage
from gpusim.explore.dask_shares import run_shares
from gpusim.explore.examples import Examples, new_session
from gpusim.explore.finding import Finding
from gpusim.explore.network_shapes import shapes_around
from gpusim.explore.property_registry import make_property
from gpusim.explore.report_findings import findings_of
from gpusim.explore.search import Search
from gpusim.explore.suite_coverage import suite_coverage
from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.io.jit_cache import stamp_of
from gpusim.io.progress import task
from gpusim.io.real_path import real_path
from gpusim.io.sibling import load_sibling
from gpusim.workers import worker_pool

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

Progress = Callable[[float, str], None]
#: How often the parent looks how far its workers are.
TELL_SECONDS = 1.0
LOCK = ".lock"


@dataclass(frozen=True)
class Plan:
    """What to search: ``property`` with ``options``, on ``gpu`` with ``settings``, over ``kernels``; with ``first``
    each worker stops at its first divergence; ``around``: passes of networks (:mod:`gpusim.explore.network_shapes`)."""

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
    first: bool = False
    around: tuple[str, ...] = ()

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
        around=shapes_around(plan.around, plan.growth),
        beside=strategies.beside,
    )


def explore(
    plan: Plan, folder: Path, *, jobs: int = 1, resume: bool = False, cluster: Any = None
) -> tuple[Search, list[Finding]]:
    """Run ``plan``, keep runs, coverage and findings in ``folder``, and return the merged search and its findings.

    Several calls, in any processes, may share the folder: a shape that one has run is not simulated by another.
    ``resume``: runs of the same question in the folder count as runs of this search; ``max_examples`` includes them.
    ``cluster``: a client (:func:`gpusim.cluster.connect`) whose workers run the ``jobs`` shares.
    Raises what properties raise, FindingFileError for a folder that holds something else, OSError from the file
    system, ExecutionError where a worker has died.
    """
    with _made(folder):
        return _explore(plan, folder, jobs=jobs, resume=resume, cluster=cluster)


@contextlib.contextmanager
def _made(folder: Path) -> Iterator[None]:
    """The folder, made if need be; where the block cannot write into it, and it is new and empty, it goes again."""
    new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except OSError:
        if new:
            with contextlib.suppress(OSError):  # there are runs in it, to go on from with --resume
                (folder / LOCK).unlink(missing_ok=True)
                folder.rmdir()
        raise


def _explore(plan: Plan, folder: Path, *, jobs: int, resume: bool, cluster: Any) -> tuple[Search, list[Finding]]:
    examples = Examples(folder, question(plan), new_session())
    examples.refresh()
    merged = new_search(plan)
    earlier = list(examples.runs.values()) if resume else []
    left = max(0, plan.max_examples - len(earlier))
    shares = [left // jobs + (worker < left % jobs) for worker in range(jobs)]
    if cluster is not None:
        refusals = run_shares(cluster, _run_worker, question, plan, folder, examples.session, shares, resume)
    elif jobs == 1:
        with task("exploring", plan.max_examples, "workloads") as shown:
            refusals = [_run_worker(plan, folder, examples.session, (0, 1), shares[0], resume, shown.to)]
    else:
        what = f"exploring in {jobs} processes"
        with worker_pool(jobs) as pool, task(what, plan.max_examples, "workloads") as shown:
            work = (plan, folder, examples.session)
            futures = [
                pool.submit(_run_worker, *work, (worker, jobs), share, resume) for worker, share in enumerate(shares)
            ]
            before = len(examples.runs)
            try:
                while wait(futures, TELL_SECONDS, FIRST_EXCEPTION).not_done and not any(map(_failed, futures)):
                    examples.refresh()
                    shown.to(len(examples.runs) - before + len(earlier))
                refusals = [future.result() for future in futures]
                examples.refresh()
                shown.to(len(examples.runs) - before + len(earlier))
            except BrokenProcessPool:
                raise ExecutionError(
                    f"a worker of the search died (killed, or out of memory); its runs are in {folder}: "
                    "go on with --resume, perhaps with fewer --jobs"
                ) from None
    for tried in {each.key: each for each in (*earlier, *examples.of_session())}.values():
        merged.restore(tried)
    merged.refused = sum(count for count, _ in refusals)
    merged.refusal = next((why for _, why in refusals if why), "")
    merged.find_outcome = examples.find
    try:
        findings = findings_of(
            merged,
            options=plan.options,
            gpu=plan.gpu,
            settings=plan.settings,
            keep=lambda tried: examples.add(0, tried),
        )
    finally:
        examples.close()
    with _folder_lock(folder):
        # Of all that was run here, by whichever command: the last one to end must not undo what another has written.
        # Read anew, file after file: in the order in which runs came in, the same search would name other examples.
        everything = Examples(folder, question(plan), examples.session)
        everything.refresh()
        Coverage().merge(*(tried.outcome.coverage for tried in everything.runs.values())).save(folder / "coverage.json")
    for finding in findings:
        finding.save(folder)
    return merged, findings


def _failed(future: Future) -> bool:
    return future.done() and future.exception() is not None


def question(plan: Plan) -> str:
    """What the runs of ``plan`` answer, as a text that is the same for runs that may be mixed: property and options,
    the files that they name, GPUs in full, and the sources of this gpusim and of the property."""
    prop = make_property(plan.property, plan.spec, plan.options)
    texts = [text for value in plan.options.values() for text in str(value).split("\n")]
    contents = [stamp_of([Path(text)]) for text in texts if text and Path(text).is_file()]
    # A user's kernel may import its neighbours.
    own = [Path(kernel.rpartition(":")[0]) for kernel in plan.kernels if is_reference(kernel)]
    contents += [stamp_of(real_path(file).parent.glob("*.py")) for file in own]
    contents += [stamp_of([Path(native[0])]) for kernel in plan.kernels if (native := split_native(kernel)) is not None]
    contents += [stamp_of((Path(text) / "gpusim").rglob("*.py")) for text in texts if text and Path(text).is_dir()]
    code = getattr(sys.modules.get(type(prop).__module__), "__file__", None)  # a property typed in at a prompt has none
    contents.append(stamp_of([Path(code)] if code else []))
    return repr((plan.property, sorted(plan.options.items()), plan.spec, prop.depends_on(), contents, _sources()))


@lru_cache(maxsize=1)
def _sources() -> str:
    """Of gpusim and of the kernels: what runs said before either changed counts no more."""
    package = Path(str(errors_module.__file__)).parent
    kernels = Path(str(load_sibling("kernels", "the kernel suite").__file__)).parent
    return stamp_of(path for folder in (package, kernels) for path in folder.rglob("*.py"))


@contextlib.contextmanager
def _folder_lock(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, which the system releases when a process ends, however it ends. Without locks of files
    (Windows) nothing is held."""
    if fcntl is None:
        yield
        return
    with (folder / LOCK).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _run_worker(
    plan: Plan,
    folder: Path,
    session: str,
    worker: tuple[int, int],
    share: int,
    resume: bool,
    progress: Progress | None = None,
) -> tuple[int, str]:
    """The part of ``worker`` (number, of how many): its runs go to its own file, and each shape is for one worker.
    Returns how many shapes were refused, and why the last of them was."""
    number, workers = worker
    examples = Examples(folder, question(plan), session, number)
    search = new_search(plan, plan.seed + 1_000_003 * number)
    search.is_ours = lambda kernel, shape: zlib.crc32(f"{kernel}:{shape}".encode()) % workers == number
    search.find_outcome = examples.find
    if resume:
        examples.refresh()
        for tried in list(examples.runs.values()):
            search.restore(tried)
        search.rounds = examples.rounds
    search.run(
        max_examples=len(search.tried) + share,
        max_seconds=plan.max_seconds,
        progress=progress or (lambda done, detail: None),
        keep=lambda tried: examples.add(search.rounds, tried),
        enough=lambda: plan.first and any(search.prop.fails(tried.outcome) for tried in search.tried[-1:]),
    )
    examples.close()
    return search.refused, search.refusal
