"""What the command line calls BASE and HEAD, made into a :class:`Comparand`.

Mental model: a text names, in this order, what lies there (a result file, a trace, a folder of traces), a stored run,
or a kernel of the suite; ``run:NAME`` and ``kernel:NAME`` say which where both exist, and ``now`` is the other side's
run simulated again. Traces of a folder are simulated each on a machine of its own, so that one that changed does not
move the others; a kernel's launches follow each other on one machine, as ``gpusim simulate`` has them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from gpusim.cases.names import kernel_names
from gpusim.cases.source import NamedTrace, open_source
from gpusim.errors import NoDataError, StoreError, StoreFormatError, UsageError
from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.io.progress import say, task
from gpusim.regress.comparand import Comparand, ComparedLaunch, simulate_launches
from gpusim.regress.rerun import rerun
from gpusim.regress.result_file import read_result
from gpusim.regress.side_names import KERNEL, NOW, RUN, names_nothing
from gpusim.regress.thresholds import DEFAULT_GPU
from gpusim.store import Store, StoredRun
from gpusim.trace.record import Trace


@dataclass(frozen=True)
class GpuRequest:
    """The GPU of a comparand as the command line has it: a name or file (None: not given), and settings."""

    gpu: str | None = None
    settings: tuple[str, ...] = ()

    def spec(self) -> GpuSpec:
        """The GPU, DEFAULT_GPU if none was given."""
        return override_gpu(load_gpu(self.gpu or DEFAULT_GPU), self.settings)

    @property
    def given(self) -> bool:
        return self.gpu is not None or bool(self.settings)


def open_comparands(
    base: str,
    head: str,
    machines: tuple[GpuRequest, GpuRequest],
    store: Store,
    *,
    small: bool = False,
) -> tuple[Comparand, Comparand]:
    """BASE and HEAD; either may be ``now`` if the other is a stored run. Raises UsageError for what names nothing, and
    as capturing and simulating do."""
    if base == NOW and head == NOW:
        raise UsageError("now against now compares nothing: name a stored run on one side")
    # What cannot be is refused before anything is simulated.
    specs = [machine.spec() for machine in machines]
    kinds = [None if text == NOW else _kind(text, store) for text in (base, head)]
    if NOW in (base, head) and "run" not in kinds:
        other = head if base == NOW else base
        raise UsageError(f"{NOW} simulates a stored run again, but {other} is none; see gpusim runs list")
    if base == NOW:
        return _rerun(head, machines[0], store), _open_one(head, "run", machines[1], specs[1], store, small)
    first = _open_one(base, kinds[0], machines[0], specs[0], store, small)
    if head == NOW:
        return first, _rerun(base, machines[1], store)
    return first, _open_one(head, kinds[1], machines[1], specs[1], store, small)


def _rerun(text: str, machine: GpuRequest, store: Store) -> Comparand:
    with task(f"simulating again what {text} has"):
        return rerun(store.load_run(text.removeprefix(RUN)), machine.gpu, machine.settings)


def _open_one(text: str, kind: str | None, machine: GpuRequest, spec: GpuSpec, store: Store, small: bool) -> Comparand:
    if kind in ("run", "result") and machine.given:
        raise UsageError(
            f"{text} is a saved result: its GPU is what it was simulated on; leave out --gpu and --set for it"
        )
    if kind == "run":
        return _stored(text, store.load_run(text.removeprefix(RUN)))
    if kind == "result":
        return Comparand(text, read_result(Path(text)))
    if kind == "folder":
        return _folder(Path(text), spec)
    source = open_source(text.removeprefix(KERNEL), spec, small=small)
    if source.unchecked:
        say(f"not checked: {text} ({source.unchecked})")
    if kind == "trace":
        _tell_newer(text, {file for each in source.timed for file in _newer(Path(text), each.trace)})
    return Comparand(text, simulate_launches(source.timed, source.warm, spec))


def _newer(path: Path, trace: Trace) -> list[str]:
    """The source files of ``trace`` that were changed after its file ``path`` was written."""
    written_ns = path.stat().st_mtime_ns
    sources = [Path(file) for file in trace.program.files if file]
    return [source.name for source in sources if source.is_file() and source.stat().st_mtime_ns > written_ns]


def _tell_newer(text: str, files: set[str]) -> None:
    """A trace holds no source text."""
    if files:
        say(f"note: {', '.join(sorted(files))} changed after {text} was written: its lines are shown as they stand now")


def _kind(text: str, store: Store) -> str:
    """run, result, folder, trace or kernel."""
    if text.startswith(RUN):
        return "run"
    if text.startswith(KERNEL):
        return "kernel"
    path = Path(text)
    if path.is_dir():
        return "folder"
    if path.is_file():
        return "result" if path.suffix == ".json" or _is_json(path) else "trace"
    is_kernel = text.partition(":")[0] in kernel_names()
    is_run = text.isdecimal() or _is_stored(text, store, is_kernel or ":" in text)
    if is_run and is_kernel:
        raise UsageError(f"{text} is both a stored run and a kernel of the suite: write {RUN}{text} or {KERNEL}{text}")
    if is_run:
        return "run"
    if is_kernel or ":" in text:
        return "kernel"
    raise names_nothing(text, store.name, sorted({info.name for info in store.list_runs() if info.name}))


def _is_json(path: Path) -> bool:
    """Whether the file begins as simulate --save writes one, under whatever name."""
    try:
        with path.open("rb") as stream:
            return stream.read(1) == b"{"
    except OSError:
        return False  # opening it as a trace says why


def _is_stored(text: str, store: Store, is_kernel: bool) -> bool:
    """Whether a run is called so. A store that cannot be read holds up no kernel: that needs none."""
    try:
        return any(info.name == text for info in store.list_runs())
    except (StoreError, StoreFormatError) as error:
        if not is_kernel:
            raise
        say(f"note: {error}; {text} is taken as a kernel")
        return False


def _stored(text: str, run: StoredRun) -> Comparand:
    items = tuple(
        ComparedLaunch(record, "", run.gpus.get(record.gpu_hash, {}), run.info.model_hash) for record in run.launches
    )
    return Comparand(text, items, run.measurements)


def _folder(path: Path, spec: GpuSpec) -> Comparand:
    files = sorted(path.rglob("*.trace"))
    if not files:
        raise NoDataError(f"{path}: no file in this folder ends in .trace")
    items: list[ComparedLaunch] = []
    newer: set[str] = set()
    with task(f"simulating {path}", len(files), "traces", weights=[file.stat().st_size for file in files]) as shown:
        for file in files:
            trace = Trace.load(file)
            newer |= set(_newer(file, trace))
            (item,) = simulate_launches((NamedTrace(trace, trace.launch.kernel),), (), spec)
            items.append(replace(item, file=file.relative_to(path).as_posix()))
            shown.to(len(items))
    _tell_newer(str(path), newer)
    return Comparand(str(path), tuple(items), folder=True)
