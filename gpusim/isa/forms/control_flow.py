"""Control flow: branches, convergence barriers, block barriers, and what only time cares about.

Mental model: since Volta a warp's lanes may stand at different instructions; ``BSSY`` notes in a
convergence barrier which lanes set out together, ``BSYNC`` waits until they are together again, and
``BREAK`` takes lanes out of the bargain. Calls keep the return address in registers, so a call is a
branch and a return an indexed one. Waits on scoreboards, fences and hints change nothing that the
emulator could see; they are NOPs with the flags that the timing model needs.
"""

from __future__ import annotations

from gpusim.isa import system_ops as ops
from gpusim.isa.form import Instruction, Kind, Lower, MicroOp, Operand, Source
from gpusim.isa.opcode import NO_FLOPS, OTHER, Opcode
from gpusim.trace.layout import MAX_SLEEP_NS
from gpusim.trace.record import Flag, PipeClass

PREDICATES = (Kind.PREDICATE, Kind.UNIFORM_PREDICATE)
_WORD_BYTES = 4
#: The predicate that always holds.
_TRUE = 7


def _only(instruction: Instruction, *allowed: str) -> bool:
    return set(instruction.modifiers) <= set(allowed)


def _nop(flags: int = 0) -> MicroOp:
    return MicroOp(ops.NOP, trace_flags=flags)


def lower_nop(instruction: Instruction) -> MicroOp | None:
    """Every form: nothing that the emulator could see changes."""
    return _nop()


def lower_launch_dependents(instruction: Instruction) -> MicroOp | None:
    """Every form: launches run one after another, so nothing that the emulator could see changes; the trace says where
    it stands."""
    return _nop(int(Flag.LAUNCH_DEPENDENTS))


def lower_grid_wait(instruction: Instruction) -> MicroOp | None:
    """Every form: the grid that it waits for has ended, so nothing that the emulator could see changes; the trace says
    where it stands."""
    return _nop(int(Flag.GRID_WAIT))


def lower_fence(instruction: Instruction) -> MicroOp | None:
    """MEMBAR and its kin: the emulator's memory is always in order."""
    wide = {"GPU", "SYS", "VC"} & set(instruction.modifiers)
    return _nop(int(Flag.FENCE | Flag.DEVICE_FENCE if wide else Flag.FENCE))


def lower_depbar(instruction: Instruction) -> MicroOp | None:
    """``DEPBAR.LE SB0, 0x1`` waits for a counter; ``DEPBAR {3,2}`` for a set of them."""
    micro = _nop(int(Flag.DEPBAR))
    index, level = 0, 0
    for operand in instruction.operands:
        if operand.kind == Kind.SCOREBOARD:
            index = operand.index
        elif operand.kind == Kind.IMMEDIATE:
            level = operand.value
    micro.extra = {"depbar_index": index, "depbar_level": level}
    return micro


def lower_copy_group(instruction: Instruction) -> MicroOp | None:
    """LDGDEPBAR closes a group of asynchronous copies (the emulator has done them already)."""
    return _nop(int(Flag.COPY_GROUP))


def lower_exit(instruction: Instruction) -> MicroOp | None:
    """EXIT and ``EXIT P``: the lanes where guard and predicate hold end."""
    if not _only(instruction, "KEEPREFCOUNT", "PREEMPTED") or len(instruction.operands) > 1:
        return None
    conditions = tuple(o for o in instruction.operands if o.kind in PREDICATES)
    if len(conditions) != len(instruction.operands):
        return None
    return MicroOp(ops.EXIT, predicate_sources=conditions, trace_flags=int(Flag.EXIT | Flag.BRANCH))


