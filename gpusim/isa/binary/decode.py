"""From machine code to :class:`~gpusim.isa.form.Instruction` s, with NVIDIA's own disassembler.

Mental model: nvdisasm turns the 128-bit words into text (``-json``: opcode, operands, guard); this file
splits the text into typed operands. What text cannot carry exactly is taken from the word itself: the
control fields, and the bits of immediates that are written in decimal (bits 32..63). Where the text comes from, and
where it is kept: :mod:`gpusim.isa.binary.listing`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from gpusim.errors import CompileError
from gpusim.isa.binary.control import decode_control
from gpusim.isa.binary.cubin import INSTRUCTION_BYTES, KernelCode
from gpusim.isa.binary.kernel_texts import TARGETED, Texts, split_operands
from gpusim.isa.binary.listing import code_texts, section_texts
from gpusim.isa.form import Instruction, Kind, Operand

_REGISTER = re.compile(r"^(U?)R(Z|\d{1,4})((?:\.[A-Za-z0-9_]+)*)$")
_PREDICATE = re.compile(r"^(U?)P(T|\d{1,4})((?:\.[A-Za-z0-9_]+)*)$")
_BARRIER = re.compile(r"^B(\d{1,4})$")
_SCOREBOARD = re.compile(r"^SB(\d{1,4})$")
_HEX = re.compile(r"^([+-]?)0x([0-9a-fA-F]+)((?:\.[A-Za-z0-9_]+)*)$")
_FUNCTION = re.compile(r"^@0x([0-9a-fA-F]+)$")
_DECIMAL = re.compile(r"^[+-]?(\d+(\.\d*)?([eE][+-]?\d+)?|INF|QNAN|SNAN|NAN)(\.H[01])?$")
_CONSTANT = re.compile(r"^(c|cx)\[([^\]]+)\]\[([^\]]*)\]((?:\.[A-Za-z0-9_]+)*)$")
_MEMORY = re.compile(r"^(?:desc\[UR(\d{1,4}|Z)\])?\[([^\]]*)\]((?:\.[A-Za-z0-9_]+)*)$")
#: Before Hopper the two addresses of an asynchronous copy stand side by side: "[R5][R2.64]", "[R5]desc[UR4][R2.64]".
_TWO_ADDRESSES = re.compile(r"^(\[[^\]]*\])(?=\[|desc)")
#: Ampere's accesses with a descriptor are printed with the comma misplaced: "R8desc,[UR6][R2.64]".
_MISPLACED_COMMA = re.compile(r"\b(R\w+)desc,\[")
#: The half that is taken of an immediate stands behind a comma: "R7,R4,4.57e-41,H0".
_APART_SELECTOR = re.compile(r"([\d.e+-]+),(H[01])$")
_RELOCATED = re.compile(r"^(?:32|fun)@(?:lo|hi)?\(")
#: Whose immediates are 64 bits wide in their .64 form: MOV's in full, SEL's in 32 bits whose sign stands in the text,
#: "-0x4" or "0xffffffff".
_WIDE_IMMEDIATE = {"MOV", "SEL"}
_PACKED_HALF = {"HADD2", "HMUL2", "HFMA2", "HSETP2", "HSET2", "HMNMX2"}


def decode(image: KernelCode, cubin: bytes, use_cache: bool = True) -> tuple[Instruction, ...]:
    """Decode all instructions of ``image`` (a kernel and what it calls, in flat address order).

    Raises ToolchainError when nvdisasm is missing or fails, CompileError when its output does not cover
    the code. Words between functions (padding) are left out.
    """
    return _instructions(image, image.sections, code_texts(image, cubin, use_cache))


def decode_sections(image: KernelCode, cubin: bytes, names: Iterable[str]) -> dict[str, tuple[Instruction, ...]]:
    """As :func:`decode`, of these code sections of ``image`` alone. What nvdisasm says of the whole cubin is kept on
    disk, so that a file of many kernels takes one look, not one a kernel."""
    wanted = set(names)
    sections = [section for section in image.sections if section[0] in wanted]
    texts = section_texts(image, sections, cubin)
    return {section[0]: _instructions(image, [section], texts) for section in sections}


def _instructions(image: KernelCode, sections: Iterable[tuple[str, int, int]], texts: Texts) -> tuple[Instruction, ...]:
    files = {file: i for i, file in enumerate(source_files(image))}
    instructions = []
    for name, base, size in sections:
        rows = texts.get(base)
        if rows is None or len(rows) * INSTRUCTION_BYTES != size:
            raise CompileError(f"nvdisasm gave no full listing of {name}")
        for i, (guard, opcode, operands) in enumerate(rows):
            address = base + i * INSTRUCTION_BYTES
            word = int.from_bytes(image.code[address : address + INSTRUCTION_BYTES], "little")
            file, line = image.lines.get(address, ("", 0))
            instructions.append(
                parse_instruction(address, guard, opcode, operands, word, base, line=line, file=files.get(file, -1))
            )
    return tuple(instructions)


def source_files(image: KernelCode) -> tuple[str, ...]:
    """Source files that ``image.lines`` names, in order of first use."""
    return tuple(dict.fromkeys(file for file, _ in image.lines.values() if file))


def parse_instruction(
    address: int,
    guard: str,
    opcode: str,
    operands: str,
    word: int,
    section_base: int = 0,
    line: int = 0,
    file: int = -1,
) -> Instruction:
    """Build one Instruction from nvdisasm's pieces; ``section_base`` is added to branch targets."""
    mnemonic, *modifiers = opcode.split(".")
    if guard and not guard.startswith("@"):
        # "PR P2R R16, RZ, 0x20": nvdisasm takes the predicate file, the second operand, for the guard
        first, _, rest = operands.partition(",")
        guard, operands = "", f"{first},{guard},{rest}"
    operands = _MISPLACED_COMMA.sub(r"\1,desc[", operands)
    operands = _APART_SELECTOR.sub(r"\1.\2", operands)
    if mnemonic == "LDGSTS":
        operands = _TWO_ADDRESSES.sub(r"\1,", operands)
    wide = "64" in modifiers and mnemonic.removeprefix("U") in _WIDE_IMMEDIATE
    parsed = [_operand(text, word, mnemonic, section_base, wide) for text in split_operands(operands)]
    if mnemonic in _PACKED_HALF:
        parsed = _split_packed(parsed, word)
    text = " ".join(part for part in (guard, opcode, operands.replace(",", ", ")) if part)
    return Instruction(
        address=address,
        mnemonic=mnemonic,
        modifiers=tuple(modifiers),
        operands=tuple(parsed),
        guard=_operand(guard.removeprefix("@"), word, "", 0) if guard else None,
        control=decode_control(word),
        text=text,
        word=word,
        line=line,
        file=file,
    )


