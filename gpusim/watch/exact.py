"""Changes in a simulated history: every difference is a fact, named by the first commit that has it.

Mental model: simulated cycles repeat to the digit, so two neighbouring values either are the same or something changed
between them: the kernel, or the method. Where the method changed too, or the machine code did not, it is not the
kernel's doing.
"""

from __future__ import annotations

import math

from gpusim.watch.change import COMMIT, UNRECORDED, Change
from gpusim.watch.history import History, Point, method_change


def exact_changes(history: History) -> list[Change]:
    """Every step of a simulated ``history``, in order. Points without a value are passed over and named in
    ``unseen``."""
    found = []
    last: int | None = None
    for index, point in enumerate(history.points):
        if math.isnan(point.value):
            continue
        if last is not None and point.value != history.points[last].value:
            old = history.points[last]
            unseen = tuple(each.commit for each in history.points[last + 1 : index])
            cause, who = cause_of(old, point)
            found.append(Change(history.name, index, point.commit, old.value, point.value, cause, who, unseen))
        last = index
    return found


def cause_of(old: Point, new: Point) -> tuple[str, str]:
    """What a difference between two points belongs to: a name of the method with "old -> new", or ("commit",
    commit)."""
    changed = method_change(old, new)
    if changed:
        return changed[0], "; ".join(f"{name} {old.method[name]} -> {new.method[name]}" for name in changed)
    if old.cubin and old.cubin == new.cubin:
        return UNRECORDED, f"machine code {new.cubin} is the same at {new.commit}"
    return COMMIT, new.commit
