"""Loads of the loops that make an atomic of a compare-and-swap: they read what others may write meanwhile, and it does
no harm.

Mental model: ``atomicAdd`` of a float in shared memory is ``LDS R10, [R6]; FADD R11, R5, R10; ATOMS.CAST.SPIN R11,
[R6], R10, R11`` and a branch back. What LDS has read is only what the compare-and-swap expects: where another warp has
been faster, the swap does not happen and the loop goes round with what memory holds. So that load is a part of an
atomic, although it is an ordinary instruction. Kernels write the same loop themselves, ``old = *p; do { assumed = old;
old = atomicCAS(p, assumed, f(assumed)); } while (assumed != old)``. There it is followed to where the value goes: only
into what the swap expects and what it would write. Where it decides a branch, an address or a store before a swap has
confirmed it, the load is an ordinary one. An atomic on ``__half`` is compiled to such a loop too, around a swap of the
word that it lies in, and by generic addresses: LD and ATOM in place of LDS and ATOMS.

Source: CUDA C++ Programming Guide, "Atomic Functions", whose example is that loop.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gpusim.trace.record import MemoryKind, Program

#: Mnemonic and operands of an instruction that may stand behind a predicate.
_INSTRUCTION = re.compile(r"^(?:@!?(?P<guard>\w+)\s+)?(?P<name>[A-Z][\w.]*)\s*(?P<operands>.*)$")
_REGISTER = re.compile(r"\bR\d+")
_PREDICATE = re.compile(r"\bU?P\d\b")
#: Instructions from such a load to its swap, and from there to the branch back, at most: what is computed is short.
_MOST_APART = 32
#: Names of a swap in shared memory and by a generic address, and of the load of its loop.
_SWAPS = {"ATOMS.CAS": "LDS", "ATOM.E.CAS": "LD."}
#: Names of what leads elsewhere; those that only mark where lanes meet again do not.
_LEAVES = ("BRA", "BRX", "JMP", "JMX", "EXIT", "RET", "CALL", "BREAK", "BAR", "BARRIER", "KILL")


def guarded_loads(program: Program) -> list[bool]:
    """Of each instruction whether it is a load from shared memory whose value only a compare-and-swap of a loop
    uses."""
    parts = [_INSTRUCTION.match(text) for text in program.texts]
    found = [False] * len(parts)
    for load in (*_of_compiler(parts), *_of_program(parts, program)):
        found[load] = True
    return found


def _of_compiler(parts: Sequence[re.Match[str] | None]) -> Iterator[int]:
    """Loads before the compiler's own swaps (``.SPIN``): the last instruction before one that writes its third
    operand."""
    for swap, part in enumerate(parts):
        if part is None or not part["name"].startswith(("ATOMS.CAST.SPIN", "ATOMS.CAS.SPIN")):
            continue
        operands = _operands(part["operands"])
        expected = operands[2] if len(operands) == 4 else ""
        for index in range(swap - 1, max(-1, swap - 1 - _MOST_APART), -1):
            before = parts[index]
            if before is not None and _operands(before["operands"])[:1] == [expected]:
                if before["name"].startswith("LDS") and _REGISTER.fullmatch(expected):
                    yield index
                break


def _of_program(parts: Sequence[re.Match[str] | None], program: Program) -> Iterator[int]:
    """Loads before the swaps that a kernel's own source asks for."""
    addresses = {int(address): index for index, address in enumerate(program.instructions["address"])}
    for swap, part in enumerate(parts):
        name = part["name"] if part is not None and ".SPIN" not in part["name"] else ""
        loads = next((load for start, load in _SWAPS.items() if name.startswith(start)), None)
        if loads is None:
            continue
        for load in range(max(0, swap - _MOST_APART), swap):
            before = parts[load]
            if before is not None and before["name"].startswith(loads) and _Flow(program, parts, addresses, load, swap).ends_in_swap():  # fmt: skip
                yield load


def _target(part: re.Match[str] | None, addresses: dict[int, int]) -> int | None:
    """The instruction that a branch leads to; None of any other."""
    if part is None or part["name"].partition(".")[0] != "BRA":
        return None
    try:
        return addresses.get(int(_operands(part["operands"])[-1], 16))
    except ValueError:
        return None