def lower_branch(instruction: Instruction) -> MicroOp | None:
    """BRA, JMP and CALL: jump where the guard and an optional second predicate hold. A CALL through a
    register counts from the function that its label names, as RET does; CALL.ABS takes a pointer to a function. BRA.DIV
    takes all lanes along if one that its mask names is elsewhere, or if the guard does not hold there: code of Ampere
    that guards it (``@!P0 BRA.DIV``, P0 where lanes disagree on the mask of a vote) has no other way to its slow
    path."""
    if not _only(instruction, "U", "ANY", "DIV", "CONV", "INC", "DEC", "REL", "ABS", "NOINC", "UNIFORM"):
        return None
    operands = list(instruction.operands)
    if not operands:
        return None
    if operands[-1].kind in (Kind.REGISTER, Kind.UNIFORM) and len(operands) == 1:
        calls = instruction.mnemonic == "CALL" and "ABS" in instruction.modifiers
        return _indexed(operands[0], 0, instruction, ops.INDEXED_POINTER if calls else ops.INDEXED_CODE)
    if operands[-1].kind != Kind.LABEL:
        return None
    if instruction.mnemonic == "CALL" and len(operands) == 2 and operands[0].kind in (Kind.REGISTER, Kind.UNIFORM):
        return _indexed(operands[0], operands[1].value, instruction)
    target = operands.pop().value
    if "DIV" in instruction.modifiers or "CONV" in instruction.modifiers:
        # Turing names no mask: all lanes of the warp.
        named = operands[0] if operands else Operand(Kind.IMMEDIATE, value=0xFFFFFFFF)
        if len(operands) > 1 or named.kind not in (Kind.UNIFORM, Kind.REGISTER, Kind.IMMEDIATE):
            return None
        mask = Source(named, flip=0xFFFFFFFF if named.inverted else 0)
        return MicroOp(
            ops.BRANCH_DIVERGENT,
            sources=(mask, None, None),
            flags=(ops.DIVERGENT_CONV if "CONV" in instruction.modifiers else ops.DIVERGENT_DIV,),
            trace_flags=int(Flag.BRANCH),
            extra={"target": target},
        )
    if any(o.kind not in PREDICATES for o in operands) or len(operands) > 1:
        return None
    if "ANY" in instruction.modifiers and [o.kind for o in operands] != [Kind.UNIFORM_PREDICATE]:
        # All lanes jump if any one's guard and predicate hold: how a loop over the values of a register ends.
        return MicroOp(
            ops.BRANCH_DIVERGENT,
            sources=(Source(Operand(Kind.IMMEDIATE), immediate=0), None, None),
            predicate_sources=tuple(operands),
            flags=(ops.DIVERGENT_ANY,),
            trace_flags=int(Flag.BRANCH),
            extra={"target": target},
        )
    return MicroOp(
        ops.BRANCH,
        predicate_sources=tuple(operands),
        trace_flags=int(Flag.BRANCH),
        extra={"target": target},
    )


def lower_branch_indexed(instruction: Instruction) -> MicroOp | None:
    """BRX, JMX and RET: the target is a register pair plus a label."""
    if not _only(instruction, "REL", "ABS", "NODEC", "U", "INC", "NOINC"):
        return None
    operands = [o for o in instruction.operands if o.kind not in PREDICATES]
    if len(operands) != len(instruction.operands) or not 1 <= len(operands) <= 2:
        return None
    base, offset = operands[0], 0
    if base.kind not in (Kind.REGISTER, Kind.UNIFORM):
        return None
    if len(operands) == 2:
        if operands[1].kind not in (Kind.LABEL, Kind.IMMEDIATE):
            return None
        offset = operands[1].value
    if instruction.mnemonic in ("BRX", "BRXU") and len(operands) == 2:
        # relative to the next instruction: the register holds an offset from the function's start
        offset = instruction.address + 16 + int(operands[1].text, 16)
    elif "ABS" in instruction.modifiers:
        offset = int(operands[1].text, 16) if len(operands) == 2 and operands[1].text.startswith("0x") else offset
    return _indexed(base, offset, instruction)


