"""The moves of matrices: LDSM and STSM between shared memory and registers, MOVM within the warp."""

from __future__ import annotations

from gpusim.isa import system_ops
from gpusim.isa.bodies import tensor_integer
from gpusim.isa.form import Instruction, Kind, MicroOp
from gpusim.isa.forms.memory import address_recipe
from gpusim.isa.forms.tensor import fragment
from gpusim.isa.lowering import Modifiers
from gpusim.isa.opcode import NO_FLOPS, Opcode
from gpusim.trace.record import MemoryKind, PipeClass, Space


def lower_move(instruction: Instruction) -> MicroOp | None:
    """``MOVM.16.MT88 Rd, Ra``: the matrix transposed; ``MOVM.U4TO8.M832 Rd, Ra``: two registers of bytes."""
    forms = {("16", "MT88"): (tensor_integer.transpose_matrix, 1), ("U4TO8", "M832"): (tensor_integer.widen_matrix, 2)}
    found = forms.get(instruction.modifiers)
    if found is None or len(instruction.operands) != 2:
        return None
    destination, source = instruction.operands[0], fragment(instruction.operands[1], 1)
    if source is None or destination.kind != Kind.REGISTER or destination.modifiers:
        return None
    return MicroOp(
        found[0].number,
        sources=(source, None, None),
        destination=destination,
        words=found[1],
    )


_TRANSPOSED = {"M88": system_ops.MATRIX_PLAIN, "MT88": system_ops.MATRIX_TURNED}
#: Elements of a byte in the registers: bits that they have in memory (where 4 and 6 are packed and padded to 16 bytes).
_BYTE_ELEMENTS = {"8": 8, "U6x16P32TO8": 6, "U4x16P64TO8": 4}
_BYTE_FORMS = {"M816": system_ops.MATRIX_BYTES, "MT1616": system_ops.MATRIX_TURNED_BYTES}
_COUNTS = {"2": 2, "4": 4}


def _matrices(instruction: Instruction) -> tuple[int, int] | None:
    """(matrices, transposed) of ``.16.M88[.2|.4]``."""
    modifiers = Modifiers(instruction)
    transposed = modifiers.choose(_TRANSPOSED)
    count = modifiers.choose(_COUNTS, 1)
    if transposed is None or not modifiers.take("16") or modifiers.left or len(instruction.operands) != 2:
        return None
    return count, transposed


def _byte_matrices(instruction: Instruction) -> tuple[int, int, int] | None:
    """(matrices, form, bits of an element in memory) of ``.8.MT1616[.2]`` and ``.U4x16P64TO8.M816[.2|.4]`` (sm_100)."""
    modifiers = Modifiers(instruction)
    bits, form = modifiers.choose(_BYTE_ELEMENTS), modifiers.choose(_BYTE_FORMS)
    count = modifiers.choose(_COUNTS, 1)
    if bits is None or form is None or modifiers.left or len(instruction.operands) != 2:
        return None
    return (count, form, bits) if form == system_ops.MATRIX_BYTES or count < 4 else None


def lower_matrix_load(instruction: Instruction) -> MicroOp | None:
    """``LDSM.16.M88.4 Rd, [address]``: lane 8 i + r gives the address of row r of matrix i; transposed with
    ``.MT88``."""
    found = _matrices(instruction) or _byte_matrices(instruction)
    if found is None:
        return None
    destination, memory = instruction.operands
    recipe = address_recipe(memory, False)
    if recipe is None or destination.kind != Kind.REGISTER or destination.modifiers:
        return None
    return MicroOp(
        system_ops.MATRIX_LOAD,
        destination=destination,
        words=found[0] * (1 + (found[1] == system_ops.MATRIX_TURNED_BYTES)),
        flags=found,
        memory_kind=MemoryKind.MATRIX_LOAD,
        space=Space.SHARED,
        access_bytes=16,
        extra={"address": recipe},
    )


def lower_matrix_store(instruction: Instruction) -> MicroOp | None:
    """``STSM.16.M88.4 [address], Ra``: LDSM the other way; ``STSM.8.MT168.4``: 16 x 8 bytes, transposed."""
    found = _matrices(instruction)
    if instruction.modifiers[:2] == ("8", "MT168"):
        count = 1 if len(instruction.modifiers) == 2 else _COUNTS.get(instruction.modifiers[2], 0)
        found = (count, system_ops.MATRIX_TALL) if count and len(instruction.operands) == 2 else None
    if found is None:
        return None
    memory, values = instruction.operands
    recipe, source = address_recipe(memory, False), fragment(values, found[0])
    if recipe is None or source is None:
        return None
    return MicroOp(
        system_ops.MATRIX_STORE,
        sources=(source, None, None),
        flags=found,
        memory_kind=MemoryKind.STORE,
        space=Space.SHARED,
        access_bytes=16,
        extra={"address": recipe},
    )


OPCODES = (
    # Crosses lanes; no published measurement says through which unit.
    Opcode(
        mnemonic="MOVM", summary="move a matrix within the warp", lowering=lower_move,
        bodies=(tensor_integer.transpose_matrix, tensor_integer.widen_matrix),
        pipe=PipeClass.SHUFFLE, coverage="matrix move", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="LDSM", summary="load matrices from shared memory", lowering=lower_matrix_load,
        bodies=(system_ops.MATRIX_LOAD,),
        pipe=PipeClass.LSU, coverage="matrix move", flops=NO_FLOPS, space=Space.SHARED, bytes_moved=(16,),
    ),
    Opcode(
        mnemonic="STSM", summary="store matrices to shared memory", lowering=lower_matrix_store,
        bodies=(system_ops.MATRIX_STORE,),
        pipe=PipeClass.LSU, coverage="matrix move", flops=NO_FLOPS, space=Space.SHARED, bytes_moved=(16,),
    ),
)  # fmt: skip
