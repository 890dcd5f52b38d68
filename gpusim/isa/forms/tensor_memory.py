"""Tensor memory and what works on it (tcgen05, sm_100 and sm_103): UTC*, LDTM, STTM.

Mental model: an instruction names places in tensor memory, ``tmem[UR]``, and matrices in shared memory, ``gdesc[UR]``,
by uniform registers; a product's shape and formats stand in an instruction descriptor, ``idesc[UR]``, and are known
when it is executed. One execution does what the whole thread block gets: whichever lanes are on, it happens once. What
the operands are was read off PTX whose operands are told apart: ``UTCHMMA A, B, tmem[D], tmem[metadata], idesc[...][,
tmem[scales] | lanes off], enable-input-d[, scale-input-d]``, where the descriptor stands in the register behind that of
the metadata and B's scales behind A's.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from gpusim.isa import tensor_memory_ops as ops
from gpusim.isa.form import Instruction, Kind, MicroOp, Operand, Source
from gpusim.isa.forms.memory import NO_REGISTER, address_recipe, memory_operand
from gpusim.isa.lowering import Modifiers
from gpusim.isa.opcode import NO_FLOPS, Opcode
from gpusim.isa.system_ops import ARRIVE, ATOMIC, EACH_BLOCK, EACH_NAMED, NOP, SERVED_ALL, TENSOR_MEMORY, U64, WHEN_DONE
from gpusim.trace.record import Flag, MemoryKind, PipeClass, Space

_PLACE = re.compile(r"^(gdesc|tmem|idesc)\[UR(\d+)(?:\+(-?)0x([0-9a-f]+))?\]((?:\.[A-Za-z0-9_]+)*)$")
#: Hints of what the unit should keep of A or B: they change no result.
_A_HINTS = {"A_KEEP", "A_REUSE"}
_B_HINTS = {"B_KEEP", "B_REUSE", "BUFFER1", "BUFFER2", "BUFFER3"}
_KINDS = {"UTCHMMA": ops.HALVES, "UTCQMMA": ops.BYTES, "UTCIMMA": ops.INTEGERS, "UTCOMMA": ops.NIBBLES}
#: Registers that operands beside the first one may take, at most: lanes that are off in two blocks.
_BESIDE_WORDS = 8


def _place(operand: Operand, names: tuple[str, ...], hints: Collection[str] = ()) -> tuple[str, int, int] | None:
    """(name, register, offset) of ``gdesc[UR4].A_KEEP`` or ``tmem[UR8+0x10]``."""
    match = _PLACE.match(operand.text) if operand.kind == Kind.OTHER else None
    if match is None or match.group(1) not in names:
        return None
    if any(part not in hints for part in match.group(5).split(".") if part):
        return None
    offset = int(match.group(4) or "0", 16)
    return match.group(1), int(match.group(2)), -offset if match.group(3) else offset


def _uniform(register: int) -> Operand:
    return Operand(Kind.UNIFORM, register)


def _recipe(register: int, offset: int) -> dict:
    return {
        "base": NO_REGISTER, "base_words": 0, "base_signed": False, "shift": 0, "uniform": register, "uniform_words": 1,
        "offset": offset,
    }  # fmt: skip


def lower_product(instruction: Instruction) -> MicroOp | None:
    """``UTCHMMA gdesc[UR12], gdesc[UR14], tmem[UR6], tmem[UR4], idesc[UR5], UP0`` and its kin."""
    modifiers = Modifiers(instruction)
    code = _KINDS[instruction.mnemonic]
    for name, bit in (
        ("2CTA", ops.TWO_BLOCKS), ("WS", ops.WEIGHT_STATIONARY), ("4X", ops.SCALES_4X), ("BLOCK16", ops.SCALES_4X),
        ("ASHIFT", ops.A_SHIFTED),
    ):  # fmt: skip
        code |= bit if modifiers.take(name) else 0
    operands = list(instruction.operands)
    if modifiers.left or len(operands) < 6:
        return None
    a, b = _place(operands[0], ("gdesc", "tmem"), _A_HINTS), _place(operands[1], ("gdesc",), _B_HINTS)
    d, metadata, descriptor = (
        _place(operand, (name,)) for operand, name in zip(operands[2:5], ("tmem", "tmem", "idesc"))
    )
    if a is None or b is None or d is None or metadata is None or descriptor is None:
        return None
    if descriptor[1] != metadata[1] + 1 or any(place[2] for place in (a, b, metadata, descriptor)):
        return None
    rest, further = operands[5:], NO_REGISTER
    if scales := _place(rest[0], ("tmem",)):
        code |= ops.SCALED
        further = scales[1]
        rest.pop(0)
    elif rest[0].kind == Kind.UNIFORM:
        if rest[0].modifiers:
            return None
        if rest[0].index != NO_REGISTER:
            code |= ops.COLUMNS_OFF if code & ops.WEIGHT_STATIONARY else ops.LANES_OFF
            further = rest[0].index
        rest.pop(0)
    if not rest or rest[0].kind != Kind.UNIFORM_PREDICATE or (scales and scales[2]):
        return None
    if len(rest) == 2 and rest[1].kind == Kind.IMMEDIATE and rest[1].value < 16:
        code |= rest[1].value << ops.SCALE_INPUT_SHIFT
    elif len(rest) != 1:
        return None
    in_tensor_memory = a[0] == "tmem"
    if code & ops.A_SHIFTED and not in_tensor_memory:
        return None
    code |= ops.A_IN_TENSOR_MEMORY if in_tensor_memory else 0
    return MicroOp(
        TENSOR_MEMORY,
        sources=(
            Source(_uniform(a[1]), 1 if in_tensor_memory else 2),
            Source(_uniform(b[1]), 2),
            Source(_uniform(d[1]), 1),
        ),
        predicate_sources=(rest[0],),
        flags=(code, 0, 0, ops.PRODUCT),
        uniform=True,
        memory_kind=MemoryKind.TENSOR_PRODUCT,
        access_bytes=16,
        extra={
            "beside": (_uniform(metadata[1]), _uniform(further)),
            "beside_words": _BESIDE_WORDS,
            "address": _recipe(NO_REGISTER, d[2]),
        },
    )


_COPIES = {
    "4dp256bit": ops.COPY_4x256,
    "128dp128bit": ops.COPY_128x128,
    "2x64dp128bit_lw02_lw13": ops.COPY_64x128_02_13,
    "2x64dp128bit_lw01_lw23": ops.COPY_64x128_01_23,
    "4x32dp128bit": ops.COPY_32x128,
}
_UNPACKED = {"U4x16P64": ops.COPY_4_BITS, "U6x16P32": ops.COPY_6_BITS}


def lower_copy(instruction: Instruction) -> MicroOp | None:
    """``UTCCP.T.S[.4x32dp128bit][.U4x16P64] tmem[UR8], gdesc[UR20]``: shared to tensor memory."""
    modifiers = Modifiers(instruction)
    if not (modifiers.take("T") and modifiers.take("S")) or len(instruction.operands) != 2:
        return None
    pair = modifiers.take("2CTA")
    shape, unpacked = modifiers.choose(_COPIES) or ops.COPY_128x256, modifiers.choose(_UNPACKED) or ops.COPY_AS_IS
    to, of = _place(instruction.operands[0], ("tmem",)), _place(instruction.operands[1], ("gdesc",))
    if modifiers.left or to is None or of is None or of[2]:
        return None
    return MicroOp(
        TENSOR_MEMORY,
        sources=(Source(_uniform(to[1])), Source(_uniform(of[1]), 2), None),
        flags=(shape, unpacked, int(pair), ops.COPY),
        uniform=True,
        memory_kind=MemoryKind.TENSOR_COPY,
        access_bytes=16,
        extra={"address": _recipe(NO_REGISTER, to[2])},
    )


def lower_shift(instruction: Instruction) -> MicroOp | None:
    """``UTCSHIFT[.2CTA].DOWN tmem[UR4]``: 32 bytes of a lane to the lane below."""
    modifiers = Modifiers(instruction)
    pair, down = modifiers.take("2CTA"), modifiers.take("DOWN")
    place = _place(instruction.operands[0], ("tmem",)) if len(instruction.operands) == 1 else None
    if modifiers.left or not down or place is None:
        return None
    return MicroOp(
        TENSOR_MEMORY,
        sources=(Source(_uniform(place[1])), None, None),
        flags=(0, 0, int(pair), ops.SHIFT),
        uniform=True,
        extra={"address": _recipe(NO_REGISTER, place[2])},
    )


def lower_allocation(instruction: Instruction) -> MicroOp | None:
    """``UTCATOMSWS[.2CTA].FIND_AND_SET.ALIGN UP0, UR4, UR6``: UR6 units of 32 columns from unit UR4 on become the
    block's, if so many are free beside each other (UP0); ``UTCATOMSWS.AND URZ, UR4``: those whose bits are not set in
    UR4 are free again."""
    modifiers = Modifiers(instruction)
    pair, operands = modifiers.take("2CTA"), instruction.operands
    if any(o.modifiers or o.negated or o.inverted for o in operands):
        return None
    if modifiers.take("AND") and not modifiers.left:
        if len(operands) != 2 or [o.kind for o in operands] != [Kind.UNIFORM] * 2 or operands[0].index != NO_REGISTER:
            return None
        return MicroOp(
            TENSOR_MEMORY, sources=(Source(operands[1]), None, None), flags=(0, 0, int(pair), ops.RELEASE), uniform=True
        )
    if not (modifiers.take("FIND_AND_SET") and modifiers.take("ALIGN")) or modifiers.left:
        return None
    if [o.kind for o in operands] != [Kind.UNIFORM_PREDICATE, Kind.UNIFORM, Kind.UNIFORM]:
        return None
    return MicroOp(
        TENSOR_MEMORY,
        sources=(Source(operands[2]), None, None),
        destination=operands[1],
        predicate_destinations=(operands[0],),
        flags=(0, 0, int(pair), ops.ALLOCATE),
        uniform=True,
    )


def lower_permit(instruction: Instruction) -> MicroOp | None:
    """``UVIRTCOUNT.DEALLOC.SMPOOL 0x80``: the block will allocate no more, and others of its SM may."""
    return MicroOp(NOP) if instruction.modifiers == ("DEALLOC", "SMPOOL") else None


_SHAPES = {
    "16dp64bit": ops.LANES_16x64,
    "16dp128bit": ops.LANES_16x128,
    "16dp256bit": ops.LANES_16x256,
    "16dp32bit_t0_t15": ops.FIRST_HALF,
    "16dp32bit_t16_t31": ops.SECOND_HALF,
}
_REPEATS = {f"x{1 << i}": 1 << i for i in range(1, 8)}


_OPERATIONS = {"MIN": ops.STAT_MIN, "MAX": ops.STAT_MAX, "MINABS": ops.STAT_MIN_ABS, "MAXABS": ops.STAT_MAX_ABS}


def _statistic(modifiers: Modifiers) -> int | None:
    """What ``LDTM.STAT`` finds of a thread's registers."""
    operation = modifiers.choose(_OPERATIONS)
    number = modifiers.choose({"F32": ops.STAT_F32, "S32": ops.STAT_S32}) or ops.STAT_U32
    nan = modifiers.take("NAN")
    if nan and number == ops.STAT_F32:
        number, nan = ops.STAT_F32_NAN, False
    if operation is None or nan or (operation >= ops.STAT_MIN_ABS and number < ops.STAT_F32):
        return None
    return operation + number


