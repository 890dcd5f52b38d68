"""The instruction table: every row of every family, and the one way in, :func:`lower`.

Mental model: a dictionary from mnemonic to the row that serves it. Two rows for one mnemonic are a
mistake of ours and refused at import; an instruction that no row accepts is refused by name before
anything runs.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpusim.errors import UnsupportedOpcodeError
from gpusim.sass import control_flow, double, floating, half, integer, lanes, memory, tensor
from gpusim.sass.form import Instruction, MicroOp, Row


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


def lower(instruction: Instruction, kernel: str = "") -> MicroOp:
    """The micro-op of ``instruction``; raises UnsupportedOpcodeError with kernel, address and text."""
    row = TABLE.get(instruction.mnemonic)
    micro = row.lower(instruction) if row is not None else None
    if micro is None:
        where = f"kernel {kernel}, " if kernel else ""
        why = f" ({tensor.REFUSED[instruction.mnemonic]})" if instruction.mnemonic in tensor.REFUSED else ""
        raise UnsupportedOpcodeError(
            f"unsupported instruction: {where}address 0x{instruction.address:x}: {instruction.text}{why}"
        )
    return micro


def lower_all(instructions: Iterable[Instruction], kernel: str = "") -> tuple[MicroOp, ...]:
    """Lower a whole kernel; the first unsupported instruction is refused by name."""
    return tuple(lower(instruction, kernel) for instruction in instructions)
