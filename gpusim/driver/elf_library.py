"""An ELF shared library whose functions jump through a table of addresses, written without a compiler.

Mental model: whoever speaks to a GPU opens ``libcuda.so.1`` and calls C functions in it. The library made here has
those names; each function is one jump to the address in its slot of a table, which Python fills: at once where Python
opens the library, at the first call where another program does (:mod:`gpusim.driver.native_code`). It is a file that
linkers and loaders take as any other.

The layout follows the System V ABI (gABI chapters 4 and 5), its processor supplements for x86-64 and AArch64, and for
symbol versions the Linux Standard Base (chapter 10.7). Two segments: headers, symbols, texts and code (read, execute);
dynamic section, data and tables (read, write).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gpusim.driver.native_code import (
    DATA_BYTES,
    IMPORTS,
    MUTEX_KIND_OFFSET,
    MUTEX_RECURSIVE,
    OFFSETS,
    PYTHON,
    TEXTS,
    native_code,
)

TABLE, FORKED_TABLE, DATA = "gpusim_table", "gpusim_forked_table", "gpusim_data"
CLOSED, FORKED = "gpusim_closed", "gpusim_forked"
EM = {"x86_64": 62, "aarch64": 183}
_STUB_BYTES, _NUMBER_BYTES = 16, 32
_SEGMENT_ALIGNMENT = 0x10000
_HEADER_BYTES, _PROGRAM_HEADER_BYTES, _SECTION_HEADER_BYTES, _SYMBOL_BYTES = 64, 56, 64, 24
_PT_LOAD, _PT_DYNAMIC, _PT_GNU_STACK = 1, 2, 0x6474E551
_READ_EXECUTE, _READ_WRITE = 5, 6
_GLOBAL_FUNCTION, _GLOBAL_OBJECT, _GLOBAL_UNKNOWN = 0x12, 0x11, 0x10
_NEEDED, _HASH, _STRTAB, _SYMTAB, _RELA, _RELASZ, _RELAENT, _STRSZ, _SYMENT, _SONAME = 1, 4, 5, 6, 7, 8, 9, 10, 11, 14
_VERSYM, _VERDEF, _VERDEFNUM = 0x6FFFFFF0, 0x6FFFFFFC, 0x6FFFFFFD
_LIBRARIES = ("libc.so.6", "libdl.so.2", "libpthread.so.0")
#: (R_*_RELATIVE, R_*_GLOB_DAT)
_RELOCATIONS = {"x86_64": (8, 6), "aarch64": (1027, 1025)}
_SHT_PROGBITS, _SHT_STRTAB, _SHT_HASH, _SHT_DYNAMIC, _SHT_DYNSYM = 1, 3, 5, 6, 11
_SHT_VERDEF, _SHT_VERSYM = 0x6FFFFFFD, 0x6FFFFFFF


@dataclass(frozen=True)
class Start:
    """How a library starts Python in a program: the file of Python's ``library``, the ``program_name`` by which that
    finds its modules, and a line of Python that fills the table."""

    library: str
    program_name: str
    code: str


@dataclass
class _Part:
    """A range of the file: what stands there, under the name of its section."""

    section: str
    data: bytearray
    alignment: int = 8
    at: int = 0


@dataclass
class _Symbols:
    """Dynamic symbols and their strings; the first is empty."""

    strings: bytearray = field(default_factory=lambda: bytearray(1))
    names: list[str] = field(default_factory=list)

    def text(self, text: str) -> int:
        """Offset of ``text`` among the strings."""
        at = len(self.strings)
        self.strings += text.encode() + b"\0"
        return at


def library_bytes(
    soname: str,
    names: Sequence[str],
    machine: str,
    start: Start,
    version: str = "",
    texts: Mapping[str, str] | None = None,
    numbers: Mapping[str, int] | None = None,
    code: Mapping[str, bytes] | None = None,
) -> bytes:
    """The file: functions ``names``, under symbol version ``version`` if there is one, then CLOSED and FORKED; tables
    TABLE and FORKED_TABLE with a slot of 8 bytes for each of ``names``, and DATA. ``texts``: functions that return this
    text in a forked process; all others return NOT_INITIALIZED there. ``numbers``: functions that write this number, an
    int, through their first argument, in a forked process too, and do not start Python for it. ``code``: as native_code
    gives it for ``machine``."""
    native = native_code(machine) if code is None else code
    relative, global_data = _RELOCATIONS[machine]
    symbols = _Symbols()
    offsets = {name: symbols.text(name) for name in (soname, *_LIBRARIES)}
    own = [*names, CLOSED, FORKED, TABLE, FORKED_TABLE, DATA]
    symbols.names = [*IMPORTS, *own]
    name_offsets = [symbols.text(name) for name in symbols.names]
    version_offset = symbols.text(version) if version else 0

    given, constant = dict(texts or {}), dict(numbers or {})
    read_only, text_at = bytearray(), {}
    written = {
        "library": start.library.encode() + b"\0",
        "program_name": start.program_name.encode("utf-32-le") + bytes(4),
        "code": start.code.encode() + b"\0",
        "failure": f"gpusim: Python's library {start.library} cannot be opened: ".encode() + b"\0",
        "newline": b"\n\0",
        **{f"name_{name}": name.encode() + b"\0" for name in PYTHON},
        **{f"forked {name}": text.encode() + b"\0" for name, text in given.items()},
    }
    for name, content in written.items():
        read_only += bytes(-len(read_only) % 8)
        text_at[name] = len(read_only)
        read_only += content

    count = len(names)
    relocations = len(IMPORTS) + len(TEXTS) + len(PYTHON) + 4 + 2 * count
    stub, point, answer_text, answer_number = _CODE[machine]
    functions = _Part(".text", bytearray(), _STUB_BYTES)
    dynsym = _Part(".dynsym", bytearray(_SYMBOL_BYTES * (len(symbols.names) + 1)))
    rela = _Part(".rela.dyn", bytearray(24 * relocations))
    dynamic = _Part(".dynamic", bytearray())
    versym, verdef = _Part(".gnu.version", bytearray()), _Part(".gnu.version_d", bytearray())
    if version:
        versym.data += struct.pack(f"<{1 + len(symbols.names)}H", 0, *(1,) * len(IMPORTS), *(2,) * count, *(1,) * 5)
        for index, name, last in ((1, offsets[soname], 0), (2, version_offset, 1)):
            hashed = _hash(soname if index == 1 else version)
            verdef.data += struct.pack("<HHHHIII", 1, index & 1, index, 1, hashed, 20, 0 if last else 28)
            verdef.data += struct.pack("<II", name, 0)

    code_bytes = _STUB_BYTES * count
    code_at = {}
    for name in ("first", "forked", "start", "not_initialized", "closed"):
        code_bytes = _up(code_bytes, _STUB_BYTES)
        code_at[name] = code_bytes
        code_bytes += len(native[name]) + (_STUB_BYTES if name in ("first", "forked") else 0)
    answers_at = _up(code_bytes, _STUB_BYTES)
    numbers_at = answers_at + _STUB_BYTES * len(given)
    code_bytes = numbers_at + _NUMBER_BYTES * len(constant)
    functions.data = bytearray(code_bytes)

    fixed = [
        _Part(".hash", bytearray(_hash_table(symbols.names))),
        dynsym,
        _Part(".dynstr", symbols.strings, 1),
        *((versym, verdef) if version else ()),
        rela,
        _Part(".rodata", read_only),
        functions,
    ]
    changing = [
        dynamic,
        _Part(".data", bytearray(DATA_BYTES), 64),
        _Part(".table", bytearray(8 * count), 64),
        _Part(".forked", bytearray(8 * count), 64),
    ]
    parts = {part.section: part for part in (*fixed, *changing)}
    entries = 2 * (13 + len(_LIBRARIES) + 3)
    dynamic.data = bytearray(8 * entries)
    at = _HEADER_BYTES + 4 * _PROGRAM_HEADER_BYTES
    for part in fixed:
        part.at = at = _up(at, part.alignment)
        at += len(part.data)
    fixed_end, at = at, _up(at, _SEGMENT_ALIGNMENT)
    for part in changing:
        part.at = at = _up(at, part.alignment)
        at += len(part.data)
    end = at
    sections = _sections(parts, version)
    number = {name: i for i, (name, *_rest) in enumerate(sections)}

    # Code.
    text, data, table = functions.at, parts[".data"].at, parts[".table"].at
    for i in range(count):
        _place(functions.data, _STUB_BYTES * i, stub(text + _STUB_BYTES * i, table + 8 * i))
    for name, offset in code_at.items():
        body = native[name]
        if name in ("first", "forked"):
            body = point(text + offset, data) + body
        _place(functions.data, offset, body)
    for i, name in enumerate(given):
        place = answers_at + _STUB_BYTES * i
        _place(functions.data, place, answer_text(text + place, parts[".rodata"].at + text_at[f"forked {name}"]))

    for i, value in enumerate(constant.values()):
        _place(functions.data, numbers_at + _NUMBER_BYTES * i, answer_number(value))

    # What the loader is to fill in: addresses of C functions, and of what lies in the library.
    rows, words = [], {"table": table, "forked_table": parts[".forked"].at}
    words |= {"start": text + code_at["start"], "first_address": text + code_at["first"]}
    words |= {name: parts[".rodata"].at + text_at[name] for name in (*TEXTS, *(f"name_{name}" for name in PYTHON))}
    for i, name in enumerate(IMPORTS, 1):
        rows.append((data + OFFSETS[name], i << 32 | global_data, 0))
    rows += [(data + OFFSETS[name], relative, value) for name, value in words.items()]
    told = {name: text + numbers_at + _NUMBER_BYTES * i for i, name in enumerate(constant)}
    first = text + code_at["first"]
    rows += [(table + 8 * i, relative, told.get(name, first)) for i, name in enumerate(names)]
    answers = told | {name: text + answers_at + _STUB_BYTES * i for i, name in enumerate(given)}
    refusal = text + code_at["not_initialized"]
    rows += [(parts[".forked"].at + 8 * i, relative, answers.get(name, refusal)) for i, name in enumerate(names)]
    rela.data[:] = b"".join(struct.pack("<QQq", *row) for row in rows)
    struct.pack_into("<Q", parts[".data"].data, OFFSETS["table_bytes"], 8 * count)
    struct.pack_into("<I", parts[".data"].data, MUTEX_KIND_OFFSET, MUTEX_RECURSIVE)

    # Symbols.
    places = {
        **{name: (text + _STUB_BYTES * i, _STUB_BYTES, ".text", _GLOBAL_FUNCTION) for i, name in enumerate(names)},
        CLOSED: (text + code_at["closed"], _STUB_BYTES, ".text", _GLOBAL_FUNCTION),
        FORKED: (text + code_at["forked"], _STUB_BYTES, ".text", _GLOBAL_FUNCTION),
        TABLE: (table, 8 * count, ".table", _GLOBAL_OBJECT),
        FORKED_TABLE: (parts[".forked"].at, 8 * count, ".forked", _GLOBAL_OBJECT),
        DATA: (data, DATA_BYTES, ".data", _GLOBAL_OBJECT),
    }
    for i, (name, offset) in enumerate(zip(symbols.names, name_offsets, strict=True), 1):
        value, size, section, kind = places.get(name, (0, 0, "", _GLOBAL_UNKNOWN))
        struct.pack_into(
            "<IBBHQQ", dynsym.data, _SYMBOL_BYTES * i, offset, kind, 0, number.get(section, 0), value, size
        )
    pairs = [
        *((_NEEDED, offsets[name]) for name in _LIBRARIES),
        *((_SONAME, offsets[soname]), (_HASH, parts[".hash"].at), (_STRTAB, parts[".dynstr"].at)),
        *((_SYMTAB, dynsym.at), (_STRSZ, len(symbols.strings)), (_SYMENT, _SYMBOL_BYTES)),
        *((_RELA, rela.at), (_RELASZ, len(rela.data)), (_RELAENT, 24)),
        *(((_VERSYM, versym.at), (_VERDEF, verdef.at), (_VERDEFNUM, 2)) if version else ()),
    ]
    _place(dynamic.data, 0, b"".join(struct.pack("<QQ", *pair) for pair in pairs))

    segments = (
        (_PT_LOAD, _READ_EXECUTE, 0, fixed_end, _SEGMENT_ALIGNMENT),
        (_PT_LOAD, _READ_WRITE, dynamic.at, end, _SEGMENT_ALIGNMENT),
        (_PT_DYNAMIC, _READ_WRITE, dynamic.at, dynamic.at + len(dynamic.data), 8),
        (_PT_GNU_STACK, _READ_WRITE, 0, 0, 16),
    )
    return _file(machine, end, (*fixed, *changing), segments, sections)


def _file(machine: str, end: int, parts: Sequence[_Part], segments: Sequence[tuple], sections: list[tuple]) -> bytes:
    """Headers and parts at their places; behind them the section headers, which linkers read and loaders do not."""
    names = bytearray(1)
    headers = bytearray(_SECTION_HEADER_BYTES)
    names_at = _up(end, 8)
    name_bytes = sum(len(name) + 1 for name, *_rest in sections)
    sections = [*sections[:-1], (sections[-1][0], _SHT_STRTAB, 0, names_at, name_bytes + 1, 0, 0, 1, 0)]
    for name, kind, flags, at, size, link, info, alignment, entry in sections[1:]:
        address = 0 if kind == _SHT_STRTAB and not flags else at
        headers += struct.pack("<IIQQQQIIQQ", len(names), kind, flags, address, at, size, link, info, alignment, entry)
        names += name.encode() + b"\0"
    headers_at = _up(names_at + len(names), 8)
    identification = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    header = identification + struct.pack(
        "<HHIQQQIHHHHHH",
        *(3, EM[machine], 1, 0, _HEADER_BYTES, headers_at, 0, _HEADER_BYTES, _PROGRAM_HEADER_BYTES, len(segments)),
        *(_SECTION_HEADER_BYTES, len(sections), len(sections) - 1),
    )
    file = bytearray(headers_at + len(headers))
    _place(file, 0, header)
    for i, (kind, flags, start, stop, alignment) in enumerate(segments):
        row = (kind, flags, start, start, start, stop - start, stop - start, alignment)
        struct.pack_into("<IIQQQQQQ", file, _HEADER_BYTES + _PROGRAM_HEADER_BYTES * i, *row)
    for part in parts:
        _place(file, part.at, part.data)
    _place(file, names_at, names)
    _place(file, headers_at, headers)
    return bytes(file)


def _sections(parts: dict[str, _Part], version: str) -> list[tuple]:
    """(name, type, flags, offset, bytes, link, info, alignment, bytes an entry) of each section."""
    kinds = {
        ".hash": (_SHT_HASH, 2, 4), ".dynsym": (_SHT_DYNSYM, 2, _SYMBOL_BYTES), ".dynstr": (_SHT_STRTAB, 2, 0),
        ".gnu.version": (_SHT_VERSYM, 2, 2), ".gnu.version_d": (_SHT_VERDEF, 2, 0), ".rela.dyn": (4, 2, 24),
        ".rodata": (_SHT_PROGBITS, 2, 0), ".text": (_SHT_PROGBITS, 6, 0), ".dynamic": (_SHT_DYNAMIC, 3, 16),
    }  # fmt: skip
    order = ["", *(name for name in parts if version or not name.startswith(".gnu")), ".shstrtab"]
    links = {".hash": ".dynsym", ".dynsym": ".dynstr", ".gnu.version": ".dynsym", ".gnu.version_d": ".dynstr"}
    links |= {".rela.dyn": ".dynsym", ".dynamic": ".dynstr"}
    rows: list[tuple] = [("", 0, 0, 0, 0, 0, 0, 0, 0)]
    for name in order[1:-1]:
        kind, flags, entry = kinds.get(name, (_SHT_PROGBITS, 3, 0))
        part, link = parts[name], links.get(name)
        info = {".dynsym": 1, ".gnu.version_d": 2}.get(name, 0)
        row = (
            name,
            kind,
            flags,
            part.at,
            len(part.data),
            order.index(link) if link else 0,
            info,
            part.alignment,
            entry,
        )
        rows.append(row)
    return [*rows, (".shstrtab", _SHT_STRTAB, 0, 0, 0, 0, 0, 1, 0)]


def _place(target: bytearray, at: int, data: bytes | bytearray) -> None:
    target[at : at + len(data)] = data


def _up(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment


def _hash(name: str) -> int:
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF000_0000
        value = (value ^ (high >> 24)) & ~high
    return value


def _hash_table(symbols: Sequence[str]) -> bytes:
    """The gABI hash table; entry 0 of the symbol table is empty."""
    buckets = [0] * max(1, len(symbols))
    chain = [0] * (len(symbols) + 1)
    for index, name in enumerate(symbols, 1):
        bucket = _hash(name) % len(buckets)
        chain[index], buckets[bucket] = buckets[bucket], index
    return struct.pack(f"<{2 + len(buckets) + len(chain)}I", len(buckets), len(chain), *buckets, *chain)


def _x86_64_stub(place: int, slot: int) -> bytes:
    """endbr64; lea slot(%rip), %r11; jmp *(%r11)"""
    return b"\xf3\x0f\x1e\xfa\x4c\x8d\x1d" + struct.pack("<i", slot - (place + 11)) + b"\x41\xff\x23"


def _x86_64_point(place: int, data: int) -> bytes:
    """lea data(%rip), %r10"""
    return b"\x4c\x8d\x15" + struct.pack("<i", data - (place + 7))


def _x86_64_text(place: int, text: int) -> bytes:
    """lea text(%rip), %rax; ret"""
    return b"\x48\x8d\x05" + struct.pack("<i", text - (place + 7)) + b"\xc3"


def _x86_64_number(number: int) -> bytes:
    """mov $1, %eax; test %rdi, %rdi; je end; movl $number, (%rdi); xor %eax, %eax; end: ret"""
    return b"\xb8\x01\0\0\0\x48\x85\xff\x74\x08\xc7\x07" + struct.pack("<i", number) + b"\x31\xc0\xc3"


def _address(register: int, place: int, target: int) -> bytes:
    """adrp register, target; add register, register, #lo12(target)"""
    pages = (target >> 12) - (place >> 12)
    adrp = 0x9000_0000 | register | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5
    return struct.pack("<2I", adrp, 0x9100_0000 | register | register << 5 | (target & 0xFFF) << 10)


