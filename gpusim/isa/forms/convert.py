"""The conversions: F2I, I2F, I2FP, F2F, F2FP, FRND.

Mental model: a conversion names a target type, a source type (each with a default that is not written)
and a rounding; the body gets them as codes. Bodies: :mod:`gpusim.isa.bodies.convert`.
"""

from __future__ import annotations

from gpusim.isa import float_ops as ops
from gpusim.isa.bodies import pack
from gpusim.isa.bodies.convert import convert
from gpusim.isa.form import Instruction, Kind, MicroOp, Operand, Source, float_source
from gpusim.isa.lowering import Modifiers, Roles, bare, micro, split
from gpusim.isa.opcode import NO_FLOPS, Opcode
from gpusim.trace.record import PipeClass

CONVERT, CONVERT_WIDE, ALU = PipeClass.CONVERT, PipeClass.CONVERT_WIDE, PipeClass.ALU
_OF_64_BITS = (ops.F64, ops.INTEGERS["S64"], ops.INTEGERS["U64"])
NARROW = {"F16": ops.F16, "BF16": ops.BF16, "E4M3": ops.E4M3, "E5M2": ops.E5M2, "TF32": ops.TF32, "E8": ops.E8M0}
#: Formats without infinity and NaN, of 4 and 6 bits (sm_100).
TINY = {"E2M1": ops.E2M1, "E2M3": ops.E2M3, "E3M2": ops.E3M2}
FLOATS = {"F32": ops.F32, "F64": ops.F64, "F16": ops.F16, "BF16": ops.BF16}
#: Where a byte or half selector finds its bits.
SELECTORS = {(): 0, ("B0",): 0, ("B1",): 8, ("B2",): 16, ("B3",): 24, ("H0",): 0, ("H1",): 16}
SELECTORS |= {("H0_H0",): 0, ("H1_H1",): 16}


def _pipe(*types: int) -> PipeClass | None:
    """The pipe of a conversion between these types: None, which stands for the opcode's own, or that of 64-bit
    types."""
    return CONVERT_WIDE if any(each in _OF_64_BITS for each in types) else None


def _single(instruction: Instruction, modifiers: Modifiers) -> Roles | None:
    """The roles of an instruction of one source and no predicates, all modifiers understood."""
    roles = split(instruction)
    if modifiers.left or roles is None or len(roles.sources) != 1:
        return None
    if roles.predicate_sources or roles.predicate_destinations:
        return None
    return None if roles.sources[0].modifiers not in SELECTORS else roles


def _floating_source(operand: Operand, style: int) -> tuple[Source, int] | None:
    """The source and the place (0 or 16) of a floating operand of any format."""
    place = SELECTORS[operand.modifiers]
    if style in (ops.F32, ops.F64):
        return None if place else (float_source(operand, 2 if style == ops.F64 else 1), 0)
    if place not in (0, 16):
        return None
    if operand.kind == Kind.IMMEDIATE:
        return Source(operand, 1, immediate=operand.value & 0xFFFFFFFF), place
    keep = 0x7FFF7FFF if operand.absolute else 0xFFFFFFFF
    return Source(operand, 1, keep=keep, flip=0x80008000 if operand.negated else 0), place


def lower_to_integer(instruction: Instruction) -> MicroOp | None:
    """F2I: float to integer, saturating."""
    modifiers = Modifiers(instruction)
    options = ops.FLUSH_SOURCE if modifiers.take("FTZ") else 0
    options |= ops.NAN_TO_ZERO if modifiers.take("NTZ") else 0
    mode = modifiers.choose(ops.INTEGER_ROUNDINGS, 0)
    target = modifiers.choose(ops.INTEGERS, ops.INTEGERS["S32"])
    style = modifiers.choose(FLOATS, ops.F32)
    roles = _single(instruction, modifiers)
    found = _floating_source(roles.sources[0], style) if roles else None
    if found is None:
        return None
    source, place = found
    flags = (style | place << 8, target, mode, options)
    words = 2 if target in (ops.INTEGERS["S64"], ops.INTEGERS["U64"]) else 1
    return micro(convert, instruction, roles, (source,), words=words, flags=flags, pipe=_pipe(target, style))


