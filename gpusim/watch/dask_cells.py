"""The cells of a commit, run by the workers of a Dask cluster.

Mental model: the commit's files travel to the cluster once, as an archive; each process of it unpacks them once and
keeps a worker process in them, which it asks. A Dask worker that dies takes its cells with it, and Dask gives them to
another one; a cell is kept by the process that runs the plan, once, when its answer has come, so that none is lost and
none counted twice.

Needs ``gpusim[dask]`` here and gpusim of the same version on the workers.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import io
import tarfile
import tempfile
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from gpusim.cluster import RETRIES
from gpusim.watch.plan import Plan, Toolchain
from gpusim.watch.worker_process import Answer, WorkerProcess

_lock = threading.Lock()
_trees: dict[str, Path] = {}
_workers: dict[tuple[str, str], list[WorkerProcess]] = {}


class DaskPlace:
    """The cluster of ``client``."""

    def __init__(self, plan: Plan, client: Any) -> None:
        self._plan, self._client = plan, client

    def facts(self, toolchain: Toolchain) -> dict[str, str]:
        return self._client.submit(worker_facts, toolchain, pure=False, retries=RETRIES).result()

    def open(self, tree: Path, toolchain: Toolchain, count: int) -> DaskCells:
        return DaskCells(self._client, tree, toolchain, self._plan.python_path)


class DaskCells:
    """The cells of ``tree`` on the cluster of ``client``."""

    def __init__(self, client: Any, tree: Path, toolchain: Toolchain, python_path: tuple[str, ...]) -> None:
        archive = _packed(tree)
        self._client, self._toolchain, self._python_path = client, toolchain, python_path
        self._name = hashlib.sha256(archive).hexdigest()
        self._archive = client.scatter(archive, broadcast=True, hash=True)  # a worker that dies leaves copies
        self._executor = client.get_executor(pure=False, retries=RETRIES)

    def submit(self, task: Mapping[str, Any], timeout_s: float) -> Future[Answer]:
        return self._executor.submit(
            run_cell, self._archive, self._name, self._toolchain, self._python_path, dict(task), timeout_s
        )

    def __enter__(self) -> DaskCells:
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown(wait=False)  # which cancels what waits


def worker_facts(toolchain: Toolchain) -> dict[str, str]:
    """On the cluster: what a worker process of ``toolchain`` says of itself."""
    with WorkerProcess(Path(tempfile.gettempdir()), toolchain.python, toolchain.environment) as worker:
        return worker.facts()


def run_cell(
    archive: bytes,
    name: str,
    toolchain: Toolchain,
    python_path: tuple[str, ...],
    task: Mapping[str, Any],
    timeout_s: float,
) -> Answer:
    """On the cluster: the answer to ``task`` in the files of ``archive``, whose hash is ``name``."""
    key = (name, f"{toolchain.python} {sorted(toolchain.environment.items())}")
    with _lock:
        if name not in _trees:
            _trees[name] = _unpacked(archive)
        idle = _workers.setdefault(key, [])
        worker = idle.pop() if idle else None
    if worker is None:
        worker = WorkerProcess(_trees[name], toolchain.python, toolchain.environment, python_path)
        atexit.register(worker.stop)
    try:
        return worker.ask(task, timeout_s)
    finally:
        with _lock:
            idle.append(worker)


def _packed(tree: Path) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for path in sorted(tree.rglob("*")):
            relative = path.relative_to(tree)
            if relative.parts[0] != ".git" and not path.is_dir():
                archive.add(path, str(relative), recursive=False)
    return data.getvalue()


def _unpacked(archive: bytes) -> Path:
    folder = tempfile.TemporaryDirectory(prefix="gpusim-cells-", ignore_cleanup_errors=True)
    atexit.register(folder.cleanup)
    tree = Path(folder.name, "tree")
    tree.mkdir()
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed, contextlib.suppress(tarfile.FilterError):
        packed.extractall(tree, filter="data")
    return tree