def _transfer(
    instruction: Instruction, packed: str, modifiers: Modifiers | None = None, operands: int = 2
) -> tuple[int, int, int] | None:
    """(shape, repeats, 16-bit elements are packed) of a load or store; ``modifiers``: those of its own."""
    modifiers = modifiers or Modifiers(instruction)
    shape, repeats = modifiers.choose(_SHAPES) or ops.LANES_32, modifiers.choose(_REPEATS) or 1
    packs = modifiers.take(packed)
    if modifiers.left or len(instruction.operands) != operands or ops.SHAPE_REGISTERS[shape] * repeats > 128:
        return None
    return shape, repeats, int(packs)


def lower_load(instruction: Instruction) -> MicroOp | None:
    """``LDTM.16dp256bit.x2[.PACK16BIT] R4, tmem[UR4+0x10]``; ``LDTM.STAT.x2.MAX.F32 R6, R4, tmem[UR4]``: what is
    largest, for each thread, of what it loads goes to R6, or with RZ nowhere (sm_103)."""
    modifiers = Modifiers(instruction)
    stat, statistic = modifiers.take("STAT"), 0
    if stat:
        statistic = _statistic(modifiers)
        if statistic is None:
            return None
    found = _transfer(instruction, "PACK16BIT", modifiers, 2 + stat)
    if found is None or (stat and found[2]):
        return None
    destination, place = instruction.operands[-2], _place(instruction.operands[-1], ("tmem",))
    if place is None or destination.kind != Kind.REGISTER or destination.modifiers or destination.index == NO_REGISTER:
        return None
    extra = {"address": _recipe(*place[1:]), "warp_wide": True}
    if stat:
        result = instruction.operands[0]
        if result.kind != Kind.REGISTER or result.modifiers:
            return None
        if result.index != NO_REGISTER:
            extra["shared_address"] = {
                "base": result.index, "base_words": 1, "shift": statistic, "uniform": NO_REGISTER, "uniform_words": 1, "offset": 1,
            }  # fmt: skip
    return MicroOp(
        TENSOR_MEMORY,
        destination=destination,
        words=ops.SHAPE_REGISTERS[found[0]] * found[1],
        flags=(*found, ops.LOAD),
        extra=extra,
    )


