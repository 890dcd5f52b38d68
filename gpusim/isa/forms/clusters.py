"""Thread-block clusters: their barrier, asynchronous stores to other blocks' shared memory, and registers that warps
hand over.

Mental model: UCGABAR is PTX barrier.cluster; STAS and REDAS are st.async and red.async: one register pair holds the
shared::cluster addresses of the data and of the mbarrier that is told. USETMAXREG is setmaxnreg, UGETNEXTWORKID
clusterlaunchcontrol.
"""

from __future__ import annotations

from gpusim.isa import system_ops as ops
from gpusim.isa.form import Instruction, Kind, MicroOp, Source
from gpusim.isa.forms.memory import NO_REGISTER
from gpusim.isa.opcode import NO_FLOPS, OTHER, Opcode
from gpusim.trace.record import Flag, MemoryKind, PipeClass, Space

#: Registers a thread may have, and in units of how many: PTX ISA, setmaxnreg.
_MOST_REGISTERS, _REGISTER_UNIT = 256, 8
_STORE_BYTES = {(): 4, ("64",): 8, ("128",): 16}
_REDUCTIONS = {
    ("ADD",): (ops.ADD, ops.U32), ("ADD", "S32"): (ops.ADD, ops.S32), ("ADD", "64"): (ops.ADD, ops.U64),
    ("INC",): (ops.INC, ops.U32), ("DEC",): (ops.DEC, ops.U32), ("AND",): (ops.AND, ops.U32), ("OR",): (ops.OR, ops.U32),
    ("XOR",): (ops.XOR, ops.U32), ("MIN",): (ops.MIN, ops.U32), ("MAX",): (ops.MAX, ops.U32),
    ("MIN", "S32"): (ops.MIN, ops.S32), ("MAX", "S32"): (ops.MAX, ops.S32),
}  # fmt: skip


def lower_cluster_barrier(instruction: Instruction) -> MicroOp | None:
    """``UCGABAR_ARV`` and ``UCGABAR_WAIT``: PTX barrier.cluster.arrive and .wait, whatever their memory order (the
    emulator's memory is always in order)."""
    if instruction.modifiers or instruction.operands:
        return None
    waits = instruction.mnemonic == "UCGABAR_WAIT"
    flag = Flag.CLUSTER_WAIT if waits else Flag.CLUSTER_ARRIVE
    return MicroOp(ops.CLUSTER_AWAIT if waits else ops.CLUSTER_ARRIVE, trace_flags=int(flag))