@dataclass
class _Flow:
    """Follows the value of the load number ``load`` through the code behind it, to the ``swap``. ``copies``: register
    -> the word of the value that it holds; ``derived``: registers, ``decided``: predicates, that were computed from it;
    ``answer``: registers of what the swap found; ``compared``: predicates by which the two were compared."""

    program: Program
    parts: Sequence[re.Match[str] | None]
    addresses: dict[int, int]
    load: int
    swap: int
    copies: dict[int, int] = field(default_factory=dict)
    derived: set[int] = field(default_factory=set)
    decided: set[str] = field(default_factory=set)
    answer: set[int] = field(default_factory=set)
    compared: set[str] = field(default_factory=set)

    def ends_in_swap(self) -> bool:
        """Whether the value goes nowhere but into the swap, which expects it: a branch asks whether the swap found it,
        and where it did not nothing holds the value any more before anything else can use it."""
        self.copies = {register: word for word, register in enumerate(self._written(self.load))}
        index, asked = self.load, False
        for _ in range(3 * _MOST_APART):
            index += 1
            part = self.parts[index] if index < len(self.parts) else None
            if part is None:
                return False
            if index == self.swap:
                if asked or not self._expects(part):  # around again, with the value of before
                    return False
                self._overwrite(index)
                self.answer = set(self._written(index))
            elif part["guard"] in self.compared and part["name"].startswith("BRA"):
                asked, target = True, _target(part, self.addresses)
                if target is not None and target <= self.load <= index:
                    return True  # what is read anew in every round
                index = target - 1 if target is not None and target <= self.swap else index
            elif part["name"].partition(".")[0] in _LEAVES or not self._step(index, part):
                return False
            if asked and not self.copies and not self.derived:
                return True
        return False

    def _expects(self, part: re.Match[str]) -> bool:
        """Whether the swap compares memory with just the value, at a place that does not depend on it."""
        row = self.program.instructions[self.swap]
        operands = _operands(part["operands"])
        if operands and _PREDICATE.fullmatch(
            operands[0].replace("PT", "P0")
        ):  # of a generic address: whether memory was swapped
            del operands[0]
        if len(operands) != 4 or not _REGISTER.fullmatch(operands[2]):
            return False
        first, words = int(operands[2][1:]), 2 if part["name"].endswith(".64") else 1
        named = [int(each[1:]) for each in _REGISTER.findall(operands[1])]
        where = {*named, *(each + 1 for each in named if part["name"].startswith("ATOM.E"))}
        return (
            [self.copies.get(first + word) for word in range(words)] == list(range(words))
            and not any(map(self._holds, where))
            and part["guard"] not in self.decided
            and row["memory_kind"] == MemoryKind.ATOMIC
        )

    def _step(self, index: int, part: re.Match[str]) -> bool:
        """Take one instruction; False where the value would be seen. What is decided by comparing it with what the swap
        found is decided from memory."""
        row, operands = self.program.instructions[index], _operands(part["operands"])
        name, predicates = part["name"].partition(".")[0], _PREDICATE.findall(part["operands"])
        read = {register for first, words in zip(row["sources"], row["source_words"], strict=True) if first >= 0 for register in range(first, first + words)}  # fmt: skip
        sets = name.endswith("SETP")
        asked = predicates[sum(map(bool, map(_PREDICATE.fullmatch, operands[:2]))) if sets else 0 :]
        uses = any(map(self._holds, read)) or any(each in self.decided for each in (part["guard"], *asked))
        if uses and (row["memory_kind"] != MemoryKind.NONE or (row["destination"] < 0 and not sets)):
            return False
        if sets:
            target = {each for each in operands[:2] if _PREDICATE.fullmatch(each)}
            both = bool(read & set(self.copies)) and bool(read & self.answer)
            self.compared = self.compared | target if both else self.compared - target
            self.decided = self.decided | target if uses and not both else self.decided - target
            return True
        moves = name == "MOV" or part["name"].startswith("IMAD.MOV")
        word = self.copies.get(next(iter(read))) if moves and len(read) == 1 else None
        if part["guard"] is None:
            self._overwrite(index)
        if word is not None and part["guard"] is None:
            self.copies[int(row["destination"])] = word
        elif uses:
            self.derived |= set(self._written(index))
        return True

    def _holds(self, register: int) -> bool:
        return int(register) in self.copies or int(register) in self.derived

    def _written(self, index: int) -> range:
        row = self.program.instructions[index]
        return range(int(row["destination"]), int(row["destination"]) + int(row["destination_count"]))

    def _overwrite(self, index: int) -> None:
        for register in self._written(index):
            self.copies.pop(register, None)
            self.derived.discard(register)
            self.answer.discard(register)


def _operands(text: str) -> list[str]:
    return [operand.strip().removesuffix(".reuse") for operand in text.rstrip(" ;").split(",")]