@lru_cache(maxsize=65536)
def _plain_operand(text: str) -> Operand | None:
    """Parse an operand that needs neither the word nor the position; None when it does."""
    body, negated, inverted, absolute = text, False, False, False
    while body[:1] in ("-", "~", "!", "|") and not _DECIMAL.match(body) and not _HEX.match(body):
        if body[0] == "-":
            negated = True
        elif body[0] == "|":
            absolute = True
            close = body.find("|", 1)
            if close < 0:
                return None
            body = body[:close] + body[close + 1 :]
        else:
            inverted = True
        body = body[1:]
    flags = {"negated": negated, "inverted": inverted, "absolute": absolute, "text": text}
    if match := _REGISTER.match(body):
        uniform, number, suffix = match.groups()
        kind = Kind.UNIFORM if uniform else Kind.REGISTER
        return Operand(kind, 255 if number == "Z" else int(number), modifiers=_modifiers(suffix), **flags)
    if match := _PREDICATE.match(body):
        uniform, number, suffix = match.groups()
        kind = Kind.UNIFORM_PREDICATE if uniform else Kind.PREDICATE
        return Operand(kind, 7 if number == "T" else int(number), modifiers=_modifiers(suffix), **flags)
    if match := _CONSTANT.match(body):
        return _constant(match, flags)
    if match := _MEMORY.match(body):
        descriptor, inside, suffix = match.groups()
        number = -1 if descriptor is None else 255 if descriptor == "Z" else int(descriptor)
        return _address(inside, Kind.MEMORY, number, _modifiers(suffix), flags)
    if match := _BARRIER.match(body):
        return Operand(Kind.BARRIER, int(match.group(1)), **flags)
    if match := _SCOREBOARD.match(body):
        return Operand(Kind.SCOREBOARD, int(match.group(1)), **flags)
    if body.startswith("SR"):
        return Operand(Kind.SPECIAL, **flags)
    return None


