"""The case and the commits of an alert, and the way back: what a bisection found, kept with the alert.

Mental model: an alert is of series; the one that moved most is the case, the commit at which it moved is bad, and the
last one before that with a value is good. Between the two lie the commits that gave no value on that night, or that no
night ran.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import select

from gpusim.bisect.find import Found
from gpusim.errors import AlertStateError, HistoryError
from gpusim.store.schema import commits
from gpusim.store.store import Store
from gpusim.watch.alerts.read import alert_series, read_alert
from gpusim.watch.alerts.write import set_bisected

DEFAULT_TOOLCHAIN = "default"


@dataclass(frozen=True)
class AlertCase:
    """What there is to bisect of an alert: ``request`` on ``gpu`` from commit ``good`` to ``bad``."""

    request: str
    gpu: str
    good: str
    bad: str
    toolchain: str


def alert_case(store: Store, number: int) -> AlertCase:
    """The case of an alert. Raises UnknownAlertError, AlertStateError for one of measured series alone, and
    HistoryError where the store does not know the commit before."""
    alert = read_alert(store, number)
    simulated = [each for each in alert_series(store, number) if each.mode == "simulated"]
    if not simulated:
        raise AlertStateError(
            f"alert {number} is of measured series: name the simulated CASE with --good and --bad to bisect it"
        )
    moved = simulated[0]
    query = select(commits.c.hash).where(commits.c.plan == alert.plan, commits.c.position == moved.before_position)
    with store.reading() as connection:
        good = None if connection is None else connection.execute(query).scalar()
    if good is None:
        raise HistoryError(
            f"alert {number}: {store.name} has no commit of plan {alert.plan} before {moved.commit}; give --good and --bad"
        )
    request = f"{moved.kernel}:{moved.shape}" if moved.shape else moved.kernel
    return AlertCase(request, moved.gpu, good, moved.commit, moved.toolchain)


def keep_found(store: Store, number: int, found: Found, text: str, who: str) -> None:
    """Write what was found into the alert; nothing where nothing was."""
    if not found.steps:
        return
    step = found.steps[0]
    names = ", ".join(found.points[index].name for index in step.candidates)
    set_bisected(store, number, who=who, found=names, text=text)
