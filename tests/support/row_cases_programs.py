"""A short SASS program for each row that is no plain arithmetic, and what it leaves, in plain Python.

Mental model: a program gets words in R8, R9, ... (a column a lane) and names the registers that it leaves; its oracle
computes the same rows of numbers. Programs end with all lanes together, and a last vote says so where lanes part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oracles_arith import F32, M32, mask_of, order, signed

Rows = list[list[int]]


@dataclass(frozen=True)
class Program:
    """``covers``: mnemonics that are executed here for their own sake. ``oracle``: rows of inputs, lane by lane, to
    rows of outputs. ``threads`` in one block."""

    covers: tuple[str, ...]
    lines: tuple[str, ...]
    oracle: Callable[[Rows], Rows]
    outputs: tuple[str, ...] = ("R20",)
    inputs: int = 1
    threads: int = 32
    capability: tuple[int, int] = (9, 0)
    local_bytes: int = 0
    shared_bytes: int = 0


PROGRAMS: list[Program] = []
ALL = 0xFFFFFFFF
#: P0 from the lowest bit of R8.
P0_FROM_R8 = ("LOP3.LUT R16, R8, 0x1, RZ, 0xc0, !PT", "ISETP.NE.AND P0, PT, R16, RZ, PT")
#: The same with the last lane always on.
P0_OR_LAST_LANE = ("ISETP.EQ.U32.AND P0, PT, R0, 0x1f, PT", "LOP3.LUT R16, R8, 0x1, RZ, 0xc0, !PT",
                   "ISETP.NE.OR P0, PT, R16, RZ, P0")  # fmt: skip
#: Who is here: all lanes, where they have met again.
TOGETHER = "VOTE.ANY R21, PT, PT"


def program(covers: str, lines: Sequence[str], oracle: Callable[[Rows], Rows], **options) -> None:
    PROGRAMS.append(Program(tuple(covers.split()), tuple(lines), oracle, **options))


def same(values: Sequence[int]) -> list[int]:
    return [v & M32 for v in values]


def each(function: Callable[..., int]) -> Callable[[Rows], Rows]:
    """An oracle that looks at one lane at a time: R20 only."""
    return lambda x: [same([function(*lane) for lane in zip(*x)])]


def parted(function: Callable[..., int]) -> Callable[[Rows], Rows]:
    """As :func:`each`, and all lanes are together again at the end (R21)."""
    return lambda x: [same([function(*lane) for lane in zip(*x)]), [ALL] * len(x[0])]


def odd(value: int) -> bool:
    return bool(value & 1)


# ---- across lanes ----------------------------------------------------------------------------------


def shuffled(x: Rows) -> Rows:
    """Four modes with step 5 in segments of 8 lanes; then whether the source lay inside."""
    rows = []
    for source in (
        lambda p: 5, lambda p: p - 5, lambda p: p + 5, lambda p: p ^ 5,
    ):  # fmt: skip
        inside = [0 <= source(lane % 8) < 8 for lane in range(32)]
        rows.append([x[0][lane // 8 * 8 + source(lane % 8)] if inside[lane] else x[0][lane] for lane in range(32)])
        rows.append([int(i) for i in inside])
    return rows


_SHUFFLES = []
for _i, (_mode, _clamp) in enumerate((("IDX", 0x1807), ("UP", 0x1800), ("DOWN", 0x1807), ("BFLY", 0x1807))):
    _SHUFFLES += [f"SHFL.{_mode} P1, R{20 + 2 * _i}, R8, 0x5, {_clamp:#x}", f"SEL R{21 + 2 * _i}, R7, RZ, P1"]
program("SHFL", ["MOV R7, 0x1", *_SHUFFLES], shuffled, outputs=tuple(f"R{20 + i}" for i in range(8)))


def voted(x: Rows) -> Rows:
    p = [v & 1 for v in x[0]]
    return [[mask_of(p)] * 32, [int(any(p))] * 32, [int(all(p))] * 32, [int(all(p) or not any(p))] * 32]


_VOTES = ("VOTE.ANY R20, P1, P0", "SEL R21, R7, RZ, P1", "VOTE.ALL P2, P0", "SEL R22, R7, RZ, P2", "VOTE.EQ P3, P0",
          "SEL R23, R7, RZ, P3")  # fmt: skip
program("VOTE", ["MOV R7, 0x1", *P0_FROM_R8, *_VOTES], voted, outputs=("R20", "R21", "R22", "R23"))
_VOTES_U = ("VOTEU.ANY UR4, UP1, P0", "SEL R21, R7, RZ, UP1", "VOTEU.ALL UP2, P0", "SEL R22, R7, RZ, UP2",
            "VOTEU.EQ UP3, P0", "SEL R23, R7, RZ, UP3", "MOV R20, UR4")  # fmt: skip
program("VOTEU", ["MOV R7, 0x1", *P0_FROM_R8, *_VOTES_U], voted, outputs=("R20", "R21", "R22", "R23"))


def matched(x: Rows) -> Rows:
    few = [v & 3 for v in x[0]]
    alike = len(set(few)) == 1
    wide = list(zip(few, (v & 1 for v in x[1])))
    return [
        [mask_of(o == v for o in few) for v in few], [ALL if alike else 0] * 32, [int(alike)] * 32,
        [mask_of(o == v for o in wide) for v in wide],
    ]  # fmt: skip


program(
    "MATCH",
    ["MOV R7, 0x1", "LOP3.LUT R16, R8, 0x3, RZ, 0xc0, !PT", "LOP3.LUT R17, R9, 0x1, RZ, 0xc0, !PT", "MATCH.ANY R20, R16",
     "MATCH.ALL P1, R21, R16", "SEL R22, R7, RZ, P1", "MATCH.ANY.U64 R23, R16"],
    matched, outputs=("R20", "R21", "R22", "R23"), inputs=2,
)  # fmt: skip


def reduced(x: Rows) -> Rows:
    """Over the lanes whose R8 is odd, and the last one."""
    here = [v for lane, (p, v) in enumerate(zip(*x)) if p & 1 or lane == 31]
    total_and, total_or, total_xor = ALL, 0, 0
    for v in here:
        total_and, total_or, total_xor = total_and & v, total_or | v, total_xor ^ v
    found = [sum(here), min(map(signed, here)), max(here), total_and, total_or, total_xor]
    return [[v & M32] * 32 for v in found]


_REDUCTIONS = [("SUM", 0), ("MIN.S32", 1), ("MAX", 2), ("AND", 3), ("OR", 4), ("XOR", 5)]
for _row, _base in (("REDUX", (9, 0)), ("CREDUX", (10, 0))):
    _lines = [f"@P0 {_row}.{name} UR{4 + i}, R9" for i, name in enumerate(n for n, _ in _REDUCTIONS)]
    program(
        _row, [*P0_OR_LAST_LANE, *_lines, *(f"MOV R{20 + i}, UR{4 + i}" for i in range(6))], reduced,
        outputs=tuple(f"R{20 + i}" for i in range(6)), inputs=2, capability=_base,
    )  # fmt: skip


def reduced_floats(x: Rows) -> Rows:
    """The least number, and the greatest magnitude or NaN, of the lanes whose R8 is odd, and the last one."""
    here = [v for lane, (p, v) in enumerate(zip(*x)) if p & 1 or lane == 31]
    numbers = [v for v in here if not F32.is_nan(v)]
    least = min(numbers, key=lambda v: order(F32, v), default=F32.nan)
    magnitudes = [v & ~F32.sign for v in numbers]
    return [[least] * 32, [F32.nan if len(numbers) < len(here) else max(magnitudes)] * 32]


program(
    "CREDUX",
    [*P0_OR_LAST_LANE, "@P0 CREDUX.MIN.F32 UR4, R9", "@P0 CREDUX.MAXABS.F32.NAN UR5, R9", "MOV R20, UR4", "MOV R21, UR5"],
    reduced_floats, outputs=("R20", "R21"), inputs=2, capability=(10, 0),
)  # fmt: skip


def from_first_lane(x: Rows) -> Rows:
    first = next(lane for lane in range(32) if x[0][lane] & 1 or lane == 31)
    return [[x[1][first]] * 32]


program("R2UR", [*P0_OR_LAST_LANE, "@P0 R2UR UR4, R9", "MOV R20, UR4"], from_first_lane, inputs=2)


def first_and_which_differ(x: Rows) -> Rows:
    here = [lane for lane in range(32) if x[0][lane] & 1 or lane == 31]
    first = x[1][here[0]]
    return [[first] * 32, [int(x[1][lane] != first if lane in here else lane <= 15) for lane in range(32)]]


program(
    "R2UR",
    ["MOV R7, 0x1", *P0_OR_LAST_LANE, "ISETP.LE.U32.AND P1, PT, R0, 0xf, PT", "@P0 R2UR P1, UR4, R9", "MOV R20, UR4",
     "SEL R21, R7, RZ, P1"],
    first_and_which_differ, outputs=("R20", "R21"), inputs=2,
)  # fmt: skip
program(
    "R2UR",
    ["MOV R7, 0x1", "ISETP.LE.U32.AND P1, PT, R0, 0xf, PT", "R2UR.OR P1, UR4, R8", "MOV R20, UR4", "SEL R21, R7, RZ, P1"],
    lambda x: [[x[0][0]] * 32, [int(x[0][lane] != x[0][0] or lane <= 15) for lane in range(32)]],
    outputs=("R20", "R21"), inputs=1,
)  # fmt: skip


def elected(x: Rows) -> Rows:
    first = next(lane for lane in range(32) if x[0][lane] & 1 or lane == 31)
    rest = [lane for lane in range(32) if not x[0][lane] & 1 and lane != 31]
    return [[first] * 32, [int(lane == first or lane in rest and lane <= 15) for lane in range(32)]]


program(
    "ELECT",
    ["MOV R7, 0x1", *P0_OR_LAST_LANE, "ISETP.LE.U32.AND P1, PT, R0, 0xf, PT", "@P0 ELECT P1, UR4, PT", "MOV R20, UR4",
     "SEL R21, R7, RZ, P1"],
    elected, outputs=("R20", "R21"),
)  # fmt: skip

# ---- predicates as bits ----------------------------------------------------------------------------

_SELECTS = tuple(f"SEL R{20 + i}, R7, RZ, P{i}" for i in range(7))
program(
    "R2P",
    ["MOV R7, 0x1", "R2P PR, R9, 0x7f", "R2P PR, R8.B1, 0x2b", *_SELECTS],
    lambda x: [[(v >> 8 + i if 0x2B >> i & 1 else w >> i) & 1 for v, w in zip(*x)] for i in range(7)],
    outputs=tuple(f"R{20 + i}" for i in range(7)), inputs=2,
)  # fmt: skip
program(
    "P2R",
    ["R2P PR, R8, 0x7f", "P2R R20, PR, R9, 0x55", "P2R.B2 R21, PR, R9, 0x7f"],
    lambda x: [
        [w & ~0x55 & M32 | v & 0x55 for v, w in zip(*x)],
        [w & ~(0x7F << 16) & M32 | (v & 0x7F) << 16 for v, w in zip(*x)],
    ],
    outputs=("R20", "R21"), inputs=2,
)  # fmt: skip
program(
    "UR2UP UP2UR",
    ["R2UR UR8, R8", "R2UR UR9, R9", "UR2UP UPR, UR8, 0x7f", "UP2UR UR20, UPR, UR9, 0x33", "MOV R20, UR20"],
    lambda x: [[x[1][0] & ~0x33 & M32 | x[0][0] & 0x33] * 32],
    inputs=2,
)

# ---- special registers and addresses ---------------------------------------------------------------

program(
    "S2R S2UR",
    ["S2R R20, SR_LANEID", "S2R R21, SR_TID.X", "S2R R22, SR_LTMASK", "S2R R23, SR_GEMASK", "S2UR UR4, SR_NTID.X",
     "MOV R24, UR4", "S2R R25, SR_WARPID"],
    lambda x: [
        [t % 32 for t in range(64)], list(range(64)), [(1 << t % 32) - 1 for t in range(64)],
        [ALL & ~((1 << t % 32) - 1) for t in range(64)], [64] * 64, [t // 32 for t in range(64)],
    ],
    outputs=("R20", "R21", "R22", "R23", "R24", "R25"), threads=64,
)  # fmt: skip
#: The clock goes forward, and its 64-bit reading begins with the 32-bit one.
program(
    "CS2R",
    ["MOV R7, 0x1", "MOV R20, R8", "MOV R21, R8", "CS2R R20, SRZ", "CS2R.32 R16, SR_CLOCKLO", "CS2R R18, SR_CLOCKLO",
     "ISETP.LT.U32.AND P0, PT, R16, R18, PT", "SEL R22, R7, RZ, P0", "MOV R23, R19"],
    lambda x: [[0] * 32, [0] * 32, [1] * 32, [0] * 32], outputs=("R20", "R21", "R22", "R23"),
)  # fmt: skip
program(
    "CS2UR",
    ["MOV R7, 0x1", "R2UR UR4, R8", "R2UR UR5, R8", "CS2UR UR4, SRZ", "MOV R20, UR4", "MOV R21, UR5",
     "CS2UR.32 UR6, SR_CLOCKLO", "CS2UR UR8, SR_CLOCKLO", "UISETP.LT.U32.AND UP0, UPT, UR6, UR8, UPT", "SEL R22, R7, RZ, UP0",
     "MOV R23, UR9"],
    lambda x: [[0] * 32, [0] * 32, [1] * 32, [0] * 32],
    outputs=("R20", "R21", "R22", "R23"), capability=(10, 0),
)  # fmt: skip
#: An address of shared memory in even lanes, one of global memory in odd ones.
program(
    "QSPC",
    ["MOV R7, 0x1", *P0_FROM_R8, "S2R R17, SR_SWINHI", "MOV R16, 0x40", "@P0 MOV R16, R4", "@P0 MOV R17, R5",
     "QSPC.E.S P1, RZ, [R16]", "SEL R20, R7, RZ, P1", "QSPC.E.G P2, RZ, [R16+0x8]", "SEL R21, R7, RZ, P2"],
    lambda x: [[int(not odd(v)) for v in x[0]], [int(odd(v)) for v in x[0]]], outputs=("R20", "R21"),
)  # fmt: skip
