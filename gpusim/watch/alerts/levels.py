"""Whether a series of an alert is at its old level again.

Mental model: levels are compared by ratios. From the step of the alert on, every later step that is a kernel's doing is
multiplied in; changes of method (another model, another description) are left out, for they move every commit alike.
The product falls to 1 where the old level is back. Whatever lies within a tenth of the step counts as back: other
commits move a series a little meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpusim.watch.alerts.step import Step
from gpusim.watch.history import METHOD

#: So much of the step may be left where it counts as gone, and so much must be there for it to count as having
#: returned.
LEFT, RETURNED = 0.1, 0.5
#: The same of a measured series, whose levels are known less well.
LEFT_MEASURED = 0.3
#: Causes that are no kernel's doing.
METHODS = frozenset(METHOD)


def products(steps: Sequence[Step], step: Step) -> list[tuple[Step, float]]:
    """Each later step of the series, with the level after it as a multiple of that before ``step``."""
    found, level = [], step.ratio
    for later in steps:
        if later.order <= step.order or later.cause != step.cause and later.cause in METHODS:
            continue
        level *= later.ratio
        found.append((later, level))
    return found


def back_at(steps: Sequence[Step], step: Step) -> Step | None:
    """The first later step with which the series came back to where it was before ``step``; None: it did not."""
    limit = 1 + (LEFT if step.exact else LEFT_MEASURED) * (step.ratio - 1)
    for later, level in products(steps, step):
        if level <= limit if step.ratio > 1 else level >= limit:
            return later
    return None


def returns(steps: Sequence[Step], step: Step, later: Step) -> bool:
    """Whether ``later`` brings a series, which had come back, to the level after ``step`` again."""
    back = back_at(steps, step)
    if back is None or later.order <= back.order:
        return False
    levels = {each.order: level for each, level in products(steps, step)}
    return levels.get(later.order, 0.0) >= 1 + RETURNED * (step.ratio - 1)
