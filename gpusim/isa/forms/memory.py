"""Loads, stores, atomics and constant loads.

Mental model: a memory instruction is an address recipe (vector base, uniform base, offset), a space, a
width and what to do there. ``.E`` addresses are 64 bits wide: a register pair (written ``R2.64`` since
Ampere, ``R2`` on Turing), or a 32-bit register beside a 64-bit uniform base. Shared and local addresses
are 32 bits. Cache and scope hints do not change values; ``STRONG`` and scopes beyond the block bypass L1.
Constant loads with a fixed offset become moves, since constants are rows of the register file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from gpusim.isa import system_ops as ops
from gpusim.isa.bodies import loops
from gpusim.isa.form import Instruction, Kind, MicroOp, Operand, Source
from gpusim.isa.opcode import NO_FLOPS, Opcode
from gpusim.trace.record import Flag, MemoryKind, PipeClass, Space

NO_REGISTER = 255
REGISTERS = (Kind.REGISTER, Kind.UNIFORM)

#: width modifier -> (bytes, sign-extended)
WIDTHS = {
    "U8": (1, False),
    "S8": (1, True),
    "U16": (2, False),
    "S16": (2, True),
    "32": (4, False),
    "64": (8, False),
    "128": (16, False),
}
#: modifiers that change timing or nothing, never the value
HINTS = {
    "ENL2", "EFL2", "ELL2", "E", "CONSTANT", "SYS", "GPU", "CTA", "SM", "VC", "STRONG", "WEAK", "MMIO", "CONST", "TENSOR",
    "EF", "EL", "LU", "EU", "NA", "EN", "LTC64B", "LTC128B", "LTC256B", "PRIVATE", "U", "BYPASS", "ACCESS",
}  # fmt: skip
OPERATIONS = {
    "ADD": ops.ADD, "MIN": ops.MIN, "MAX": ops.MAX, "AND": ops.AND, "OR": ops.OR, "XOR": ops.XOR,
    "EXCH": ops.EXCH, "INC": ops.INC, "DEC": ops.DEC, "CAS": ops.CAS, "CAST": ops.CAST,
}  # fmt: skip
TYPES = {
    "S32": ops.S32, "U32": ops.U32, "64": ops.U64, "U64": ops.U64, "S64": ops.S64, "F32": ops.F32,
    "F64": ops.F64, "F16x2": ops.F16X2, "BF16x2": ops.BF16X2, "BF16_V2": ops.BF16X2, "F32x2": ops.F32X2_FTZ, "128": ops.B128,
    "F32x4": ops.F32X4_FTZ, "F16x4": ops.F16X4, "F16x8": ops.F16X8, "BF16x4": ops.BF16X4, "BF16x8": ops.BF16X8,
}  # fmt: skip
TYPE_WORDS = {ops.U64: 2, ops.S64: 2, ops.F64: 2, ops.F32X2_FTZ: 2, ops.B128: 4}
TYPE_WORDS |= {ops.F32X4_FTZ: 4, ops.F16X4: 2, ops.F16X8: 4, ops.BF16X4: 2, ops.BF16X8: 4}
#: Vectors of halves (sm_90), which have minimum and maximum too.
HALF_VECTORS = (ops.F16X4, ops.F16X8, ops.BF16X4, ops.BF16X8)
FLOATING = (ops.F32, ops.F32_FTZ, ops.F64, ops.F16X2, ops.BF16X2, ops.F32X2_FTZ, ops.F32X4_FTZ, *HALF_VECTORS)


def address_recipe(operand: Operand, wide: bool) -> dict | None:
    """How to compute an address: registers, their widths, the scale of the base, the offset.

    ``wide``: a 64-bit address (global or generic). Returns None for a form that is not known.
    """
    if operand.kind != Kind.MEMORY or operand.negated or operand.inverted or operand.absolute:
        return None
    base_words = 2 if wide else 1
    uniform_words = 2 if wide else 1
    signed, shift = False, 0
    has_uniform = operand.uniform_index != NO_REGISTER
    if wide and has_uniform and operand.index != NO_REGISTER:
        base_words = 1
        signed = True
    for modifier in operand.modifiers:
        if modifier == "64":
            base_words = 2
        elif modifier in ("U32", "S32"):
            base_words, signed = 1, modifier == "S32"
        elif modifier in ("X4", "X8", "X16"):
            shift = {"X4": 2, "X8": 3, "X16": 4}[modifier]
        elif modifier == "UR.64":
            uniform_words = 2
        elif modifier in ("UR.U32", "UR.S32"):
            uniform_words = 1
        else:
            return None
    if not wide and base_words == 2:
        return None
    return {
        "base": operand.index,
        "base_words": base_words,
        "base_signed": signed,
        "shift": shift,
        "uniform": operand.uniform_index,
        "uniform_words": uniform_words,
        "offset": operand.value,
    }


def _widths(modifiers: tuple[str, ...]) -> tuple[int, bool] | None:
    found = [m for m in modifiers if m in WIDTHS]
    if len(found) > 1 or any(m not in WIDTHS and m not in HINTS for m in modifiers):
        return None
    return WIDTHS[found[0]] if found else (4, False)


def _flags(modifiers: tuple[str, ...]) -> int:
    flags = 0
    if "CONSTANT" in modifiers:
        flags |= Flag.READ_ONLY
    if "STRONG" in modifiers and not {"CTA", "SM"} & set(modifiers) or "MMIO" in modifiers:
        flags |= Flag.BYPASS_L1
    return int(flags)


def memory_operand(instruction: Instruction) -> tuple[Operand, list[Operand]] | None:
    memory = [o for o in instruction.operands if o.kind == Kind.MEMORY]
    rest = [o for o in instruction.operands if o.kind != Kind.MEMORY]
    return (memory[0], rest) if len(memory) == 1 else None


def _wide(space: Space, modifiers: tuple[str, ...]) -> bool | None:
    """64-bit addressing; None if a global access lacks ``.E`` (32-bit global space is not known)."""
    if space in (Space.SHARED, Space.LOCAL):
        return False
    return True if "E" in modifiers else None


def _wide_access(space: Space, instruction: Instruction) -> MicroOp | None:
    """``LDG.E.ENL2.256 Rh, Rl, [address]`` and ``STG.E.ENL2.256 [address], Rl, Rh`` (sm_100): 32 bytes a lane, of which
    the lower 16 are those of Rl."""
    modifiers = tuple(m for m in instruction.modifiers if m != "256")
    found, width = memory_operand(instruction), _widths(modifiers)
    if found is None or width != (4, False) or space != Space.GLOBAL or "E" not in modifiers:
        return None
    recipe, rest = address_recipe(found[0], True), found[1]
    loads = instruction.mnemonic.startswith("LD")
    if recipe is None or len(rest) != 2 or any(o.kind != Kind.REGISTER or o.modifiers for o in rest):
        return None
    if loads and any(o.index == NO_REGISTER for o in rest):
        return None
    low, high = (rest[1], rest[0]) if loads else (rest[0], rest[1])
    return MicroOp(
        ops.WIDE_LOAD if loads else ops.WIDE_STORE,
        sources=(Source(low, words=4), None if loads else Source(high, words=4), None),
        destination=high if loads else None,
        words=4,
        memory_kind=MemoryKind.LOAD if loads else MemoryKind.STORE,
        space=space,
        access_bytes=32,
        trace_flags=_flags(modifiers),
        extra={"address": recipe},
    )


def lower_load(space: Space, instruction: Instruction) -> MicroOp | None:
    """``LDG.E[.width] Rd, [address]``: registers from ``space``; narrow values are extended by zeros or their sign."""
    if "256" in instruction.modifiers:
        return _wide_access(space, instruction)
    found = memory_operand(instruction)
    width, wide = _widths(instruction.modifiers), _wide(space, instruction.modifiers)
    if found is None or width is None or wide is None:
        return None
    recipe, rest = address_recipe(found[0], wide), found[1]
    if recipe is None or len(rest) != 1 or rest[0].kind != Kind.REGISTER or rest[0].modifiers:
        return None
    return MicroOp(
        ops.LOAD,
        destination=rest[0],
        words=max(1, width[0] // 4),
        flags=(int(width[1]),),
        memory_kind=MemoryKind.LOAD,
        space=space,
        access_bytes=width[0],
        trace_flags=_flags(instruction.modifiers),
        extra={"address": recipe},
    )


def lower_store(space: Space, instruction: Instruction) -> MicroOp | None:
    """``STG.E[.width] [address], Ra``: registers to ``space``."""
    if "256" in instruction.modifiers:
        return _wide_access(space, instruction)
    found = memory_operand(instruction)
    width, wide = _widths(instruction.modifiers), _wide(space, instruction.modifiers)
    if found is None or width is None or wide is None:
        return None
    recipe, rest = address_recipe(found[0], wide), found[1]
    if recipe is None or len(rest) != 1 or rest[0].kind not in REGISTERS or rest[0].modifiers:
        return None
    return MicroOp(
        ops.STORE,
        sources=(Source(rest[0], words=max(1, width[0] // 4)), None, None),
        memory_kind=MemoryKind.STORE,
        space=space,
        access_bytes=width[0],
        trace_flags=_flags(instruction.modifiers),
        extra={"address": recipe},
    )


def _atomic_form(modifiers: tuple[str, ...]) -> tuple[int, int] | None:
    """(operation, type) of an atomic's modifiers, or None."""
    operation, kind = None, ops.U32
    for modifier in modifiers:
        if modifier in OPERATIONS:
            if operation is not None and not (operation == "POPC" and modifier == "INC"):
                return None
            operation = modifier
        elif modifier == "POPC":
            operation = "POPC"
        elif modifier in TYPES:
            kind = TYPES[modifier]
        elif modifier not in HINTS and modifier not in ("FTZ", "RN", "32", "SPIN"):
            return None
    if "POPC" in modifiers:
        # POPC.INC.32: every lane adds one (the unit sums lanes with equal addresses).
        return (ops.SAFEADD, ops.U32) if operation == "INC" else None
    if operation is None:
        return None
    if kind == ops.F32 and "FTZ" in modifiers:
        kind = ops.F32_FTZ
    if kind in (ops.F32X2_FTZ, ops.F32X4_FTZ) and "FTZ" not in modifiers:
        return None
    found = OPERATIONS[operation]
    if kind in HALF_VECTORS and found in (ops.MIN, ops.MAX):
        return found, kind
    if kind in FLOATING and found != ops.ADD or kind == ops.B128 and found not in (ops.EXCH, ops.CAS):
        return None
    return found, kind