def lower_async_store(instruction: Instruction) -> MicroOp | None:
    """``STAS[.64|.128] [R16.64], R8`` and ``REDAS.op [R16.64], R8``: R16 is the address of the data, R17 that of the
    mbarrier, whose transactions it completes by as many bytes."""
    stores = instruction.mnemonic == "STAS"
    operation, kind = ops.STORED, ops.U32
    if stores:
        size = _STORE_BYTES.get(instruction.modifiers, 0)
    else:
        operation, kind = _REDUCTIONS.get(instruction.modifiers, (ops.STORED, ops.U32))
        size = 0 if operation == ops.STORED else 8 if kind == ops.U64 else 4
    if not size or len(instruction.operands) != 2:
        return None
    place, value = instruction.operands
    if place.kind != Kind.MEMORY or place.modifiers != ("64",) or place.uniform_index != NO_REGISTER or place.value:
        return None
    if place.index == NO_REGISTER or value.kind != Kind.REGISTER or value.modifiers:
        return None
    data = {
        "base": place.index, "base_words": 1, "base_signed": False, "shift": 0, "uniform": NO_REGISTER, "uniform_words": 1,
        "offset": 0,
    }  # fmt: skip
    return MicroOp(
        ops.ASYNC_STORE,
        sources=(Source(value, words=size // 4), None, None),
        flags=(size, operation, kind),
        memory_kind=MemoryKind.STORE if stores else MemoryKind.REDUCTION,
        space=Space.CLUSTER,
        access_bytes=size,
        extra={"address": {**data, "base": place.index + 1}, "shared_address": data},
    )


def lower_next_work(instruction: Instruction) -> MicroOp | None:
    """``UGETNEXTWORKID.SELFCAST [UR6], [UR7]`` (PTX clusterlaunchcontrol.try_cancel): a cluster that has not started is
    cancelled, and the index of its first block comes to UR6, 16 bytes, told to the mbarrier at UR7; with BROADCAST to
    the same places of all blocks of the cluster."""
    if instruction.modifiers not in (("SELFCAST",), ("BROADCAST",)) or len(instruction.operands) != 2:
        return None
    recipes = []
    for operand in instruction.operands:
        if operand.kind != Kind.MEMORY or operand.modifiers or operand.index != NO_REGISTER:
            return None
        recipes.append({
            "base": NO_REGISTER, "base_words": 1, "base_signed": False, "shift": 0, "uniform": operand.uniform_index,
            "uniform_words": 1, "offset": operand.value,
        })  # fmt: skip
    return MicroOp(
        ops.NEXT_WORK,
        flags=(int(instruction.modifiers == ("BROADCAST",)),),
        memory_kind=MemoryKind.STORE,
        space=Space.CLUSTER,
        access_bytes=16,
        extra={"address": recipes[1], "shared_address": recipes[0]},
    )


def lower_register_count(instruction: Instruction) -> MicroOp | None:
    """``USETMAXREG.DEALLOC.CTAPOOL 0x28`` gives registers to the block's pool, ``USETMAXREG.TRY_ALLOC.CTAPOOL UP0,
    0xe8`` takes them from there: code goes round it until UP0 says that they were there. Here the warp waits for
    them."""
    ways: dict[tuple[str, ...], int] = {
        ("DEALLOC", "CTAPOOL"): ops.REGISTERS_GIVE,
        ("TRY_ALLOC", "CTAPOOL"): ops.REGISTERS_TAKE,
    }
    op, operands = ways.get(instruction.modifiers), list(instruction.operands)
    done = operands.pop(0) if op == ops.REGISTERS_TAKE and operands else None
    if op is None or len(operands) != 1 or operands[0].kind != Kind.IMMEDIATE:
        return None
    if done is not None and done.kind not in (Kind.UNIFORM_PREDICATE, Kind.PREDICATE):
        return None
    count = operands[0].value
    if not 0 < count <= _MOST_REGISTERS or count % _REGISTER_UNIT:
        return None
    return MicroOp(op, predicate_destinations=() if done is None else (done,), flags=(count,))


OPCODES = (
    *(
        Opcode(
            mnemonic=mnemonic, summary=summary, lowering=lower_cluster_barrier,
            bodies=(body,), pipe=PipeClass.BARRIER, coverage="block barrier", flops=NO_FLOPS,
        )
        for mnemonic, summary, body in (
            ("UCGABAR_ARV", "arrive at the barrier of the cluster", ops.CLUSTER_ARRIVE),
            ("UCGABAR_WAIT", "wait for all blocks of the cluster", ops.CLUSTER_AWAIT),
        )
    ),
    Opcode(
        mnemonic="STAS", summary="asynchronous store to shared memory of the cluster", lowering=lower_async_store,
        bodies=(ops.ASYNC_STORE,), pipe=PipeClass.LSU, coverage="store", flops=NO_FLOPS,
        space=Space.CLUSTER, bytes_moved=(4, 8, 16),
    ),
    Opcode(
        mnemonic="REDAS", summary="asynchronous reduction in shared memory of the cluster", lowering=lower_async_store,
        bodies=(ops.ASYNC_STORE,), pipe=PipeClass.LSU, coverage="reduction", flops=NO_FLOPS,
        space=Space.CLUSTER, bytes_moved=(4, 8),
    ),
    Opcode(
        mnemonic="UGETNEXTWORKID", summary="take over a cluster that has not started", lowering=lower_next_work,
        bodies=(ops.NEXT_WORK,), pipe=PipeClass.LSU, coverage="async copy", flops=NO_FLOPS,
        space=Space.CLUSTER, bytes_moved=(16,),
    ),
    Opcode(
        mnemonic="USETMAXREG", summary="give registers to the block's pool or take them", lowering=lower_register_count,
        bodies=(ops.REGISTERS_GIVE, ops.REGISTERS_TAKE), pipe=PipeClass.UNIFORM, coverage=OTHER, flops=NO_FLOPS,
    ),
)  # fmt: skip
