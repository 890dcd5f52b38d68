"""SASS programs for the rows of control flow and barriers, and for those that only time notices: see
:mod:`row_cases_programs`."""

from __future__ import annotations

import numpy as np
from oracles_arith import M32, mask_of, signed
from row_cases_programs import ALL, P0_FROM_R8, TOGETHER, Rows, each, odd, parted, program, same

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
#: Lanes that are elsewhere keep their predicate while others find theirs anew.
for _anew, _holds in (
    ("ISETP.GE.U32.AND P2, PT, R8, 0x40, PT", lambda v: v >= 0x40),
    ("ISETP.LT.AND P2, PT, R8, 0x40, PT", lambda v: signed(v) < 0x40),
    ("FSETP.GT.AND P2, PT, R8, RZ, PT", lambda v: np.uint32(v).view(np.float32) > 0),
    ("IADD3 R22, P2, R8, R8, RZ", lambda v: 2 * v > M32),
    ("LOP3.LUT P2, R22, R8, 0x4, RZ, 0xc0, !PT", lambda v: bool(v & 4)),
):
    program(
        _anew.replace(".", " ").split()[0],
        [*P0_FROM_R8, "ISETP.EQ.U32.AND P2, PT, R8, R8, PT", "BSSY B0, {join}", "@P0 BRA {join}", _anew, "join:",
         "BSYNC B0", "SEL R20, R8, RZ, P2", TOGETHER],
        parted(lambda v, holds=_holds: v if odd(v) or holds(v) else 0), outputs=("R20", "R21"),
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
    "BRX",
    [*_TARGETS, "BRX R16, -{next}", "next:", *_CASES],
    parted(by_remainder),
    outputs=("R20", "R21"),
)
program("JMX", [*_TARGETS, "JMX R16", *_CASES], parted(by_remainder), outputs=("R20", "R21"))


def by_first_lane(x: Rows) -> Rows:
    """All lanes go where the first one's remainder says."""
    step = (lambda v: v + 5, lambda v: v * 3, lambda v: v ^ 0xFF, lambda v: v + 5)[x[0][0] & 3]
    return [same([step(v) for v in x[0]]), [ALL] * 32]


_UNIFORM = (*_TARGETS, "R2UR UR16, R16", "R2UR UR17, R17")
program(
    "BRXU",
    [*_UNIFORM, "BRXU UR16, -{next}", "next:", *_CASES],
    by_first_lane,
    outputs=("R20", "R21"),
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