def _indexed(base: Operand, offset: int, instruction: Instruction, target: int = ops.INDEXED_CODE) -> MicroOp:
    return MicroOp(
        ops.BRANCH_INDEXED,
        sources=(Source(base, words=2), None, None),
        flags=(target,),
        trace_flags=int(Flag.BRANCH),
        extra={"target": offset},
    )


def lower_converge_set(instruction: Instruction) -> MicroOp | None:
    """``BSSY B0, target``. The target is where the wait stands; the wait itself knows enough."""
    if not _only(instruction, "RECONVERGENT", "RELIABLE") or len(instruction.operands) != 2:
        return None
    barrier = instruction.operands[0]
    if barrier.kind != Kind.BARRIER:
        return None
    return MicroOp(ops.CONVERGE_SET, extra={"convergence": barrier.index})


def lower_converge_wait(instruction: Instruction) -> MicroOp | None:
    """``BSYNC B0``: until the lanes that B0 names are here or have left."""
    if not _only(instruction, "RECONVERGENT", "RELIABLE") or len(instruction.operands) != 1:
        return None
    if instruction.operands[0].kind != Kind.BARRIER:
        return None
    return MicroOp(ops.CONVERGE_WAIT, extra={"convergence": instruction.operands[0].index})


def lower_converge_leave(instruction: Instruction) -> MicroOp | None:
    """``BREAK [P,] B0``: nobody waits any longer for the lanes where the predicate holds."""
    if not _only(instruction, "RECONVERGENT", "RELIABLE"):
        return None
    barriers = [o for o in instruction.operands if o.kind == Kind.BARRIER]
    conditions = tuple(o for o in instruction.operands if o.kind in PREDICATES)
    if len(barriers) != 1 or len(conditions) + 1 != len(instruction.operands) or len(conditions) > 1:
        return None
    return MicroOp(
        ops.CONVERGE_LEAVE,
        predicate_sources=conditions,
        extra={"convergence": barriers[0].index},
    )


def lower_warp_wait(instruction: Instruction) -> MicroOp | None:
    """WARPSYNC mask, WARPSYNC.ALL, WARPSYNC.COLLECTIVE mask, target, WARPSYNC.COLLECTIVE.ALL target; WARPSYNC.EXCLUSIVE
    mask, and COLLECTIVE: lanes that name different sets go on one set at a time (what follows, REDUX or VOTE, takes all
    lanes that execute it together, and of what it finds no mask is taken afterwards)."""
    values = [o for o in instruction.operands if o.kind in (Kind.REGISTER, Kind.IMMEDIATE, Kind.UNIFORM, Kind.LABEL)]
    modifiers = instruction.modifiers
    if (modifiers == ("ALL",) and not instruction.operands) or (
        modifiers == ("COLLECTIVE", "ALL") and len(values) == 1 == len(instruction.operands)
    ):
        mask = Operand(Kind.IMMEDIATE, value=0xFFFFFFFF)
    elif modifiers in ((), ("EXCLUSIVE",)) and len(values) == 1 == len(instruction.operands):
        mask = values[0]
    elif modifiers == ("COLLECTIVE",) and len(values) == 2 == len(instruction.operands):
        # The second operand names where the collective code ends; the lanes go on together right here.
        mask = values[0]
    else:
        return None
    return MicroOp(
        ops.WARP_WAIT,
        flags=(ops.WAIT_EXCLUSIVE if "EXCLUSIVE" in modifiers else ops.WAIT_COLLECTIVE * ("COLLECTIVE" in modifiers),),
        sources=(Source(mask, immediate=mask.value if mask.kind == Kind.IMMEDIATE else None), None, None),
    )


def lower_cache_control(instruction: Instruction) -> MicroOp:
    """CCTL: IVALL empties the SM's L1, as what follows an acquire does; others change nothing that the model has."""
    return _nop(int(Flag.INVALIDATE_L1) if instruction.modifiers == ("IVALL",) else 0)


