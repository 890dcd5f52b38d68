"""Write the reference page of the instruction set from the declarations of its opcodes.

    python tools/write_isa_reference.py [-o docs/reference/instructions.md]

The page is what gpusim/isa declares, so it is never edited by hand; a test says when it is out of date.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from inspect import getdoc
from pathlib import Path

from gpusim.isa import system_ops
from gpusim.isa.architectures import ARCHITECTURES, Architecture
from gpusim.isa.body import Body
from gpusim.isa.opcode import COVERAGE_CLASSES, Opcode
from gpusim.isa.table import TABLE

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "instructions.md"
OPENING = """# Instructions

<!-- Written by tools/write_isa_reference.py from the declarations in gpusim/isa/forms; edit those. -->

Each opcode is declared once, in `gpusim/isa/forms/`; this page, `gpusim sass survey`, coverage, the roofline and the
dispatch of the emulator derive from that declaration. `python tools/write_isa_reference.py` writes the page anew.

- **Opcode**: its name; with a second one in brackets, the same instruction of the uniform datapath, whose pipe is
  `UNIFORM`, and whose operations count once a warp.
- **Forms**: what of it is emulated. Operands and modifiers beyond that are refused before anything runs.
- **Pipe**: the class of execution unit; a GPU's file says what a class costs.
- **FLOPs**: floating-point operations a lane, as the roofline counts them; `2 a MAC` of tensor cores.
- **Bytes**: what a lane moves, and in which space.
- **Bodies**: the functions that execute it (`gpusim/isa/bodies/`); *in capitals*: the interpreter's own micro-ops.
"""
ARCHITECTURE_OPENING = """
## Architectures

What a launch may ask of an SM, and for which target kernels are linked (`gpusim/isa/architectures.py`). No compiler of
today builds for the architectures without a target. *Tensor cores*: fraction bits of a sum of products, bytes of a row
that are added at once, and fraction bits of sum and result for 8-bit floats.
"""
_MICRO_OPS = {
    value: name
    for name, value in reversed(list(vars(system_ops).items()))
    if isinstance(value, int) and name.isupper() and not name.startswith("SR_") and not name.endswith("_BASE")
}


def body_name(body: Body | int) -> str:
    """A body by its function's name, a micro-op of the interpreter in capitals."""
    return f"`{body.name}`" if isinstance(body, Body) else f"`{_MICRO_OPS[body]}`"


def forms_of(opcode: Opcode) -> str:
    """What its lowering accepts: the first paragraph of the docstring."""
    lowering = opcode.lowering
    text = getdoc(lowering.func if isinstance(lowering, partial) else lowering) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")


def record(opcode: Opcode) -> tuple[str, ...]:
    """The cells of one opcode's line."""
    assert opcode.pipe is not None and opcode.flops is not None and opcode.bodies is not None, (
        "an opcode that is not refused"
    )
    twin = f" (`U{opcode.mnemonic}`)" if f"U{opcode.mnemonic}" in TABLE and opcode.twin else ""
    pipes = ", ".join(f"`{pipe.name}`" for pipe in (opcode.pipe, *opcode.other_pipes))
    flops = f"{opcode.flops.each} {opcode.flops.kind}" if opcode.flops.each else "0"
    flops = "2 a MAC" if opcode.flops.kind == "tensor" else flops
    moved = ", ".join(map(str, opcode.bytes_moved))
    if moved:
        moved += f" {opcode.space.name.lower()}"
    bodies = ", ".join(dict.fromkeys(map(body_name, opcode.bodies)))
    return f"`{opcode.mnemonic}`{twin}", opcode.summary, forms_of(opcode), pipes, flops, moved, bodies


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def architecture_record(row: Architecture) -> tuple[str, ...]:
    """The cells of one architecture's line."""
    rules = row.tensor
    return (
        f"`{row.name}`",
        f"`{row.target}`" if row.built else "",
        f"{row.sm_warps}, {row.sm_blocks}",
        f"{row.sm_shared_bytes >> 10}, {row.block_shared_bytes >> 10}",
        f"{rules.fraction_bits}; {rules.block_bytes}; {rules.fraction_bits_8}, {rules.result_bits_8}",
    )


def page() -> str:
    """The whole page."""
    twins = {f"U{opcode.mnemonic}" for opcode in TABLE.values() if opcode.twin}
    opcodes = [opcode for opcode in TABLE.values() if opcode.mnemonic not in twins]
    parts = [OPENING]
    heads = ("Opcode", "What it does", "Forms", "Pipe", "FLOPs", "Bytes", "Bodies")
    for name in COVERAGE_CLASSES:
        members = [o for o in opcodes if not o.refused and name in o.coverage_classes]
        if members:
            parts.append(f"\n## {name[0].upper()}{name[1:]}\n\n{table(heads, map(record, members))}")
    refused = [(f"`{o.mnemonic}`", o.refused) for o in opcodes if o.refused]
    parts.append(f"\n## Refused by name\n\n{table(('Opcode', 'What it is'), refused)}")
    limits = ("Architecture", "Target", "Warps, blocks an SM", "Shared memory an SM, a block (KiB)", "Tensor cores")
    parts.append(f"{ARCHITECTURE_OPENING}\n{table(limits, map(architecture_record, ARCHITECTURES))}")
    return "".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=PAGE)
    asked = parser.parse_args()
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    asked.output.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