def _operand(text: str, word: int, mnemonic: str, section_base: int, wide: bool = False) -> Operand:
    plain = _plain_operand(text)
    if plain is not None:
        return plain
    if match := _FUNCTION.match(text):
        return Operand(Kind.LABEL, value=int(match.group(1), 16), text=text)
    if match := _HEX.match(text):
        sign, digits, suffix = match.groups()
        value = -int(digits, 16) if sign == "-" else int(digits, 16)
        if mnemonic in TARGETED:
            return Operand(Kind.LABEL, value=value + section_base, text=text)
        bits = 64 if wide or len(digits) > 8 else 32
        return Operand(Kind.IMMEDIATE, value=value & ((1 << bits) - 1), modifiers=_modifiers(suffix), text=text)
    if _DECIMAL.match(text) or _RELOCATED.match(text):
        half = text[-2:] if text.endswith((".H0", ".H1")) else ""
        return Operand(Kind.IMMEDIATE, value=(word >> 32) & 0xFFFFFFFF, modifiers=_modifiers(half), text=text)
    return Operand(Kind.OTHER, text=text)


def _modifiers(suffix: str) -> tuple[str, ...]:
    return tuple(part for part in suffix.split(".") if part and part != "reuse")


def _constant(match: re.Match, flags: dict) -> Operand:
    form, bank, inside, suffix = match.groups()
    if form == "c" and (number := _HEX.match(bank)):
        return _address(inside, Kind.CONSTANT, -1, _modifiers(suffix), flags, int(number.group(2), 16))
    register = _REGISTER.match(bank)
    if register and register.group(1):
        index = 255 if register.group(2) == "Z" else int(register.group(2))
        return _address(inside, Kind.CONSTANT, index, _modifiers(suffix), flags, -1)
    return Operand(Kind.OTHER, **flags)


def _address(
    inside: str, kind: Kind, descriptor: int, modifiers: tuple[str, ...], flags: dict, bank: int = 0
) -> Operand:
    """Parse ``R2.64+UR4+0x10``: modifiers of the vector register as they are, those of the uniform one
    with the prefix "UR."."""
    index, uniform, value = 255, 255, 0
    for part in filter(None, inside.replace("+-", "+~").split("+")):
        sign, part = (-1, part[1:]) if part.startswith("~") else (1, part)
        if part.startswith("-"):
            sign, part = -1, part[1:]
        if match := _HEX.match(part):
            value += sign * int(match.group(2), 16)
        elif match := _REGISTER.match(part):
            number = 255 if match.group(2) == "Z" else int(match.group(2))
            if match.group(1):
                uniform = number
                modifiers += tuple(f"UR.{m}" for m in _modifiers(match.group(3)))
            else:
                index = number
                modifiers = _modifiers(match.group(3)) + modifiers
        else:
            return Operand(Kind.OTHER, **flags)
    return Operand(
        kind, index, value, modifiers=modifiers, bank=bank, uniform_index=uniform, descriptor=descriptor, **flags
    )


def _split_packed(operands: list[Operand], word: int) -> list[Operand]:
    """A packed-half immediate is printed as two decimals, the high half first: give each its 16 bits."""
    decimal = [i for i, o in enumerate(operands) if o.kind == Kind.IMMEDIATE and _DECIMAL.match(o.text)]
    if len(decimal) == 2:
        for i, shift in zip(decimal, (48, 32), strict=True):
            operands[i] = Operand(Kind.IMMEDIATE, value=(word >> shift) & 0xFFFF, text=operands[i].text)
    return operands
