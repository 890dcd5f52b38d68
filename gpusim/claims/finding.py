"""What was found about a claim, and how much it weighs.

Mental model: an *invalid* finding is a fact that no honest measurement has (results that are left from an earlier call,
a launch that nothing waits for); a *suspect* one is a fact that has honest reasons, too; a *note* only tells.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Weight(StrEnum):
    """How much a finding weighs."""

    WRONG = "wrong result"
    INVALID = "invalid"
    SUSPECT = "suspect"
    NOTE = "note"


@dataclass(frozen=True)
class ClaimFinding:
    """``kind``: one word that a script can look for; ``message`` with names and figures."""

    kind: str
    weight: Weight
    message: str