def _served(operation: int, kind: int) -> int:
    """Spaces in which the unit does a generic atomic itself: shared memory has the 32-bit integer operations
    and compare-and-swap (the forms of ATOMS), local memory has none."""
    shared = kind in (ops.U32, ops.S32) or operation == ops.CAS
    return ops.SERVED_GLOBAL_SHARED if shared else ops.SERVED_GLOBAL


def lower_atomic(space: Space, instruction: Instruction) -> MicroOp | None:
    """ATOM, ATOMG, ATOMS: ``[P,] Rd, [address], Ra[, Rb]``; RED: ``[address], Ra``; ATOMS.CAST since
    Blackwell: ``P, [address], Ra, Rb`` with the outcome in the predicate. ``ATOM P0, ...`` on a generic address
    says in P0 which lanes it has served; the code behind it does the others' by loops (QSPC tells the space)."""
    if instruction.mnemonic == "ATOMS" and "ARRIVE" in instruction.modifiers:
        return lower_arrival(instruction)
    found = memory_operand(instruction)
    form, wide = _atomic_form(instruction.modifiers), _wide(space, instruction.modifiers)
    if found is None or form is None or wide is None:
        return None
    recipe = address_recipe(found[0], wide)
    if recipe is None:
        return None
    operation, kind = form
    words = TYPE_WORDS.get(kind, 1)
    returns = instruction.mnemonic.startswith("ATOM")
    operands = list(instruction.operands)
    predicates = []
    while operands and operands[0].kind == Kind.PREDICATE:
        predicates.append(operands.pop(0))
    tested = operation == ops.CAST and len(predicates) == 1 and operands[:1] == [found[0]]
    # Where the code asks with a predicate whether the unit has done it, it has a way for when not.
    asked = any(p.index != 7 for p in predicates) and not tested
    if asked and (instruction.mnemonic != "ATOM" or len(predicates) != 1 or operation == ops.CAST):
        return None
    destination = None
    if returns and not tested:
        destination = operands.pop(0)
        if destination.kind != Kind.REGISTER:
            return None
    if not operands or operands.pop(0) is not found[0]:
        return None
    if operation == ops.SAFEADD and not operands:
        operands = []
    sources: list[Source | None] = []
    for operand in operands:
        if operand.kind not in REGISTERS or operand.modifiers:
            return None
        sources.append(Source(operand, words=words))
    expected = {ops.CAS: 2, ops.CAST: 2, ops.SAFEADD: (0, 1)}.get(operation, 1)
    if len(sources) not in (expected if isinstance(expected, tuple) else (expected,)):
        return None
    if not returns and operation in (ops.CAS, ops.CAST, ops.EXCH):
        return None
    returned = returns and destination is not None and destination.index != NO_REGISTER
    return MicroOp(
        ops.ATOMIC,
        sources=tuple(sources + [None] * (3 - len(sources))),
        destination=destination,
        words=words,
        predicate_destinations=tuple(predicates) if tested or asked else (),
        flags=(operation, kind, _served(operation, kind) if asked else ops.SERVED_ALL),
        memory_kind=MemoryKind.ATOMIC
        if returned or operation in (ops.CAS, ops.CAST, ops.EXCH)
        else MemoryKind.REDUCTION,
        space=space,
        access_bytes=4 * words,
        trace_flags=_atomic_flags(space, instruction.modifiers, kind),
        extra={"address": recipe},
    )


