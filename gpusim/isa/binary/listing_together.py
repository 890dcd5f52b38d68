"""List the machine code of many kernels with one start of the disassembler, before they are decoded one by one.

Mental model: starting nvdisasm takes a quarter of a second, a kernel some milliseconds. The flat code of all kernels of one
architecture is laid end to end and read as one raw stretch; each kernel's part of the listing is kept where
:mod:`gpusim.isa.binary.listing` looks for it, word for word what the listing of its own file would have been.
"""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from gpusim.errors import CompileError, ToolchainError
from gpusim.isa.binary.cubin import INSTRUCTION_BYTES, KernelCode
from gpusim.isa.binary.listing import (
    FUNCTION_PREFIX,
    TARGETED,
    Texts,
    keep_texts,
    kept_texts_path,
    raw_rows,
    split_operands,
)

_HEX_TARGET = re.compile(r"^0x([0-9a-f]+)$")
#: Of a raw stretch, a blank stands behind infinity: "P0,PT,|R16|,+INF ,PT".
_BLANKS = re.compile(r" +(?=,|$)")
#: What names a function in the listing of a file.
_CALLS = {"CALL", "RET"}
#: Whose operands say more there: the targets of a table, or an address that is no branch's; as do those that are an address
#: itself (CALL.ABS of debug builds), not the way to it from the instruction.
_LISTED_ALONE = {"BRX", "BRXU", "JMX", "JMXU", "WARPSYNC"}


def list_together(images: Iterable[KernelCode]) -> int:
    """Keep the texts of many kernels with one start of nvdisasm an architecture; the number of kernels so listed.

    Relocations are applied already in the flat code. Left to be listed alone, without a word: kernels that are known, those of
    whose code the file says more than the code does (calls of the driver, of other kernels, by address or through pointers,
    tables of branch targets), and all if nvdisasm is missing or finds fault with any.
    """
    wanted: dict[int, dict[Path, KernelCode]] = defaultdict(dict)
    for image in images:
        path = kept_texts_path(image)
        if path is not None and not (image.externals or image.launched or image.pointers) and not path.exists():
            wanted[image.architecture][path] = image
    listed = 0
    for architecture, kernels in wanted.items():
        with contextlib.suppress(CompileError, ToolchainError):
            rows = raw_rows(b"".join(image.code for image in kernels.values()), architecture)
            start = 0
            for path, image in kernels.items():
                count = len(image.code) // INSTRUCTION_BYTES
                texts = _texts_of_raw(image, rows[start : start + count], start * INSTRUCTION_BYTES)
                start += count
                if texts is not None:
                    keep_texts(path, texts)
                    listed += 1
    return listed


def _texts_of_raw(image: KernelCode, rows: list[list[str]], start: int) -> Texts | None:
    """The texts of ``image``, whose code began at byte ``start`` of what was listed: targets as they stand in the listing of
    its file. None where they would differ."""
    functions = {address for _, address, _ in image.functions}
    texts: Texts = {}
    for _, base, size in image.sections:
        first = base // INSTRUCTION_BYTES
        texts[base] = own = []
        for guard, opcode, operands in rows[first : first + size // INSTRUCTION_BYTES]:
            mnemonic = opcode.split(".", 1)[0]
            if mnemonic in _LISTED_ALONE or ".ABS" in opcode:
                return None
            if mnemonic in TARGETED:
                parts = split_operands(operands)
                for i, part in enumerate(parts):
                    if match := _HEX_TARGET.match(part):
                        flat = int(match.group(1), 16) - start
                        named = mnemonic in _CALLS and flat in functions
                        parts[i] = f"{FUNCTION_PREFIX}0x{flat:x}" if named else f"0x{flat - base:x}"
                operands = ",".join(parts)
            own.append([guard, opcode, _BLANKS.sub("", operands)])
    return texts
