"""From which state an alert may go to which, and what is said where it may not.

Mental model: a way forward is open from every state that comes before, and back to ``open``; ``verified`` is never
said, only shown: a run at which all series are at their old level says it.
"""

from __future__ import annotations

from datetime import date

from gpusim.errors import AlertStateError, UsageError
from gpusim.io.nearest import hint
from gpusim.watch.alerts.record import (
    ACCEPTED,
    BISECTED,
    FIXED,
    OPEN,
    STATES,
    TRIAGED,
    VERDICTS,
    VERIFIED,
    Alert,
)

_NEXT = {
    OPEN: (TRIAGED, BISECTED, FIXED),
    TRIAGED: (OPEN, TRIAGED, BISECTED, FIXED),
    BISECTED: (OPEN, TRIAGED, BISECTED, FIXED),
    FIXED: (OPEN, TRIAGED),
    VERIFIED: (OPEN,),
}


def refuse_transition(alert: Alert, state: str, verdict: str, reason: str, expiry: str) -> None:
    """Raise AlertStateError unless ``alert`` may go to ``state``, UsageError for what is no state, verdict or date."""
    number = alert.number
    if state not in STATES:
        raise UsageError(f"{state!r:.80} is no state of an alert; {hint(state, STATES)}")
    if state == VERIFIED and alert.state != VERIFIED:
        raise AlertStateError(
            f"alert {number}: runs say that it is verified, when all its series are at their old level; say that it is mended by "
            f"gpusim alerts state {number} fixed, and run the plan at a later commit"
        )
    if state not in _NEXT[alert.state]:
        remedy = f"open it again first: gpusim alerts state {number} open"
        if alert.state == state:
            remedy = f"nothing is to be done; say more by gpusim alerts note {number} TEXT"
        raise AlertStateError(f"alert {number} is {alert.state} and cannot become {state}; {remedy}")
    refuse_verdict(number, state, verdict, reason, expiry)


def refuse_verdict(number: int, state: str, verdict: str, reason: str, expiry: str) -> None:
    """Raise for a verdict that does not go with ``state``, or lacks what it needs."""
    if verdict not in VERDICTS:
        raise UsageError(f"{verdict!r:.80} is no verdict; {hint(verdict, VERDICTS[1:])}")
    if state == TRIAGED and not verdict:
        raise AlertStateError(
            f"alert {number}: what was it found to be? gpusim alerts state {number} triaged --verdict "
            + "|".join(VERDICTS[1:])
        )
    if verdict and state != TRIAGED:
        raise AlertStateError(f"alert {number}: a verdict goes with triaged, not with {state}; leave --verdict out")
    if verdict == ACCEPTED and not (reason.strip() and expiry):
        raise AlertStateError(
            f"alert {number}: accepting it needs who agreed and until when: --reason TEXT --until YYYY-MM-DD"
        )
    if expiry and verdict != ACCEPTED:
        raise AlertStateError(f"alert {number}: only what is accepted ends on a date; leave --until out")
    if expiry:
        refuse_date(expiry, f"alert {number}")


def refuse_date(text: str, where: str) -> date:
    """The date of ``text``. Raises UsageError for none."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{where}: {text!r:.40} is no date; write it as 2027-03-31") from None