def lower_give_way(instruction: Instruction) -> MicroOp | None:
    """Every form: for the emulator a sleep only lets others run."""
    return MicroOp(ops.GIVE_WAY)


def lower_sleep(instruction: Instruction) -> MicroOp | None:
    """NANOSLEEP: the nanoseconds stand in the instruction, or in a register: each execution then records them as an
    access does its address. With SYNCS it ends when the mbarrier that was looked at before completes its phase, its
    time is only the most that it lasts (PTX mbarrier.try_wait's suspend time): the look behind it waits for that, so it
    takes no time itself."""
    if "SYNCS" in instruction.modifiers:
        return MicroOp(ops.GIVE_WAY)
    times = [o.value for o in instruction.operands if o.kind == Kind.IMMEDIATE]
    registers = [o for o in instruction.operands if o.kind in (Kind.REGISTER, Kind.UNIFORM)]
    return MicroOp(
        ops.GIVE_WAY,
        sources=(Source(registers[0]) if registers and not times else None, None, None),
        trace_flags=int(Flag.SLEEP),
        access_bytes=_WORD_BYTES if registers and not times else 0,
        extra={"sleep_ns": min(max(times, default=0), MAX_SLEEP_NS)},
    )


def lower_trap(instruction: Instruction) -> MicroOp | None:
    """Every form ends the launch with an error."""
    return MicroOp(ops.TRAP, trace_flags=int(Flag.BRANCH))


def lower_converge_move(instruction: Instruction) -> MicroOp | None:
    """BMOV saves a convergence barrier in a register over a call, or restores it."""
    if not _only(instruction, "32", "CLEAR", "PQUAD") or len(instruction.operands) != 2:
        return None
    first, second = instruction.operands
    if first.kind == Kind.REGISTER and second.kind == Kind.BARRIER:
        return MicroOp(
            ops.CONVERGE_READ,
            destination=first,
            extra={"convergence": second.index, "clear": "CLEAR" in instruction.modifiers},
        )
    if first.kind == Kind.BARRIER and second.kind in (Kind.REGISTER, Kind.UNIFORM, Kind.IMMEDIATE):
        immediate = second.value & 0xFFFFFFFF if second.kind == Kind.IMMEDIATE else None
        return MicroOp(
            ops.CONVERGE_WRITE,
            sources=(Source(second, immediate=immediate), None, None),
            extra={"convergence": first.index},
        )
    if first.kind == Kind.BARRIER == second.kind:
        return MicroOp(
            ops.CONVERGE_COPY,
            flags=(int("CLEAR" in instruction.modifiers),),
            extra={"convergence": first.index, "convergence_from": second.index},
        )
    return None


#: The two halves of a lane's return-address register, behind the convergence barriers.
_RETURN_ADDRESS = {"Rpc.LO": 16, "Rpc.HI": 17}


def lower_return_address_move(instruction: Instruction) -> MicroOp | None:
    """``RPCMOV.32 Rpc.LO, R0`` and back: the compiler parks a register in a lane's return address."""
    if instruction.modifiers != ("32",) or len(instruction.operands) != 2:
        return None
    first, second = instruction.operands
    if first.kind == Kind.REGISTER and second.text in _RETURN_ADDRESS and not first.modifiers:
        place = {"convergence": _RETURN_ADDRESS[second.text], "clear": False}
        return MicroOp(ops.CONVERGE_READ, destination=first, extra=place)
    if first.text in _RETURN_ADDRESS and second.kind == Kind.REGISTER and not second.modifiers:
        place = {"convergence": _RETURN_ADDRESS[first.text]}
        return MicroOp(ops.CONVERGE_WRITE, sources=(Source(second), None, None), extra=place)
    return None


_BARRIER_REDUCTIONS = {"POPC": ops.RED_POPC, "AND": ops.RED_AND, "OR": ops.RED_OR}


