"""A stored run simulated once more, exactly as it was asked for: yesterday's gpusim against today's.

Mental model: ``simulate --save-run`` keeps beside the results what was asked (sources, shapes, GPU); this file writes
that request down and carries it out again. Trace files are read again from where they lay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from gpusim.cases.source import open_source
from gpusim.errors import StoreFormatError, UsageError
from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.io.records import as_record
from gpusim.regress.comparand import Comparand, simulate_launches
from gpusim.store.run import StoredRun
from gpusim.trace.record import Trace

#: The kind of document that a request is kept as.
REQUEST = "simulate"


class _Request(TypedDict):
    """What was asked."""

    sources: list[str]
    gpu: str
    settings: list[str]
    warm: list[str]
    small: NotRequired[bool]


def simulation_request(
    sources: Sequence[str], gpu: str, settings: Sequence[str], warm: Sequence[Path], small: bool
) -> dict[str, Any]:
    """What ``gpusim simulate`` was asked, as JSON can hold it."""
    return {
        "sources": list(sources),
        "gpu": gpu,
        "settings": list(settings),
        "warm": [str(path) for path in warm],
        "small": small,
    }


def rerun(
    run: StoredRun, gpu: str | None, settings: Sequence[str], progress: Callable[[str], None] = lambda line: None
) -> Comparand:
    """What ``run`` asked for, simulated now; on ``gpu`` and with ``settings`` where they are given."""
    where = f"run {run.info.id}"
    request = run.documents.get(REQUEST)
    if request is None:
        raise UsageError(f"{where} was kept by `gpusim {run.info.command}`, not by simulate: it cannot be run again")
    request = as_record(_Request, request, f"{where}: damaged: its request", StoreFormatError)
    if gpu is None:
        gpu, settings = request["gpu"], [*request["settings"], *settings]
    spec = override_gpu(load_gpu(gpu), settings)
    sources = [open_source(text, spec, small=request.get("small", False)) for text in request["sources"]]
    for text, source in zip(request["sources"], sources, strict=True):
        if source.unchecked:
            progress(f"not checked: {text} ({source.unchecked})")
    named = [launch for source in sources for launch in source.timed]
    warm = [Trace.load(path) for path in request["warm"]] + [trace for source in sources for trace in source.warm]
    return Comparand("now", simulate_launches(named, warm, spec))
