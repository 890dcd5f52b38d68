"""ELF64 as far as a cubin needs it, bounds-checked, since a cubin file is untrusted input. The only reader of ELF.

Mental model: a cubin is a small ELF file; sections are named byte ranges, symbols are names inside
sections, relocations are places to patch. Anything that points outside the file is refused with
CompileError, which names the file's fault. Sections share all of their bytes or none, and names are bounded, so that
what is held is a small multiple of the file, whatever its headers say.

Why not pyelftools (0.33, measured on a cubin of 15 sections): it reads the same (a test holds the two against each
other), but takes 1.0 ms for this reader's 0.07 ms and 28 ms to import, reads names and ranges that point outside the
file without a word, raises OverflowError for some damaged headers, knows none of CUDA's relocations, and cannot size an
image in memory.

Format: System V gABI, chapters 4 and 5; what is NVIDIA's own stands in :mod:`gpusim.isa.binary.cubin`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from gpusim.errors import CompileError

MAGIC = b"\x7fELF"
CUDA_MACHINE = 190
SECTION_NOBITS = 8
SECTION_SYMBOLS = 2
SECTION_RELA = 4
SECTION_REL = 9
SYMBOL_OBJECT = 1
SYMBOL_FUNCTION = 2
SYMBOL_SECTION = 3
UNDEFINED = 0
#: STO_CUDA_ENTRY of a symbol's "other" byte: a kernel's function (read off cubins; readelf of CUDA's binutils and
#: LLVM's BinaryFormat/ELF.h name it).
CUDA_ENTRY = 0x10
#: No section is larger, whatever a damaged header says.
MAX_SECTION_BYTES = 1 << 31
#: All sections together may be so many times the file: each byte once, and once more in a twin.
MAX_SECTIONS_OF_FILE = 2
#: All names together may be so many times the file: linkers let one name end inside another, but seldom.
MAX_NAMES_OF_FILE = 8

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELA = struct.Struct("<QQq")
_REL = struct.Struct("<QQ")


@dataclass(frozen=True)
class Section:
    """``data``, at byte ``offset`` of the file, is empty for a section without bytes (``kind == SECTION_NOBITS``);
    ``size`` counts them."""

    index: int
    name: str
    kind: int
    data: bytes
    size: int
    link: int
    info: int
    alignment: int
    offset: int = 0


@dataclass(frozen=True)
class Symbol:
    index: int
    name: str
    kind: int
    section: int
    value: int
    size: int
    entry: bool = False  # a function that a launch may name: a kernel


@dataclass(frozen=True)
class Relocation:
    """Patch ``symbol + addend`` into byte ``offset`` of the section, in the way that ``kind`` says."""

    offset: int
    kind: int
    symbol: int
    addend: int


@dataclass(frozen=True)
class Elf:
    """A parsed cubin: ``architecture`` (e.g. 90), sections and symbols by index, relocations by section."""

    architecture: int
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]
    relocations: dict[int, tuple[Relocation, ...]]

    @cached_property
    def _by_name(self) -> dict[str, Section]:
        return {section.name: section for section in reversed(self.sections)}

    def named(self, name: str) -> Section | None:
        """The first section of that name."""
        return self._by_name.get(name)

    def starting(self, prefix: str) -> list[Section]:
        return [section for section in self.sections if section.name.startswith(prefix)]


def parse_elf(data: bytes) -> Elf:
    """Read a cubin's sections, symbols and relocations; raises CompileError when it is not a sound one."""
    if len(data) < _HEADER.size or data[:4] != MAGIC:
        raise CompileError("not a cubin: no ELF header")
    if data[4] != 2 or data[5] != 1:
        raise CompileError("not a cubin: the ELF file is not 64-bit little-endian")
    header = _HEADER.unpack_from(data)
    machine, flags, abi = header[2], header[7], data[8]
    if machine != CUDA_MACHINE:
        raise CompileError(f"not a cubin: ELF machine {machine}, not {CUDA_MACHINE} (NVIDIA CUDA)")
    table, entry_size, count, names = header[6], header[11], header[12], header[13]
    if entry_size != _SECTION.size or names >= count:
        raise CompileError("damaged cubin: bad section table")
    raw = [_SECTION.unpack_from(_slice(data, table + i * entry_size, entry_size)) for i in range(count)]
    contents = _section_bytes(data, raw)
    name_table = _Names(_bytes_of(data, raw[names]), len(data))
    sections = tuple(
        Section(
            i,
            name_table.at(entry[0]),
            entry[1],
            contents.get((entry[4], entry[5]), b"") if _has_bytes(entry) else b"",
            entry[5],
            entry[6],
            entry[7],
            max(1, entry[8]),
            entry[4],
        )
        for i, entry in enumerate(raw)
    )
    for section in sections:
        if section.size > MAX_SECTION_BYTES:
            raise CompileError(f"damaged cubin: section {section.name} claims {section.size} bytes")
    symbols = _symbols(sections, len(data))
    relocations: dict[int, list[Relocation]] = {}
    for section in sections:
        if section.kind in (SECTION_RELA, SECTION_REL):
            relocations.setdefault(section.info, []).extend(_relocations(section))
    architecture = flags >> _architecture_shift(abi) & 0xFF
    return Elf(architecture, sections, symbols, {index: tuple(found) for index, found in relocations.items()})


