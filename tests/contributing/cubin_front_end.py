# tests/contributing/cubin_front_end.py
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpusim.frontend.protocol import FrontEnd
from gpusim.launch.arrays import HostArrays
from gpusim.launch.binary import KernelBinary


@dataclass(frozen=True)
class CubinKernel:
    """A kernel that is a file: ``path`` of the cubin, the kernel's name ``entry`` in it."""

    path: Path
    entry: str
    capability: tuple[int, int] = (9, 0)


class CubinFrontEnd(FrontEnd):
    """Takes a :class:`CubinKernel`; arguments are the parameters' bytes, or arrays, whose address is passed."""

    name = "cubin-example"
    takes = "a CubinKernel"

    def __init__(self) -> None:
        self._binaries: dict[CubinKernel, KernelBinary] = {}

    def accepts(self, kernel: object) -> bool:
        return isinstance(kernel, CubinKernel)

    def compile(self, kernel: Any, args: tuple, capability: tuple[int, int], *, lines: bool = True) -> KernelBinary:
        if kernel not in self._binaries:
            code = kernel.path.read_bytes()
            self._binaries[kernel] = KernelBinary(code, kernel.entry, kernel.path.stem, kernel.capability)
        return self._binaries[kernel]

    def pack(self, kernel: Any, binary: KernelBinary, args: tuple, arrays: HostArrays) -> bytes:
        values = [
            value if isinstance(value, bytes) else arrays.map(value, f"argument {i}").to_bytes(8, "little")
            for i, value in enumerate(args)
        ]
        return binary.place_parameters(values)


FRONT_END = CubinFrontEnd()
