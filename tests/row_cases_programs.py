"""A short SASS program for each row that is no plain arithmetic, and what it leaves, in plain Python.

Mental model: a program gets words in R8, R9, ... (a column a lane) and names the registers that it leaves; its oracle
computes the same rows of numbers. Programs end with all lanes together, and a last vote says so where lanes part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oracles_arith import BF16, F16, F32, M32, add, mask_of, order, signed

Rows = list[list[int]]


@dataclass(frozen=True)
class Program:
    """``covers``: mnemonics that are executed here for their own sake. ``oracle``: rows of inputs, lane by lane, to rows
    of outputs. ``threads`` in one block."""

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


def first_and_whether_all(x: Rows) -> Rows:
    here = [lane for lane in range(32) if x[0][lane] & 1 or lane == 31]
    differ = any(x[1][o] != x[1][here[0]] for o in here)
    return [[x[1][here[0]]] * 32, [int(differ if lane in here else lane <= 15) for lane in range(32)]]


program(
    "R2UR",
    ["MOV R7, 0x1", *P0_OR_LAST_LANE, "ISETP.LE.U32.AND P1, PT, R0, 0xf, PT", "@P0 R2UR P1, UR4, R9", "MOV R20, UR4",
     "SEL R21, R7, RZ, P1"],
    first_and_whether_all, outputs=("R20", "R21"), inputs=2,
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

# ---- control ---------------------------------------------------------------------------------------

program(
    "BRA BSSY BSYNC",
    [*P0_FROM_R8, "BSSY B0, {join}", "@P0 BRA {other}", "IADD3 R20, R8, 0x5, RZ", "BRA {join}", "other:",
     "IMAD R20, R8, 0x3, RZ", "join:", "BSYNC B0", TOGETHER],
    parted(lambda v: v * 3 if odd(v) else v + 5), outputs=("R20", "R21"),
)  # fmt: skip
program(
    "JMP",
    [*P0_FROM_R8, "BSSY B0, {join}", "@P0 JMP {other}", "IADD3 R20, R8, 0x5, RZ", "JMP {join}", "other:",
     "IMAD R20, R8, 0x3, RZ", "join:", "BSYNC B0", TOGETHER],
    parted(lambda v: v * 3 if odd(v) else v + 5), outputs=("R20", "R21"),
)  # fmt: skip
#: All lanes go the slow way (adding 3) if a lane of the mask is elsewhere, or disagrees (P0); else the fast one.
program(
    "BRA",
    [*P0_FROM_R8, "MOV R20, R8", "BSSY B0, {join}", "@!P0 BRA.DIV ~URZ, {slow}", "IADD3 R20, R20, 0x5, RZ", "BRA {join}",
     "slow:", "IADD3 R20, R20, 0x3, RZ", "join:", "BSYNC B0", TOGETHER],
    lambda x: [same([v + (3 if any(map(odd, x[0])) else 5) for v in x[0]]), [ALL] * 32], outputs=("R20", "R21"), capability=(8, 0),
)  # fmt: skip
program(
    "BRA",
    [*P0_FROM_R8, "MOV R20, R8", "MOV R16, 0xffffffff", "BSSY B0, {join}", "@P0 BRA {join}", "BRA.DIV R16, {slow}",
     "IADD3 R20, R20, 0x5, RZ", "BRA {join}", "slow:", "IADD3 R20, R20, 0x3, RZ", "join:", "BSYNC B0", TOGETHER],
    lambda x: [same([v if odd(v) else v + (3 if any(map(odd, x[0])) else 5) for v in x[0]]), [ALL] * 32],
    outputs=("R20", "R21"), capability=(8, 0),
)  # fmt: skip
#: Three lines of code, one of which each lane jumps to.
_CASES = ("zero:", "IADD3 R20, R8, 0x5, RZ", "BRA {join}", "one:", "IMAD R20, R8, 0x3, RZ", "BRA {join}", "two:",
          "LOP3.LUT R20, R8, 0xff, RZ, 0x3c, !PT", "join:", "BSYNC B0", TOGETHER)  # fmt: skip


def by_remainder(v: int) -> int:
    return (v + 5, v * 3, v ^ 0xFF, v + 5)[v & 3]


_TARGETS = ("LOP3.LUT R18, R8, 0x3, RZ, 0xc0, !PT", "ISETP.EQ.AND P1, PT, R18, 0x1, PT", "ISETP.EQ.AND P2, PT, R18, 0x2, PT",
            "MOV R16, {zero}", "@P1 MOV R16, {one}", "@P2 MOV R16, {two}", "MOV R17, RZ", "BSSY B0, {join}")  # fmt: skip
program(
    "BRX", [*_TARGETS, "BRX R16, -{next}", "next:", *_CASES], parted(by_remainder), outputs=("R20", "R21"),
)
program("JMX", [*_TARGETS, "JMX R16", *_CASES], parted(by_remainder), outputs=("R20", "R21"))


def by_first_lane(x: Rows) -> Rows:
    """All lanes go where the first one's remainder says."""
    step = (lambda v: v + 5, lambda v: v * 3, lambda v: v ^ 0xFF, lambda v: v + 5)[x[0][0] & 3]
    return [same([step(v) for v in x[0]]), [ALL] * 32]


