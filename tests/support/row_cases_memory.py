"""SASS programs for the rows of loads, stores, atomics and constants: see :mod:`row_cases_programs`."""

from __future__ import annotations

from collections.abc import Callable

from oracles_arith import BF16, F16, M32, add, signed
from row_cases_programs import P0_FROM_R8, Rows, odd, program, same

#: R16:R17 is the address of the input word, and R18:R19 of the second output word, of the lane that R8 & 31 names.
_OTHER_LANE = ("LOP3.LUT R22, R8, 0x1f, RZ, 0xc0, !PT", "IADD3 R22, R22, -R0, RZ", "IMAD.WIDE R16, R22, 0x4, R4",
               "IMAD.WIDE R18, R22, 0x4, R2")  # fmt: skip


def gathered(x: Rows) -> Rows:
    other = [v & 31 for v in x[0]]
    words = [x[1][o] for o in other]
    return [words, [w & 0xFF for w in words], same([signed(w >> 16, 16) for w in words])]


for _row in ("LDG", "LD"):
    program(
        _row,
        [*_OTHER_LANE, f"{_row}.E R20, [R16+0x80]", f"{_row}.E.U8 R21, [R16+0x80]", f"{_row}.E.S16 R22, [R16+0x82]"],
        gathered, outputs=("R20", "R21", "R22"), inputs=2,
    )  # fmt: skip
#: Two words each, in reverse order of lanes, into the first two rows of output; read back whole.
for _row in ("STG", "ST"):
    program(
        _row,
        ["SHF.L.U32 R16, R0, 0x1, RZ", "IADD3 R16, -R16, 0x3e, RZ", "IADD3 R16, R16, -R0, RZ", "IMAD.WIDE R18, R16, 0x4, R2",
         f"{_row}.E.64 [R18], R8", f"{_row}.E.U8 [R18+0x4], R8", "LDG.E R20, [R2]", "LDG.E R21, [R2+0x80]"],
        lambda x: [[column for v, w in list(zip(*x))[::-1] for column in (v, w & ~0xFF | v & 0xFF)][i : i + 32] for i in (0, 32)],
        outputs=("R20", "R21"), inputs=2,
    )  # fmt: skip
program(
    "STS LDS",
    ["SHF.L.U32 R16, R0, 0x3, RZ", "IADD3 R17, -R16, 0xf8, RZ", "STS.64 [R16], R8", "STS.U16 [R16+0x2], R9", "LDS.64 R20, [R17]",
     "LDS.S8 R22, [R17+0x5]"],
    lambda x: [
        [v & 0xFFFF | (w & 0xFFFF) << 16 for v, w in list(zip(*x))[::-1]], x[1][::-1],
        same([signed(w >> 8, 8) for w in x[1][::-1]]),
    ],
    outputs=("R20", "R21", "R22"), inputs=2, shared_bytes=256,
)  # fmt: skip
#: Each lane has 16 words of its own; it writes two at a place that R8 chooses and reads around it.
program(
    "STL LDL",
    ["LOP3.LUT R16, R8, 0x1c, RZ, 0xc0, !PT", "STL [RZ], RZ", "STL [R16+0x10], R8", "STL [R16+0x14], R9", "LDL R20, [R16+0x10]",
     "LDL.U8 R21, [R16+0x15]", "LDL R22, [RZ]"],
    lambda x: [x[0], [w >> 8 & 0xFF for w in x[1]], [0] * 32], outputs=("R20", "R21", "R22"), inputs=2, local_bytes=64,
)  # fmt: skip


def added(x: Rows) -> tuple[list[int], list[int]]:
    """(what each lane finds, what is left): lane after lane adds its second word at the place of its first & 31."""
    room, found = [0] * 32, []
    for v, w in zip(*x):
        found.append(room[v & 31])
        room[v & 31] = (room[v & 31] + w) & M32
    return found, room


for _row in ("ATOM", "ATOMG"):
    program(
        _row, [*_OTHER_LANE, f"{_row}.E.ADD.STRONG.GPU PT, R20, [R18], R9", "LDG.E R21, [R2]"], lambda x: list(added(x)),
        outputs=("R20", "R21"), inputs=2,
    )  # fmt: skip


def summed(f) -> Callable[[Rows], Rows]:
    """What is left where all lanes add their second word, two 16-bit floats, at the place of their first & 31."""

    def left(x: Rows) -> Rows:
        room = [0] * 32
        for v, w in zip(*x):
            old = room[v & 31]
            room[v & 31] = add(f, old >> 16, w >> 16) << 16 | add(f, old & 0xFFFF, w & 0xFFFF)
        return [room]

    return left


for _row, _type, _format in (("ATOMG", "F16x2", F16), ("REDG", "BF16x2", BF16)):
    _first = "PT, RZ, " if _row == "ATOMG" else ""
    program(
        _row,
        [*_OTHER_LANE, f"{_row}.E.ADD.{_type}.RN.STRONG.GPU {_first}[R18], R9", "LDG.E R20, [R2]"],
        summed(_format),
        inputs=2,
    )


def exchanged(x: Rows) -> Rows:
    """16 bytes at one of two places: each lane finds what the last one left; then the first place's are compared with
    what lies there, and swapped for zeros where they are equal."""
    room, found = [(0, 0, 0, 0)] * 2, []
    for v, *words in zip(*x):
        found.append(room[v & 1][0])
        room[v & 1] = tuple(words)
    return [found, [0 if x[0][lane] & 1 else 1 for lane in range(32)]]


