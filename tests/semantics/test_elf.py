"""Does the one reader of ELF see in a cubin what pyelftools sees, and where an image in memory ends?"""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from numba import cuda

from gpusim.errors import CompileError
from gpusim.frontend.numba.build import argument_types, build
from gpusim.isa.binary.elf import SECTION_NOBITS, Elf, image_size, parse_elf


@cuda.jit(lineinfo=True)
def power(values):
    i = cuda.grid(1)
    values[i] = values[i] ** 1.5 / (values[i] + 3.0)


@pytest.fixture(
    scope="module", params=[(8, 0), (9, 0), (12, 0)], ids=lambda capability: f"sm_{capability[0]}{capability[1]}"
)
def cubin(request):
    return build(power, argument_types(power, (np.ones(4),)), request.param).cubin


@pytest.fixture(scope="module")
def elf(cubin) -> Elf:
    return parse_elf(cubin)


def test_sections_are_those_of_pyelftools(cubin, elf):
    others = list(ELFFile(io.BytesIO(cubin)).iter_sections())
    assert [section.name for section in elf.sections] == [other.name for other in others]
    for section, other in zip(elf.sections, others, strict=True):
        assert (section.size, section.link, section.info) == (other["sh_size"], other["sh_link"], other["sh_info"])
        if section.kind not in (0, SECTION_NOBITS):
            assert section.data == other.data()


def test_symbols_and_relocations_are_those_of_pyelftools(cubin, elf):
    other = ELFFile(io.BytesIO(cubin))
    symbols = [(s.name, s["st_value"], s["st_size"]) for s in other.get_section_by_name(".symtab").iter_symbols()]
    assert [(symbol.name, symbol.value, symbol.size) for symbol in elf.symbols] == symbols
    found: dict[int, list[tuple]] = {}
    for section in other.iter_sections():
        if isinstance(section, RelocationSection):
            found.setdefault(section["sh_info"], []).extend(
                (r["r_offset"], r["r_info_type"], r["r_info_sym"], r.entry.get("r_addend", 0))
                for r in section.iter_relocations()
            )
    assert found and found == {
        place: [(r.offset, r.kind, r.symbol, r.addend) for r in relocations]
        for place, relocations in elf.relocations.items()
    }


def test_an_image_in_memory_ends_where_its_file_does(cubin):
    def read(offset: int, size: int) -> bytes:
        return (cubin + bytes(4096))[offset : offset + size]

    assert image_size(read, 1 << 30) == len(cubin)
    with pytest.raises(CompileError, match=f"claims to have {len(cubin)} bytes"):
        image_size(read, len(cubin))


def test_an_image_that_claims_too_much_is_not_read(cubin):
    reads = []

    def read(offset: int, size: int) -> bytes:
        reads.append(offset + size)
        return (cubin[:40] + struct.pack("<Q", 1 << 50) + cubin[48:])[offset : offset + size]

    with pytest.raises(CompileError, match="claims to have"):
        image_size(read, 1 << 30)
    assert max(reads) <= 64
