"""A cubin takes memory and time in proportion to its bytes, whatever its headers claim.

Each file here is some kilobytes, or one or two megabytes, and asked for gigabytes or minutes.
"""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from gpusim.errors import CompileError
from gpusim.io.cache_folder import CACHE_VARIABLE
from gpusim.isa.binary import disassembler
from gpusim.isa.binary.cubin import kernels_of, load_kernel
from gpusim.isa.binary.cubin_tables import MAX_GLOBAL_BYTES
from gpusim.isa.binary.elf import parse_elf
from gpusim.isa.binary.lines import line_rows
from gpusim.isa.survey import survey_cubin

SMALL = (Path(__file__).parent / "seeds" / "small.cubin").read_bytes()
SECTION = struct.Struct("<IIQQQQIIQQ")
STRINGS, SYMBOLS, RELA, PROGRAM, NOBITS = 3, 2, 4, 1, 8


class Image:
    """The small cubin with sections changed and added; ``bytes()`` of it is a file with a new table of sections."""

    def __init__(self) -> None:
        self.body = bytearray(SMALL)
        self.sections = [list(row) for row in self._rows()]
        self.names = SMALL[self._names()[4] :][: self._names()[5]]

    def _rows(self) -> list[tuple[int, ...]]:
        table, count = struct.unpack_from("<Q", SMALL, 40)[0], struct.unpack_from("<H", SMALL, 60)[0]
        return [SECTION.unpack_from(SMALL, table + 64 * i) for i in range(count)]

    def _names(self) -> tuple[int, ...]:
        return self._rows()[struct.unpack_from("<H", SMALL, 62)[0]]

    def index(self, name: str) -> int:
        return next(section.index for section in parse_elf(SMALL).sections if section.name == name)

    def replace(self, index: int, data: bytes) -> None:
        """Other bytes for a section, behind all others."""
        self.sections[index][4:6] = len(self.body), len(data)
        self.body += data

    def add(self, name: bytes, kind: int, data: bytes = b"", size: int | None = None, **fields: int) -> int:
        """A section more; its index."""
        strings = bytes(self.names) + name + b"\0"
        row = [
            len(self.names),
            kind,
            0,
            0,
            0,
            0,
            fields.get("link", 0),
            fields.get("info", 0),
            fields.get("alignment", 1),
            0,
        ]
        self.sections.append(row)
        self.replace(len(self.sections) - 1, data)
        if size is not None:
            row[5] = size
        self.names = strings
        return len(self.sections) - 1

    def __bytes__(self) -> bytes:
        self.replace(struct.unpack_from("<H", SMALL, 62)[0], bytes(self.names))
        header = bytearray(self.body)
        struct.pack_into("<Q", header, 40, len(header))
        struct.pack_into("<H", header, 60, len(self.sections))
        return bytes(header) + b"".join(SECTION.pack(*row) for row in self.sections)


def taken(data: bytes, read: Callable[[bytes], object] = load_kernel) -> tuple[int, str]:
    """The most bytes that reading holds, and what it was refused with."""
    refusal = ""
    tracemalloc.start()
    try:
        read(data)
    except CompileError as error:
        refusal = str(error)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak, refusal


def test_a_thousand_headers_over_one_file_are_no_thousand_copies() -> None:
    image = Image()
    start = len(image.body)
    image.body += bytes(2 << 20)
    for i in range(1000):
        image.sections.append([0, PROGRAM, 0, 0, start + i % 2, (2 << 20) - 1, 0, 0, 1, 0])
    data = bytes(image)
    peak, refusal = taken(data)
    assert "share bytes" in refusal and peak < 2 * len(data)
    for row in image.sections[-1000:]:
        row[4] = start  # the very same bytes each time
    peak, refusal = taken(bytes(image))
    assert "its sections need" in refusal and peak < 2 * len(data)


def test_a_twin_of_the_same_bytes_is_held_once() -> None:
    """As Blackwell's cubins have them."""
    image = Image()
    start = len(image.body)
    image.body += bytes(1 << 20)
    image.sections += [[0, PROGRAM, 0, 0, start, 1 << 20, 0, 0, 1, 0] for _ in range(2)]
    peak, refusal = taken(bytes(image))
    assert not refusal and peak < 2 << 20
    first, second = parse_elf(bytes(image)).sections[-2:]
    assert first.data is second.data


def test_names_that_end_in_each_other_do_not_add_up() -> None:
    image = Image()
    first = len(image.names)
    image.names = bytes(image.names) + b"n" * (1 << 20) + b"\0"
    image.sections += [[first + i, PROGRAM, 0, 0, 0, 0, 0, 0, 1, 0] for i in range(2000)]
    peak, refusal = taken(bytes(image))
    assert "names are far longer than the file" in refusal and peak < 32 << 20


@pytest.mark.parametrize(
    ("size", "alignment", "times", "refusal"),
    [
        (1 << 31, 1, 3, f"{MAX_GLOBAL_BYTES} are allowed"),
        (1 << 30, 1, 2, f"{MAX_GLOBAL_BYTES} are allowed"),
        (16, 1 << 63, 2, f"{MAX_GLOBAL_BYTES} are allowed"),
        (1 << 26, 1, 1, ""),
    ],
)
def test_variables_without_bytes_take_none(size: int, alignment: int, times: int, refusal: str) -> None:
    image = Image()
    for _ in range(times):
        image.add(b".nv.global", NOBITS, size=size, alignment=alignment)
    peak, said = taken(bytes(image))
    assert peak < 16 << 20 and (refusal in said if refusal else not said)


