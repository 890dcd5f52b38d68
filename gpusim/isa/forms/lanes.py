"""The opcodes that look across lanes or at the warp's surroundings.

Mental model: arithmetic sees one lane; these see the warp: shuffles, votes, matches and reductions, the
special registers, moves between vector and uniform registers, and predicates packed into a register.
"""

from __future__ import annotations

from gpusim.isa import system_ops as ops
from gpusim.isa.form import Instruction, Kind, MicroOp, Operand, Source
from gpusim.isa.opcode import NO_FLOPS, Opcode
from gpusim.trace.record import PipeClass

PREDICATES = (Kind.PREDICATE, Kind.UNIFORM_PREDICATE)
REGISTERS = (Kind.REGISTER, Kind.UNIFORM)
VALUES = (Kind.REGISTER, Kind.UNIFORM, Kind.IMMEDIATE, Kind.CONSTANT)


def _source(operand: Operand, words: int = 1) -> Source | None:
    """A plain source; None if it carries a sign, an inversion or a modifier."""
    if operand.kind not in VALUES or operand.negated or operand.absolute or operand.modifiers:
        return None
    immediate = operand.value if operand.kind == Kind.IMMEDIATE else None
    return Source(operand, words, flip=0xFFFFFFFF if operand.inverted else 0, immediate=immediate)


_SHUFFLES = {
    "IDX": ops.SHUFFLE_INDEX,
    "UP": ops.SHUFFLE_UP,
    "DOWN": ops.SHUFFLE_DOWN,
    "BFLY": ops.SHUFFLE_BUTTERFLY,
}


def lower_shuffle(instruction: Instruction) -> MicroOp | None:
    """``SHFL.mode P, Rd, Ra, lane, clamp``."""
    operands = instruction.operands
    if len(instruction.modifiers) != 1 or instruction.modifiers[0] not in _SHUFFLES or len(operands) != 5:
        return None
    predicate, destination, *values = operands
    sources = tuple(_source(value) for value in values)
    if predicate.kind != Kind.PREDICATE or destination.kind != Kind.REGISTER or None in sources:
        return None
    return MicroOp(
        ops.SHUFFLE,
        sources=sources,
        destination=destination,
        predicate_destinations=(predicate,),
        flags=(_SHUFFLES[instruction.modifiers[0]],),
    )


_VOTES = {"ANY": ops.VOTE_ANY, "ALL": ops.VOTE_ALL, "EQ": ops.VOTE_EQUAL}


def lower_vote(instruction: Instruction) -> MicroOp | None:
    """``VOTE.mode [Rd,] P, Pa``; the register gets the ballot. VOTEU writes the uniform file."""
    operands = list(instruction.operands)
    if len(instruction.modifiers) != 1 or instruction.modifiers[0] not in _VOTES or not operands:
        return None
    destination = operands.pop(0) if operands[0].kind in REGISTERS else None
    if len(operands) != 2 or any(o.kind not in PREDICATES for o in operands) or operands[0].inverted:
        return None
    return MicroOp(
        ops.VOTE,
        destination=destination,
        predicate_destinations=(operands[0],),
        predicate_sources=(operands[1],),
        flags=(_VOTES[instruction.modifiers[0]],),
        extra={"warp_wide": instruction.mnemonic == "VOTEU"},
    )


def lower_match(instruction: Instruction) -> MicroOp | None:
    """``MATCH.ANY Rd, Ra``; ``MATCH.ALL P, Rd, Ra``; ``.U64`` compares register pairs."""
    modifiers, operands = set(instruction.modifiers), list(instruction.operands)
    words = 2 if "U64" in modifiers else 1
    modifiers -= {"U64"}
    if modifiers not in ({"ANY"}, {"ALL"}):
        return None
    predicates = ()
    if operands and operands[0].kind == Kind.PREDICATE:
        predicates = (operands.pop(0),)
    if len(operands) != 2 or operands[0].kind != Kind.REGISTER:
        return None
    source = _source(operands[1], words)
    if source is None:
        return None
    return MicroOp(
        ops.MATCH,
        sources=(source, None, None),
        destination=operands[0],
        predicate_destinations=predicates,
        flags=(ops.MATCH_ANY if modifiers == {"ANY"} else ops.MATCH_ALL, words),
    )


