"""Source lines of machine code: the DWARF line program of a cubin, run to a table.

Mental model: ``.debug_line`` is a little program whose rows say "from this code address on, this file
and line". One sequence covers one code section; a relocation names which. The format is DWARF's
(versions 2 to 4, section 6.2 of the standard), with an extended opcode of NVIDIA's that names the row from which the
code of the following ones was inlined (read off what nvcc and ptxas write, as ``nvdisasm -gi`` prints it). Code that
was inlined from a header of the toolkit, or of a language's own library, counts for the line that called it:
``cuda_fp16.h`` is nobody's kernel.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import lru_cache
from typing import TypeVar

from gpusim.isa.binary.elf import Elf

MAX_ROWS = 1_000_000
#: Characters of all file names with their folders: a name of a few bytes may name a folder of a megabyte.
MAX_NAME_CHARACTERS = 16 << 20
MAX_LINE = 1 << 31
INSTRUCTION_BYTES = 16
#: Extended opcode: the number of the calling row (from 1, 0 for none) and the place of the function's name in
#: .debug_str.
_INLINED_FROM = 0x90
#: Calls in each other that are followed, at most.
_MOST_CALLS = 64
#: Files that come with a compiler: NVIDIA's packages and toolkits (CUDA's headers, cooperative groups, libcu++, CUB),
#: Triton's own functions.
_LIBRARY = re.compile(
    r"(^|/)(nvidia/\w+/(bin/\.\./)?include|cuda[^/]*/([^/]+/)*include|triton/(language|experimental))/"
)
#: A byte of a file's name that is not ASCII, as PTX's ``.file`` writes it; ptxas leaves it as it is.
_ESCAPED_BYTE = re.compile(rb"\\([0-3][0-7]{2})")
#: An instruction word's opcode field.
_OPCODE_MASK = 0xFFF
#: Codes are compared where that is quick, carried over where they are alike, and there only in runs of some length.
_MOST_PAIRS, _LEAST_RATIO, _LEAST_RUN = 16_000_000, 0.6, 4

Line = TypeVar("Line")


@dataclass(frozen=True)
class LineRow:
    """From byte ``address`` of code section ``section`` on: ``line`` of file ``file``, inlined into row number
    ``caller`` (-1 for none)."""

    section: int
    address: int
    file: str
    line: int
    caller: int = -1


class _Reader:
    def __init__(self, data: bytes, at: int, end: int):
        self.data, self.at, self.end = data, at, end

    def byte(self) -> int:
        if self.at >= self.end:
            raise ValueError("line program ends early")
        self.at += 1
        return self.data[self.at - 1]

    def unsigned(self, size: int) -> int:
        value = int.from_bytes(self.data[self.at : self.at + size], "little")
        self.at += size
        if self.at > self.end:
            raise ValueError("line program ends early")
        return value

    def uleb(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80 or shift > 63:
                return value

    def sleb(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80 or shift > 63:
                return value - (1 << shift) if byte & 0x40 else value

    def string(self) -> bytes:
        stop = self.data.index(b"\0", self.at, self.end)
        text = self.data[self.at : stop]
        self.at = stop + 1
        return text


def _path(folder: bytes, name: bytes) -> str:
    """The path of file ``name`` in ``folder`` (empty: none). ptxas takes the last backslash of an escape for the end of
    a folder's name, as Windows has them: such a folder ends within a character."""
    if not folder or name.startswith(b"/"):
        return _unescaped(name).decode("utf-8", "replace")
    parted = _ESCAPED_BYTE.match(b"\\" + name) and b"\\" in folder
    if parted:
        try:
            _unescaped(folder).decode()
        except UnicodeDecodeError:
            return _unescaped(folder + b"\\" + name).decode("utf-8", "replace")
    return _unescaped(folder + b"/" + name).decode("utf-8", "replace")


def _unescaped(text: bytes) -> bytes:
    return _ESCAPED_BYTE.sub(lambda found: bytes((int(found[1], 8),)), text)


def carry_over(code: bytes, twin: bytes, lines: Mapping[int, Line]) -> dict[int, Line]:
    """Lines of ``code`` from those of ``twin`` (byte address -> line), the same kernel built with line information.

    Line information may move registers and instructions about. Where the two differ, runs of the same opcodes in
    the same order are taken for the same source; what lies between them gets no line, and two codes that are
    too unlike share none.
    """
    if code == twin:
        return dict(lines)
    own, other = _opcodes(code), _opcodes(twin)
    if len(own) * len(other) > _MOST_PAIRS:
        return {}
    matcher = SequenceMatcher(None, own, other, autojunk=False)
    if matcher.ratio() < _LEAST_RATIO:
        return {}
    carried = {}
    for block in matcher.get_matching_blocks():
        if block.size >= _LEAST_RUN:
            for i in range(block.size):
                line = lines.get((block.b + i) * INSTRUCTION_BYTES)
                if line is not None:
                    carried[(block.a + i) * INSTRUCTION_BYTES] = line
    return carried