def lower_from_integer(instruction: Instruction) -> MicroOp | None:
    """I2F and I2FP: integer to float, rounded once."""
    modifiers = Modifiers(instruction)
    mode = modifiers.choose(ops.ROUNDINGS, 0)
    style = modifiers.choose(FLOATS, ops.F32)
    kind = modifiers.choose(ops.INTEGERS, ops.INTEGERS["S32"])
    roles = _single(instruction, modifiers)
    if roles is None:
        return None
    operand = roles.sources[0]
    place = SELECTORS[operand.modifiers]
    bits = (kind - ops.INTEGER_KIND) >> 1
    if operand.negated or operand.inverted or operand.absolute or (place and bits > 16):
        return None
    source = bare(operand, 2 if bits == 64 else 1)
    words = 2 if style == ops.F64 else 1
    flags = (kind | place << 8, style, mode, 0)
    return micro(convert, instruction, roles, (source,), words=words, flags=flags, pipe=_pipe(kind, style))


def lower_to_float(instruction: Instruction) -> MicroOp | None:
    """F2F: float to float of another size."""
    modifiers = Modifiers(instruction)
    options = ops.FLUSH_SOURCE | ops.FLUSH_RESULT if modifiers.take("FTZ") else 0
    options |= ops.CLAMP if modifiers.take("SAT") else 0
    target = modifiers.choose(FLOATS)
    style = modifiers.choose(FLOATS, target)
    mode = modifiers.choose(ops.ROUNDINGS, 0)
    roles = _single(instruction, modifiers)
    found = _floating_source(roles.sources[0], style) if roles and target is not None else None
    if found is None:
        return None
    source, place = found
    words = 2 if target == ops.F64 else 1
    flags = (style | place << 8, target, mode, options)
    return micro(convert, instruction, roles, (source,), words=words, flags=flags, pipe=_pipe(target, style))


def lower_round(instruction: Instruction) -> MicroOp | None:
    """FRND: to an integral value of the same format."""
    modifiers = Modifiers(instruction)
    options = ops.INTEGRAL
    options |= ops.FLUSH_SOURCE if modifiers.take("FTZ") else 0
    options |= ops.CLAMP if modifiers.take("SAT") else 0
    mode = modifiers.choose(ops.INTEGER_ROUNDINGS, 0)
    style = modifiers.choose(FLOATS, ops.F32)
    roles = _single(instruction, modifiers)
    found = _floating_source(roles.sources[0], style) if roles else None
    if found is None:
        return None
    source, place = found
    words = 2 if style == ops.F64 else 1
    flags = (style | place << 8, style, mode, options)
    return micro(convert, instruction, roles, (source,), words=words, flags=flags, pipe=_pipe(style))


def lower_pack(instruction: Instruction) -> MicroOp | None:
    """F2FP: pairs of narrow floats from FP32 numbers or from each other, and FP32 to TF32."""
    modifiers, roles = Modifiers(instruction), split(instruction)
    if roles is None or roles.predicate_sources or roles.predicate_destinations:
        return None
    mode = modifiers.choose(ops.ROUNDINGS, 0)
    how = int(modifiers.take("SATFINITE")) | int(modifiers.take("RELU")) << 1
    if "UNPACK_B" in modifiers.left:
        modifiers.take("UNPACK_B")
        return _lower_unpack(instruction, modifiers, roles, modifiers.choose({"BF16": ops.BF16}, _half(modifiers)), how)
    if modifiers.take("RS"):
        return _lower_stochastic(instruction, modifiers, roles, how)
    tiny = modifiers.choose(TINY)
    if tiny is not None:
        return _lower_tiny(instruction, modifiers, roles, tiny, mode, how)
    style = modifiers.choose(NARROW, ops.F16)
    if modifiers.take("UNPACK_B_MERGE_C"):
        return _lower_repack(instruction, modifiers, roles, style, mode, how)
    modifiers.take("F32")
    if any(o.modifiers for o in roles.sources):
        return None
    if style == ops.TF32:
        if not modifiers.take("PACK_B") or modifiers.left or len(roles.sources) != 1:
            return None
        source = float_source(roles.sources[0])
        return micro(pack.to_tf32, instruction, roles, (source,), flags=(mode, how))
    if modifiers.take("MERGE_C"):
        return _lower_merge(instruction, modifiers, roles, (style, mode, how, 3))
    form = modifiers.choose({"PACK_AB": 0, "PACK_AB_MERGE_C": 1})
    eight = style in (ops.E4M3, ops.E5M2, ops.E8M0)
    if style == ops.E8M0 and not _is_scaling(mode, how):
        return None
    if modifiers.left or form is None or form != eight or (eight and style != ops.E8M0 and not how & 1):
        return None
    if len(roles.sources) != 2 + form:
        return None
    sources = (*map(float_source, roles.sources[:2]), *map(bare, roles.sources[2:]))
    flags = (style, mode, how, form)
    return micro(pack.pack_floats, instruction, roles, sources, flags=flags)


