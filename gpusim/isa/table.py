"""The instruction table: every opcode of every family, and the one way in, :func:`lower`.

Mental model: a dictionary from mnemonic to the declaration that serves it. Two declarations for one mnemonic are a
mistake of ours and refused at import; an instruction that none accepts is refused by name before anything runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from gpusim.errors import UnsupportedOpcodeError
from gpusim.isa.binary.text import opcode_parts
from gpusim.isa.form import Instruction, MicroOp
from gpusim.isa.forms import (
    barrier_objects,
    bulk_copies,
    clusters,
    control_flow,
    double,
    floating,
    half,
    integer,
    lanes,
    matrix_moves,
    memory,
    tensor,
    tensor_memory,
    texture,
    warpgroup_products,
)
from gpusim.isa.opcode import Opcode, collect

TABLE = collect(
    family.OPCODES
    for family in (
        integer, floating, half, double, memory, barrier_objects, clusters, control_flow, lanes, tensor, tensor_memory,
        matrix_moves, texture, bulk_copies, warpgroup_products,
    )
)  # fmt: skip


def supported(instruction: Instruction) -> bool:
    """Whether some declaration accepts ``instruction``."""
    opcode = TABLE.get(instruction.mnemonic)
    return opcode is not None and opcode.lower(instruction) is not None


def why_refused(instruction: Instruction) -> str:
    """Why ``instruction``, which no declaration accepts, is not emulated."""
    mnemonic = instruction.mnemonic
    if not mnemonic:
        return "nvdisasm has no name for it"
    opcode = TABLE.get(mnemonic)
    if opcode is not None and opcode.refused:
        return f"{mnemonic} is not emulated ({opcode.refused})"
    return f"no such form of {mnemonic} is emulated" if opcode is not None else f"{mnemonic} is not emulated"


@lru_cache(maxsize=1 << 16)
def opcode_of_text(text: str) -> tuple[Opcode | None, tuple[str, ...]]:
    """The declaration of an instruction by its SASS text (``@!P0 SHFL.DOWN PT, R3, ...``), as traces hold it, and the
    modifiers written; None for what is no instruction of the table."""
    mnemonic, *modifiers = opcode_parts(text)
    return TABLE.get(mnemonic), tuple(modifiers)


def lower(instruction: Instruction, kernel: str = "", files: Sequence[str] = ()) -> MicroOp:
    """The micro-op of ``instruction``; raises UnsupportedOpcodeError with kernel, address, text and source
    line (in one of ``files``)."""
    opcode = TABLE.get(instruction.mnemonic)
    micro = opcode.lower(instruction) if opcode is not None else None
    if micro is None:
        where = f"kernel {kernel}, " if kernel else ""
        line = f" ({files[instruction.file]}:{instruction.line})" if 0 <= instruction.file < len(files) else ""
        raise UnsupportedOpcodeError(
            f"unsupported instruction: {where}address 0x{instruction.address:x}: {instruction.text or hex(instruction.word)}{line}:"
            f" {why_refused(instruction)}; `gpusim sass survey` shows what each architecture makes of a kernel"
        )
    return micro


def lower_all(instructions: Iterable[Instruction], kernel: str = "", files: Sequence[str] = ()) -> tuple[MicroOp, ...]:
    """Lower a whole kernel; the first unsupported instruction is refused by name."""
    return tuple(lower(instruction, kernel, files) for instruction in instructions)
