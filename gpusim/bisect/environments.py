"""Versions of a package, or whole environments, as an order: each answers for the case in a process of its own.

Mental model: what compiles a Numba or Triton kernel is a package that gpusim imports, so a version of it takes a Python
in which that version is the one that is found: another environment's interpreter, or this one with the version's folder
before all others.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpusim.bisect.commits import reading_of_answer
from gpusim.bisect.compilers import VersionPlace
from gpusim.bisect.kept import find_reading, keep_reading, key_of
from gpusim.bisect.reading import Point, Reading
from gpusim.bisect.versions import PYTHON
from gpusim.cases.names import is_reference
from gpusim.cases.requests import parse_request
from gpusim.errors import ExecutionError
from gpusim.gpus.load import load_gpu
from gpusim.store.hashes import gpu_hash
from gpusim.store.store import Store
from gpusim.watch.worker_process import WorkerProcess


@dataclass(frozen=True)
class EnvironmentRun:
    """How the case is read: ``request`` and ``gpu`` as the command line has them, in ``folder``."""

    request: str
    gpu: str = "h200"
    small: bool = False
    timeout_s: float = 3600.0
    folder: Path = Path()


class Environments:
    """``places`` of versions of the package ``tool`` in order, or interpreters."""

    def __init__(self, tool: str, places: Sequence[VersionPlace], run: EnvironmentRun, store: Store) -> None:
        self.what, self._places, self._run, self._store = tool, places, run, store
        self.points = [Point(place.version, f"{tool} {place.version}") for place in places]

    def read(self, index: int) -> Reading:
        """The reading in an environment, from the store where the same environment has read the same file before."""
        run, point = self._run, self.points[index]
        python, environment = self._process(index)
        with WorkerProcess(run.folder.resolve(), python, environment) as worker:
            try:
                facts = worker.facts()
            except ExecutionError as error:
                return Reading(refused=str(error))
            key = key_of(
                what=point.name, request=run.request, gpu=gpu_hash(load_gpu(run.gpu)), small=run.small,
                method={name: facts.get(name, "") for name in ("gpusim_version", "model_hash", "compiler", "python")},
                source=self._source(),
            )  # fmt: skip
            known = find_reading(self._store, key)
            if known is not None:
                return known
            gpu = str(Path(run.gpu).resolve()) if Path(run.gpu).is_file() else run.gpu
            task = {
                "id": 0, "case": run.request, "gpu": gpu, "mode": "simulated", "small": run.small,
                "budget_s": run.timeout_s, "seed": 0,
            }  # fmt: skip
            reading, lasts = reading_of_answer(worker.ask(task, run.timeout_s))
        if lasts:
            keep_reading(self._store, key, point, reading, [run.request, point.name])
        return reading

    def path_of(self, point: Point) -> Path:
        """The folder of packages of the version at ``point``."""
        return self._places[self.points.index(point)].found(self.what)

    def _process(self, index: int) -> tuple[str, Mapping[str, str]]:
        """The interpreter and the variables of a version."""
        place = self._places[index]
        if self.what == PYTHON:
            return place.version, {}
        first = [str(place.found(self.what).resolve())]
        return "", {"PYTHONPATH": os.pathsep.join([*first, *filter(None, [os.environ.get("PYTHONPATH", "")])])}

    def _source(self) -> str:
        """The text of the file of the case, empty for an entry of the suite."""
        name, _ = parse_request(self._run.request)
        if not is_reference(name):
            return ""
        file = self._run.folder / name.rpartition(":")[0]
        return file.read_text(errors="replace") if file.is_file() else ""