_UNIFORM = (*_TARGETS, "R2UR UR16, R16", "R2UR UR17, R17")
program(
    "BRXU", [*_UNIFORM, "BRXU UR16, -{next}", "next:", *_CASES], by_first_lane, outputs=("R20", "R21"),
)
program("JMXU", [*_UNIFORM, "JMXU UR16", *_CASES], by_first_lane, outputs=("R20", "R21"))
#: The address of a label, and of the instruction itself, two instructions apart.
program(
    "LEPC",
    ["LEPC R18", "LEPC R16, {target}", "IADD3 R20, R16, -R18, RZ", "MOV R21, R17", "JMX R16", "MOV R20, RZ", "target:"],
    lambda x: [[6 * 16] * 32, [0] * 32], outputs=("R20", "R21"),
)  # fmt: skip
#: A function that both sides of a branch call, each from its own place.
program(
    "CALL RET",
    ["MOV R20, R8", *P0_FROM_R8, "MOV R17, RZ", "BSSY B0, {join}", "@P0 BRA {other}", "MOV R16, {back}",
     "CALL.REL.NOINC {function}", "back:", "IADD3 R20, R20, 0x5, RZ", "BRA {join}", "other:", "MOV R16, {again}",
     "CALL.REL.NOINC {function}", "again:", "IMAD R20, R20, 0x7, RZ", "BRA {join}", "function:", "IMAD R20, R20, 0x3, RZ",
     "RET.REL.NODEC R16, 0x0", "join:", "BSYNC B0", TOGETHER],
    parted(lambda v: v * 21 if odd(v) else v * 3 + 5), outputs=("R20", "R21"),
)  # fmt: skip
#: Lanes that leave are not waited for: those that stay see one another only.
program(
    "BREAK",
    [*P0_FROM_R8, "MOV R20, RZ", "BSSY B1, {end}", "BSSY B0, {join}", "@P0 BREAK B0", "@P0 BRA {end}", "BRA {join}", "join:",
     "BSYNC B0", "VOTE.ANY R20, PT, PT", "end:", "BSYNC B1", TOGETHER],
    lambda x: [[0 if odd(v) else mask_of(not odd(o) for o in x[0]) for v in x[0]], [ALL] * 32], outputs=("R20", "R21"),
)  # fmt: skip
program(
    "WARPSYNC",
    [*P0_FROM_R8, "MOV R16, 0xffffffff", "@P0 BRA {other}", "IADD3 R20, R8, 0x5, RZ", "BRA {join}", "other:",
     "IMAD R20, R8, 0x3, RZ", "join:", "WARPSYNC R16", TOGETHER],
    parted(lambda v: v * 3 if odd(v) else v + 5), outputs=("R20", "R21"),
)  # fmt: skip
#: Odd lanes spin until an even one has said so, giving way each time.
for _row, _text in (("YIELD", "YIELD"), ("NANOSLEEP", "NANOSLEEP 0x20")):
    program(
        _row,
        ["MOV R7, 0x1", "STS [RZ], RZ", "LOP3.LUT R16, R0, 0x1, RZ, 0xc0, !PT", "ISETP.NE.AND P0, PT, R16, RZ, PT", "MOV R20, RZ",
         "BSSY B0, {join}", "@P0 BRA {wait}", "STS [RZ], R7", "BRA {join}", "wait:", _text, "LDS R20, [RZ]",
         "ISETP.EQ.AND P1, PT, R20, RZ, PT", "@P1 BRA {wait}", "join:", "BSYNC B0", TOGETHER,
         "ISETP.NE.AND P2, PT, R20, RZ, PT", "SEL R20, R21, RZ, P2"],
        lambda x: [[ALL if lane & 1 else 0 for lane in range(32)], [ALL] * 32],
        outputs=("R20", "R21"), shared_bytes=64,
    )  # fmt: skip