def lower_store(instruction: Instruction) -> MicroOp | None:
    """``STTM.x8[.EXPAND16BIT] tmem[UR4], R4``; with RZ all are zeros."""
    found = _transfer(instruction, "EXPAND16BIT")
    if found is None:
        return None
    place, values = _place(instruction.operands[0], ("tmem",)), instruction.operands[1]
    if place is None or values.kind != Kind.REGISTER or values.modifiers:
        return None
    zeros = values.index == NO_REGISTER
    shape, repeats, packed = found
    return MicroOp(
        TENSOR_MEMORY,
        sources=(Source(values, 1 if zeros else ops.SHAPE_REGISTERS[shape] * repeats), None, None),
        flags=(shape, repeats, packed | zeros << 1, ops.STORE),
        extra={"address": _recipe(*place[1:]), "warp_wide": True},
    )


def lower_commit(instruction: Instruction) -> MicroOp | None:
    """``UTCBAR[.2CTA] [UR4], URZ``: arrive at an mbarrier when all products and copies so far are done, which they are
    already here. ``UTCBAR.MULTICAST [UR4], URZ, UR5``: at that of each block of the cluster whose bit is set in UR5."""
    modifiers, found = Modifiers(instruction), memory_operand(instruction)
    modifiers.take("2CTA")
    each = modifiers.take("MULTICAST")
    if modifiers.left or found is None or len(found[1]) != 1 + each:
        return None
    recipe, rest = address_recipe(found[0], False), found[1]
    if recipe is None or any(o.kind != Kind.UNIFORM or o.modifiers for o in rest) or rest[0].index != NO_REGISTER:
        return None
    if each:
        recipe["shift"] = EACH_BLOCK
    return MicroOp(
        ATOMIC,
        sources=(
            Source(Operand(Kind.IMMEDIATE, value=1), immediate=1),
            Source(rest[1]) if each else None,
            None,
        ),
        words=2,
        flags=(ARRIVE, U64, SERVED_ALL, WHEN_DONE | (EACH_NAMED if each else 0)),
        uniform=True,
        memory_kind=MemoryKind.REDUCTION,
        space=Space.CLUSTER,
        access_bytes=8,
        trace_flags=int(Flag.COMMIT),
        extra={"address": recipe},
    )