_REDUCTIONS = {
    "SUM": ops.ADD,
    "ADD": ops.ADD,
    "MIN": ops.MIN,
    "MAX": ops.MAX,
    "AND": ops.AND,
    "OR": ops.OR,
    "XOR": ops.XOR,
}
_ABSOLUTE_REDUCTIONS = {"MINABS": ops.MIN, "MAXABS": ops.MAX}
_REDUCTION_TYPES = {"S32": ops.REDUCE_SIGNED, "F32": ops.REDUCE_FLOAT, "NAN": ops.REDUCE_NAN}


def lower_reduce(instruction: Instruction) -> MicroOp | None:
    """``REDUX[.op][.S32] URd, Ra`` and CREDUX: one value over the executing lanes; ``CREDUX.MAXABS.F32.NAN`` and its
    like (sm_100) the least or greatest FP32 number."""
    operation, how = ops.AND, 0
    for modifier in instruction.modifiers:
        if modifier in _REDUCTIONS:
            operation = _REDUCTIONS[modifier]
        elif modifier in _ABSOLUTE_REDUCTIONS:
            operation = _ABSOLUTE_REDUCTIONS[modifier]
            how |= ops.REDUCE_ABSOLUTE
        elif modifier in _REDUCTION_TYPES:
            how |= _REDUCTION_TYPES[modifier]
        elif modifier != "U32":
            return None
    if how & ops.REDUCE_FLOAT and (operation not in (ops.MIN, ops.MAX) or instruction.mnemonic != "CREDUX"):
        return None
    if how & (ops.REDUCE_ABSOLUTE | ops.REDUCE_NAN) and not how & ops.REDUCE_FLOAT:
        return None
    operands = instruction.operands
    if len(operands) != 2 or operands[0].kind not in REGISTERS:
        return None
    source = _source(operands[1])
    if source is None:
        return None
    return MicroOp(
        ops.REDUCE,
        sources=(source, None, None),
        destination=operands[0],
        flags=(operation, how),
        extra={"warp_wide": True},
    )


_SPECIALS = {
    "SRZ": ops.SR_ZERO,
    # Performance counters: nothing counts in them unless a profiler says so.
    **{f"SR_PM{i}": ops.SR_ZERO for i in range(8)},
    "SR_TID.X": ops.SR_TID_X,
    "SR_TID.Y": ops.SR_TID_Y,
    "SR_TID.Z": ops.SR_TID_Z,
    "SR_CTAID.X": ops.SR_CTAID_X,
    "SR_CTAID.Y": ops.SR_CTAID_Y,
    "SR_CTAID.Z": ops.SR_CTAID_Z,
    "SR_NTID.X": ops.SR_NTID_X,
    "SR_NTID.Y": ops.SR_NTID_Y,
    "SR_NTID.Z": ops.SR_NTID_Z,
    "SR_NCTAID.X": ops.SR_NCTAID_X,
    "SR_NCTAID.Y": ops.SR_NCTAID_Y,
    "SR_NCTAID.Z": ops.SR_NCTAID_Z,
    "SR_TID": ops.SR_TID_PACKED,
    "SR_LANEID": ops.SR_LANE,
    "SR_VIRTID": ops.SR_ZERO,
    # Its bits 8 to 15 are PTX's %nwarpid (what the compiler makes of it); the others are not known.
    "SR_VIRTCFG": ops.SR_SM_WARPS,
    "SR_WARPID": ops.SR_WARP,
    "SR_EQMASK": ops.SR_EQ_MASK,
    "SR_LTMASK": ops.SR_LT_MASK,
    "SR_LEMASK": ops.SR_LE_MASK,
    "SR_GTMASK": ops.SR_GT_MASK,
    "SR_GEMASK": ops.SR_GE_MASK,
    "SR_CLOCKLO": ops.SR_CLOCK,
    "SR_CLOCKHI": ops.SR_CLOCK_HIGH,
    "SR_GLOBALTIMERLO": ops.SR_CLOCK,
    "SR_GLOBALTIMERHI": ops.SR_CLOCK_HIGH,
    "SR_ACTIVEMASK": ops.SR_ACTIVE_MASK,
    "SR_VIRTUALSMID": ops.SR_SM,
    "SR_SMID": ops.SR_SM,
    "SR_LMEMHIOFF": ops.SR_ZERO,
    "SR_SWINHI": ops.SR_SHARED_WINDOW_HIGH,
    "SR_CgaCtaId": ops.SR_CLUSTER_RANK,
    # Chooses among copies of what bank 0 says of clusters: the driver's first one, whose offsets the code names, is the
    # only one here.
    "SR_CgaSize": ops.SR_ZERO,
    "SR_SMEMSZ": ops.SR_SHARED_BYTES,
}
#: Registers that are read as a pair by a 64-bit CS2R.
_SPECIAL_PAIRS = {f"SR_PM{i}": ops.SR_ZERO for i in range(8)}
_SPECIAL_PAIRS |= {"SRZ": ops.SR_ZERO, "SR_CLOCKLO": ops.SR_CLOCK_64, "SR_GLOBALTIMERLO": ops.SR_CLOCK_64}


