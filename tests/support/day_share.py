"""Which cases of a parametrised test run by day, where one fault would show in several of them.

Mental model: ``@pytest.mark.by_day(n)`` on a test, or as a module's ``pytestmark`` for each of its tests, lets ``n`` of
the test's cases run by day and makes the others nightly. A hash of the case's name deals them, so that every worker and
every day has the same. Of what a command line picks out (one case by its name, say) ``n`` run all the same. Cases that
are nightly of their own stay so, and are not counted.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import pytest


def _place(case: str) -> int:
    """Where the case of that name comes among its test's."""
    return zlib.crc32(case.encode())


def nightly_by_day(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The cases among ``items`` that their tests' ``by_day`` leaves to the night. Raises pytest.UsageError for a mark
    without a number above 0."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("by_day") and not item.get_closest_marker("nightly"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left = []
    for name, own in cases.items():
        mark = own[0].get_closest_marker("by_day")
        if mark is None or len(mark.args) != 1 or not isinstance(mark.args[0], int) or mark.args[0] < 1:
            raise pytest.UsageError(f"{name}: by_day takes the number of cases that run by day, 1 or more")
        left += sorted(own, key=lambda item: _place(item.nodeid))[mark.args[0] :]
    return left


def calls_by_day(metafunc: pytest.Metafunc) -> list:
    """Of a test's calls those that run by day: without the nightly ones and those that ``by_day`` leaves to the night.
    One of a test that has none: without any it would be a test without parameters."""
    calls, definition = metafunc._calls, metafunc.definition
    if definition.get_closest_marker("nightly"):
        return calls[:1]
    day = [call for call in calls if all(mark.name != "nightly" for mark in call.marks)]
    mark = definition.get_closest_marker("by_day")
    if mark and mark.args and isinstance(mark.args[0], int) and mark.args[0] > 0:
        places = sorted(_place(f"{definition.nodeid}[{call.id}]") for call in day)[: mark.args[0]]
        day = [call for call in day if _place(f"{definition.nodeid}[{call.id}]") in places]
    return day or calls[:1]