def _atomic_flags(space: Space, modifiers: tuple[str, ...], kind: int) -> int:
    """What the timing is told of an atomic: that L2 serves it, and whether it adds in floating point (``kind``); or
    that the unit counts the lanes of a word (POPC.INC), as its name says. On an RTX 3080 a block of 32 warps that all
    count one word is through in 1,310 cycles, 41 a warp, with all else that it does; a pass a lane would be 64
    (docs/validation/external.md, textbook_rtx3080)."""
    if space != Space.SHARED:
        return int(Flag.BYPASS_L1) | (int(Flag.FLOATING_ATOMIC) if kind in FLOATING else 0)
    return int(Flag.COUNTS_LANES) if "POPC" in modifiers else 0


def lower_uniform_reduction(instruction: Instruction) -> MicroOp | None:
    """``UREDGR.E.ADD.NA.STRONG.GPU [UR4], UR6`` (sm_100; PTX red.async.release.global): one reduction a warp. Lanes
    whose operands differ take turns, which the code elects, so that one lane is what each is done for."""
    micro = lower_atomic(Space.GLOBAL, instruction)
    if micro is None or any(source is not None and source.operand.kind != Kind.UNIFORM for source in micro.sources):
        return None
    return replace(micro, uniform=True)


def lower_arrival(instruction: Instruction) -> MicroOp | None:
    """``ATOMS.ARRIVE.64 Rd, [address]`` (Ampere): one thread arrives at the mbarrier; its state before goes to Rd."""
    if set(instruction.modifiers) != {"ARRIVE", "64"} or len(instruction.operands) != 2:
        return None
    destination, memory = instruction.operands
    recipe = address_recipe(memory, False)
    if destination.kind != Kind.REGISTER or recipe is None:
        return None
    return MicroOp(
        ops.ATOMIC,
        destination=destination,
        words=2,
        flags=(ops.ARRIVE_AMPERE, ops.U64, ops.SERVED_ALL),
        memory_kind=MemoryKind.ATOMIC,
        space=Space.SHARED,
        access_bytes=8,
        extra={"address": recipe},
    )


