"""Loads of the loops by which the compiler makes atomics that shared memory does not have.

Mental model: ``atomicAdd`` of a float in shared memory is ``LDS R10, [R6]; FADD R11, R5, R10; ATOMS.CAST.SPIN R11, [R6], R10, R11`` and
a branch back. What LDS has read is only what the compare-and-swap expects: where another warp has been faster, the swap does not
happen and the loop reads again. So that load is a part of an atomic, although it is an ordinary instruction.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

#: Mnemonic and operands of an instruction that may stand behind a predicate.
_INSTRUCTION = re.compile(r"^(?:@!?\w+\s+)?(?P<name>[A-Z][\w.]*)\s*(?P<operands>.*)$")
_REGISTER = re.compile(r"R\d+")
#: Instructions from such a load to its swap, at most: what is added is short.
_MOST_APART = 32


def guarded_loads(texts: Sequence[str]) -> list[bool]:
    """Of each instruction of a program whether it is a load from shared memory whose value the compiler's own compare-and-swap (``.SPIN``)
    expects: the last one before the swap that writes its third operand."""
    parts = [_INSTRUCTION.match(text) for text in texts]
    found = [False] * len(texts)
    for swap, part in enumerate(parts):
        if part is None or not part["name"].startswith(("ATOMS.CAST.SPIN", "ATOMS.CAS.SPIN")):
            continue
        operands = _operands(part["operands"])
        expected = operands[2] if len(operands) == 4 else ""
        for index in range(swap - 1, max(-1, swap - 1 - _MOST_APART), -1):
            before = parts[index]
            if before is not None and _operands(before["operands"])[:1] == [expected]:
                found[index] = before["name"].startswith("LDS") and _REGISTER.fullmatch(expected) is not None
                break
    return found


def _operands(text: str) -> list[str]:
    return [operand.strip().removesuffix(".reuse") for operand in text.rstrip(" ;").split(",")]
