"""The class of an instruction for the cover point ``opcode``, as the declaration of its opcode says.

Mental model: a trace holds instructions as SASS text. The classes, and which opcode is in which, are facts of the
instruction set (:mod:`gpusim.isa.opcode`); here a text only finds its declaration.
"""

from __future__ import annotations

from functools import lru_cache

from gpusim.isa.opcode import COVERAGE_CLASSES, OTHER
from gpusim.isa.table import opcode_of_text

CLASSES = COVERAGE_CLASSES


@lru_cache(maxsize=1 << 16)
def opcode_class(text: str) -> str:
    """The class of an instruction by its SASS text (``@!P0 SHFL.DOWN PT, R3, ...``); ``other`` for a mnemonic that has
    none."""
    opcode, modifiers = opcode_of_text(text)
    return opcode.coverage_class(modifiers) if opcode is not None else OTHER


__all__ = ["CLASSES", "OTHER", "opcode_class"]
