"""The cells of a checked-out commit, run by worker processes of this machine.

Mental model: as many threads as there are jobs, each with a worker process of its own that it asks cell by cell; what
is submitted is a future, as of any executor, so that whoever waits need not know where a cell runs.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from gpusim.watch.plan import Plan, Toolchain
from gpusim.watch.worker_process import Answer, WorkerProcess


class LocalPlace:
    """This machine, with at most ``jobs`` workers at a time."""

    def __init__(self, plan: Plan, jobs: int) -> None:
        # Measurements come one after the other: they share a GPU.
        self._plan, self._jobs = plan, 1 if plan.mode == "measured" else jobs

    def facts(self, toolchain: Toolchain) -> dict[str, str]:
        with WorkerProcess(self._plan.folder, toolchain.python, toolchain.environment) as worker:
            return worker.facts()

    def open(self, tree: Path, toolchain: Toolchain, count: int) -> LocalCells:
        return LocalCells(tree, toolchain, self._plan.python_path, min(self._jobs, count))


class LocalCells:
    """``jobs`` workers in ``tree``."""

    def __init__(self, tree: Path, toolchain: Toolchain, python_path: tuple[str, ...], jobs: int) -> None:
        self._tree, self._toolchain, self._python_path = tree, toolchain, python_path
        self._threads = ThreadPoolExecutor(jobs, "cells")
        self._own = threading.local()
        self._workers: list[WorkerProcess] = []

    def submit(self, task: Mapping[str, Any], timeout_s: float) -> Future[Answer]:
        return self._threads.submit(self._ask, task, timeout_s)

    def _ask(self, task: Mapping[str, Any], timeout_s: float) -> Answer:
        worker = getattr(self._own, "worker", None)
        if worker is None:
            worker = WorkerProcess(self._tree, self._toolchain.python, self._toolchain.environment, self._python_path)
            self._own.worker = worker
            self._workers.append(worker)
        return worker.ask(task, timeout_s)

    def __enter__(self) -> LocalCells:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.kill()  # a thread that still asks it finds it dead
        self._threads.shutdown(cancel_futures=True)
        for worker in self._workers:
            worker.stop()
