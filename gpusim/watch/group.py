"""One alert for one cause: changes of many measured histories put together, and small ones found that only many show.

Mental model: a commit that makes every kernel 0.3 % slower is in no single history beyond doubt, and in the mean of
forty. So the mean of a group (what the histories have left once their own changes are known, in standard deviations) is
a history itself and is looked at as one: its noise is its own, and what a bad night does to all of them is in it.
Changes whose intervals have the commit for which most speaks in common are its alert.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from gpusim.watch.change import COMMIT, DRIFT, STEP, Change
from gpusim.watch.detect import Found
from gpusim.watch.history import History
from gpusim.watch.levels import ALPHA, find_steps
from gpusim.watch.measured import Series, describe
from gpusim.watch.spread import Spread

#: A group has so many histories at least: the mean of two is little better than each.
LEAST_HISTORIES = 3
#: A history is said to have moved with its group where its own difference is as far off as 1 in 20 would be.
_MOVED = 2.0
#: Of the histories of a group, those that must have changed at a place for their mean to have another level there.
_PARTED = 0.25


def commit_order(histories: Iterable[History]) -> dict[str, int]:
    """The position of each commit in the order that all ``histories`` keep: one that only some have stands after its
    predecessor there."""
    order: list[str] = []
    known: set[str] = set()
    for history in sorted(histories, key=lambda each: -len(each.points)):
        place = 0
        for point in history.points:
            if point.commit in known:
                place = order.index(point.commit, 0) + 1 if order[place : place + 1] != [point.commit] else place + 1
            else:
                order.insert(place, point.commit)
                known.add(point.commit)
                place += 1
    return {commit: position for position, commit in enumerate(order)}


def group_changes(seen: Sequence[Series], order: dict[str, int], *, alpha: float = ALPHA) -> list[Change]:
    """Steps that only the mean of a group of ``seen`` shows: a change of each history that moved with it."""
    groups: dict[str, list[Series]] = {}
    for each in seen:
        for name in each.history.groups:
            groups.setdefault(name, []).append(each)
    members = {tuple(id(each) for each in group): group for group in groups.values() if len(group) >= LEAST_HISTORIES}
    found = []
    for group in members.values():
        found += _of_group(group, order, alpha / len(members))
    return found


def _of_group(group: Sequence[Series], order: dict[str, int], alpha: float) -> list[Change]:
    table = np.full((len(group), len(order)), np.nan)
    for row, series in zip(table, group):
        row[[order[series.history.points[i].commit] for i in series.at]] = series.analysis.rest
    count = np.sum(~np.isnan(table), axis=0)
    at = np.flatnonzero(count)
    mean = np.nansum(table[:, at], axis=0) / np.sqrt(count[at])
    parted = _parted(group, order, at)
    steps = find_steps(Spread(mean), alpha=alpha, known=parted, keep=True)
    edges = sorted({0, len(at), *parted, *(step.index for step in steps)})
    found = []
    for step in steps:
        i = edges.index(step.index)
        for row, series in zip(table, group):
            change = _moved(
                series, row[at], edges[i - 1], step.index, edges[i + 1], (step.low, step.high), at, step.p, order
            )
            if change is not None and (change.after - change.before) * (step.after - step.before) > 0:
                found.append(change)
    return found


def _parted(group: Sequence[Series], order: dict[str, int], at: np.ndarray) -> list[int]:
    """Places of the mean at which so many of ``group`` have a change of their own, or another method, that what they
    have left is not to be compared across it."""
    count: dict[int, int] = {}
    for series in group:
        places = {each.index for each in series.analysis.changes} | set(series.new)
        for place in {int(np.searchsorted(at, order[series.history.points[series.at[i]].commit])) for i in places}:
            count[place] = count.get(place, 0) + 1
    return [place for place, moved in count.items() if place > 0 and moved >= _PARTED * len(group)]


def _moved(
    series: Series, rest: np.ndarray, start: int, index: int, end: int, interval: tuple[int, int], at: np.ndarray,
    p: float, order: dict[str, int],
) -> Change | None:  # fmt: skip
    """The change of one history with its group; None where it shows none of its own."""
    before, after = (each[~np.isnan(each)] for each in (rest[start:index], rest[index:end]))
    if not before.size or not after.size:
        return None
    if abs(after.mean() - before.mean()) < _MOVED * np.sqrt(1 / before.size + 1 / after.size):
        return None
    positions = [order[series.history.points[i].commit] for i in series.at]
    place, low, high = (int(np.searchsorted(positions, at[each])) for each in (index, *interval))
    first, last = (int(np.searchsorted(positions, at[each - 1], side="right")) for each in (start + 1, end))
    if not first < place < last:
        return None
    old, new = np.median(series.values[first:place]), np.median(series.values[place:last])
    high = min(max(high, place), len(positions) - 1)
    return describe(series, Found(place, max(1, min(low, place)), high, STEP, p, float(old), float(new)))


def one_alert_each(changes: Sequence[Change], order: dict[str, int], exact: Sequence[Change] = ()) -> list[Change]:
    """``changes`` with one ``who`` for all that may have one cause, so that :func:`gpusim.watch.change.alert_numbers`
    gives them one number; of one history only the surest of an alert is kept. ``exact``: changes of simulated
    histories: where one of their commits alone lies in the interval, it is the alert's."""
    named = {each.commit for each in exact if each.cause == COMMIT}
    found = [each for each in changes if each.cause not in (COMMIT, DRIFT)]
    rest = [each for each in changes if each.cause == COMMIT]
    while rest:
        alert, common = _clearest(rest)
        rest = [each for each in rest if each not in alert]
        known = common & named
        who = known.pop() if len(known) == 1 else _nearest(common, alert[0], order)
        unseen = next((each.unseen for each in exact if each.commit == who and each.cause == COMMIT), ())
        commits = tuple(sorted(common, key=lambda commit: order.get(commit, -1)))
        own = {each.series: each for each in reversed(alert)}  # of each history the surest
        found += [replace(each, who=who, candidates=commits, unseen=unseen) for each in own.values()]
    found += _drifts([each for each in changes if each.cause == DRIFT], order)
    return sorted(found, key=lambda each: (order.get(each.commit, -1), each.series))