def lower_special(instruction: Instruction) -> MicroOp | None:
    """S2R, S2UR, CS2R, CS2UR: read a special register (64 bits wide for CS2R without ``.32``)."""
    operands = instruction.operands
    if len(operands) != 2 or operands[0].kind not in REGISTERS or operands[1].kind != Kind.SPECIAL:
        return None
    pair = instruction.mnemonic in ("CS2R", "CS2UR") and "32" not in instruction.modifiers
    if set(instruction.modifiers) - {"32", "64"}:
        return None
    number = (_SPECIAL_PAIRS if pair else _SPECIALS).get(operands[1].text)
    if number is None:
        return None
    return MicroOp(
        ops.SPECIAL,
        destination=operands[0],
        words=2 if pair else 1,
        flags=(number, ops.CLOCK_NANOSECONDS if "GLOBALTIMER" in operands[1].text else 0),
        uniform=operands[0].kind == Kind.UNIFORM,
    )


def lower_first_lane(instruction: Instruction) -> MicroOp | None:
    """``R2UR[.OR] [P,] URd, Ra``: the value of the lowest executing lane; P says of each lane that its own differs,
    with .OR that it does or P held already. That it is not the contrary, and of each lane, follows from the code around
    it: before a vote whose mask is no constant it takes its fast way only where P is false and the lanes of the mask
    are all there (``@!P BRA.DIV``); and a loop over the values of a register serves the lanes where P is false, then
    goes on with the others (``@P BRA.U.ANY``)."""
    operands = [o for o in instruction.operands if o.kind not in PREDICATES]
    others = tuple(o for o in instruction.operands if o.kind in PREDICATES)
    if len(operands) != 2 or len(others) > 1 or set(instruction.modifiers) - {"FILL", "BROADCAST", "OR"}:
        return None
    joins = "OR" in instruction.modifiers
    if joins and not others:
        return None
    if others and (others[0].kind != Kind.PREDICATE or others[0].inverted or instruction.operands[0] is not others[0]):
        return None
    if operands[0].kind != Kind.UNIFORM:
        return None
    source = _source(operands[1])
    if source is None:
        return None
    return MicroOp(
        ops.FIRST_LANE,
        sources=(source, None, None),
        destination=operands[0],
        predicate_sources=others,  # what the lanes that do not execute keep
        predicate_destinations=others,
        flags=(int(joins),),
        extra={"warp_wide": True},
    )


def _byte(operand: Operand) -> int | None:
    if not operand.modifiers:
        return 0
    modifier = operand.modifiers[0]
    return int(modifier[1]) if len(operand.modifiers) == 1 and modifier in ("B0", "B1", "B2", "B3") else None