def _aarch64_stub(place: int, slot: int) -> bytes:
    """x16 = slot; ldr x17, [x16]; br x17"""
    return _address(16, place, slot) + struct.pack("<2I", 0xF940_0211, 0xD61F_0220)


def _aarch64_point(place: int, data: int) -> bytes:
    """x17 = data"""
    return _address(17, place, data)


def _aarch64_text(place: int, text: int) -> bytes:
    """x0 = text; ret"""
    return _address(0, place, text) + struct.pack("<I", 0xD65F_03C0)


def _aarch64_number(number: int) -> bytes:
    """w1 = number; cbz x0, null; str w1, [x0]; w0 = 0; ret; null: w0 = 1; ret"""
    load = (0x5280_0001 | (number & 0xFFFF) << 5, 0x72A0_0001 | (number >> 16 & 0xFFFF) << 5)
    return struct.pack("<8I", *load, 0xB400_0080, 0xB900_0001, 0x5280_0000, 0xD65F_03C0, 0x5280_0020, 0xD65F_03C0)


_Writer = Callable[[int, int], bytes]
_CODE: dict[str, tuple[_Writer, _Writer, _Writer, Callable[[int], bytes]]] = {
    "x86_64": (_x86_64_stub, _x86_64_point, _x86_64_text, _x86_64_number),
    "aarch64": (_aarch64_stub, _aarch64_point, _aarch64_text, _aarch64_number),
}
