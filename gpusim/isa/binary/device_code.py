"""Device code in whatever file holds it: a cubin, a fat binary, an object, archive, shared library or executable.

Mental model: every such file is a list of modules (:class:`gpusim.isa.binary.fatbin.Module`). A cubin is one with a
single image; host files carry fat binaries in sections of their own; an archive is a row of host files. A file of no
known kind, such as a Windows DLL or an ELF file whose section names were stripped, is searched whole for the
containers' magic number.

Formats: System V gABI, chapter 4 (ELF); ``ar(5)``. Names of the sections: those of nvcc's own objects.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from gpusim.errors import CompileError
from gpusim.isa.binary.elf import CUDA_MACHINE, parse_elf
from gpusim.isa.binary.elf import MAGIC as ELF_MAGIC
from gpusim.isa.binary.fatbin import Image, Module, containers

_ELF = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_NOBITS = 8
#: Section of a host file -> whether its fat binaries are linked; nvcc -rdc=true leaves parts in the second.
_SECTIONS = {b".nv_fatbin": True, b"__nv_relfatbin": False}
_ARCHIVE, _THIN_ARCHIVE = b"!<arch>\n", b"!<thin>\n"
_MEMBER = struct.Struct("<16s12s6s6s8s10s2s")
_RELOCATABLE = 1


def device_code(data: bytes) -> list[Module]:
    """The modules of a file's bytes, in the order of the file, empty where there are none. Raises CompileError for a
    file that is damaged."""
    if data.startswith(_THIN_ARCHIVE):
        raise CompileError("a thin archive holds no code itself: name the object files that it lists")
    if not data.startswith(_ARCHIVE):
        return list(_modules(data, 0, len(data)))
    return [module for start, end in _members(data) for module in _modules(data, start, end)]


def _modules(data: bytes, start: int, end: int) -> Iterator[Module]:
    """Those of the file that stands at ``start`` to ``end`` of ``data``."""
    if not data.startswith(ELF_MAGIC, start, end):
        yield from map(Module, containers(data, start, end))
        return
    if end - start < _ELF.size or data[start + 4] != 2 or data[start + 5] != 1:
        raise CompileError("not 64-bit little-endian ELF: no CUDA toolkit of today makes such files")
    header = _ELF.unpack_from(data, start)
    if header[2] == CUDA_MACHINE:
        number = parse_elf(data[start:end]).architecture
        yield Module((Image(False, divmod(number, 10), "", memoryview(data)[start:end]),), header[1] != _RELOCATABLE)
        return
    found = list(_fat_sections(data, start, end, header))
    if not found:
        yield from map(Module, containers(data, start, end))
    for first, last, linked in found:
        yield from (Module(images, linked) for images in containers(data, first, last))


def _fat_sections(data: bytes, start: int, end: int, header: tuple) -> Iterator[tuple[int, int, bool]]:
    """Where the sections with fat binaries begin and end, each with whether they are linked."""
    table, entry_size, count, names = start + header[6], header[11], header[12], header[13]
    if entry_size != _SECTION.size or names >= count or table + count * entry_size > end:
        return  # without its sections a program runs as well
    rows = list(_SECTION.iter_unpack(data[table : table + count * entry_size]))
    strings = start + rows[names][4]
    taken = 0
    for name, kind, _, _, offset, size, *_ in sorted(rows, key=lambda row: row[4]):
        named = (linked for text, linked in _SECTIONS.items() if data.startswith(text + b"\0", strings + name, end))
        linked = next(named, None)
        if linked is None or kind == _NOBITS:
            continue
        first, last = start + offset, start + offset + size
        if last > end:
            raise CompileError(f"damaged file: a section of fat binaries ends at 0x{last:x}, the file at 0x{end:x}")
        if first < taken:
            raise CompileError(f"damaged file: two sections of fat binaries share bytes from 0x{first:x} on")
        taken = last
        yield first, last, linked


def _members(data: bytes) -> Iterator[tuple[int, int]]:
    """Where the files of an archive begin and end."""
    at = len(_ARCHIVE)
    while len(data) - at >= _MEMBER.size:
        *_, digits, mark = _MEMBER.unpack_from(data, at)
        at += _MEMBER.size
        size = int(digits) if digits.strip().isdigit() else -1
        if mark != b"`\n" or not 0 <= size <= len(data) - at:
            raise CompileError(f"damaged archive: no member that fits at 0x{at - _MEMBER.size:x}")
        yield at, at + size
        at += size + size % 2
