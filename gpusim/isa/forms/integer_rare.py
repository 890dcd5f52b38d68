"""The integer opcodes that are seldom met: bit tricks, dot products, packing.

Mental model as in :mod:`gpusim.isa.forms.integer`. Bodies: :mod:`gpusim.isa.bodies.integer_rare`.
"""

from __future__ import annotations

from dataclasses import replace

from gpusim.isa.bodies import integer_rare as rare
from gpusim.isa.body import Body
from gpusim.isa.form import Instruction, MicroOp, integer_source
from gpusim.isa.lowering import Modifiers, Roles, micro, plain, split
from gpusim.isa.opcode import NO_FLOPS, Opcode
from gpusim.trace.record import PipeClass

ALU, CONVERT = PipeClass.ALU, PipeClass.CONVERT


def _values(instruction: Instruction, modifiers: Modifiers, count: int) -> Roles | None:
    """The roles, if exactly ``count`` plain sources were written, no predicate is read and no
    modifier is left over."""
    roles = split(instruction)
    if modifiers.left or roles is None or len(roles.sources) != count or not plain(roles.sources):
        return None
    return None if roles.predicate_sources else roles


def _build(op: Body, instruction: Instruction, roles: Roles | None, *flags: int):
    if roles is None:
        return None
    return micro(op, instruction, roles, tuple(map(integer_source, roles.sources)), flags=flags)


def lower_popcount(instruction: Instruction) -> MicroOp | None:
    """POPC: how many bits are set."""
    roles = _values(instruction, Modifiers(instruction), 1)
    return _build(rare.popcount, instruction, roles)


def lower_find_leading(instruction: Instruction) -> MicroOp | None:
    """FLO: the index of the leading bit, or with .SH the shift that brings it to the top."""
    modifiers = Modifiers(instruction)
    unsigned, shift = modifiers.take("U32"), modifiers.take("SH")
    modifiers.take("S32")
    roles = _values(instruction, modifiers, 1)
    return _build(rare.find_leading, instruction, roles, int(shift), int(not unsigned))


def lower_reverse(instruction: Instruction) -> MicroOp | None:
    """BREV: bits in reverse order."""
    roles = _values(instruction, Modifiers(instruction), 1)
    return _build(rare.bit_reverse, instruction, roles)


def lower_absolute(instruction: Instruction) -> MicroOp | None:
    """IABS: absolute value; of the least integer it is the least integer."""
    roles = _values(instruction, Modifiers(instruction), 1)
    return _build(rare.absolute, instruction, roles)


def lower_bit_mask(instruction: Instruction) -> MicroOp | None:
    """BMSK: y ones from bit x on."""
    modifiers = Modifiers(instruction)
    wrap = modifiers.take("W")
    modifiers.take("C")
    return _build(rare.bit_mask, instruction, _values(instruction, modifiers, 2), int(wrap))


def lower_sign_extend(instruction: Instruction) -> MicroOp | None:
    """SGXT: the lowest y bits of x, extended by their sign or by zeros."""
    modifiers = Modifiers(instruction)
    wrap, unsigned = modifiers.take("W"), modifiers.take("U32")
    modifiers.take("C")
    roles = _values(instruction, modifiers, 2)
    return _build(rare.sign_extend, instruction, roles, int(wrap), int(unsigned))


def lower_dot(instruction: Instruction) -> MicroOp | None:
    """IDP: four byte products, or two half-by-byte products, added to z."""
    modifiers = Modifiers(instruction)
    form = modifiers.choose({"4A": 0, "2A": 1})
    upper = modifiers.take("HI")
    modifiers.take("LO")
    if form is None or len(modifiers.left) != 2 or (upper and form == 0):
        return None
    wide, narrow = modifiers.left
    if wide not in (("S8", "U8") if form == 0 else ("S16", "U16")) or narrow not in ("S8", "U8"):
        return None
    modifiers.left = []
    roles = _values(instruction, modifiers, 3)
    flags = (int(wide[0] == "S"), int(narrow[0] == "S"), form + upper)
    return _build(rare.dot, instruction, roles, *flags)


def lower_absolute_difference(instruction: Instruction) -> MicroOp | None:
    """VABSDIFF: |x - y| + z."""
    modifiers = Modifiers(instruction)
    unsigned = modifiers.choose({"U32": 1, "S32": 0}, 0)
    roles = _values(instruction, modifiers, 3)
    return _build(rare.absolute_difference, instruction, roles, unsigned)