def lower_pack(instruction: Instruction) -> MicroOp | None:
    """``P2R Rd[.B1], PR, Ra, mask``: the predicates into a byte of Rd, the rest of it from Ra."""
    operands = instruction.operands
    if instruction.modifiers not in ((), ("B0",), ("B1",), ("B2",), ("B3",)) or len(operands) != 4:
        return None
    destination, file, base, mask = operands
    if destination.kind not in REGISTERS or file.text not in ("PR", "UPR"):
        return None
    byte = _byte(destination) if not instruction.modifiers else int(instruction.modifiers[0][1])
    sources = (_source(base), _source(mask), None)
    if byte is None or None in sources[:2]:
        return None
    return MicroOp(
        ops.PACK_PREDICATES,
        sources=sources,
        destination=Operand(destination.kind, destination.index, text=destination.text),
        flags=(byte, int(file.text == "UPR")),
        uniform=destination.kind == Kind.UNIFORM,
    )


def lower_unpack(instruction: Instruction) -> MicroOp | None:
    """``R2P PR, Ra[.B1], mask``: predicates of ``mask`` from a byte of Ra; all of them where no mask is written."""
    operands = instruction.operands
    if len(operands) == 2:
        operands = (*operands, Operand(Kind.IMMEDIATE, value=0x7F, text="0x7f"))
    if instruction.modifiers or len(operands) != 3 or operands[0].text not in ("PR", "UPR"):
        return None
    byte = _byte(operands[1])
    bare = Operand(operands[1].kind, operands[1].index, text=operands[1].text)
    sources = (_source(bare), _source(operands[2]), None)
    if byte is None or operands[1].kind not in REGISTERS or None in sources[:2]:
        return None
    uniform = operands[0].text == "UPR"
    return MicroOp(
        ops.UNPACK_PREDICATES,
        sources=sources,
        flags=(byte, int(uniform)),
        uniform=uniform,
    )


def lower_barrier_result(instruction: Instruction) -> MicroOp | None:
    """``B2R.RESULT Rd[, P]``: what the last BAR.RED of this warp found."""
    operands = instruction.operands
    if instruction.modifiers != ("RESULT",) or not operands or operands[0].kind != Kind.REGISTER:
        return None
    if len(operands) > 2 or any(o.kind != Kind.PREDICATE or o.inverted for o in operands[1:]):
        return None
    return MicroOp(
        ops.BARRIER_RESULT,
        destination=operands[0],
        predicate_destinations=tuple(operands[1:]),
    )


def lower_elect(instruction: Instruction) -> MicroOp | None:
    """``ELECT P, URd, PT``: the lowest executing lane."""
    operands = list(instruction.operands)
    if instruction.modifiers or len(operands) != 3 or operands[0].kind != Kind.PREDICATE:
        return None
    if operands[1].kind != Kind.UNIFORM or operands[2].kind not in PREDICATES or operands[2].index != 7:
        return None
    return MicroOp(
        ops.ELECT,
        destination=operands[1],
        predicate_sources=(operands[0],),  # what the lanes that do not execute keep
        predicate_destinations=(operands[0],),
        extra={"warp_wide": True},
    )


def lower_code_address(instruction: Instruction) -> MicroOp | None:
    """``LEPC Rd[, target]``: the address of this instruction or of a label."""
    operands = instruction.operands
    if instruction.modifiers or not operands or operands[0].kind not in REGISTERS or len(operands) > 2:
        return None
    if len(operands) == 2 and operands[1].kind != Kind.LABEL:
        return None
    address = operands[1].value if len(operands) == 2 else instruction.address
    return MicroOp(
        ops.CODE_ADDRESS,
        destination=operands[0],
        words=2,
        flags=(address,),
        uniform=operands[0].kind == Kind.UNIFORM,
    )


_QUERIES = {"G": ops.QUERY_GLOBAL, "S": ops.QUERY_SHARED, "L": ops.QUERY_LOCAL, "D": ops.QUERY_CLUSTER}


