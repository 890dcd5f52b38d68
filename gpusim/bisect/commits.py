"""The commits between GOOD and BAD, each read in a checkout of its own by a process that runs that commit's code.

Mental model: the row is the first-parent line from the older to the newer of the two, as :mod:`gpusim.watch.repository`
has it; a reading is a checkout, the user's build command, and one question to a worker
(:mod:`gpusim.watch.worker_process`). What does not build, and what the worker refuses or does not survive, has no value
at that commit.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gpusim.bisect.find import COMMIT
from gpusim.bisect.kept import find_reading, keep_reading, key_of
from gpusim.bisect.reading import Point, Reading, reading_of
from gpusim.errors import ExecutionError, HistoryError
from gpusim.gpus.load import load_gpu
from gpusim.store.hashes import gpu_hash
from gpusim.store.store import Store
from gpusim.watch.cell_worker import method_facts
from gpusim.watch.kept import PASSING
from gpusim.watch.repository import Commit, checkout, commits, find_commit
from gpusim.watch.worker_process import Answer, WorkerProcess

#: Of a hash, so many digits are shown.
SHOWN_DIGITS = 10
_LAST_LETTERS = 300


@dataclass(frozen=True)
class CommitRun:
    """How a commit is read: ``request`` and ``gpu`` as the command line has them; ``build``: a shell command to run in
    the checkout first; ``python`` and ``python_path`` as a plan's toolchain and plan have them."""

    request: str
    gpu: str = "h200"
    small: bool = False
    build: str = ""
    python: str = ""
    python_path: tuple[str, ...] = ()
    environment: Mapping[str, str] | None = None
    timeout_s: float = 3600.0

    @property
    def gpu_path(self) -> str:
        """The GPU as a worker in any folder finds it."""
        return str(Path(self.gpu).resolve()) if Path(self.gpu).is_file() else self.gpu


class Commits:
    """The first-parent line from one of ``good`` and ``bad`` to the other, older first. ``turned``: BAD is the older
    one, so that what is looked for is the commit that mended it. Raises HistoryError where neither is on the line of
    the other."""

    what = COMMIT

    def __init__(self, repository: Path, good: str, bad: str, run: CommitRun, store: Store) -> None:
        self._repository, self._run, self._store = repository, run, store
        ends = find_commit(repository, good), find_commit(repository, bad)
        if ends[0].hash == ends[1].hash:
            raise HistoryError(
                f"{good} and {bad} are one commit, {ends[0].hash[:SHOWN_DIGITS]}: nothing lies between them"
            )
        forward = _line(repository, *ends)
        self.turned = forward is None
        line = forward or _line(repository, *reversed(ends))
        if line is None:
            raise HistoryError(
                f"{repository}: neither of {good} and {bad} is on the other's first-parent line; git merge-base {good} {bad}"
                " names the commit where they part: bisect from there"
            )
        self.commits = line
        self.points = [Point(each.hash[:SHOWN_DIGITS], each.hash, each.subject) for each in line]
        method = method_facts()
        spec = load_gpu(run.gpu)
        self._decides = {
            "what": "commit", "request": run.request, "gpu": gpu_hash(spec), "gpu_name": spec.name, "small": run.small,
            "build": run.build, "python": run.python, "python_path": run.python_path, "environment": dict(run.environment or {}),
            "method": {name: method[name] for name in ("gpusim_version", "model_hash", "compiler")},
        }  # fmt: skip

    def read(self, index: int) -> Reading:
        """The reading of a commit, from the store where it was read before."""
        point = self.points[index]
        key = key_of(commit=point.name, **self._decides)
        known = find_reading(self._store, key)
        if known is not None:
            return known
        reading, lasts = self._read_now(point.name)
        if lasts:
            keep_reading(self._store, key, point, reading, [self._run.request, point.name])
        return reading

    def _read_now(self, commit: str) -> tuple[Reading, bool]:
        """The reading, and whether it would be the same tomorrow."""
        run = self._run
        with checkout(self._repository, commit) as tree:
            if run.build and (failure := _build(run.build, tree, run.timeout_s)):
                return Reading(refused=f"its build failed: {failure}"), True
            with WorkerProcess(tree, run.python, run.environment, run.python_path) as worker:
                task = {
                    "id": 0, "case": run.request, "gpu": run.gpu_path, "mode": "simulated", "small": run.small,
                    "budget_s": run.timeout_s, "seed": 0,
                }  # fmt: skip
                try:
                    return reading_of_answer(worker.ask(task, run.timeout_s))
                except ExecutionError as error:
                    return Reading(refused=str(error)), False


def reading_of_answer(answer: Answer) -> tuple[Reading, bool]:
    """What a worker's answer says, and whether it would say so tomorrow."""
    if answer.refused is not None:
        return Reading(refused=answer.refused.message, facts=answer.facts), answer.refused.kind not in PASSING
    return reading_of(answer.launches, answer.figures, answer.facts, answer.unchecked), True


def _line(repository: Path, older: Commit, newer: Commit) -> list[Commit] | None:
    """The commits from ``older`` to ``newer``, both included; None where that is not on the line of this one."""
    count = newer.position - older.position
    if count < 0:
        return None
    found = commits(repository, newer.hash, most=count + 1)
    return found if found[0].hash == older.hash else None


def _build(command: str, tree: Path, timeout_s: float) -> str:
    """Run the user's command in the checkout; why it failed, empty where it did not."""
    process = subprocess.Popen(
        command, shell=True, cwd=tree, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip
    try:
        said, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return f"not done after {timeout_s:g} s"
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.returncode == 0:
        return ""
    lines = [line.strip() for line in said.decode(errors="replace").splitlines() if line.strip()]
    return (
        f"exit code {process.returncode}; {lines[-1][-_LAST_LETTERS:]}" if lines else f"exit code {process.returncode}"
    )
