"""What PTX text says of its kernels, and text for old architectures raised to one that today's assembler takes.

Mental model: a kernel stands behind ``.entry NAME(`` with one ``.param`` for each parameter, whose type machine code no
longer has. Source: NVIDIA, PTX ISA, "Kernel Function Parameters" and the ``.version`` and ``.target`` directives.
"""

from __future__ import annotations

import re

_ENTRY = re.compile(r"\.entry\s+([\w$%]+)\s*(?:\(([^)]*)\))?")
_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+(.*)$", re.S)
_BYTES = re.compile(r"\[(\d+)\]")
_TARGET = re.compile(r"^(\s*\.target\s+)sm_(\d{1,9})([af]?)(.*)$", re.M)
_VERSION = re.compile(r"^(\s*\.version\s+)(\d{1,9})\.(\d{1,9})", re.M)
#: The oldest that the assembler of CUDA 13 takes: sm_75, which PTX 6.3 brought.
OLDEST_TARGET, OLDEST_VERSION = 75, (6, 3)
#: The newest that the assembler of CUDA 12.9 takes, and the oldest architecture whose code today's disassembler can
#: read.
NEWEST_OLDER_VERSION, OLDER_TARGET = (8, 8), 70


def entries(text: str) -> dict[str, tuple[str, ...]]:
    """Kernel -> type of each parameter: "f32", "u64", "b8[24]" (a structure of 24 bytes)."""
    found = {}
    for name, parameters in _ENTRY.findall(re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)):
        kinds = []
        for parameter in filter(None, map(str.strip, parameters.split(",") if parameters else ())):
            match = _PARAMETER.match(parameter)
            size = _BYTES.search(parameter)
            kinds.append(f"{match[1]}[{size[1]}]" if match and size else match[1] if match else "")
        found[name] = tuple(kinds)
    return found


def raised(text: str) -> str:
    """``text`` with a target below sm_75 and a version below 6.3 raised to those, as a driver's own assembler would
    take it."""

    def newer_target(found: re.Match[str]) -> str:
        number = int(found[2])
        return found[0] if number >= OLDEST_TARGET else f"{found[1]}sm_{OLDEST_TARGET}{found[4]}"

    def newer_version(found: re.Match[str]) -> str:
        is_old = (int(found[2]), int(found[3])) < OLDEST_VERSION
        return f"{found[1]}{OLDEST_VERSION[0]}.{OLDEST_VERSION[1]}" if is_old else found[0]

    return _VERSION.sub(newer_version, _TARGET.sub(newer_target, text))


def lowered(text: str) -> str:
    """``text``, compiled for sm_75 or an older one, as the assembler of CUDA 12 takes it for sm_70: an instruction that
    came later is that one's to refuse."""

    def older_version(found: re.Match[str]) -> str:
        is_new = (int(found[2]), int(found[3])) > NEWEST_OLDER_VERSION
        return f"{found[1]}{NEWEST_OLDER_VERSION[0]}.{NEWEST_OLDER_VERSION[1]}" if is_new else found[0]

    def older_target(found: re.Match[str]) -> str:
        return f"{found[1]}sm_{OLDER_TARGET}{found[4]}" if int(found[2]) == OLDEST_TARGET else found[0]

    return _VERSION.sub(older_version, _TARGET.sub(older_target, text))
