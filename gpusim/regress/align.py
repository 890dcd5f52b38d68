"""Two builds of a kernel laid beside each other, instruction by instruction.

Mental model: the compiler renumbers registers and moves branch targets whenever anything changes, so instructions are
matched (difflib) on their text with both taken out; immediates, constant-bank offsets and modifiers stay in. What is
matched is the same instruction; what differs between two matches was changed, added or removed. difflib's time grows
with how often a text recurs, so in long programs stretches of instructions are matched first, and then what lies
between.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpusim.store.launch import Instruction

#: Programs of more instructions than this are matched by stretches of STRETCH instructions first.
MOST_EXACT = 1000
STRETCH = 16
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
    pairs: list[Pair] = []
    at_old = at_new = 0
    for old_from, new_from, length in [*_matches(old, new), (len(old), len(new), 0)]:
        both = min(old_from - at_old, new_from - at_new)
        for index in range(both):
            pairs.append(Pair(Change.CHANGED, base[at_old + index], head[at_new + index]))
        pairs += [Pair(Change.REMOVED, instruction, None) for instruction in base[at_old + both : old_from]]
        pairs += [Pair(Change.ADDED, None, instruction) for instruction in head[at_new + both : new_from]]
        for index in range(length):
            pairs.append(Pair(Change.SAME, base[old_from + index], head[new_from + index]))
        at_old, at_new = old_from + length, new_from + length
    return pairs


def _matches(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int, int]]:
    """(start in ``old``, start in ``new``, length) of equal stretches, in order."""
    if max(len(old), len(new)) <= MOST_EXACT:
        return _blocks(old, new)
    found: list[tuple[int, int, int]] = []
    at_old = at_new = 0
    stretches = _blocks(_stretches(old), _stretches(new))
    for old_from, new_from, length in [*stretches, (len(old), len(new), 0)]:
        # Stretches overlap: what of this one has been matched already is taken off its start.
        whole = length + STRETCH - 1 if length else 0
        taken = max(0, at_old - old_from, at_new - new_from) if length else 0
        if taken and taken >= whole:
            continue
        old_from, new_from, whole = old_from + taken, new_from + taken, whole - taken
        gap = old[at_old:old_from], new[at_new:new_from]
        if max(map(len, gap)) <= MOST_EXACT:  # a longer one has nothing in common that is worth the time
            found += [(at_old + i, at_new + j, size) for i, j, size in _blocks(*gap)]
        found.append((old_from, new_from, whole))
        at_old, at_new = old_from + whole, new_from + whole
    return found


def _blocks(old: Sequence, new: Sequence) -> list[tuple[int, int, int]]:
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return [tuple(block) for block in matcher.get_matching_blocks() if block.size]


def _stretches(texts: Sequence[str]) -> list[tuple[str, ...]]:
    """Every STRETCH texts in a row."""
    return [tuple(texts[index : index + STRETCH]) for index in range(len(texts) - STRETCH + 1)]
