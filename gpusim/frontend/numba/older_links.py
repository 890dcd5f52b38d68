"""What Numba would link, linked for an architecture that its own linker no longer knows.

Mental model: Numba hands its linker the PTX of the kernel and of the device functions that it calls, and the files that
``link=`` names; the same parts go to the linker of CUDA 12 (:mod:`gpusim.frontend.native.link`), which assembles them
for sm_70.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpusim.errors import CompileError
from gpusim.frontend.native import cpp
from gpusim.frontend.native.cpp_unit import CppUnit
from gpusim.frontend.native.link import KINDS, link

#: Kind of Numba's LinkableCode -> suffix of the files that hold such.
_SUFFIXES = {
    "ptx": ".ptx",
    "cubin": ".cubin",
    "fatbin": ".fatbin",
    "o": ".o",
    "a": ".a",
    "ltoir": ".ltoir",
    "cu": ".cu",
}


class _Parts:
    """Stands where Numba has its linker, and keeps what it is given: (suffix, name, content) each."""

    lto = False

    def __init__(self, compiled_for: str):
        self._compiled_for = compiled_for
        self.parts: list[tuple[str, str, bytes]] = []

    def add_ptx(self, text: bytes, name: str = "kernel.ptx") -> None:
        self.parts.append((".ptx", name, text))

    def add_file_guess_ext(self, part: Any, ignore_nonlto: bool = False) -> None:
        named = isinstance(part, str)
        suffix = Path(part).suffix if named else _SUFFIXES.get(getattr(part, "kind", ""), "")
        name = Path(part).name if named else part.name
        content = Path(part).read_bytes() if named else part.data
        content = content.encode() if isinstance(content, str) else bytes(content)
        if suffix == ".cu":
            unit = CppUnit(content.decode(errors="replace"), name)
            built = cpp.compile_cpp(unit, None, self._compiled_for, relocatable=True)
            suffix, content = ".ptx", built.ptx.encode()
        if suffix not in KINDS:
            raise CompileError(f"{name}: only {', '.join(KINDS)} and .cu can be linked")
        if name == "libcudadevrt.a":
            raise CompileError(
                "barriers over the grid are not to be had here: CUDA 13's device runtime has no code for sm_70"
            )
        self.parts.append((suffix, name, content))


def linked_for(target: str, name: str, library: Any, compiled_for: tuple[int, int, str]) -> bytes:
    """The cubin for ``target`` ("sm_70") of ``library``, Numba's code library of kernel ``name``, which is compiled for
    ``compiled_for``. Raises CompileError with the linker's first complaint, ToolchainError where that linker is
    missing."""
    given = _Parts("sm_{}{}".format(*compiled_for))
    library._link_all(given, compiled_for)
    most = library._max_registers
    return link(name, target, given.parts, (f"-maxrregcount={most}",) if most else ())