def lower_block_barrier(instruction: Instruction) -> MicroOp | None:
    """``BAR.SYNC id[, threads]``, ``BAR.ARV id, threads``, ``BAR.RED.op id[, threads], P``. Where both are in a
    register it is one, ``threads << 16 | id`` (read off compiled code of every generation)."""
    modifiers = [m for m in instruction.modifiers if m not in ("DEFER_BLOCKING", "SYNC_ALL", "PARTIAL")]
    if not modifiers:
        return None
    kind, rest = modifiers[0], modifiers[1:]
    values = [o for o in instruction.operands if o.kind in (Kind.IMMEDIATE, Kind.REGISTER, Kind.UNIFORM)]
    conditions = tuple(o for o in instruction.operands if o.kind in PREDICATES)
    if len(values) + len(conditions) != len(instruction.operands) or not 1 <= len(values) <= 2:
        return None
    reduction = ops.RED_NONE
    if kind == "RED" and len(rest) == 1 and rest[0] in _BARRIER_REDUCTIONS and len(conditions) == 1:
        reduction = _BARRIER_REDUCTIONS[rest[0]]
    elif kind == "SYNC" and not rest and not conditions:
        pass
    elif kind == "ARV" and not rest and not conditions and len(values) == 2:
        pass
    else:
        return None
    sources = tuple(Source(o, immediate=o.value if o.kind == Kind.IMMEDIATE else None) for o in values) + (None,) * (
        3 - len(values)
    )
    waits = kind != "ARV"
    count = ops.COUNT_NONE if len(values) == 1 else ops.COUNT_ALONE
    if len(values) == 2 and all(value.kind != Kind.IMMEDIATE for value in values):
        if values[0].text != values[1].text:
            return None
        count = ops.COUNT_PACKED
    guard = instruction.guard
    guarded = guard is not None and (guard.index != _TRUE or guard.inverted)
    meeting = values[1].value if len(values) == 2 and values[1].kind == Kind.IMMEDIATE else 0
    return MicroOp(
        ops.BARRIER_WAIT if waits else ops.BARRIER_ARRIVE,
        sources=sources,
        predicate_sources=conditions,
        flags=(count, reduction),
        trace_flags=int(Flag.BARRIER_WAIT) if waits else 0,
        # What only an execution knows it records, as an access does its address: what stands in a register, and whether
        # the guard held.
        access_bytes=_WORD_BYTES if guarded or any(value.kind != Kind.IMMEDIATE for value in values) else 0,
        extra={
            "barrier_id": values[0].value & 15 if values[0].kind == Kind.IMMEDIATE else 0,
            "barrier_threads": meeting if meeting <= 1024 else 0,
        },
    )


def _without_effect(mnemonics: tuple[str, ...], coverage: str, lowering: Lower = lower_nop) -> tuple[Opcode, ...]:
    return tuple(
        Opcode(
            mnemonic=mnemonic, summary="no effect on values", lowering=lowering,
            bodies=(ops.NOP,), pipe=PipeClass.NONE, coverage=coverage, flops=NO_FLOPS,
        )
        for mnemonic in mnemonics
    )  # fmt: skip


def _branches(coverage: str, bodies: tuple[int, ...], lowering: Lower, **summaries: str) -> tuple[Opcode, ...]:
    return tuple(
        Opcode(
            mnemonic=mnemonic, summary=summary, lowering=lowering,
            bodies=bodies, pipe=PipeClass.BRANCH, coverage=coverage, flops=NO_FLOPS,
        )
        for mnemonic, summary in summaries.items()
    )  # fmt: skip


_DIRECT = (ops.BRANCH, ops.BRANCH_DIVERGENT, ops.BRANCH_INDEXED)
_INDEXED = (ops.BRANCH_INDEXED,)

