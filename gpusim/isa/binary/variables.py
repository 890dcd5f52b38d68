"""Values of a module's variables, written into the machine code that carries their first ones.

Mental model: a ``__constant__`` variable lies in the section ``.nv.constant3`` of a cubin, a ``__device__`` one that
the source initialises in ``.nv.global.init``; a program would copy to their addresses (``cudaMemcpyToSymbol``) before
it launches. Here the bytes take the place of the source's, so that whoever loads the code, the emulator or a driver,
finds them, and the code is told apart by them.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpusim.errors import UsageError
from gpusim.io.cpp_names import demangled, spellings
from gpusim.io.nearest import hint
from gpusim.isa.binary.elf import SECTION_NOBITS, SYMBOL_OBJECT, parse_elf

_SECTIONS = (".nv.constant3", ".nv.global")


def with_variables(cubin: bytes, values: Mapping[str, bytes], kernel: str) -> bytes:
    """``cubin`` with ``values`` (a variable's name, as C++ or as its symbol has it -> its bytes, from its first one
    on). Raises UsageError for a name that it does not have, for more bytes than a variable holds, and for one that the
    source does not initialise."""
    if not values:
        return cubin
    elf, patched = parse_elf(cubin), bytearray(cubin)
    known = {
        symbol.name: symbol
        for symbol in elf.symbols
        if symbol.kind == SYMBOL_OBJECT and 0 < symbol.section < len(elf.sections)
        if elf.sections[symbol.section].name.startswith(_SECTIONS)
    }
    declared = demangled(tuple(known))
    names = {called: name for name, text in declared.items() for called in spellings(text)} | {
        name: name for name in known
    }
    for name, data in values.items():
        if name not in names:
            raise UsageError(
                f"variables: {kernel} uses no __constant__ or __device__ variable {name}; {hint(name, sorted(names))}"
            )
        symbol = known[names[name]]
        section = elf.sections[symbol.section]
        if section.kind == SECTION_NOBITS:
            raise UsageError(
                f"variables: {name} of {kernel} has no value in the source that another could replace: give it one there"
            )
        if len(data) > symbol.size or symbol.value + symbol.size > section.size:
            raise UsageError(f"variables: {name} of {kernel} holds {symbol.size} bytes, not {len(data)}")
        first = section.offset + symbol.value
        patched[first : first + len(data)] = data
    return bytes(patched)