program(
    "ATOMG",
    ["MOV R7, 0x1", "MOV R40, R9", "MOV R41, R10", "MOV R42, R11", "MOV R43, R12", "MOV R44, RZ", "MOV R45, RZ", "MOV R46, RZ",
     "MOV R47, RZ", *P0_FROM_R8, "SEL R16, 0x4, RZ, P0", "IADD3 R16, R16, -R0, RZ", "IMAD.WIDE R18, R16, 0x4, R2",
     "ATOMG.E.EXCH.128.STRONG.GPU PT, R20, [R18], R40", "LDG.E.128 R28, [R18]", "ATOMG.E.CAS.128.STRONG.GPU PT, R32, [R18], R28, R44",
     "LDG.E.128 R36, [R18]", "LOP3.LUT R36, R36, R37, R38, 0xfe, !PT", "LOP3.LUT R36, R36, R39, RZ, 0xfc, !PT",
     "ISETP.EQ.AND P1, PT, R36, RZ, !P0", "SEL R21, R7, RZ, P1"],
    exchanged, outputs=("R20", "R21"), inputs=5,
)  # fmt: skip


def last_of_each(x: Rows) -> Rows:
    """The greatest unsigned word of all lanes that name a place; zero where none does."""
    return [[max([0, *(w for v, w in zip(*x) if v & 31 == lane)]) for lane in range(32)]]


for _row, _base in (("RED", (8, 0)), ("REDG", (9, 0))):
    program(
        _row,
        [*_OTHER_LANE, f"{_row}.E.MAX.STRONG.GPU [R18], R9", "LDG.E R20, [R2]"],
        last_of_each,
        inputs=2,
        capability=_base,
    )
_SHARED_PLACE = (
    "SHF.L.U32 R16, R0, 0x2, RZ",
    "STS [R16], RZ",
    "LOP3.LUT R17, R8, 0x1f, RZ, 0xc0, !PT",
    "SHF.L.U32 R17, R17, 0x2, RZ",
)
program(
    "ATOMS", [*_SHARED_PLACE, "ATOMS.ADD R20, [R17], R9", "LDS R21, [R16]"], lambda x: list(added(x)), outputs=("R20", "R21"),
    inputs=2, shared_bytes=128,
)  # fmt: skip
program("REDS", [*_SHARED_PLACE, "REDS.MAX [R17], R9", "LDS R20, [R16]"], last_of_each, inputs=2, shared_bytes=128)
#: An mbarrier of 64 threads as Ampere's compiler makes it: who comes finds 64, 63, ... still expected; then its parity
#: has changed, and it expects 64 again.
program(
    "ATOMS",
    ["MOV R16, 0x3fffffc0", "MOV R17, 0x7fffffc0", "STS.64 [RZ], R16", "BAR.SYNC.DEFER_BLOCKING 0x0", "ATOMS.ARRIVE.64 R18, [RZ]",
     "LOP3.LUT R20, R19, 0x7fffffff, RZ, 0xc0, !PT", "IADD3 R20, -R20, -0x80000000, RZ", "wait:", "LDS R22, [0x4]", "YIELD",
     "LOP3.LUT P0, RZ, R22, 0x80000000, R19, 0x48, !PT", "@!P0 BRA {wait}", "LOP3.LUT R21, R22, 0x7fffffff, RZ, 0xc0, !PT",
     "LOP3.LUT R22, R22, R19, RZ, 0x3c, !PT", "SHF.R.U32.HI R22, RZ, 0x1f, R22"],
    lambda x: [[64 - t for t in range(64)], [0x7FFFFFC0] * 64, [1] * 64],
    outputs=("R20", "R21", "R22"), threads=64, shared_bytes=64, capability=(8, 0),
)  # fmt: skip
#: Words copied past the registers, in reverse order of lanes.
program(
    "LDGSTS",
    ["SHF.L.U32 R16, R0, 0x2, RZ", "IADD3 R17, -R16, 0x7c, RZ", "LDGSTS.E [R17], [R4.64]", "LDGDEPBAR", "DEPBAR.LE SB0, 0x0",
     "LDS R20, [R16]"],
    lambda x: [x[0][::-1]], shared_bytes=128, capability=(8, 0),
)  # fmt: skip
#: The parameter bank holds the arrays' lengths, 96 (three outputs) and 64 here, as the third of seven values each.
program(
    "LDC",
    [*P0_FROM_R8, "SEL R16, RZ, 0x38, P0", "LDC R20, c[0x0][R16+{parameters:16}]", "LDC.64 R22, c[0x0][R16+{parameters:16}]"],
    lambda x: [[96 if odd(v) else 64 for v in x[0]], [96 if odd(v) else 64 for v in x[0]], [0] * 32],
    outputs=("R20", "R22", "R23"), inputs=2,
)  # fmt: skip
for _row, _base in (("ULDC", (9, 0)), ("LDCU", (10, 0))):
    program(
        _row,
        [*P0_FROM_R8, "SEL R16, RZ, 0x38, P0", "R2UR UR4, R16", f"{_row} UR6, c[0x0][UR4+{{parameters:16}}]", "MOV R20, UR6",
         f"{_row}.64 UR8, c[0x0][{{parameters:72}}]", "MOV R21, UR8", "MOV R22, UR9"],
        lambda x: [[96 if odd(x[0][0]) else 64] * 32, [64] * 32, [0] * 32],
        outputs=("R20", "R21", "R22"), inputs=2, capability=_base,
    )  # fmt: skip
