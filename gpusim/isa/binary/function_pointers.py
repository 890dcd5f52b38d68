"""What a pointer to a device function holds: one address for all kernels of a module.

Mental model: the code of a kernel lies in a flat space of its own, in which the same function stands elsewhere for
every kernel. A program may take a function's address in one kernel, keep it in a variable, an object's vtable or host
memory, and call it in another; so what it sees is an address in a space of the whole module, where each code section
has its fixed place, and a call through a pointer is taken from there to the function's place in the kernel's own code.
The kernel has to have the function there: one that calls through pointers gets every function whose address is taken
anywhere in the module.

Of a module that is compiled as a whole (``nvcc`` without ``-rdc``) nothing of this is seen: ptxas gives each kernel
copies of the functions, and its pointers are offsets into a table in constant bank 2.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from gpusim.isa.binary.elf import Elf, Section, Symbol
from gpusim.isa.binary.relocations import RELOCATE_ADDRESS

#: Where the functions of modules lie, as pointers have it: from here up to what stands for kernels that code launches.
FUNCTIONS_ADDRESS = 0x7A00_0000_0000
#: A module's place among them follows from its code, so that a pointer of another module is no function of this one:
#: one of 2^19, a MiB apart.
_PLACES, _PLACE_BYTES = 1 << 19, 1 << 20
#: Where code begins, and data in which addresses of functions stand.
_CODE, _DATA = ".text.", (".nv.global", ".nv.constant")
_ALIGNMENT = 128

#: ``CALL.ABS`` in an instruction's 12 bits of opcode, without the three that say where the target is, and those where
#: it is an immediate (read off code of sm_75 to sm_120).
_CALL, _CALL_BITS, _CALL_IMMEDIATE = 0x143, 0x1FF, 0x943


@dataclass(frozen=True)
class FunctionAddresses:
    """``starts``: (code section, byte in it) at which a device function begins -> its address; elsewhere in code there
    are only addresses to return to. ``taken``: the code sections with functions whose address is taken somewhere in the
    module, in the order of the file. Both are empty where none is."""

    starts: dict[tuple[int, int], int]
    taken: tuple[int, ...]


def function_addresses(elf: Elf, functions: dict[int, list[Symbol]]) -> FunctionAddresses:
    """Those of a module. ``functions``: by section, those that have a name; kernels among them are left out, since no
    pointer names one. Raises CompileError for a damaged cubin."""
    code = elf.starting(_CODE)
    starts = {
        (section.index, each.value) for section in code for each in functions.get(section.index, ()) if not each.entry
    }
    taken = _taken(elf, starts)
    if not taken:
        return FunctionAddresses({}, ())
    bases, size, first = {}, 0, _first_address(code)
    for section in code:
        bases[section.index] = first + size
        size += -(-section.size // _ALIGNMENT) * _ALIGNMENT
    return FunctionAddresses(
        {(section, offset): bases[section] + offset for section, offset in starts},
        tuple(section.index for section in code if section.index in taken),
    )


def _taken(elf: Elf, starts: set[tuple[int, int]]) -> set[int]:
    """The code sections of ``starts`` that code or data name by address."""
    taken = set()
    for place, relocations in elf.relocations.items():
        if place >= len(elf.sections) or not elf.sections[place].name.startswith((_CODE, *_DATA)):
            continue
        for relocation in relocations:
            if relocation.kind not in RELOCATE_ADDRESS or relocation.symbol >= len(elf.symbols):
                continue  # whoever loads the section refuses the second
            symbol = elf.symbols[relocation.symbol]
            if (symbol.section, symbol.value + relocation.addend) in starts:
                taken.add(symbol.section)
    return taken


def calls_through_pointers(code: bytes) -> bool:
    """Whether machine code has a call whose absolute target is no immediate."""
    if _CALL & 0xFF not in code[::16]:
        return False
    opcodes = {low | (high & 15) << 8 for low, high in zip(code[::16], code[1::16], strict=False)}
    return any(opcode & _CALL_BITS == _CALL and opcode != _CALL_IMMEDIATE for opcode in opcodes)


def _first_address(code: list[Section]) -> int:
    """Where the module's functions begin: the same in every process, whatever a compiler has named them there."""
    digest = hashlib.sha256()
    for section in code:
        digest.update(section.size.to_bytes(8, "little"))
        digest.update(section.data)
    return FUNCTIONS_ADDRESS + int.from_bytes(digest.digest()[:4], "little") % _PLACES * _PLACE_BYTES