def _opcodes(code: bytes) -> list[int]:
    """The opcode field of each instruction."""
    starts = range(0, len(code) - INSTRUCTION_BYTES + 1, INSTRUCTION_BYTES)
    return [int.from_bytes(code[at : at + 2], "little") & _OPCODE_MASK for at in starts]


def line_rows(elf: Elf) -> tuple[LineRow, ...]:
    """All rows of ``.debug_line`` in program order; empty when there is none or it cannot be read
    (lines are a convenience: a damaged table loses them and nothing else)."""
    section = elf.named(".debug_line")
    if section is None:
        return ()
    targets = {}
    for relocation in elf.relocations.get(section.index, ()):
        if relocation.symbol < len(elf.symbols):
            symbol = elf.symbols[relocation.symbol]
            targets[relocation.offset] = (symbol.section, symbol.value + relocation.addend)
    rows: list[LineRow] = []
    at = 0
    try:
        while at + 4 <= len(section.data):
            at = _unit(section.data, at, targets, rows)
    except (ValueError, IndexError, struct.error):
        return ()
    return tuple(_called(row, rows) for row in rows)


def _called(row: LineRow, rows: list[LineRow]) -> LineRow:
    """The row with the line outside of libraries that its code was inlined into, where there is one."""
    at = row
    for _ in range(_MOST_CALLS):
        if not _of_library(at.file):
            return replace(row, file=at.file, line=at.line)
        if not 0 <= at.caller < len(rows):
            return row
        at = rows[at.caller]
    return row


@lru_cache(maxsize=1024)
def _of_library(file: str) -> bool:
    return _LIBRARY.search(file) is not None


def _unit(data: bytes, at: int, targets: dict, rows: list[LineRow]) -> int:
    length = int.from_bytes(data[at : at + 4], "little")
    end = at + 4 + length
    if length == 0 or end > len(data):
        raise ValueError("bad unit length")
    reader = _Reader(data, at + 4, end)
    version = reader.unsigned(2)
    if not 2 <= version <= 4:
        return end
    header_end = reader.unsigned(4)
    header_end += reader.at
    minimum = reader.byte()
    if version >= 4:
        reader.byte()
    reader.byte()
    line_base = struct.unpack("b", bytes([reader.byte()]))[0]
    line_range, opcode_base = reader.byte(), reader.byte()
    lengths = [reader.byte() for _ in range(opcode_base - 1)]
    directories = [b""]
    while True:
        text = reader.string()
        if not text:
            break
        directories.append(text)
    files, characters = [""], 0
    while True:
        text = reader.string()
        if not text:
            break
        directory = reader.uleb()
        reader.uleb()
        reader.uleb()
        files.append(_path(directories[directory] if directory < len(directories) else b"", text))
        characters += len(files[-1])
        if characters > MAX_NAME_CHARACTERS:
            raise ValueError("too long file names")
    reader.at = header_end
    section, address, file, line, caller = -1, 0, 1, 1, -1
    first = len(rows)

    def emit() -> None:
        if len(rows) >= MAX_ROWS:
            raise ValueError("too many rows")
        if not 0 <= line < MAX_LINE:
            raise ValueError("a line that no file has")
        rows.append(LineRow(section, address, files[file] if 0 < file < len(files) else "", line, caller))

    while reader.at < end:
        opcode = reader.byte()
        if opcode >= opcode_base:
            step = opcode - opcode_base
            address += step // line_range * minimum
            line += line_base + step % line_range
            emit()
        elif opcode == 0:
            size = reader.uleb()
            stop = reader.at + size
            extended = reader.byte()
            if extended == 1:
                section, address, file, line, caller = -1, 0, 1, 1, -1
            elif extended == 2:
                section, address = targets.get(reader.at, (-1, reader.unsigned(8)))
            elif extended == _INLINED_FROM:
                number = reader.uleb()
                caller = first + number - 1 if 0 < number <= len(rows) - first else -1
            reader.at = stop
        elif opcode == 1:
            emit()
        elif opcode == 2:
            address += reader.uleb() * minimum
        elif opcode == 3:
            line += reader.sleb()
        elif opcode == 4:
            file = reader.uleb()
        elif opcode == 8:
            address += (255 - opcode_base) // line_range * minimum
        elif opcode == 9:
            address += reader.unsigned(2)
        else:
            for _ in range(lengths[opcode - 1]):
                reader.uleb()
    return end
