"""The instruction table: every row of every family, and the one way in, :func:`lower`.

Mental model: a dictionary from mnemonic to the row that serves it. Two rows for one mnemonic are a
mistake of ours and refused at import; an instruction that no row accepts is refused by name before
anything runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpusim.errors import UnsupportedOpcodeError
from gpusim.isa.form import Instruction, MicroOp, Row
from gpusim.isa.forms import control_flow, double, floating, half, integer, lanes, memory, tensor


def collect(families: Iterable[Iterable[Row]]) -> dict[str, Row]:
    """One dictionary of all rows; raises ValueError when two rows claim a mnemonic."""
    table: dict[str, Row] = {}
    for rows in families:
        for row in rows:
            if row.mnemonic in table:
                raise ValueError(f"two rows serve {row.mnemonic}")
            table[row.mnemonic] = row
    return table


TABLE = collect(family.ROWS for family in (integer, floating, half, double, memory, control_flow, lanes, tensor))


def supported(instruction: Instruction) -> bool:
    """Whether some row accepts ``instruction``."""
    row = TABLE.get(instruction.mnemonic)
    return row is not None and row.lower(instruction) is not None


def why_refused(instruction: Instruction) -> str:
    """Why ``instruction``, which no row accepts, is not emulated."""
    mnemonic = instruction.mnemonic
    if mnemonic in tensor.REFUSED:
        return f"{mnemonic} is not emulated ({tensor.REFUSED[mnemonic]})"
    return f"no such form of {mnemonic} is emulated" if mnemonic in TABLE else f"{mnemonic} is not emulated"


def lower(instruction: Instruction, kernel: str = "", files: Sequence[str] = ()) -> MicroOp:
    """The micro-op of ``instruction``; raises UnsupportedOpcodeError with kernel, address, text and source
    line (in one of ``files``)."""
    row = TABLE.get(instruction.mnemonic)
    micro = row.lower(instruction) if row is not None else None
    if micro is None:
        where = f"kernel {kernel}, " if kernel else ""
        line = f" ({files[instruction.file]}:{instruction.line})" if 0 <= instruction.file < len(files) else ""
        raise UnsupportedOpcodeError(
            f"unsupported instruction: {where}address 0x{instruction.address:x}: {instruction.text}{line}:"
            f" {why_refused(instruction)}; `gpusim sass survey` shows what each architecture makes of a kernel"
        )
    return micro


def lower_all(instructions: Iterable[Instruction], kernel: str = "", files: Sequence[str] = ()) -> tuple[MicroOp, ...]:
    """Lower a whole kernel; the first unsupported instruction is refused by name."""
    return tuple(lower(instruction, kernel, files) for instruction in instructions)
