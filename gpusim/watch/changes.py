"""Every change in a set of histories, exact where they are simulated and by statistics where they are measured, one
alert a cause."""

from __future__ import annotations

from collections.abc import Sequence

from gpusim.watch.change import Change
from gpusim.watch.exact import exact_changes
from gpusim.watch.group import commit_order, group_changes, one_alert_each
from gpusim.watch.history import History
from gpusim.watch.launch_noise import expected_noise
from gpusim.watch.levels import ALPHA
from gpusim.watch.measured import describe, look_at


def all_changes(histories: Sequence[History], *, alpha: float = ALPHA) -> list[Change]:
    """The changes of ``histories``: those of simulated ones first, then those of measured ones by commit. ``alpha``:
    chance that a measured history without a change gives one."""
    exact = [each for history in histories if not history.measured for each in exact_changes(history)]
    measured = [history for history in histories if history.measured]
    if not measured:
        return exact
    seen = [look_at(each, noise=noise, alpha=alpha) for each, noise in zip(measured, expected_noise(measured))]
    order = commit_order(measured)
    own = [describe(series, found) for series in seen for found in series.analysis.changes]
    return [*exact, *one_alert_each([*own, *group_changes(seen, order, alpha=alpha)], order, exact)]
