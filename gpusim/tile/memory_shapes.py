"""Bytes of the kernels that move and convert data, from what a user knows of them: rows, columns, number formats.

Mental model: each kernel reads its operands once and writes its results once; what it goes over again it finds in L2 or
in registers (:mod:`gpusim.tile.memory`).
"""

from __future__ import annotations

from gpusim.errors import SpecError
from gpusim.tile.formats import format_of
from gpusim.tile.memory import KINDS, MemoryOp

#: Logits and losses are kept in FP32.
_LOGIT_BYTES = 4.0


def memory_op(
    kind: str, rows: int, columns: int, dtype: str = "bf16", to: str = "", *, gated: bool = True, residual: bool = True, cold: bool = False
) -> MemoryOp:  # fmt: skip
    """``kind`` of :data:`gpusim.tile.memory.KINDS` over ``rows`` (tokens) of ``columns`` results each, in a number
    format of :data:`gpusim.tile.formats.FORMATS`. norm: with the residual that is added, read and written
    (``residual``); activation: of two inputs a result where it is ``gated``; embedding: rows are looked up in a table;
    sampling and softmax: of logits in FP32; quantize: into the format ``to``, scales included. ``cold``: what is read
    lies in DRAM. Raises SpecError for a kind, a format or a size that cannot be."""
    if kind not in KINDS:
        raise SpecError(f"a memory operator's kind is {kind!r}: known are {', '.join(KINDS)}")
    for name, value in (("rows", rows), ("columns", columns)):
        if not 1 <= value < 1 << 31:
            raise SpecError(f"a memory operator's {name} are {value}, not between 1 and {(1 << 31) - 1}")
    if to and kind != "quantize":
        raise SpecError(f"{kind} keeps its format: only quantize goes to another ({to})")
    elements = float(rows) * columns
    moved = format_of(dtype).a_bytes * elements
    if kind in ("sampling", "softmax"):
        return MemoryOp(kind, _LOGIT_BYTES * elements, _LOGIT_BYTES * elements, rows, cold)
    if kind == "norm":
        moved *= 2 if residual else 1
    written = format_of(to or "fp8").a_bytes * elements if kind == "quantize" else moved
    read = moved * 2 if kind == "activation" and gated else moved
    return MemoryOp(kind, read, written, rows, cold)
