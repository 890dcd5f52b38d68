"""Changes in a measured history: what noise cannot explain, how sure that is, and in which commits it may lie.

Mental model: :mod:`gpusim.watch.detect` finds where the values changed; this says what it belongs to. A place where
another method began is the method's doing. Otherwise it may be any commit of the interval in which the change lies, of
which those with the same machine code as before are none; where all have the same, it is the machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpusim.watch.change import COMMIT, DRIFT, UNRECORDED, Change
from gpusim.watch.detect import Analysis, Found, Noise, analyse
from gpusim.watch.history import METHOD, History, method_change
from gpusim.watch.levels import ALPHA
from gpusim.watch.methods import align_methods


@dataclass(frozen=True)
class Series:
    """A history looked at: ``at``: the index in ``history.points`` of each value; ``values``, float64[n], of one method
    as far as they can be;
    ``new``: places among them where another method begins."""

    history: History
    at: tuple[int, ...]
    values: np.ndarray
    new: tuple[int, ...]
    analysis: Analysis


def look_at(history: History, *, noise: Noise | None = None, alpha: float = ALPHA) -> Series:
    """Analyse a measured ``history``; points without a value are passed over."""
    at = tuple(i for i, point in enumerate(history.points) if not math.isnan(point.value))
    raw = np.array([history.points[i].value for i in at])
    keys = [tuple(history.points[i].method.get(name, "") for name in METHOD) for i in at]
    values, new = align_methods(raw, keys)
    return Series(history, at, values, tuple(new), analyse(values, noise=noise, known=new, alpha=alpha))


def measured_changes(history: History, *, noise: Noise | None = None, alpha: float = ALPHA) -> list[Change]:
    """The changes of a measured ``history``, in order. ``noise``: what is known of it beside the values
    (:mod:`gpusim.watch.launch_noise`);
    ``alpha``: chance that a history without a change gives one."""
    series = look_at(history, noise=noise, alpha=alpha)
    return [describe(series, found) for found in series.analysis.changes]


def describe(series: Series, found: Found) -> Change:
    """The change of ``series`` at ``found``, with its cause."""
    points, at = series.history.points, series.at
    index, cause, who, candidates = _cause(series, found)
    last = None if found.last is None else at[found.last]
    return Change(
        series.history.name, at[index], points[at[index]].commit, found.before, found.after, cause, who, (), found.kind,
        1.0 - min(1.0, found.p), candidates, last,
    )  # fmt: skip


def _cause(series: Series, found: Found) -> tuple[int, str, str, tuple[str, ...]]:
    """Of a change: the place, the cause, whose it is, and the commits in which it may lie."""
    points, at, new = series.history.points, series.at, series.new
    if found.kind == DRIFT:
        assert found.last is not None
        return found.index, DRIFT, f"{points[at[found.index]].commit} to {points[at[found.last]].commit}", ()
    within = [place for place in new if found.low <= place <= found.high]
    if within:
        place = min(within, key=lambda each: abs(each - found.index))
        old, now = points[at[place - 1]], points[at[place]]
        changed = method_change(old, now)
        if changed:
            who = "; ".join(f"{name} {old.method[name]} -> {now.method[name]}" for name in changed)
            return place, changed[0], who, ()
    places = _where_code_changed(series, found)
    if not places:
        commit = points[at[found.index]].commit
        return found.index, UNRECORDED, f"machine code {points[at[found.index]].cubin} is the same at {commit}", ()
    place = min(places, key=lambda each: abs(each - found.index))
    commits = [points[i].commit for each in places for i in range(at[each - 1] + 1, at[each] + 1)]
    return place, COMMIT, points[at[place]].commit, tuple(dict.fromkeys(commits))


def _where_code_changed(series: Series, found: Found) -> Sequence[int]:
    """The places of the interval at which the machine code is another one, or is not known."""
    points, at = series.history.points, series.at

    def same(place: int) -> bool:
        old, now = points[at[place - 1]], points[at[place]]
        return bool(old.cubin) and old.cubin == now.cubin

    return [place for place in range(max(1, found.low), found.high + 1) if not same(place)]