#: The barrier's lanes go out to a register, come back, and are waited for.
program(
    "BMOV",
    [*P0_FROM_R8, "BSSY B0, {join}", "BMOV.32.CLEAR R22, B0", "BMOV.32 B0, R22", "@P0 BRA {join}", "IADD3 R8, R8, 0x5, RZ", "join:",
     "BSYNC B0", TOGETHER, "MOV R20, R8"],
    lambda x: [same([v if odd(v) else v + 5 for v in x[0]]), [ALL] * 32, [ALL] * 32], outputs=("R20", "R21", "R22"),
)  # fmt: skip
program(
    "RPCMOV",
    ["RPCMOV.32 Rpc.LO, R8", "RPCMOV.32 Rpc.HI, R9", "MOV R8, RZ", "RPCMOV.32 R20, Rpc.LO", "RPCMOV.32 R21, Rpc.HI"],
    lambda x: x, outputs=("R20", "R21"), inputs=2, capability=(7, 5),
)  # fmt: skip
program("EXIT", [*P0_FROM_R8, "@P0 EXIT"], each(lambda v: 0 if odd(v) else v), outputs=("R8",))
#: Two warps exchange words; then a producer arrives at a barrier of its own and the consumer waits there.
program(
    "BAR",
    ["SHF.L.U32 R16, R0, 0x2, RZ", "IADD3 R17, -R16, 0xfc, RZ", "STS [R16], R8", "BAR.SYNC.DEFER_BLOCKING 0x0", "LDS R20, [R17]",
     "BAR.SYNC.DEFER_BLOCKING 0x0", "ISETP.GE.U32.AND P0, PT, R0, 0x20, PT", "BSSY B0, {join}", "@P0 BRA {consumer}",
     "IADD3 R18, R8, 0x1, RZ", "STS [R16], R18", "MOV R21, RZ", "BAR.ARV 0x2, 0x40", "BRA {join}", "consumer:", "BAR.SYNC 0x2, 0x40",
     "LDS R21, [R17]", "join:", "BSYNC B0"],
    lambda x: [x[0][::-1], [0] * 32 + same([v + 1 for v in x[0][:32]][::-1])], outputs=("R20", "R21"), threads=64,
    shared_bytes=256,
)  # fmt: skip
program(
    "B2R",
    ["MOV R7, 0x1", *P0_FROM_R8, "BAR.RED.POPC.DEFER_BLOCKING 0x0, P0", "B2R.RESULT R20", "BAR.RED.AND.DEFER_BLOCKING 0x0, P0",
     "B2R.RESULT RZ, P1", "SEL R21, R7, RZ, P1", "BAR.RED.OR.DEFER_BLOCKING 0x0, P0", "B2R.RESULT RZ, P2", "SEL R22, R7, RZ, P2"],
    lambda x: [[sum(map(odd, x[0]))] * 64, [int(all(map(odd, x[0])))] * 64, [int(any(map(odd, x[0])))] * 64],
    outputs=("R20", "R21", "R22"), threads=64,
)  # fmt: skip

#: Only time and other observers notice these: registers, predicates and memory stay what they were.
_QUIET = {
    "NOP": "NOP", "ERRBAR": "ERRBAR", "CGAERRBAR": "CGAERRBAR", "CCTL": "CCTL.IVALL", "CCTLL": "CCTLL.IVALL", "CCTLT": "CCTLT.IVALL",
    "PMTRIG": "PMTRIG 0x2", "ACQBULK": "ACQBULK", "PREEXIT": "PREEXIT", "WARPGROUP": "WARPGROUP.ARRIVE",
    "ENDCOLLECTIVE": "ENDCOLLECTIVE", "MEMBAR": "MEMBAR.SC.GPU", "FENCE": "FENCE.VIEW.ASYNC.S", "DEPBAR": "DEPBAR.LE SB0, 0x0",
    "LDGDEPBAR": "LDGDEPBAR",
}  # fmt: skip
for _row, _text in _QUIET.items():
    program(
        _row,
        ["R2P PR, R9, 0x7f", "STS [R0], R8", _text, f"@P0 {_text}", "P2R R20, PR, RZ, 0x7f", "LDS R21, [R0]"],
        lambda x: [[v & 0x7F for v in x[1]], x[0], x[0]],
        outputs=("R20", "R21", "R8"), inputs=2, shared_bytes=256, threads=1,
    )  # fmt: skip

# ---- memory ----------------------------------------------------------------------------------------

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
        _row, [*_OTHER_LANE, f"{_row}.E.ADD.{_type}.RN.STRONG.GPU {_first}[R18], R9", "LDG.E R20, [R2]"], summed(_format), inputs=2
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
        _row, [*_OTHER_LANE, f"{_row}.E.MAX.STRONG.GPU [R18], R9", "LDG.E R20, [R2]"], last_of_each, inputs=2, capability=_base
    )
_SHARED_PLACE = ("SHF.L.U32 R16, R0, 0x2, RZ", "STS [R16], RZ", "LOP3.LUT R17, R8, 0x1f, RZ, 0xc0, !PT", "SHF.L.U32 R17, R17, 0x2, RZ")
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
