"""A compiled kernel, whatever language it was written in.

Mental model: a front end compiles (or is given) machine code and says in a :class:`KernelBinary` what a launch of it
must know beside the code itself. Nothing behind the front end knows more: the emulator, ``gpusim run`` and a
measurement take any binary alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from gpusim.errors import UsageError
from gpusim.isa.binary.cubin import KernelImage, load_kernel
from gpusim.isa.binary.decode import decode
from gpusim.isa.form import Instruction, Kind


@dataclass(frozen=True, eq=False)
class KernelBinary:
    """One kernel of a cubin. Two binaries are the same only if they are one object: what is made of one is kept by it.

    ``cubin``: an ELF file; ``entry_name``: the kernel's symbol in it; ``name``: what the user calls it. ``capability``:
    compute capability that it was compiled for. ``line_cubin``: the same code with line information where ``cubin`` has
    none, or empty. ``cooperative``: it is launched with all blocks resident. ``toolchain``: names and versions of the
    compilers, empty where unknown.

    Of a language that fixes parts of the launch when it compiles: ``block`` threads, ``grid`` blocks and blocks of a
    ``cluster`` (x, y, z), ``dynamic_shared_bytes`` that a launch adds to what it asks for, and ``constants``, the
    compile-time parameters by name, which a grid may be a function of. ``grid_of_clusters``: the grid of a launch
    counts clusters.
    """

    cubin: bytes = field(repr=False)
    entry_name: str
    name: str
    capability: tuple[int, int]
    line_cubin: bytes = field(default=b"", repr=False)
    cooperative: bool = False
    toolchain: str = ""
    block: tuple[int, int, int] | None = None
    dynamic_shared_bytes: int = 0
    constants: Mapping[str, Any] = field(default_factory=dict)
    grid: tuple[int, int, int] | None = None
    cluster: tuple[int, int, int] | None = None
    grid_of_clusters: bool = False

    @cached_property
    def image(self) -> KernelImage:
        """What a loader would put on the GPU. Raises CompileError for a damaged cubin or one without this kernel."""
        return load_kernel(self.cubin, self.entry_name, self.line_cubin)

    @cached_property
    def _instructions(self) -> tuple[Instruction, ...]:
        return decode(self.image, self.cubin)

    def decode(self) -> tuple[Instruction, ...]:
        """The kernel's instructions, supported or not. Raises CompileError, and ToolchainError without nvdisasm."""
        return self._instructions

    @cached_property
    def moves_stack(self) -> bool:
        """Whether a thread takes stack as it runs (``alloca``), which no table of the cubin says: the stack pointer,
        R1, is computed from another register."""
        return any(_moves_stack(instruction) for instruction in self.decode())

    def place_parameters(self, values: Sequence[bytes]) -> bytes:
        """The parameter bank that holds ``values``, each at the offset that the cubin gives it. Raises UsageError
        unless there is one for each parameter."""
        parameters = self.image.parameters
        if len(values) != len(parameters):
            raise UsageError(
                f"{self.name} takes {len(parameters)} flattened parameters, the arguments give {len(values)}"
            )
        bank = bytearray(self.image.parameter_bytes)
        for parameter, value in zip(parameters, values, strict=True):
            room = min(parameter.size, len(bank) - parameter.offset)
            bank[parameter.offset : parameter.offset + min(len(value), room)] = value[:room]
        return bytes(bank)


#: The stack pointer, and RZ.
_STACK_POINTER, _ZERO = 1, 255


def _moves_stack(instruction: Instruction) -> bool:
    """``IMAD.IADD R1, R1, 0x1, -R0``; a frame is made by ``IADD3 R1, R1, -0x40, RZ``, and restored by ``MOV R1, R20``,
    which alone is no sign of more."""
    if not instruction.operands or not instruction.mnemonic.startswith(_ADDERS):
        return False
    target, *sources = instruction.operands
    if target.kind != Kind.REGISTER or target.index != _STACK_POINTER:
        return False
    others = [o.index for o in sources if o.kind in (Kind.REGISTER, Kind.UNIFORM)]
    return _STACK_POINTER in others and any(index not in (_STACK_POINTER, _ZERO) for index in others)


_ADDERS = ("IADD", "IMAD", "VIADD", "LEA")