def test_variables_behind_those_with_bytes_are_zero() -> None:
    plain, image = Image(), Image()
    image.add(b".nv.global.init", PROGRAM, b"\1\2\3\4")
    image.add(b".nv.global", NOBITS, size=60, alignment=4)
    kernel = load_kernel(bytes(image))
    assert kernel.global_data == b"\1\2\3\4" + bytes(60) and len(kernel.global_initial) == 4
    assert kernel.sha256 != load_kernel(bytes(plain)).sha256


def test_a_bank_of_constants_is_no_larger_than_constant_memory() -> None:
    image = Image()
    image.add(b".nv.constant3", NOBITS, size=1 << 31)
    peak, refusal = taken(bytes(image))
    assert "constant memory 65536" in refusal and peak < 16 << 20


def test_each_function_that_relocations_name_has_one_stub() -> None:
    """Looking each up among all of them took minutes for a file of two megabytes."""
    image, many = Image(), 3_000
    names = b"\0" + b"".join(b"f%05d\0" % i for i in range(many))
    symbols = bytearray(parse_elf(SMALL).sections[image.index(".symtab")].data)
    first = len(symbols) // 24
    symbols += b"".join(struct.pack("<IBBHQQ", 1 + 7 * i, 0x12, 0, 0, 0, 0) for i in range(many))
    relocations = b"".join(struct.pack("<QQq", 0, (first + i) << 32 | 0x3A, 0) for i in range(many))
    strings = image.add(b".names", STRINGS, names)
    image.replace(image.index(".symtab"), bytes(symbols))
    image.sections[image.index(".symtab")][6] = strings
    (kernel,) = kernels_of(parse_elf(SMALL))
    image.add(b".rela.x", RELA, relocations, link=image.index(".symtab"), info=image.index(f".text.{kernel}"))
    for i in range(first):  # those that the first symbols named are now behind other names
        symbols[24 * i : 24 * i + 4] = bytes(4)
    image.replace(image.index(".symtab"), bytes(symbols))
    stubs = load_kernel(bytes(image), kernel).externals
    assert list(stubs.values()) == [f"f{i:05d}" for i in range(many)] and min(stubs) + 16 * (many - 1) == max(stubs)


def test_a_long_folder_of_many_files_is_not_written_out_for_each() -> None:
    """A file of a line table is a few bytes that name a folder of any length."""
    folders = b"d" * (1 << 18) + b"\0\0"
    files = b"f\0\1\0\0" * 20_000 + b"\0"
    header = b"\1\1\xfb\x0e\x0d" + bytes(12) + folders + files
    unit = struct.pack("<HI", 2, len(header)) + header
    image = Image()
    image.add(b".debug_line", PROGRAM, struct.pack("<I", len(unit)) + unit)
    peak, refusal = taken(bytes(image), lambda data: line_rows(parse_elf(data)))
    assert not refusal and peak < 64 << 20


@pytest.mark.parametrize(
    ("attribute", "refusal"),
    [
        (b"\4\x4c\0\0", ""),  # a number of barriers without the number
        (b"\4\x2f\x08\0" + struct.pack("<II", 3, 70_000), "70000 registers"),
        (b"\4\x11\x08\0" + struct.pack("<II", 3, 1 << 31), f"{1 << 31} bytes of local memory"),
        (b"\4\x2f\xff\xff", "attribute outside"),
    ],
)
def test_attributes_say_what_a_thread_may_have(attribute: bytes, refusal: str) -> None:
    image, elf = Image(), parse_elf(SMALL)
    (kernel,) = kernels_of(elf)
    name = f".nv.info.{kernel}" if attribute[1] == 0x4C else ".nv.info"
    code = elf.named(f".text.{kernel}")
    assert code is not None
    symbol = next(symbol.index for symbol in elf.symbols if symbol.section == code.index)
    if len(attribute) > 4:
        attribute = attribute[:4] + struct.pack("<I", symbol) + attribute[8:]
    image.replace(image.index(name), elf.sections[image.index(name)].data + attribute)
    _, said = taken(bytes(image))
    assert refusal in said if refusal else not said


def test_a_function_beyond_its_section_is_refused() -> None:
    image, elf = Image(), parse_elf(SMALL)
    table = image.index(".symtab")
    symbols = bytearray(elf.sections[table].data)
    function = next(symbol.index for symbol in elf.symbols if symbol.kind == 2)
    struct.pack_into("<Q", symbols, 24 * function + 8, 1 << 62)
    image.replace(table, bytes(symbols))
    assert "leaves .text." in taken(bytes(image))[1]


def test_a_disassembler_that_comes_to_no_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """nvdisasm 13 goes round for ever in some cubins of which a few bytes were changed."""
    endless = tmp_path / "nvdisasm"
    endless.write_text("#!/bin/sh\nwhile :; do :; done\n")
    endless.chmod(0o755)
    monkeypatch.setattr(disassembler, "find_nvdisasm", lambda: str(endless))
    monkeypatch.setattr(disassembler, "LISTING_SECONDS", 1)
    monkeypatch.setenv(CACHE_VARIABLE, "")
    data = SMALL + bytes(1)  # not what another test has had listed
    with pytest.raises(CompileError, match="nvdisasm has come to no end of it within 1 s"):
        survey_cubin(data)