def _architecture_shift(abi: int) -> int:
    """Where the flags have the architecture's number: ABI version 8 moved it from the low byte to the second one."""
    return 8 if abi >= 8 else 0


def with_architecture(data: bytes, changed: Callable[[int], int]) -> bytes:
    """``data``, a cubin's bytes, for the architecture that ``changed`` makes of its own."""
    header = list(_HEADER.unpack_from(data))
    shift = _architecture_shift(data[8])
    own = header[7] >> shift & 0xFF
    wanted = changed(own)
    if wanted == own:
        return data
    header[7] += (wanted - own) << shift
    return _HEADER.pack(*header) + data[_HEADER.size :]


def image_size(read: Callable[[int, int], bytes], most_bytes: int) -> int:
    """Bytes of an ELF image that has no size of its own, as one in memory: where its last table or section ends.

    ``read(offset, size)`` gives its bytes; nothing is read at or behind ``most_bytes``. Raises CompileError for an
    image that claims to reach so far.
    """
    header = _HEADER.unpack(read(0, _HEADER.size))
    programs, sections, entry_size, count = header[5], header[6], header[11], header[12]
    end = max(sections + entry_size * count, programs + header[9] * header[10])
    if entry_size == _SECTION.size and end < most_bytes:
        for i in range(count):
            entry = _SECTION.unpack(read(sections + i * entry_size, entry_size))
            if entry[1] != SECTION_NOBITS:
                end = max(end, entry[4] + entry[5])
    if end >= most_bytes:
        raise CompileError(f"the image claims to have {end} bytes")
    return end


def _section_bytes(data: bytes, raw: list[tuple]) -> dict[tuple[int, int], bytes]:
    """(start, size) -> bytes of every section that has some.

    From Blackwell on some sections have a twin that is the same bytes (``.nv.merc.*``): those are held once. A section
    that shares but a part with another is no linker's work, and a header of 64 bytes must not stand for a copy of the
    file.
    """
    spans = [(entry[4], entry[5]) for entry in raw if _has_bytes(entry)]
    end = 0
    for start, size in sorted(set(spans)):
        if start < end:
            raise CompileError(f"damaged cubin: two sections share bytes from 0x{start:x} on")
        end = start + size
    if end > len(data) or sum(size for _, size in spans) > MAX_SECTIONS_OF_FILE * len(data):
        raise CompileError(
            f"damaged cubin: its sections need {max(end, sum(size for _, size in spans))} bytes, the file has {len(data)}"
        )
    return {(start, size): data[start : start + size] for start, size in set(spans)}


def _has_bytes(entry: tuple) -> bool:
    return entry[1] not in (0, SECTION_NOBITS) and entry[5] > 0


def _symbols(sections: tuple[Section, ...], file_bytes: int) -> tuple[Symbol, ...]:
    table = next((section for section in sections if section.kind == SECTION_SYMBOLS), None)
    if table is None:
        return ()
    if table.link >= len(sections):
        raise CompileError("damaged cubin: symbol table without names")
    strings = _Names(sections[table.link].data, file_bytes)
    symbols = []
    for i in range(len(table.data) // _SYMBOL.size):
        name, info, other, section, value, size = _SYMBOL.unpack_from(table.data, i * _SYMBOL.size)
        entry = bool(other & CUDA_ENTRY)
        symbols.append(Symbol(i, strings.at(name), info & 15, section, value, size, entry))
    return tuple(symbols)


def _relocations(section: Section) -> list[Relocation]:
    if section.kind == SECTION_RELA:
        entries = [_RELA.unpack_from(section.data, i * 24) for i in range(len(section.data) // 24)]
    else:
        entries = [(*_REL.unpack_from(section.data, i * 16), 0) for i in range(len(section.data) // 16)]
    return [Relocation(offset, info & 0xFFFFFFFF, info >> 32, addend) for offset, info, addend in entries]


def _bytes_of(data: bytes, entry: tuple) -> bytes:
    return _slice(data, entry[4], entry[5])


def _slice(data: bytes, start: int, size: int) -> bytes:
    if start + size > len(data):
        raise CompileError(f"damaged cubin: needs {start + size} bytes, has {len(data)}")
    return data[start : start + size]


class _Names:
    """The strings of a table, each read once; raises CompileError where they are too many for a file of
    ``file_bytes``."""

    def __init__(self, table: bytes, file_bytes: int) -> None:
        self._table, self._left = table, MAX_NAMES_OF_FILE * file_bytes
        self._known: dict[int, str] = {}

    def at(self, start: int) -> str:
        name = self._known.get(start)
        if name is None:
            end = self._table.find(b"\0", start)
            if start >= len(self._table) or end < 0:
                raise CompileError("damaged cubin: a name outside the string table")
            self._left -= end - start
            if self._left < 0:
                raise CompileError("damaged cubin: its names are far longer than the file")
            name = self._table[start:end].decode("utf-8", "replace")
            if not name.isprintable():  # no compiler's: it would break the lines that name it
                raise CompileError(f"damaged cubin: a name with control characters, {name[:60]!r}")
            self._known[start] = name
        return name
