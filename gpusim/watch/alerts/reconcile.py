"""What the history shows, held against the alerts that are there: which change is whose, and which alert is new.

Mental model: a change (a step of a series) belongs to one alert. One that is there is left alone; new ones go, cause by
cause, to the alert of that cause; to the alert whose change they are seen to have been all along, when a commit in
between got its value later; to one that was mended, when its slowdown returns; else to a new one. Nothing is written
here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpusim.watch.alerts.levels import returns
from gpusim.watch.alerts.record import BACK, FIXED, SLOWER, VERIFIED
from gpusim.watch.alerts.step import Step

#: The place of a measured change moves by so many commits at most while more values come.
MOST_SHIFT = 10


@dataclass(frozen=True)
class KeptChange:
    """A row of ``alert_series``, with what names its series and commit."""

    id: int
    alert: int
    series: int
    kernel: str
    gpu: str
    commit: str
    key: str
    position: int
    before_position: int
    before: float
    after: float
    state: str

    @property
    def percent(self) -> float:
        """Its size in percent of the value before."""
        return 100.0 * (self.after / self.before - 1.0) if self.before else float("inf")


@dataclass(frozen=True)
class KeptAlert:
    """A row of ``alerts`` with its changes, as far as they decide something."""

    number: int
    key: str
    state: str
    verdict: str
    reason: str
    expiry: str
    direction: str
    size_percent: float
    changes: list[KeptChange] = field(default_factory=list)


@dataclass
class Group:
    """The new steps of one cause. ``alert``: to which they go, None for a new one; ``moved``: that alert's cause is
    this one from now on;
    ``returned``: its slowdown has returned; ``replaced``: changes of alerts that these steps are seen to have been."""

    key: str
    steps: list[Step]
    alert: KeptAlert | None = None
    moved: bool = False
    returned: bool = False
    replaced: list[KeptChange] = field(default_factory=list)


@dataclass(frozen=True)
class Reconciled:
    """``same``: changes that are there, with their steps now; ``groups``: new ones; ``gone``: changes that the history
    no longer shows."""

    same: list[tuple[KeptChange, Step]]
    groups: list[Group]
    gone: list[KeptChange]


def reconcile(
    steps: Mapping[int, Sequence[Step]], begins: Mapping[int, int], kept: Sequence[KeptAlert], least_percent: float
) -> Reconciled:
    """What is to be done. ``steps``: series -> its steps, looked for from position ``begins`` on."""
    changes = [change for alert in kept for change in alert.changes]
    there = {(change.series, change.position, change.key): change for change in changes}
    found = {(number, step.new.position, step.key): step for number, each in steps.items() for step in each}
    same = [(change, found[name]) for name, change in there.items() if name in found]
    new = [step for name, step in found.items() if name not in there]
    lost = [
        change
        for name, change in there.items()
        if name not in found
        and change.state != BACK
        and change.series in begins
        and change.position > begins[change.series]
    ]
    by_number, by_key = {alert.number: alert for alert in kept}, {alert.key: alert for alert in kept}
    groups = _groups(new, by_key, least_percent)
    replaced: set[int] = set()
    for group in groups:
        group.replaced = [change for change in lost if any(_was(change, step) for step in group.steps)]
        replaced |= {change.id for change in group.replaced}
    for group in groups:
        group.alert = by_key.get(group.key)
        if group.alert is None:
            group.alert = _moved(group, by_number)
            group.moved = group.alert is not None
        if group.alert is None:
            group.alert = _returned(group, steps, kept, same, least_percent)
            group.returned = group.alert is not None
    return Reconciled(same, groups, [change for change in lost if change.id not in replaced])


def _groups(new: Iterable[Step], by_key: Mapping[str, KeptAlert], least_percent: float) -> list[Group]:
    """New steps by cause, the oldest first; causes that moved nothing by as much as counts are left out."""
    groups: dict[str, Group] = {}
    for step in sorted(new, key=lambda step: (step.new.position, step.series.id)):
        groups.setdefault(step.key, Group(step.key, [])).steps.append(step)
    return [
        group
        for group in groups.values()
        if group.key in by_key or any(abs(step.percent) >= least_percent for step in group.steps)
    ]


def _was(change: KeptChange, step: Step) -> bool:
    """Whether ``step`` is what ``change`` was taken for while a commit between them had no value, or fewer measurements
    were known."""
    same_way = (change.after > change.before) == (step.ratio > 1)
    if step.exact:
        within = change.before_position < step.new.position <= change.position
    else:
        within = abs(step.new.position - change.position) <= MOST_SHIFT
    return change.series == step.series.id and same_way and within


def _moved(group: Group, by_number: Mapping[int, KeptAlert]) -> KeptAlert | None:
    """The alert all of whose changes are this group's."""
    ids = {change.id for change in group.replaced}
    for number in dict.fromkeys(change.alert for change in group.replaced):
        alert = by_number[number]
        if all(change.id in ids for change in alert.changes if change.state != BACK):
            return alert
    return None


def _returned(
    group: Group,
    steps: Mapping[int, Sequence[Step]],
    kept: Sequence[KeptAlert],
    same: Sequence[tuple[KeptChange, Step]],
    least_percent: float,
) -> KeptAlert | None:
    """The newest mended alert that explains every slowdown of the group."""
    slower = [step for step in group.steps if step.percent >= least_percent]
    mended = {alert.number for alert in kept if alert.state in (FIXED, VERIFIED) and alert.direction == SLOWER}
    explained: list[set[int]] = []
    for step in slower:
        number = step.series.id
        explained.append(
            {
                change.alert
                for change, first in same
                if change.alert in mended
                and change.series == number
                and first.ratio > 1
                and returns(steps[number], first, step)
            }
        )
    common = set.intersection(*explained) if explained else set()
    newest = max(common, default=None)
    return next((alert for alert in kept if alert.number == newest), None)
