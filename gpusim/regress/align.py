"""Two builds of a kernel laid beside each other, instruction by instruction.

Mental model: the compiler renumbers registers and moves branch targets whenever anything changes, so instructions are
matched (difflib) on their text with both taken out; immediates, constant-bank offsets and modifiers stay in. What is
matched is the same instruction; what differs between two matches was changed, added or removed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpusim.store.launch import Instruction

#: Above so many instructions difflib leaves out what occurs very often, which keeps it from quadratic time.
MOST_EXACT = 8000
_REGISTER = re.compile(r"\b(U?[RPB])\d+\b")
_LABEL = re.compile(r"`\([^)]*\)")
_JUMP = re.compile(r"\b(BRA|BRX|BSSY|BSYNC|CALL|JMP|JMX|RET|WARPSYNC|BREAK|SSY|PBK|SYNC)\b")
_ADDRESS = re.compile(r"\b0x[0-9a-f]+\b", re.IGNORECASE)


class Change(StrEnum):
    """What happened to an instruction between two builds."""

    SAME = "same"
    CHANGED = "changed"
    ADDED = "added"
    REMOVED = "removed"


@dataclass(frozen=True)
class Pair:
    """An instruction of the old build, of the new one, or of both."""

    change: Change
    base: Instruction | None
    head: Instruction | None

    @property
    def stalls(self) -> dict[str, int]:
        """Reason -> warp-cycles that the new build has more here."""
        old = self.base.stalls if self.base else {}
        new = self.head.stalls if self.head else {}
        return {reason: new.get(reason, 0) - old.get(reason, 0) for reason in {**old, **new}}

    @property
    def warp_cycles(self) -> int:
        """Warp-cycles that the new build has more here."""
        return sum(self.stalls.values())


def normal(text: str) -> str:
    """An instruction's text without what renumbering and moving change."""
    text = _LABEL.sub("label", " ".join(text.split()).rstrip(" ;"))
    text = _REGISTER.sub(r"\1#", text)
    return _ADDRESS.sub("label", text) if _JUMP.search(text) else text


def align(base: Sequence[Instruction], head: Sequence[Instruction]) -> list[Pair]:
    """Every instruction of both builds once, in program order."""
    old, new = [normal(i.text) for i in base], [normal(i.text) for i in head]
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=max(len(old), len(new)) > MOST_EXACT)
    pairs = []
    for kind, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        both = min(old_to - old_from, new_to - new_from)
        change = Change.SAME if kind == "equal" else Change.CHANGED
        for index in range(both):
            pairs.append(Pair(change, base[old_from + index], head[new_from + index]))
        pairs += [Pair(Change.REMOVED, instruction, None) for instruction in base[old_from + both : old_to]]
        pairs += [Pair(Change.ADDED, None, instruction) for instruction in head[new_from + both : new_to]]
    return pairs
