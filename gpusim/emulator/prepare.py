"""A kernel's binary made ready to be emulated: image, instructions, micro-ops, code matrix, program.

Mental model: everything that depends on the machine code and not on the launch, done once and kept with it.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any

from gpusim.emulator.clock_waits import mark_clock
from gpusim.emulator.encode import Encoded, encode
from gpusim.emulator.program import make_program
from gpusim.isa.architectures import nearest
from gpusim.isa.binary.cubin import KernelImage
from gpusim.isa.binary.decode import source_files
from gpusim.isa.binary.externals import refuse_unknown
from gpusim.isa.form import Instruction
from gpusim.isa.table import lower_all
from gpusim.launch.binary import KernelBinary
from gpusim.trace.record import Program

#: Where bank 0 would begin in memory, for code that takes the address of a parameter; below it lie bank 3 and
#: workspaces.
PARAMETERS_ADDRESS = 0x7E98_0000_0000


@dataclass(frozen=True, eq=False)
class Prepared:
    """A kernel ready for launches of any shape on GPUs of ``capability``. ``spare`` keeps what a launch can take over
    from an earlier one (:mod:`gpusim.emulator.state`)."""

    capability: tuple[int, int]
    image: KernelImage
    instructions: tuple[Instruction, ...]
    encoded: Encoded
    program: Program
    spare: dict[tuple, Any] = field(default_factory=dict)

    @property
    def points_at_parameters(self) -> bool:
        """Whether the code asks where in memory its parameters lie, as for a tensor map that is one of them."""
        pointer = nearest(self.capability).bank.parameters_pointer
        return any((bank, offset) == (0, pointer) for _, bank, offset in self.encoded.constants)


_prepared: weakref.WeakKeyDictionary[KernelBinary, Prepared] = weakref.WeakKeyDictionary()


def prepare(binary: KernelBinary) -> Prepared:
    """Decode, lower and encode ``binary``, once. Raises UnsupportedOpcodeError, and what decoding raises, before
    anything runs."""
    known = _prepared.get(binary)
    if known is None:
        image, instructions = binary.image, binary.decode()
        refuse_unknown(image, binary.name)
        files = source_files(image)
        micros = lower_all(instructions, binary.name, files)
        program = make_program(instructions, micros, files, image.externals)
        encoded = encode(image, instructions, micros)
        mark_clock(program, encoded.matrix, encoded.polls)
        known = _prepared[binary] = Prepared(binary.capability, image, instructions, encoded, program)
    return known
