"""A built kernel made ready to be emulated: image, instructions, micro-ops, code matrix, program.

Mental model: everything that depends on the cubin and not on the launch, done once and kept with it.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any

from gpusim.emulator.encode import Encoded, encode
from gpusim.emulator.program import make_program
from gpusim.frontend.numba.build import BuiltKernel, argument_types, build, check_kernel
from gpusim.isa.binary.cubin import KernelImage, load_kernel
from gpusim.isa.binary.decode import decode, source_files
from gpusim.isa.binary.externals import refuse_unknown
from gpusim.isa.form import Instruction
from gpusim.isa.table import lower_all
from gpusim.trace.record import Program


@dataclass(frozen=True, eq=False)
class Prepared:
    """A kernel ready for launches of any shape. ``spare`` keeps what a launch can take over from an earlier one
    (:mod:`gpusim.emulator.state`)."""

    built: BuiltKernel
    image: KernelImage
    instructions: tuple[Instruction, ...]
    encoded: Encoded
    program: Program
    spare: dict[tuple, Any] = field(default_factory=dict)


_prepared: weakref.WeakKeyDictionary[BuiltKernel, Prepared] = weakref.WeakKeyDictionary()


def disassemble(
    kernel: Any, args: tuple, capability: tuple[int, int], lines: bool = True
) -> tuple[BuiltKernel, KernelImage, tuple[Instruction, ...]]:
    """Build ``kernel`` for ``args`` and decode it, without asking whether each instruction is supported;
    without ``lines`` in half the time."""
    return disassemble_types(kernel, argument_types(check_kernel(kernel), args), capability, lines)


def disassemble_types(
    kernel: Any, types: tuple, capability: tuple[int, int], lines: bool = True
) -> tuple[BuiltKernel, KernelImage, tuple[Instruction, ...]]:
    """As :func:`disassemble`, for arguments of the Numba types ``types``."""
    built = build(check_kernel(kernel), types, capability, lines)
    image = load_kernel(built.cubin, built.entry_name, built.line_cubin)
    return built, image, decode(image, built.cubin)


def prepare(kernel: Any, args: tuple, capability: tuple[int, int]) -> Prepared:
    """Build, decode, lower and encode; raises UnsupportedOpcodeError before anything runs."""
    dispatcher = check_kernel(kernel)
    built = build(dispatcher, argument_types(dispatcher, args), capability)
    known = _prepared.get(built)
    if known is None:
        known = _prepared[built] = prepare_built(built)
    return known


def prepare_built(built: BuiltKernel) -> Prepared:
    """Decode, lower and encode a kernel that is machine code already; raises UnsupportedOpcodeError."""
    image = load_kernel(built.cubin, built.entry_name, built.line_cubin)
    instructions = decode(image, built.cubin)
    refuse_unknown(image, built.name)
    micros = lower_all(instructions, built.name, source_files(image))
    encoded = encode(image, instructions, micros)
    program = make_program(instructions, micros, source_files(image), image.externals)
    return Prepared(built, image, instructions, encoded, program)
