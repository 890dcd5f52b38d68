"""Note what processor time each test takes, its child processes' too, and how long it waits; switched on by
``GPUSIM_COUNT_CPU=FOLDER``.

Mental model: under ``pytest -n`` each worker writes a file of its own, a line a test, as soon as the test has ended;
what a worker did before its first test (imports, collection) is a line of its own. ``tools/cost_of_tests.py FOLDER``
adds them up. Wall time says as much of who else is at work on the machine, but on a quiet one also which tests wait.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import forked_commands
import pytest

VARIABLE = "GPUSIM_COUNT_CPU"
#: What stands in place of a test's name for what comes before the first.
BEFORE = "imports and collection"


def _seconds() -> tuple[float, float]:
    """Processor time of this process, and of the children that it has waited for; those that another process forks for
    the tests are known there."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    own, children = (used.ru_utime + used.ru_stime for used in both)
    return own, children + forked_commands.spent_s


class CpuCounter:
    """A pytest plugin; ``folder`` is made if it is not there."""

    def __init__(self, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"{os.getpid()}.tsv"
        self._begun = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        own, children = _seconds()
        if not self._begun:
            self._begun = True
            self._note(BEFORE, own, children, own + children)
        begun = time.monotonic()
        result = yield
        wall = time.monotonic() - begun
        own_after, children_after = _seconds()
        self._note(item.nodeid, own_after - own, children_after - children, wall)
        return result

    def _note(self, name: str, own: float, children: float, wall: float) -> None:
        with self._path.open("a") as file:
            file.write(f"{name}\t{own:.3f}\t{children:.3f}\t{wall:.3f}\n")
