"""Barrier objects (mbarriers) in shared memory: SYNCS, and ARRIVES of asynchronous copies.

Mental model: an mbarrier is a word of 64 bits; each instruction is an atomic on it (:mod:`gpusim.emulator.atomics`).
"""

from __future__ import annotations

from gpusim.isa import system_ops as ops
from gpusim.isa.form import Instruction, Kind, MicroOp, Operand, Source
from gpusim.isa.forms.memory import NO_REGISTER, REGISTERS, address_recipe, memory_operand
from gpusim.isa.opcode import NO_FLOPS, Opcode
from gpusim.trace.record import Flag, MemoryKind, PipeClass, Space

_BARRIER_FORMS = {
    ("EXCH", "64"): (ops.EXCH, 2),
    ("ARRIVE", "TRANS64", "A1T0"): (ops.ARRIVE, 1),
    ("ARRIVE", "TRANS64", "ART0"): (ops.ARRIVE, 1),
    ("ARRIVE", "TRANS64"): (ops.EXPECT_ARRIVE, 1),
    ("ARRIVE", "TRANS64", "OPTOUT", "A1T0"): (ops.DROP, 1),
    ("ARRIVE", "TRANS64", "OPTOUT", "ART0"): (ops.DROP, 1),
    ("ARRIVE", "TRANS64", "OPTOUT"): (ops.EXPECT_DROP, 1),
    ("ARRIVE", "TRANS64", "A0T1"): (ops.EXPECT, 1),
    ("ARRIVE", "TRANS64", "A0TR"): (ops.EXPECT, 1),
    ("ARRIVE", "TRANS64", "A0TX"): (ops.COMPLETE, 1),
    ("PHASECHK", "TRANS64"): (ops.PHASE, 1),
    ("PHASECHK", "TRANS64", "TRYWAIT"): (ops.PHASE, 1),
}
#: What the timing is told. Arrivals of one a lane (A1T0) are counted as ATOMS.POPC.INC counts: on an H100 a product in
#: bfloat16 whose 256 consumers each arrive twice a step takes 1.07 times as long as one where a thread of each warp
#: group does (docs/validation/external.md, wgmma_ladder_h100); by a pass a lane it took 1.38 times.
_TOLD = {
    ("PHASECHK", "TRANS64"): int(Flag.PHASE_LOOK),
    ("PHASECHK", "TRANS64", "TRYWAIT"): int(Flag.PHASE_LOOK | Flag.PHASE_WAIT),
    ("ARRIVE", "TRANS64", "A1T0"): int(Flag.COUNTS_LANES),
    ("ARRIVE", "TRANS64", "OPTOUT", "A1T0"): int(Flag.COUNTS_LANES),
}


def lower_shared_barrier(instruction: Instruction) -> MicroOp | None:
    """``SYNCS``: an mbarrier's word in shared memory (since Hopper). EXCH initialises it; ARRIVE counts one thread
    (A1) or as many as the register says (AR) and returns the state before, with OPTOUT for this and all later phases;
    T1 and TR expect one transaction or as many as the register says, TX says that so many are complete, neither of
    A and T (arrive.expect_tx) does both; PHASECHK asks whether the phase of a state (its high word) is over. With RED
    the mbarrier may be another block's of the cluster: the address is a shared::cluster one."""
    if instruction.modifiers in (("CCTL", "IV"), ("CCTL", "IVALL")):
        named = memory_operand(instruction)
        recipe = address_recipe(named[0], False) if named is not None else None
        return MicroOp(ops.NOP, extra={} if recipe is None else {"address": recipe})
    # RED: the address names a block of the cluster, and nothing is returned.
    modifiers, remote = tuple(m for m in instruction.modifiers if m != "RED"), "RED" in instruction.modifiers
    form, found = _BARRIER_FORMS.get(modifiers), memory_operand(instruction)
    if form is None or found is None:
        return None
    recipe, rest = address_recipe(found[0], False), found[1]
    if recipe is None or len(rest) != 2 or rest[1].kind not in REGISTERS or rest[1].modifiers:
        return None
    asks = form[0] == ops.PHASE
    if remote and (asks or form[0] == ops.EXCH):
        return None
    if rest[0].kind != (Kind.PREDICATE if asks else Kind.REGISTER) and rest[0].index != NO_REGISTER:
        return None
    source = Source(rest[1], words=form[1])
    if instruction.modifiers[-1] in ("A1T0", "A0T1"):
        if rest[1].index != NO_REGISTER:
            return None
        source = Source(Operand(Kind.IMMEDIATE, value=1), immediate=1)
    return MicroOp(
        ops.ATOMIC,
        sources=(source, None, None),
        destination=None if asks else rest[0],
        words=2,
        predicate_destinations=(rest[0],) if asks else (),
        flags=(form[0], ops.U64),
        memory_kind=MemoryKind.REDUCTION if remote else MemoryKind.ATOMIC,
        space=Space.CLUSTER if remote else Space.SHARED,
        access_bytes=8,
        trace_flags=_TOLD.get(instruction.modifiers, 0),
        extra={"address": recipe},
    )


#: What ``ARRIVES.LDGSTSBAR.64`` does to the mbarrier once the thread's copies are there.
_COPY_ARRIVALS = {
    ("LDGSTSBAR", "64"): ops.ARRIVE_AMPERE,
    ("LDGSTSBAR", "64", "ARVCNT"): ops.ARRIVE,
    ("LDGSTSBAR", "64", "TRANSCNT"): ops.COMPLETE,
}


def lower_copy_arrival(instruction: Instruction) -> MicroOp | None:
    """``ARRIVES.LDGSTSBAR.64[.ARVCNT|.TRANSCNT] [address]``: each thread arrives at an mbarrier (or completes a
    transaction) when its asynchronous copies are there, which they are already here (PTX cp.async.mbarrier.arrive)."""
    operation = _COPY_ARRIVALS.get(instruction.modifiers)
    if operation is None or len(instruction.operands) != 1:
        return None
    recipe = address_recipe(instruction.operands[0], False)
    if recipe is None:
        return None
    return MicroOp(
        ops.ATOMIC,
        sources=(Source(Operand(Kind.IMMEDIATE, value=1), immediate=1), None, None),
        words=2,
        flags=(operation, ops.U64, ops.SERVED_ALL),
        memory_kind=MemoryKind.REDUCTION,
        space=Space.SHARED,
        access_bytes=8,
        extra={"address": recipe},
    )


OPCODES = (
    Opcode(
        mnemonic="ARRIVES", summary="arrive at a barrier object when copies are there", lowering=lower_copy_arrival,
        bodies=(ops.ATOMIC,), pipe=PipeClass.LSU, coverage="async copy", flops=NO_FLOPS,
        space=Space.SHARED, bytes_moved=(8,),
    ),
    Opcode(
        mnemonic="SYNCS", summary="barrier object in shared memory", lowering=lower_shared_barrier,
        bodies=(ops.ATOMIC, ops.NOP), pipe=PipeClass.LSU, coverage="block barrier", flops=NO_FLOPS,
        space=Space.SHARED, bytes_moved=(8,),
    ),
)  # fmt: skip
