# tests/contributing/parity_opcode.py
from gpusim.isa.body import lanes_body
from gpusim.isa.form import Instruction, MicroOp, integer_source
from gpusim.isa.lowering import micro, plain, split
from gpusim.isa.opcode import NO_FLOPS, Opcode
from gpusim.trace.record import PipeClass


@lanes_body
def parity(f, x, y, z, w, lanes):
    """w = 1 where x has an odd number of ones."""
    for lane in range(lanes):
        bits = x[0, lane]
        for shift in (16, 8, 4, 2, 1):
            bits ^= bits >> shift
        w[0, lane] = bits & 1


def lower_parity(instruction: Instruction) -> MicroOp | None:
    """PARITY: one source, no modifiers, no predicates."""
    roles = split(instruction)
    if instruction.modifiers or roles is None or len(roles.sources) != 1 or not plain(roles.sources):
        return None
    return micro(parity, instruction, roles, (integer_source(roles.sources[0]),))


PARITY = Opcode(
    mnemonic="PARITY", twin=True, summary="whether the number of ones is odd", lowering=lower_parity, bodies=(parity,),
    pipe=PipeClass.ALU, coverage="bit count", flops=NO_FLOPS,
)  # fmt: skip