def _clearest(changes: Sequence[Change]) -> tuple[list[Change], set[str]]:
    """The changes of the commit for which most speaks, the surest first, and the commits that may be it. With those
    that it may have made go others of the same direction whose intervals meet theirs: of one small step, histories name
    places around it."""
    evidence: dict[str, float] = {}
    for each in changes:
        for commit in each.candidates:
            evidence[commit] = evidence.get(commit, 0.0) + _sureness(each)
    best = max(evidence, key=lambda commit: evidence[commit])
    core = sorted((each for each in changes if best in each.candidates), key=_sureness, reverse=True)
    union = {commit for each in core for commit in each.candidates}
    ways = {each.after > each.before for each in core}
    near = [
        each
        for each in changes
        if each not in core and not union.isdisjoint(each.candidates) and (each.after > each.before) in ways
    ]
    return [*core, *near], set(core[0].candidates)


def _sureness(change: Change) -> float:
    """Minus the logarithm of its chance by noise, as far as a confidence says it."""
    return -math.log(max(1.0 - change.confidence, 1e-16))


def _nearest(common: set[str], first: Change, order: dict[str, int]) -> str:
    """The commit to name: the surest change's own, or the nearest to it that may be."""
    here = order.get(first.commit, 0)
    return min(common, key=lambda commit: (abs(order.get(commit, 0) - here), order.get(commit, 0)))


def _drifts(changes: Sequence[Change], order: dict[str, int]) -> list[Change]:
    """Drifts that overlap and go the same way have one ``who``: the surest one's."""
    found: list[Change] = []
    spans: list[tuple[int, int, bool, str]] = []
    for each in sorted(changes, key=lambda each: -each.confidence):
        first, last = (order.get(commit, -1) for commit in each.who.split(" to "))
        up = each.after > each.before
        for low, high, rises, who in spans:
            if rises == up and first <= high and low <= last:
                found.append(replace(each, who=who))
                break
        else:
            spans.append((first, last, up, each.who))
            found.append(each)
    return found
