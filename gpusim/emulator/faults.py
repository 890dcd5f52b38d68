"""What to say when a kernel cannot go on: who, where in the code, where in the source, and why.

Mental model: the interpreter stops with a number and leaves the place in the state's fault fields; this file turns
both into the one line that the user reads.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpusim.emulator.poll_words import polled_address
from gpusim.errors import (
    AddressError,
    DeadlockError,
    ExecutionError,
    GpusimError,
    InstructionLimitError,
)
from gpusim.isa import warp as at
from gpusim.isa.binary.cubin import KERNELS_ADDRESS
from gpusim.isa.binary.function_pointers import FUNCTIONS_ADDRESS
from gpusim.launch.memory import DeviceMemory
from gpusim.trace.record import Program, Space

_SPACES = {int(Space.SHARED): "shared", int(Space.LOCAL): "local", 4: "constant"}
_LISTED = 8
_SINGULAR = {"wait": "waits", "run": "runs", "have": "has"}


class ResidentBlocks(NamedTuple):
    """The blocks that ran side by side when one failed: their states, how many had ended before, and whether
    those left only spin."""

    states: list[np.record]
    ended: int
    spinning: bool


def explain(
    status: int,
    state: np.record,
    program: Program,
    memory: DeviceMemory,
    kernel: str,
    resident: ResidentBlocks | None = None,
) -> GpusimError:
    """The error for a status that ended an emulation; ``resident``: the blocks that ran beside the failed one."""
    if status == at.DEADLOCK:
        return DeadlockError(f"{kernel}: {_deadlock(state, program, resident)}")
    if status == at.LIMIT:
        limit = int(state.limit)
        return InstructionLimitError(
            f"{kernel} executed {limit} warp instructions without ending (block {_block(state)}:"
            f" {_standing(state, program)}): raise instruction_limit if that is intended"
        )
    index, warp, lane = int(state.fault_index), int(state.fault_warp), int(state.fault_lane)
    address, size, space = int(state.fault_address), int(state.fault_bytes), int(state.fault_space)
    place = place_of(program, index)
    who = f"{kernel}: block {_block(state)}, thread {_thread(state, warp, lane)}"
    if status == at.BAD_ADDRESS:
        named = _SPACES.get(space)
        if named == "shared":
            start = int(state.shared_base)
            limit = f"the block has {int(state.shared_bytes)} bytes of shared memory"
            return AddressError(
                f"{who}: shared address {address - start} (of {size} bytes) is out of bounds; {limit}; {place}"
            )
        if named == "local":
            limit = f"the thread has {int(state.local_bytes)} bytes of local memory"
            return AddressError(f"{who}: local address {address} (of {size} bytes) is out of bounds; {limit}; {place}")
        return AddressError(
            f"{who}: address 0x{address & (2**64 - 1):x} ({size} bytes) is outside every allocation,"
            f" {memory.describe(address)}; {place}"
        )
    if status == at.MISALIGNED:
        return AddressError(f"{who}: address 0x{address & (2**64 - 1):x} is not a multiple of {size}; {place}")
    if status == at.BAD_CONSTANT:
        return AddressError(f"{who}: constant offset {address} is outside the bank; {place}")
    if status == at.BAD_TARGET:
        if any(part.startswith("CALL") for part in program.texts[index].split()[:2]):
            # Of a module compiled as a whole: out of a table of functions, whose first entry is no instruction.
            fault = "names no function of the kernel's module; null is such a one"
            return ExecutionError(f"{who}: call through a pointer that {fault}; {place}")
        return ExecutionError(f"{kernel}: block {_block(state)}: jump to no instruction (0x{address:x}); {place}")
    if status == at.BAD_POINTER:
        return ExecutionError(f"{who}: call through a pointer that {_pointer_fault(address)}; {place}")
    if status == at.TRAPPED:
        return ExecutionError(f"{who}: the kernel trapped; {place}")
    return ExecutionError(f"{kernel}: stopped with status {status}; {place}")


def _pointer_fault(held: int) -> str:
    """What is wrong with what a pointer to a function holds."""
    if held == 0:
        return "is null"
    named = f"holds 0x{held & (2**64 - 1):x}"
    if FUNCTIONS_ADDRESS <= held < KERNELS_ADDRESS:
        return f"{named}, no function of the kernel's module: calls from one module into another are not emulated, link the two"
    return (
        f"{named}, no function of the kernel's module (the address that host code has of a __device__ function is none: read it"
        " from a __device__ variable or take it in a kernel)"
    )


def place_of(program: Program, index: int) -> str:
    """SASS address, text and source line of an instruction."""
    if not 0 <= index < len(program.texts):
        return "outside the code"
    record = program.instructions[index]
    text = f"0x{int(record['address']):x}: {program.texts[index]}"
    file, line = int(record["file"]), int(record["line"])
    if line > 0 and 0 <= file < len(program.files):
        text += f" ({program.files[file]}:{line})"
    return text


def _block(state: np.record) -> tuple[int, int, int]:
    return tuple(int(index) for index in state.block_index)


def _thread(state: np.record, warp: int, lane: int) -> tuple[int, int, int]:
    return tuple(int(state.thread[warp, axis, lane]) for axis in range(3))


def _deadlock(state: np.record, program: Program, resident: ResidentBlocks | None) -> str:
    """Who waits where, block by block."""
    others = [] if resident is None else [other for other in resident.states if other.linear != state.linear]
    blocks = "; ".join(f"block {_block(one)}: {_standing(one, program)}" for one in [state, *others[: _LISTED - 1]])
    if len(others) >= _LISTED:
        blocks += f"; and {len(others) - _LISTED + 1} more blocks"
    if resident is not None and resident.spinning:
        said = f"livelock: all {len(resident.states)} resident blocks only repeat themselves and no memory changes"
        if any((one.poll_loop != 0).any() for one in resident.states):
            said += ": no warp is left that could write what they poll, and on a GPU the kernel hangs"
        return f"{said}; {blocks}"
    if (state.fragment == at.AT_GRID).any() and resident is not None:
        have = "block has" if resident.ended == 1 else "blocks have"
        return (
            f"deadlock at the grid-wide barrier: {len(resident.states)} blocks wait, {resident.ended} {have} ended"
            f" without coming to it; {blocks}"
        )
    return f"deadlock in block {_block(state)}: {_standing(state, program)}"


def _standing(state: np.record, program: Program) -> str:
    """Where the warps of a block are and what they wait for, and which have exited."""
    groups: dict[tuple[str, str], list[str]] = {}
    exited = []
    for warp in range(int(state.warps)):
        if not state.live[warp]:
            exited.append(str(warp))
            continue
        fragments = zip(state.fragment[warp], state.mask[warp], state.wait[warp], state.pc[warp], strict=True)
        held = [(at.READY, state.held_mask[warp], 0, state.held_pc[warp])] if state.held[warp] else []
        for fragment in [*held, *fragments]:
            status, mask, wait, pc = (int(value) for value in fragment)
            if status == at.FREE:
                continue
            lanes = "" if mask == int(state.exists[warp]) else f" lanes 0x{mask:08x}"
            what = f"{place_of(program, pc)}{_awaited(state, warp, status, wait, mask)}"
            if status == at.READY and state.poll_loop[warp] and state.poll_mask[warp] == mask:
                what += f", polling {polled_address(int(state.poll_key[warp]))}"
            groups.setdefault(("run" if status == at.READY else "wait", what), []).append(f"{warp}{lanes}")
    parts = [f"{_warps(warps, verb)} at {what}" for (verb, what), warps in groups.items()]
    if exited:
        parts.append(f"{_warps(exited, 'have')} exited")
    return "; ".join(parts)


def _awaited(state: np.record, warp: int, status: int, wait: int, mask: int) -> str:
    """What a fragment waits for, as far as the state says."""
    if status == at.AT_BARRIER:
        arrived = sum(int(lanes).bit_count() for lanes in state.arrived[wait])
        expected = int(state.expected[wait]) or sum(int(lanes).bit_count() for lanes in state.live)
        if wait >= at.BLOCK_BARRIERS:
            return f" for the products of its warp group, of which {arrived} of {expected} threads have come"
        return f" for barrier {wait}, at which {arrived} of {expected} threads have arrived"
    if status == at.AT_WARP_WAIT:
        return f" for lanes 0x{wait & int(state.live[warp]) & ~mask & at.FULL:08x}"
    if status == at.AT_GRID:
        return " for all blocks of the grid"
    return ""


def _warps(names: list[str], verb: str) -> str:
    """ "warps 0, 1 wait": the verb is given in the plural."""
    shown = ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")
    if len(names) == 1:
        return f"warp {shown} {_SINGULAR[verb]}"
    return f"warps {shown} {verb}"