def lower_absolute_difference4(instruction: Instruction) -> MicroOp | None:
    """VABSDIFF4: |x - y| byte by byte, with .ACC summed into z; bytes are signed where nothing is said."""
    modifiers = Modifiers(instruction)
    signed = modifiers.choose({"U8": 0, "S8": 1}, 1)
    accumulate = modifiers.take("ACC")
    roles = _values(instruction, modifiers, 3)
    return _build(rare.absolute_difference4, instruction, roles, signed, int(accumulate))


def lower_narrow(instruction: Instruction) -> MicroOp | None:
    """I2I: the low 8 or 16 bits as an integer of their own, or with .SAT the nearest such integer."""
    modifiers = Modifiers(instruction)
    saturate = modifiers.take("SAT")
    names = [m for m in modifiers.left if m in ("U8", "S8", "U16", "S16", "U32", "S32")]
    modifiers.left = [m for m in modifiers.left if m not in names]
    roles = _values(instruction, modifiers, 1)
    if roles is None or not names or names[0] in ("U32", "S32") or len(names) > 2:
        return None
    unsigned = len(names) == 2 and names[1] == "U32"
    if len(names) == 2 and names[1] not in ("U32", "S32"):
        return None
    bits, signed = int(names[0][1:]), int(names[0][0] == "S")
    return _build(rare.narrow_integer, instruction, roles, bits, signed, int(unsigned), int(saturate))


def lower_pack(instruction: Instruction) -> MicroOp | None:
    """I2IP: x and y saturated to 2, 4, 8 or 16 bits, packed below z; of 4 and 2 bits z is ``R2.24`` or ``R2.28``, its
    lower 24 or 28 bits, which is all that fits."""
    modifiers = Modifiers(instruction)
    target = modifiers.choose({"S8": 9, "U8": 8, "S16": 17, "U16": 16, "S4": 5, "U4": 4, "S2": 3, "U2": 2})
    modifiers.take("S32")
    if target is None or not modifiers.take("SAT"):
        return None
    kept = (str(32 - target // 2 * 4),)
    if target < 8 and len(instruction.operands) == 4 and instruction.operands[3].modifiers == kept:
        instruction = replace(
            instruction, operands=(*instruction.operands[:3], replace(instruction.operands[3], modifiers=()))
        )
    roles = _values(instruction, modifiers, 3)
    return _build(rare.pack_integers, instruction, roles, target & ~1, target & 1)


def _no_predicate(lower):
    """All but FLO (a bit was found) write no predicate."""

    def checked(instruction: Instruction) -> MicroOp | None:
        result = lower(instruction)
        if result is None or any(d is not None for d in result.predicate_destinations):
            return None
        return result

    checked.__doc__ = lower.__doc__
    return checked


RARE = (
    Opcode(
        mnemonic="POPC", twin=True, summary="count bits", lowering=_no_predicate(lower_popcount),
        bodies=(rare.popcount,), pipe=CONVERT, coverage="bit count", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="FLO", twin=True, summary="find the leading bit", lowering=lower_find_leading,
        bodies=(rare.find_leading,), pipe=CONVERT, coverage="bit count", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="BREV", twin=True, summary="reverse bits", lowering=_no_predicate(lower_reverse),
        bodies=(rare.bit_reverse,), pipe=CONVERT, coverage="bit count", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="IABS", twin=True, summary="absolute value", lowering=_no_predicate(lower_absolute),
        bodies=(rare.absolute,), pipe=ALU, coverage="integer add", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="BMSK", twin=True, summary="make a bit mask", lowering=_no_predicate(lower_bit_mask),
        bodies=(rare.bit_mask,), pipe=ALU, coverage="logic and shift", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="SGXT", twin=True, summary="sign-extend a bit field", lowering=_no_predicate(lower_sign_extend),
        bodies=(rare.sign_extend,), pipe=ALU, coverage="logic and shift", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="IDP", twin=True, summary="dot product of packed integers", lowering=_no_predicate(lower_dot),
        bodies=(rare.dot,), pipe=PipeClass.IMAD, coverage="integer multiply", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="VABSDIFF", summary="absolute difference plus addend", lowering=_no_predicate(lower_absolute_difference),
        bodies=(rare.absolute_difference,), pipe=ALU, coverage="integer add", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="VABSDIFF4", summary="absolute differences of bytes", lowering=_no_predicate(lower_absolute_difference4),
        bodies=(rare.absolute_difference4,), pipe=ALU, coverage="integer add", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="I2I", summary="narrow an integer", lowering=_no_predicate(lower_narrow),
        bodies=(rare.narrow_integer,), pipe=ALU, coverage="convert", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="I2IP", summary="saturate and pack two integers", lowering=_no_predicate(lower_pack),
        bodies=(rare.pack_integers,), pipe=ALU, coverage="convert", flops=NO_FLOPS,
    ),
)  # fmt: skip