OPCODES = (
    *_without_effect(("NOP", "PMTRIG", "ENDCOLLECTIVE"), OTHER),
    *_without_effect(("ACQBULK",), OTHER, lower_grid_wait),
    *_without_effect(("PREEXIT",), OTHER, lower_launch_dependents),
    *_without_effect(("ERRBAR", "CGAERRBAR", "CCTLL", "CCTLT"), "fence"),
    Opcode(
        mnemonic="CCTL", summary="cache control", lowering=lower_cache_control,
        bodies=(ops.NOP,), pipe=PipeClass.NONE, coverage="fence", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="MEMBAR", summary="memory fence", lowering=lower_fence,
        bodies=(ops.NOP,), pipe=PipeClass.NONE, coverage="fence", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="FENCE", summary="memory fence between views", lowering=lower_fence,
        bodies=(ops.NOP,), pipe=PipeClass.NONE, coverage="fence", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="DEPBAR", summary="wait for a scoreboard", lowering=lower_depbar,
        bodies=(ops.NOP,), pipe=PipeClass.NONE, coverage="wait", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="LDGDEPBAR", summary="close a group of asynchronous copies", lowering=lower_copy_group,
        bodies=(ops.NOP,), pipe=PipeClass.LSU, coverage="async copy", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="EXIT", summary="end lanes", lowering=lower_exit,
        bodies=(ops.EXIT,), pipe=PipeClass.BRANCH, coverage="branch", flops=NO_FLOPS,
    ),
    *_branches("branch", _DIRECT, lower_branch, BRA="branch", JMP="jump"),
    *_branches("call", _DIRECT, lower_branch, CALL="call: the return address is already in registers"),
    *_branches(
        "indirect branch", _INDEXED, lower_branch_indexed,
        BRX="branch to register", BRXU="branch to uniform register",
        JMX="jump to register", JMXU="jump to uniform register",
    ),
    *_branches("call", _INDEXED, lower_branch_indexed, RET="return"),
    Opcode(
        mnemonic="BSSY", summary="note which lanes set out together", lowering=lower_converge_set,
        bodies=(ops.CONVERGE_SET,), pipe=PipeClass.BRANCH, coverage="reconvergence", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="BSYNC", summary="wait for them", lowering=lower_converge_wait,
        bodies=(ops.CONVERGE_WAIT,), pipe=PipeClass.BRANCH, coverage="reconvergence", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="BREAK", summary="leave the group", lowering=lower_converge_leave,
        bodies=(ops.CONVERGE_LEAVE,), pipe=PipeClass.BRANCH, coverage="reconvergence", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="WARPSYNC", summary="wait for lanes of the warp", lowering=lower_warp_wait,
        bodies=(ops.WARP_WAIT,), pipe=PipeClass.BRANCH, coverage="reconvergence", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="YIELD", summary="let other lanes run", lowering=lower_give_way,
        bodies=(ops.GIVE_WAY,), pipe=PipeClass.NONE, coverage="reconvergence", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="NANOSLEEP", summary="let other lanes and warps run", lowering=lower_sleep,
        bodies=(ops.GIVE_WAY,), pipe=PipeClass.NONE, coverage="wait", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="BMOV", summary="save or restore a convergence barrier", lowering=lower_converge_move,
        bodies=(ops.CONVERGE_READ, ops.CONVERGE_WRITE, ops.CONVERGE_COPY),
        pipe=PipeClass.SPECIAL, coverage="reconvergence", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="RPCMOV", summary="move to or from a lane's return address", lowering=lower_return_address_move,
        bodies=(ops.CONVERGE_READ, ops.CONVERGE_WRITE), pipe=PipeClass.SPECIAL, coverage="call", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="BAR", summary="block barrier", lowering=lower_block_barrier,
        bodies=(ops.BARRIER_WAIT, ops.BARRIER_ARRIVE),
        pipe=PipeClass.BARRIER, coverage="block barrier", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="BPT", summary="trap", lowering=lower_trap,
        bodies=(ops.TRAP,), pipe=PipeClass.BRANCH, coverage="branch", flops=NO_FLOPS,
    ),
)  # fmt: skip
