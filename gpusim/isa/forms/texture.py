"""Texture and surface instructions: TEX, TLD, TLD4, SULD, SUST.

Mental model: coordinates in one or two runs of registers, a handle from a constant or a register, and up to four
channels out: the first two that are asked for in one pair of registers, the others in another. Read off what NVRTC 13
makes of each function of ``texture_fetch_functions.h`` and ``surface_indirect_functions.h``, laid beside the PTX ISA's
``tex``, ``tld4``, ``suld`` and ``sust``. Levels of detail and gradients are taken and change nothing: there are no
mipmaps.
"""

from __future__ import annotations

from gpusim.isa import system_ops as ops
from gpusim.isa.form import Instruction, Kind, MicroOp, Operand, Source
from gpusim.isa.opcode import NO_FLOPS, Opcode
from gpusim.trace.record import MemoryKind, PipeClass, Space

#: What is done (flags[0], lowest bits).
SAMPLE, FETCH, GATHER, SURFACE_LOAD, SURFACE_STORE = range(5)
#: What becomes of a surface access outside (flags[0], from bit 16): an error, nothing, the nearest element.
TRAPPED, IGNORED, CLAMPED = range(3)
NO_REGISTER = 255
_WORD_BYTES = 4
#: Instead of the number of dimensions: a direction in three, which finds a place in two on a face of a cube.
CUBE = 4
#: Shape -> (dimensions, whether a layer comes with them).
_SHAPES = {
    "1D": (1, 0), "2D": (2, 0), "3D": (3, 0), "ARRAY_1D": (1, 1), "ARRAY_2D": (2, 1), "CUBE": (CUBE, 0), "ARRAY_CUBE": (CUBE, 1),
}  # fmt: skip
_SURFACES = {"1D": (1, 0), "2D": (2, 0), "3D": (3, 0), "1D_ARRAY": (1, 1), "2D_ARRAY": (2, 1)}
_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "32": 4, "64": 8, "128": 16}
_CHANNELS = {"R": 0, "G": 1, "B": 2, "A": 3}
_SURFACE_HINTS = {"D", "BA", "STRONG", "WEAK", "SM", "CTA", "GPU", "SYS"}


def _handle(operands: list[Operand]) -> tuple[Source, list[Operand]] | None:
    """Where the object's handle is, and the operands behind it: a uniform register, alone or with 0 behind it, or bank
    and word of a constant."""
    first, second = operands[0], operands[1] if len(operands) > 1 else None
    if second is None or second.kind != Kind.IMMEDIATE:
        return (Source(first), operands[1:]) if first.kind == Kind.UNIFORM else None
    if first.kind == Kind.UNIFORM and second.value == 0:
        return Source(first), operands[2:]
    if first.kind == Kind.IMMEDIATE:
        return Source(
            Operand(Kind.CONSTANT, index=NO_REGISTER, bank=first.value, value=_WORD_BYTES * second.value)
        ), operands[2:]
    return None


def _recipe(register: int) -> dict:
    """The second pair of results, in the columns of a second address."""
    return {"base": register, "base_words": 2, "shift": 0, "uniform": NO_REGISTER, "uniform_words": 1, "offset": 0}


def _is_register(operand: Operand) -> bool:
    return operand.kind == Kind.REGISTER and not (operand.modifiers or operand.negated or operand.absolute)


