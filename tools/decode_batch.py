"""Decode the code of many kernels with one call of the disassembler, for surveys of hundreds of kernels.

Mental model: starting nvdisasm costs far more than disassembling a kernel, so the flat code of all kernels of
one architecture is laid end to end and read as one raw binary. Relocations are applied already, so nothing is
lost but the names of functions, and source lines.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpusim.isa.binary.cubin import INSTRUCTION_BYTES
from gpusim.isa.binary.decode import parse_instruction
from gpusim.isa.binary.disassembler import raw_rows
from gpusim.isa.form import Instruction


def decode_codes(codes: Sequence[bytes], architecture: int) -> list[tuple[Instruction, ...]]:
    """The instructions of each of ``codes`` (whole 16-byte words) for ``architecture``, e.g. 90.

    Raises ToolchainError when nvdisasm is missing or does not know the architecture, CompileError when its
    listing does not cover the code.
    """
    rows = raw_rows(b"".join(codes), architecture)
    decoded, start = [], 0
    for code in codes:
        base = start * INSTRUCTION_BYTES
        own = rows[start : start + len(code) // INSTRUCTION_BYTES]
        decoded.append(
            tuple(
                parse_instruction(
                    i * INSTRUCTION_BYTES,
                    *row,
                    int.from_bytes(code[i * INSTRUCTION_BYTES : (i + 1) * INSTRUCTION_BYTES], "little"),
                    -base,  # targets count from the start of all codes
                )
                for i, row in enumerate(own)
            )
        )
        start += len(own)
    return decoded