#: They are handed to the tensor core, which works beside the warp: issuing one is all that the warp does.
_PRODUCTS = {
    "UTCHMMA": "product of half, bfloat16 or TF32 into tensor memory",
    "UTCQMMA": "product of 8, 6 or 4-bit floats in bytes into tensor memory, with or without scales",
    "UTCIMMA": "product of 8-bit integers into tensor memory",
    "UTCOMMA": "product of 4-bit floats with scales into tensor memory",
}
OPCODES = (
    *(
        Opcode(
            mnemonic=mnemonic, summary=summary, lowering=lower_product, bodies=(TENSOR_MEMORY,),
            pipe=PipeClass.TENSOR_MEMORY, coverage="matrix multiply", flops=NO_FLOPS,
        )
        for mnemonic, summary in _PRODUCTS.items()
    ),
    Opcode(
        mnemonic="UTCCP", summary="copy from shared to tensor memory", lowering=lower_copy, bodies=(TENSOR_MEMORY,),
        pipe=PipeClass.TENSOR_MEMORY, coverage="matrix move", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="UTCSHIFT", summary="move lanes of tensor memory down by one", lowering=lower_shift,
        bodies=(TENSOR_MEMORY,), pipe=PipeClass.TENSOR_MEMORY, coverage="matrix move", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="UTCATOMSWS", summary="allocate tensor memory or give it back", lowering=lower_allocation,
        bodies=(TENSOR_MEMORY,), pipe=PipeClass.TENSOR_MEMORY, coverage="atomic", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="UVIRTCOUNT", summary="allocate no more tensor memory", lowering=lower_permit, bodies=(NOP,),
        pipe=PipeClass.UNIFORM, coverage="atomic", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="UTCBAR", summary="arrive at a barrier object when products are done", lowering=lower_commit,
        bodies=(ATOMIC,), pipe=PipeClass.LSU, coverage="block barrier", flops=NO_FLOPS,
        space=Space.CLUSTER, bytes_moved=(8,),
    ),
    Opcode(
        mnemonic="LDTM", summary="load from tensor memory", lowering=lower_load, bodies=(TENSOR_MEMORY,),
        pipe=PipeClass.TENSOR_MEMORY, coverage="matrix move", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="STTM", summary="store to tensor memory", lowering=lower_store, bodies=(TENSOR_MEMORY,),
        pipe=PipeClass.TENSOR_MEMORY, coverage="matrix move", flops=NO_FLOPS,
    ),
)  # fmt: skip