def _lower_stochastic(instruction: Instruction, modifiers: Modifiers, roles: Roles, how: int) -> MicroOp | None:
    """F2FP.BF16.F32.PACK_AB.RS R0, R1, R2, R3: rounded by the random bits in R3;
    F2FP.SATFINITE.E4M3.F32.PACK_AB_MERGE_C.RS: the pair goes below what is left of them (PTX's .e4m3x4 is two of
    these)."""
    style = modifiers.choose({**TINY, **NARROW})
    wide = style in (ops.F16, ops.BF16)
    if not wide and (style not in (ops.E4M3, ops.E5M2, *TINY.values()) or not how & 1):
        return None
    if not modifiers.take("F32") or not modifiers.take("PACK_AB" if wide else "PACK_AB_MERGE_C") or modifiers.left:
        return None
    if len(roles.sources) != 3 or any(o.modifiers for o in roles.sources):
        return None
    if roles.sources[2].negated or roles.sources[2].absolute:
        return None
    sources = (*map(float_source, roles.sources[:2]), bare(roles.sources[2]))
    return micro(pack.pack_stochastic, instruction, roles, sources, flags=(style, how))


def _half(modifiers: Modifiers) -> int:
    """Half precision, the format that is not always written."""
    modifiers.take("F16")
    return ops.F16


def _lower_merge(
    instruction: Instruction, modifiers: Modifiers, roles: Roles, flags: tuple[int, ...]
) -> MicroOp | None:
    """F2FP.BF16.MERGE_C.RZ R3, 3, R3: one number to 16 bits, below the lower half of the second operand.

    Read off code for sm_86 whose results are known: 4 is merged with RZ, 3 with that, and then the upper half is
    stored where 4 belongs (bfloat16's ceiling of 3.14) and the lower half where 3 does."""
    if modifiers.left or flags[0] not in (ops.F16, ops.BF16) or len(roles.sources) != 2:
        return None
    x, above = roles.sources
    if above.negated or above.absolute:
        return None
    sources = (float_source(x), float_source(x), bare(above))
    return micro(pack.pack_floats, instruction, roles, sources, flags=flags)


