"""For which architectures the compiler made a cubin.

Mental model: a cubin is machine code for one architecture, made from PTX for the same or an older one. Programs ask for
both (``cudaFuncAttributes.binaryVersion`` and ``ptxVersion``): CUB launches by the second what it has compiled for that
architecture.
"""

from __future__ import annotations

import struct

from gpusim.isa.binary.elf import Elf

#: Section and kind of the note in which ptxas and nvJitLink say what they made; seen in the cubins of CUDA 13.
_SECTION, _KIND = ".note.nv.cuinfo", 1000
#: Bytes of the owner's name, of what is noted, kind; and of what is noted: version of its form, architecture of the
#: PTX.
_HEADER, _NOTED = struct.Struct("<III"), struct.Struct("<HH")


def made_for(elf: Elf) -> tuple[int, int]:
    """Architectures (e.g. 80, 90) of the PTX and of the machine code; the first is the second's where the cubin has no
    such note."""
    section = elf.named(_SECTION)
    data = section.data if section else b""
    if len(data) >= _HEADER.size:
        name_bytes, noted_bytes, kind = _HEADER.unpack_from(data)
        start = _HEADER.size + -(-name_bytes // 4) * 4
        if kind == _KIND and noted_bytes >= _NOTED.size and start + _NOTED.size <= len(data):
            return _NOTED.unpack_from(data, start)[1] or elf.architecture, elf.architecture
    return elf.architecture, elf.architecture