def lower_async_copy(instruction: Instruction) -> MicroOp | None:
    """``LDGSTS.E[.BYPASS][.LTC128B][.64|.128][.ZFILL] [shared], [global][, P]``: zeros where P does not hold; with
    .ZFILL the address is that many bytes too high as are to be zeros behind the copied ones."""
    memory = [o for o in instruction.operands if o.kind == Kind.MEMORY]
    width = _widths(tuple(m for m in instruction.modifiers if m != "ZFILL"))
    if len(memory) != 2 or width is None or "E" not in instruction.modifiers:
        return None
    others = [o for o in instruction.operands if o.kind != Kind.MEMORY]
    if any(o.kind != Kind.PREDICATE for o in others) or len(others) > 1:
        return None
    fills = "ZFILL" in instruction.modifiers
    always = not others or (others[0].index == 7 and not others[0].inverted)
    shared, source = address_recipe(memory[0], False), address_recipe(memory[1], True)
    if shared is None or source is None:
        return None
    return MicroOp(
        ops.ASYNC_COPY if always and not fills else ops.ASYNC_FILL,
        predicate_sources=() if always else tuple(others),
        flags=(int(fills),),
        memory_kind=MemoryKind.ASYNC_COPY,
        space=Space.GLOBAL,
        access_bytes=width[0],
        trace_flags=int(Flag.BYPASS_L1) if "BYPASS" in instruction.modifiers else 0,
        extra={"address": source, "shared_address": shared},
    )


