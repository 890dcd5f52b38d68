"""What a kernel's machine code says without being run: registers, stack, local memory that its instructions move,
instructions.

Mental model: a compiler that runs out of registers keeps values in local memory, and its STL and LDL stand in the code;
bytes are counted once an instruction and thread, as ptxas counts its spills, whatever the loop in which they stand.
``code`` is a number that is equal for equal machine code and for no other (48 bits of a hash of the instructions), so
that a search can look for the first version that makes any other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from gpusim.launch.binary import KernelBinary

#: In the order in which they are looked at where the user names none.
METRICS: tuple[str, ...] = (
    "local_store_bytes",
    "local_load_bytes",
    "stack_bytes",
    "registers",
    "shared_bytes",
    "instructions",
    "code",
)
_MOVES = {"STL": "local_store_bytes", "LDL": "local_load_bytes"}
_WORD_BYTES = 4


@dataclass(frozen=True)
class CompiledFigures:
    """``values`` of :data:`METRICS`; ``sass``: the instructions' texts."""

    values: dict[str, float]
    sass: tuple[str, ...]


def compiled_figures(binary: KernelBinary) -> CompiledFigures:
    """The figures of a kernel. Raises as :meth:`KernelBinary.decode`."""
    image, instructions = binary.image, binary.decode()
    texts = tuple(instruction.text for instruction in instructions)
    values = dict.fromkeys(METRICS, 0.0)
    for instruction in instructions:
        if instruction.mnemonic in _MOVES:
            values[_MOVES[instruction.mnemonic]] += moved_bytes(instruction.modifiers)
    values |= {
        "stack_bytes": float(image.local_bytes), "registers": float(image.registers_per_thread),
        "shared_bytes": float(image.shared_bytes), "instructions": float(len(texts)), "code": code_number(texts),
    }  # fmt: skip
    return CompiledFigures(values, texts)


def code_number(texts: Sequence[str]) -> float:
    """A whole number below 2^48, which a float holds exactly, that tells machine code apart."""
    return float(int.from_bytes(hashlib.sha256("\n".join(texts).encode()).digest()[:6]))


def moved_bytes(modifiers: Sequence[str]) -> int:
    """Bytes a thread that a load or store with these modifiers moves: ``64`` and ``128`` are bits, ``U8`` ... ``S16``
    less than a word."""
    for modifier in modifiers:
        if modifier in ("64", "128"):
            return int(modifier) // 8
        if modifier in ("U8", "S8", "U16", "S16"):
            return int(modifier[1:]) // 8
    return _WORD_BYTES


def opcode_changes(old: Sequence[str], new: Sequence[str]) -> list[tuple[str, int, int]]:
    """(opcode with its modifiers, times in ``old``, times in ``new``) of those that occur another number of times, by
    falling difference."""
    counts = [_counts(texts) for texts in (old, new)]
    names = [name for name in {**counts[0], **counts[1]} if counts[0].get(name, 0) != counts[1].get(name, 0)]
    found = [(name, counts[0].get(name, 0), counts[1].get(name, 0)) for name in names]
    return sorted(found, key=lambda change: (-abs(change[2] - change[1]), change[0]))


def _counts(texts: Sequence[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for text in texts:
        words = text.split()
        name = next((word for word in words if not word.startswith("@")), "").rstrip(";")
        counts[name] = counts.get(name, 0) + 1
    return counts
