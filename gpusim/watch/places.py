"""Where cells run, as the run of a plan sees it: this machine, or a cluster.

Mental model: a place says what a toolchain there is, and takes a checked-out commit; what is submitted to that is a
future, as of any executor, so that whoever waits need not know where a cell runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol

from gpusim.watch.plan import Toolchain
from gpusim.watch.worker_process import Answer


class Cells(Protocol):
    """Where the cells of one commit and toolchain run, a context manager; leaving it ends what still runs."""

    def submit(self, task: Mapping[str, Any], timeout_s: float) -> Future[Answer]:
        """The answer to ``task``, as :meth:`WorkerProcess.ask` gives it."""
        ...

    def __enter__(self) -> Cells: ...

    def __exit__(self, *_: object) -> None: ...


class Place(Protocol):
    """This machine or a cluster."""

    def facts(self, toolchain: Toolchain) -> Mapping[str, str]:
        """What a worker of ``toolchain`` says of itself: versions and hashes. Raises ExecutionError where none can be
        started."""
        ...

    def open(self, tree: Path, toolchain: Toolchain, count: int) -> Cells:
        """For ``count`` cells of the commit in ``tree``."""
        ...
