"""The texts of a kernel's instructions, and how targets stand in them: the way from a section's start, functions by
their addresses.

Mental model: nvdisasm takes a file, and names functions, or a raw stretch of code, and knows addresses alone. What it
says of a kernel's flat code becomes, word for word, what the listing of its own file would have been; where the file
would say more, nothing.
"""

from __future__ import annotations

import re

from gpusim.isa.binary.cubin import INSTRUCTION_BYTES, KernelCode
from gpusim.isa.binary.disassembler import Rows

FUNCTION_PREFIX = "@"  # "@0x1f0": the function at that flat address
#: Mnemonics whose hexadecimal operand is a code address.
TARGETED = {"BRA", "BSSY", "CALL", "RET", "BRX", "JMP", "JMX", "JMXU", "BRXU", "LEPC", "PRET", "SSY"}
_HEX_TARGET = re.compile(r"^0x([0-9a-f]+)$")
#: Of a raw stretch, a blank stands behind infinity: "P0,PT,|R16|,+INF ,PT".
_BLANKS = re.compile(r" +(?=,|$)")
#: What names a function in the listing of a file.
_CALLS = {"CALL", "RET"}
#: Whose operands say more there: the targets of a table, or an address that is no branch's; as do those that are an
#: address itself (CALL.ABS of debug builds), not the way to it from the instruction.
_LISTED_ALONE = {"BRX", "BRXU", "JMX", "JMXU"}
#: The WARPSYNC one of whose operands is a target; that of the others is a mask of lanes.
_COLLECTIVE = "WARPSYNC.COLLECTIVE"

#: Section base -> [guard, opcode, operands] of each instruction.
Texts = dict[int, Rows]


def is_flat(image: KernelCode) -> bool:
    """Whether all that the file says of the kernel's relocations is in its flat code: no calls of the driver, of other
    kernels, by address or through pointers."""
    return not (image.externals or image.launched or image.pointers)


def texts_of_raw(image: KernelCode, rows: Rows) -> Texts | None:
    """The texts of ``image``, whose flat code was listed as ``rows``: targets as they stand in the listing of its file.
    None where they would differ."""
    functions = {address for _, address, _ in image.functions}
    texts: Texts = {}
    for _, base, size in image.sections:
        first = base // INSTRUCTION_BYTES
        texts[base] = own = []
        for guard, opcode, operands in rows[first : first + size // INSTRUCTION_BYTES]:
            mnemonic = opcode.split(".", 1)[0]
            if mnemonic in _LISTED_ALONE or ".ABS" in opcode:
                return None
            if mnemonic in TARGETED or opcode.startswith(_COLLECTIVE):
                parts = split_operands(operands)
                for i, part in enumerate(parts):
                    if match := _HEX_TARGET.match(part):
                        flat = int(match.group(1), 16)
                        named = mnemonic in _CALLS and flat in functions
                        parts[i] = f"{FUNCTION_PREFIX}0x{flat:x}" if named else f"0x{flat - base:x}"
                operands = ",".join(parts)
            own.append([guard, opcode, _BLANKS.sub("", operands)])
    return texts


def with_addresses(operands: str, names: dict[str, int]) -> str:
    """Operands of the listing of a file with the addresses of functions for their names."""
    parts = split_operands(operands)
    for i, part in enumerate(parts):
        if part in names:
            parts[i] = f"{FUNCTION_PREFIX}0x{names[part]:x}"
        elif part.startswith(("32@", "fun@")):
            parts[i] = f"{part[:5]}(address)"
    return ",".join(parts)


def split_operands(operands: str) -> list[str]:
    """Split at commas that stand outside brackets."""
    parts, depth, start = [], 0, 0
    for i, char in enumerate(operands):
        if char in "[({":
            depth += 1
        elif char in "])}":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(operands[start:i].strip())
            start = i + 1
    last = operands[start:].strip()
    return [*parts, last] if last else parts