def _lower_unpack(
    instruction: Instruction, modifiers: Modifiers, roles: Roles, target: int, how: int
) -> MicroOp | None:
    """F2FP.F16.E4M3.UNPACK_B: two narrow floats to half precision; F2FP.BF16.E4M3.UNPACK_B R0, R1.H1, R2.H0: to
    bfloat16, times the two scales (ue8m0) in a half of the second operand, which is 0x7f7f where PTX names none."""
    style = modifiers.choose({**TINY, "E4M3": ops.E4M3, "E5M2": ops.E5M2, "E8": ops.E8M0})
    if style is None or modifiers.left or how & 1:
        return None
    scaled = target == ops.BF16 and style != ops.E8M0
    if len(roles.sources) != 1 + scaled or (style == ops.E8M0 and target != ops.BF16):
        return None
    bits = ("B0", "B1", "B2", "B3") if style == ops.E2M1 else ("H0", "H1")
    places = {(): 0, **{(name,): i * (32 // len(bits)) for i, name in enumerate(bits)}}
    place = places.get(roles.sources[0].modifiers)
    if place is None:
        return None
    if not scaled:
        return micro(
            pack.unpack_floats, instruction, roles, (bare(roles.sources[0]),), flags=(style, target, place, how)
        )
    half = {(): 0, ("H0",): 0, ("H1",): 16}.get(roles.sources[1].modifiers)
    if half is None:
        return None
    sources = (bare(roles.sources[0]), bare(roles.sources[1]))
    return micro(pack.unpack_scaled, instruction, roles, sources, flags=(style, place, half, how))


def _is_scaling(mode: int, how: int) -> bool:
    """Whether numbers can become scales so: rounded up or towards zero, and not limited to positive ones."""
    return mode in (ops.ROUNDINGS["RZ"], ops.ROUNDINGS["RP"]) and not how & 2


def _lower_repack(
    instruction: Instruction, modifiers: Modifiers, roles: Roles, style: int, mode: int, how: int
) -> MicroOp | None:
    """F2FP.SATFINITE.E4M3.F16.UNPACK_B_MERGE_C: two halves to 8-bit floats, below y; F2FP.E8.BF16: two bfloat16 numbers
    to scales."""
    if len(roles.sources) != 2 or any(o.modifiers or o.negated or o.absolute for o in roles.sources):
        return None
    if style == ops.E8M0:
        # BF16 names the source here, and E8 has been taken for the style before it.
        known = modifiers.take("BF16") and _is_scaling(mode, how)
    else:
        known = how & 1 and mode == 0 and style not in (ops.F16, ops.BF16)
        form = {"F16": 2, "BF16": 4}.get(modifiers.left[0]) if len(modifiers.left) == 1 else None
        if not known or form is None:
            return None
        sources = tuple(map(bare, roles.sources))
        return micro(pack.pack_floats, instruction, roles, sources, flags=(style, mode, how, form))
    if not known or modifiers.left:
        return None
    sources = tuple(map(bare, roles.sources))
    return micro(pack.pack_floats, instruction, roles, sources, flags=(style, mode, how, 2))


def _lower_tiny(
    instruction: Instruction, modifiers: Modifiers, roles: Roles, style: int, mode: int, how: int
) -> MicroOp | None:
    """F2FP.SATFINITE.E2M1.F32.PACK_AB_MERGE_C R0, R7, R0, R6: a pair below R6;
    F2FP.SATFINITE.E2M1.F16.UNPACK_B_MERGE_C. Of bytes that PTX packs with mov.b32 {a, b, c, d} the compiler makes four
    of these, d first and above RZ."""
    if mode or any(o.modifiers for o in roles.sources):
        return None
    if modifiers.take("UNPACK_B_MERGE_C"):
        return _lower_repack(instruction, modifiers, roles, style, mode, how)
    if not modifiers.take("F32") or not modifiers.take("PACK_AB_MERGE_C") or modifiers.left or not how & 1:
        return None
    if len(roles.sources) != 3 or roles.sources[2].negated or roles.sources[2].absolute:
        return None
    sources = (*map(float_source, roles.sources[:2]), bare(roles.sources[2]))
    return micro(pack.pack_floats, instruction, roles, sources, flags=(style, mode, how, 1))


def lower_pack_integer(instruction: Instruction) -> MicroOp | None:
    """F2IP: two FP32 numbers into a pair of saturated 8-bit integers below z."""
    modifiers, roles = Modifiers(instruction), split(instruction)
    target = modifiers.choose({"S8": 17, "U8": 16, "S16": 33, "U16": 32})
    modifiers.take("F32")
    modifiers.take("NTZ")
    mode = modifiers.choose(ops.INTEGER_ROUNDINGS, 0)
    if target is None or modifiers.left or roles is None or len(roles.sources) != 3:
        return None
    if roles.predicate_sources or roles.predicate_destinations:
        return None
    if any(o.modifiers for o in roles.sources):
        return None
    sources = (*map(float_source, roles.sources[:2]), bare(roles.sources[2]))
    return micro(pack.floats_to_bytes, instruction, roles, sources, flags=(target, mode))


CONVERSIONS = (
    Opcode(
        mnemonic="F2I", twin=True, summary="float to integer", lowering=lower_to_integer,
        bodies=(convert,), pipe=CONVERT, other_pipes=(CONVERT_WIDE,), coverage="convert", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="I2F", twin=True, summary="integer to float", lowering=lower_from_integer,
        bodies=(convert,), pipe=CONVERT, other_pipes=(CONVERT_WIDE,), coverage="convert", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="I2FP", twin=True, summary="integer to float", lowering=lower_from_integer,
        bodies=(convert,), pipe=ALU, coverage="convert", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="F2F", twin=True, summary="float to float", lowering=lower_to_float,
        bodies=(convert,), pipe=CONVERT, other_pipes=(CONVERT_WIDE,), coverage="convert", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="FRND", twin=True, summary="round to integral", lowering=lower_round,
        bodies=(convert,), pipe=CONVERT, other_pipes=(CONVERT_WIDE,), coverage="convert", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="F2FP", twin=True, summary="pack narrow floats", lowering=lower_pack,
        bodies=(pack.pack_floats, pack.pack_stochastic, pack.unpack_floats, pack.unpack_scaled, pack.to_tf32), pipe=ALU, coverage="convert", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="F2IP", twin=True, summary="pack narrow integers", lowering=lower_pack_integer,
        bodies=(pack.floats_to_bytes,), pipe=ALU, coverage="convert", flops=NO_FLOPS,
    ),
)  # fmt: skip
