"""Decode the code of many kernels with one call of the disassembler, for surveys of hundreds of kernels.

Mental model: starting nvdisasm costs far more than disassembling a kernel, so the flat code of all kernels of
one architecture is laid end to end and read as one raw binary. Relocations are applied already, so nothing is
lost but the names of functions, and source lines.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from gpusim.errors import CompileError, ToolchainError
from gpusim.isa.binary.cubin import INSTRUCTION_BYTES
from gpusim.isa.binary.decode import find_nvdisasm, parse_instruction
from gpusim.isa.form import Instruction

#: Architectures from which kernels are built for, and disassembled as, the specific target ("SM90a").
ARCHITECTURE_SPECIFIC_FROM = 90


def decode_codes(codes: Sequence[bytes], architecture: int) -> list[tuple[Instruction, ...]]:
    """The instructions of each of ``codes`` (whole 16-byte words) for ``architecture``, e.g. 90.

    Raises ToolchainError when nvdisasm is missing or does not know the architecture, CompileError when its
    listing does not cover the code.
    """
    rows = _rows(b"".join(codes), architecture)
    if len(rows) * INSTRUCTION_BYTES != sum(len(code) for code in codes):
        raise CompileError(f"nvdisasm listed {len(rows)} instructions, not all of them")
    decoded, start = [], 0
    for code in codes:
        base = start * INSTRUCTION_BYTES
        own = rows[start : start + len(code) // INSTRUCTION_BYTES]
        decoded.append(
            tuple(
                parse_instruction(
                    i * INSTRUCTION_BYTES,
                    row.get("predicate", ""),
                    row["opcode"],
                    row.get("operands", ""),
                    int.from_bytes(code[i * INSTRUCTION_BYTES : (i + 1) * INSTRUCTION_BYTES], "little"),
                    -base,  # targets count from the start of all codes
                )
                for i, row in enumerate(own)
            )
        )
        start += len(own)
    return decoded


def _rows(code: bytes, architecture: int) -> list[dict]:
    if not code:
        return []
    tool = find_nvdisasm()
    with tempfile.TemporaryDirectory(prefix="gpusim-") as folder:
        path = Path(folder) / "code.bin"
        path.write_bytes(code)
        target = f"SM{architecture}{'a' if architecture >= ARCHITECTURE_SPECIFIC_FROM else ''}"
        done = subprocess.run([tool, "-json", "-b", target, str(path)], capture_output=True, check=False)
    if done.returncode != 0:
        reason = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
        raise ToolchainError(f"nvdisasm failed: {reason[0]}")
    try:
        return [row for entry in json.loads(done.stdout)[1] for row in entry["sass-instructions"]]
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise ToolchainError(f"nvdisasm's listing could not be read ({error})") from error
