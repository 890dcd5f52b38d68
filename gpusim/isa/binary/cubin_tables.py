"""What a cubin's kernels have in common, looked up by what they ask for: each table is made once, however many kernels
there are.

Mental model: a cubin may have tens of thousands of kernels, and each has symbols and attributes in tables of the whole
file. Going through those for every kernel takes time by the square of the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

from gpusim.errors import CompileError
from gpusim.isa.binary.elf import SECTION_NOBITS, SYMBOL_FUNCTION, SYMBOL_OBJECT, Elf, Section, Symbol, parse_elf
from gpusim.isa.binary.function_pointers import FunctionAddresses, function_addresses
from gpusim.isa.binary.lines import line_rows

# Attributes of .nv.info that name a function: (format, number) -> payload of its symbol and a number.
ATTRIBUTE_FRAME_BYTES = 0x11
ATTRIBUTE_MIN_STACK_BYTES = 0x12
ATTRIBUTE_REGISTERS = 0x2F
_OF_FUNCTIONS = (ATTRIBUTE_REGISTERS, ATTRIBUTE_MIN_STACK_BYTES, ATTRIBUTE_FRAME_BYTES)
#: Most that a module's global variables may be: what this process may be asked to hold for a file of any size.
MAX_GLOBAL_BYTES = 1 << 30


@dataclass(frozen=True)
class Globals:
    """Where the module's global variables lie: ``bases`` of their sections, ``size`` in bytes, of which the first
    ``initial_size`` come from the file; ``variables``: (name, offset, size)."""

    bases: dict[int, int]
    size: int
    initial_size: int
    variables: tuple[tuple[str, int, int], ...]


class CubinTables:
    """The tables of one cubin; raises CompileError where they are damaged, when they are asked for."""

    def __init__(self, elf: Elf) -> None:
        self.elf = elf

    @cached_property
    def functions(self) -> dict[int, list[Symbol]]:
        """Code section -> the functions in it that have a name, in the order of the file."""
        found: dict[int, list[Symbol]] = {}
        for symbol in self.elf.symbols:
            if symbol.kind == SYMBOL_FUNCTION and symbol.name:
                found.setdefault(symbol.section, []).append(symbol)
        return found

    @cached_property
    def function_addresses(self) -> FunctionAddresses:
        """Where the module's functions lie for those who point to them."""
        return function_addresses(self.elf, self.functions)

    @cached_property
    def resources(self) -> dict[int, list[tuple[int, Symbol, int]]]:
        """Code section -> (attribute, function, number) of what its functions need of registers and stack."""
        found: dict[int, list[tuple[int, Symbol, int]]] = {}
        info, symbols = self.elf.named(".nv.info"), self.elf.symbols
        for _, number, payload in attributes(info) if info else ():
            if number in _OF_FUNCTIONS and len(payload) >= 8:
                index, value = int.from_bytes(payload[:4], "little"), int.from_bytes(payload[4:8], "little")
                if index < len(symbols):
                    found.setdefault(symbols[index].section, []).append((number, symbols[index], value))
        return found

    @cached_property
    def globals(self) -> Globals:
        bases: dict[int, int] = {}
        size = initial_size = 0
        for section in self.elf.starting(".nv.global"):
            bases[section.index] = base = -(-size // section.alignment) * section.alignment
            size = base + section.size
            if section.kind != SECTION_NOBITS:
                initial_size = size
            if size > MAX_GLOBAL_BYTES:
                raise CompileError(f"the cubin's global variables take {size} bytes; {MAX_GLOBAL_BYTES} are allowed")
        variables = tuple(
            (symbol.name, bases[symbol.section] + symbol.value, symbol.size)
            for symbol in self.elf.symbols
            if symbol.section in bases and symbol.kind == SYMBOL_OBJECT
            if is_inside(self.elf, symbol)
        )
        return Globals(bases, size, initial_size, variables)

    @cached_property
    def line_rows(self) -> dict[str, list[tuple[int, str, int]]]:
        """Section -> its source lines: (address in it, file, line)."""
        rows: dict[str, list[tuple[int, str, int]]] = {}
        for row in line_rows(self.elf):
            if 0 <= row.section < len(self.elf.sections):
                rows.setdefault(self.elf.sections[row.section].name, []).append((row.address, row.file, row.line))
        return rows


@lru_cache(maxsize=1)
def cubin_tables(data: bytes) -> CubinTables:
    """Those of a cubin's bytes, kept for the next kernel of the same one. Raises CompileError where it is not a sound
    one."""
    return CubinTables(parse_elf(data))


def attributes(section: Section) -> list[tuple[int, int, bytes]]:
    """(format, number, payload) of every attribute of a .nv.info section."""
    data, at, found = section.data, 0, []
    while at + 4 <= len(data):
        kind, number, value = data[at], data[at + 1], int.from_bytes(data[at + 2 : at + 4], "little")
        at += 4
        if kind == 4:
            if at + value > len(data):
                raise CompileError(f"damaged cubin: attribute outside {section.name}")
            found.append((kind, number, data[at : at + value]))
            at += value
        else:
            found.append((kind, number, value.to_bytes(2, "little")))
    return found


def is_inside(elf: Elf, symbol: Symbol) -> bool:
    """True; raises CompileError for a symbol that leaves its section."""
    section = elf.sections[symbol.section]
    if symbol.value + symbol.size > section.size:
        raise CompileError(f"damaged cubin: symbol {symbol.name} leaves {section.name}")
    return True