def lower_query_space(instruction: Instruction) -> MicroOp | None:
    """``QSPC.E.S P, RZ, [R2+0x8]``: does a generic address lie in shared, local or global memory, or with D (PTX
    ``isspacep.shared::cluster``) in that of a block of the cluster? The spaces' windows are 4 GiB apart, so an offset
    never leads from one to another: the high word says which it is, and the rank in the low one of which block."""
    letters = [m for m in instruction.modifiers if m in _QUERIES]
    operands = instruction.operands
    if len(letters) != 1 or set(instruction.modifiers) - {"E", *letters} or len(operands) != 3:
        return None
    predicate, destination, memory = operands
    if predicate.kind != Kind.PREDICATE or destination.kind != Kind.REGISTER or memory.kind != Kind.MEMORY:
        return None
    if memory.uniform_index != 255 and memory.index != 255 or set(memory.modifiers) - {"64", "UR.64", "U32"}:
        return None
    base = Operand(Kind.REGISTER, memory.index)
    if memory.uniform_index != 255:
        base = Operand(Kind.UNIFORM, memory.uniform_index)
    return MicroOp(
        ops.QUERY_SPACE,
        sources=(Source(base, words=2), None, None),
        destination=destination,
        predicate_destinations=(predicate,),
        flags=(_QUERIES[letters[0]],),
    )


OPCODES = (
    Opcode(
        mnemonic="SHFL", summary="move values between lanes", lowering=lower_shuffle,
        bodies=(ops.SHUFFLE,), pipe=PipeClass.SHUFFLE, coverage={way: f"shuffle.{way.lower()}" for way in _SHUFFLES}, flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="VOTE", summary="ballot, any, all", lowering=lower_vote,
        bodies=(ops.VOTE,), pipe=PipeClass.VOTE, coverage="vote", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="VOTEU", summary="ballot into a uniform register", lowering=lower_vote,
        bodies=(ops.VOTE,), pipe=PipeClass.VOTE, coverage="vote", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="MATCH", summary="lanes with equal values", lowering=lower_match,
        bodies=(ops.MATCH,), pipe=PipeClass.VOTE, coverage="match", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="REDUX", summary="reduction over the warp", lowering=lower_reduce,
        bodies=(ops.REDUCE,), pipe=PipeClass.REDUCE, coverage="warp reduction", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="CREDUX", summary="reduction over the warp", lowering=lower_reduce,
        bodies=(ops.REDUCE,), pipe=PipeClass.REDUCE, coverage="warp reduction", flops=NO_FLOPS,
    ),
    *(
        Opcode(
            mnemonic=mnemonic, summary="special register", lowering=lower_special,
            bodies=(ops.SPECIAL,), pipe=PipeClass.SPECIAL, coverage="special register", flops=NO_FLOPS,
        )
        for mnemonic in ("S2R", "S2UR", "CS2R", "CS2UR")
    ),
    Opcode(
        mnemonic="R2UR", summary="vector to uniform register", lowering=lower_first_lane,
        bodies=(ops.FIRST_LANE,), pipe=PipeClass.SPECIAL, coverage="move and select", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="P2R", summary="predicates to a register", lowering=lower_pack,
        bodies=(ops.PACK_PREDICATES,), pipe=PipeClass.ALU, coverage="predicate logic", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="UP2UR", summary="uniform predicates to a register", lowering=lower_pack,
        bodies=(ops.PACK_PREDICATES,), pipe=PipeClass.ALU, coverage="predicate logic", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="R2P", summary="register to predicates", lowering=lower_unpack,
        bodies=(ops.UNPACK_PREDICATES,), pipe=PipeClass.ALU, coverage="predicate logic", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="UR2UP", summary="uniform register to predicates", lowering=lower_unpack,
        bodies=(ops.UNPACK_PREDICATES,), pipe=PipeClass.ALU, coverage="predicate logic", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="B2R", summary="result of a block-wide reduction", lowering=lower_barrier_result,
        bodies=(ops.BARRIER_RESULT,), pipe=PipeClass.SPECIAL, coverage="block barrier", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="ELECT", summary="choose one lane", lowering=lower_elect,
        bodies=(ops.ELECT,), pipe=PipeClass.VOTE, coverage="vote", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="LEPC", summary="code address", lowering=lower_code_address,
        bodies=(ops.CODE_ADDRESS,), pipe=PipeClass.BRANCH, coverage="call", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="QSPC", summary="which space a generic address names", lowering=lower_query_space,
        bodies=(ops.QUERY_SPACE,), pipe=PipeClass.ALU, coverage="special register", flops=NO_FLOPS,
    ),
)  # fmt: skip