def lower_constant_load(instruction: Instruction) -> MicroOp | None:
    """LDC, ULDC, LDCU: a move when the offset is fixed, an indexed load otherwise."""
    operands = instruction.operands
    modifiers = tuple(m for m in instruction.modifiers if m not in ("IL", "IS", "ISL"))
    width = _widths(modifiers)
    if width is None or len(operands) != 2 or operands[0].kind not in REGISTERS:
        return None
    destination, constant = operands
    if constant.kind != Kind.CONSTANT or constant.descriptor != -1 or constant.negated or constant.absolute:
        return None
    size, signed = width
    words = max(1, size // 4)
    uniform = instruction.mnemonic in ("ULDC", "LDCU")
    fixed = constant.index == NO_REGISTER and constant.uniform_index == NO_REGISTER
    if fixed and size >= 4:
        return MicroOp(
            loops.copy.number,
            sources=(Source(constant, words=words), None, None),
            destination=destination,
            words=words,
            flags=(words,),
            uniform=uniform,
        )
    if constant.modifiers or instruction.modifiers != modifiers:
        return None
    recipe = {
        "base": constant.index,
        "base_words": 1,
        "base_signed": False,
        "shift": 0,
        "uniform": constant.uniform_index,
        "uniform_words": 1,
        "offset": constant.value,
    }
    return MicroOp(
        ops.CONSTANT_LOAD,
        space=Space.CONSTANT,
        access_bytes=size,
        destination=destination,
        words=words,
        flags=(size, int(signed)),
        uniform=uniform,
        extra={"address": recipe, "bank": constant.bank},
    )


_BYTES = (1, 2, 4, 8, 16, 32)
_SPACE_OF = {"": Space.GENERIC, "G": Space.GLOBAL, "S": Space.SHARED, "L": Space.LOCAL}


def _accesses(
    family: str,
    letters: tuple[str, ...],
    summary: str,
    lowering: Callable,
    bodies: tuple[int, ...],
    moved: tuple[int, ...],
) -> tuple[Opcode, ...]:
    """The opcodes of a family, one for each space, which the letter behind its name tells."""
    return tuple(
        Opcode(
            mnemonic=family + letter, summary=summary, lowering=partial(lowering, _SPACE_OF[letter]),
            bodies=bodies, pipe=PipeClass.LSU, coverage=summary, flops=NO_FLOPS,
            space=_SPACE_OF[letter], bytes_moved=moved,
        )
        for letter in letters
    )  # fmt: skip


OPCODES = (
    *_accesses("LD", ("G", "", "S", "L"), "load", lower_load, (ops.LOAD, ops.WIDE_LOAD), _BYTES),
    *_accesses("ST", ("G", "", "S", "L"), "store", lower_store, (ops.STORE, ops.WIDE_STORE), _BYTES),
    *_accesses("ATOM", ("", "G", "S"), "atomic", lower_atomic, (ops.ATOMIC,), (4, 8, 16)),
    # RED names no space, but is emitted for global memory alone.
    Opcode(
        mnemonic="RED", summary="reduction", lowering=partial(lower_atomic, Space.GLOBAL),
        bodies=(ops.ATOMIC,), pipe=PipeClass.LSU, coverage="reduction", flops=NO_FLOPS,
        space=Space.GLOBAL, bytes_moved=(4, 8, 16),
    ),
    *_accesses("RED", ("G", "S"), "reduction", lower_atomic, (ops.ATOMIC,), (4, 8, 16)),
    # That it takes the LSU's way to L2, as other reductions do, is a guess: nobody has measured it.
    Opcode(
        mnemonic="UREDGR", summary="reduction of a warp", lowering=lower_uniform_reduction, bodies=(ops.ATOMIC,),
        pipe=PipeClass.LSU, coverage="reduction", flops=NO_FLOPS, space=Space.GLOBAL, bytes_moved=(4, 8),
    ),
    Opcode(
        mnemonic="LDGSTS", summary="asynchronous copy to shared memory", lowering=lower_async_copy,
        bodies=(ops.ASYNC_COPY, ops.ASYNC_FILL), pipe=PipeClass.LSU, coverage="async copy", flops=NO_FLOPS,
        space=Space.GLOBAL, bytes_moved=(4, 8, 16),
    ),
    *(
        Opcode(
            mnemonic=mnemonic, summary="constant load", lowering=lower_constant_load,
            bodies=(loops.copy, ops.CONSTANT_LOAD), pipe=pipe, coverage="constant load", flops=NO_FLOPS,
            space=Space.CONSTANT, bytes_moved=_BYTES[:-1],
        )
        for mnemonic, pipe in (
            ("LDC", PipeClass.CONSTANT), ("ULDC", PipeClass.UNIFORM), ("LDCU", PipeClass.CONSTANT),
        )
    ),
)  # fmt: skip