def lower_texture(instruction: Instruction) -> MicroOp | None:
    """``TEX[.SCR][.B][.LL|.LZ] Rd2, Rd, Ra, [Rb,] handle, shape[, mask]``, TLD alike, ``TLD4.G Rd2, Rd, ...`` with the
    channel to be gathered, TXD with gradients in Rb. SCR: coordinates and level go to Ra and Rb in turn, two each; else
    all coordinates are in Ra. B: the handle is Rb's first register."""
    kind = {"TEX": SAMPLE, "TXD": SAMPLE, "TLD": FETCH, "TLD4": GATHER}[instruction.mnemonic]
    given = set(instruction.modifiers) - {"SCR", "NODEP", "NDV"}
    bindless = "B" in given and kind != GATHER
    given -= {"B"} if bindless else set()
    channel = 0
    if kind == GATHER:
        named = given & set(_CHANNELS)
        if len(named) > 1:
            return None
        channel = _CHANNELS[next(iter(named))] if named else 0
        given -= named
    levelled = "LL" in given
    if given - {"LL", "LZ"} or len(given) > 1:
        return None
    operands = list(instruction.operands)
    shape_at = next((i for i, each in enumerate(operands) if each.text in _SHAPES), None)
    if shape_at is None or shape_at < 3:
        return None
    dims, layered = _SHAPES[operands[shape_at].text]
    behind = operands[shape_at + 1 :]
    mask = 15
    if behind:
        if len(behind) > 1 or behind[0].kind != Kind.IMMEDIATE or not 0 < behind[0].value < 16:
            return None
        mask = behind[0].value
    rest = operands[:shape_at]
    if len(rest) < 3 or not all(_is_register(each) for each in rest[:3]):
        return None
    second, destination, first = rest[:3]
    rest = rest[3:]
    other = rest.pop(0) if rest and _is_register(rest[0]) else None
    count = (3 if dims == CUBE else dims) + layered
    if dims == CUBE and kind != SAMPLE:
        return None
    if bindless:
        if other is None or rest or count > 2:
            return None
        handle, first_words, other_words = Source(other), count, 0
    else:
        found = _handle(rest) if rest else None
        if found is None or found[1]:
            return None
        handle = found[0]
        values = count + int(levelled)
        if "SCR" in instruction.modifiers and instruction.mnemonic != "TXD":
            if values > 4 or (other is None) != (values == 1):
                return None
            first_words = 1 if values == 2 else min(values, 2)
            first_words, other_words = min(first_words, count), max(0, count - first_words)
        else:
            first_words, other_words = count, 0
    channels = mask.bit_count()
    if channels > 2 and second.index == NO_REGISTER:
        return None
    size = {1: 4, 2: 8}.get(channels, 16)
    return MicroOp(
        ops.TEXTURE,
        sources=(
            Source(first, words=first_words),
            Source(other, words=other_words) if other is not None and other_words else None,
            handle,
        ),
        destination=destination,
        words=min(channels, 2),
        flags=(kind | dims << 4 | layered << 8 | first_words << 12, mask | channel << 4, size),
        memory_kind=MemoryKind.LOAD,
        space=Space.GLOBAL,
        access_bytes=size,
        extra={"shared_address": _recipe(second.index)},
    )  # fmt: skip


def lower_surface(instruction: Instruction) -> MicroOp | None:
    """``SULD.D.BA.shape[.width].TRAP|.IGN Rd, [Ra], handle`` and ``SUST... [Ra], Rb, handle``: bytes as they are, x
    counted in bytes; without TRAP and IGN an access outside goes to the nearest element."""
    given = set(instruction.modifiers)
    shapes, widths = given & set(_SURFACES), given & set(_WIDTHS)
    outside = given & {"TRAP", "IGN"}
    if not {"D", "BA"} <= given or len(shapes) != 1 or len(widths) > 1 or len(outside) > 1:
        return None
    if given - shapes - widths - outside - _SURFACE_HINTS:
        return None
    dims, layered = _SURFACES[next(iter(shapes))]
    size = _WIDTHS[next(iter(widths))] if widths else 4
    boundary = {"TRAP": TRAPPED, "IGN": IGNORED}[next(iter(outside))] if outside else CLAMPED
    loads = instruction.mnemonic == "SULD"
    operands = list(instruction.operands)
    if len(operands) < 3:
        return None
    data, place = (operands[0], operands[1]) if loads else (operands[1], operands[0])
    found = _handle(operands[2:])
    if (
        found is None
        or found[1]
        or not _is_register(data)
        or place.kind != Kind.MEMORY
        or place.value
        or place.modifiers
    ):
        return None
    count, words = dims + layered, max(1, size // 4)
    kind = SURFACE_LOAD if loads else SURFACE_STORE
    return MicroOp(
        ops.TEXTURE,
        sources=(
            Source(Operand(Kind.REGISTER, index=place.index), words=count),
            None if loads else Source(data, words=words),
            found[0],
        ),
        destination=data if loads else None,
        words=words,
        flags=(kind | dims << 4 | layered << 8 | count << 12 | boundary << 16, 15, size),
        memory_kind=MemoryKind.LOAD if loads else MemoryKind.STORE,
        space=Space.GLOBAL,
        access_bytes=size,
    )


OPCODES = (
    *(
        Opcode(
            mnemonic=mnemonic, summary=summary, lowering=lower_texture, bodies=(ops.TEXTURE,), pipe=PipeClass.LSU,
            coverage="load", flops=NO_FLOPS, space=Space.GLOBAL, bytes_moved=(4, 8, 16),
        )
        for mnemonic, summary in (
            ("TEX", "texture sampled"), ("TXD", "texture sampled, with gradients"), ("TLD", "texture element by number"),
            ("TLD4", "one channel of four texture elements"),
        )
    ),
    *(
        Opcode(
            mnemonic=mnemonic, summary=summary, lowering=lower_surface, bodies=(ops.TEXTURE,), pipe=PipeClass.LSU,
            coverage=coverage, flops=NO_FLOPS, space=Space.GLOBAL, bytes_moved=(1, 2, 4, 8, 16),
        )
        for mnemonic, summary, coverage in (("SULD", "surface load", "load"), ("SUST", "surface store", "store"))
    ),
)  # fmt: skip
