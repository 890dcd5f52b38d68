"""What to say when a kernel cannot go on: who, where in the code, where in the source, and why.

Mental model: the interpreter stops with a number and leaves the place in the state's fault fields; this file turns
both into the one line that the user reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpusim.emulator.object_faults import polled_object
from gpusim.emulator.poll_words import polled_address
from gpusim.emulator.tensor_faults import tensor_fault, trap_cause
from gpusim.emulator.tensor_maps import FAULTS, OUTSIDE, SHARED_OUTSIDE
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
from gpusim.trace.layout import RANK_SHIFT
from gpusim.trace.record import Program, Space

_SPACES = {int(Space.SHARED): "shared", int(Space.LOCAL): "local", 4: "constant"}
_SHARED_SPACES = (int(Space.CLUSTER), int(Space.GENERIC))
_LISTED = 8
#: Instructions whose address is that of the object that their handle names.
_OF_TEXTURES = ("TEX", "TLD", "TLD4", "TXD", "TXQ", "SULD", "SUST", "SURED")
_SINGULAR = {"wait": "waits", "run": "runs", "have": "has"}


def _mnemonic(text: str) -> str:
    """``TEX`` of ``@P0 TEX.LL R0, ...``."""
    return next((part for part in text.split() if not part.startswith("@")), "").partition(".")[0]


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
    functions: Sequence[tuple[str, int, int]] = (),
) -> GpusimError:
    """The error for a status that ended an emulation; ``resident``: the blocks that ran beside the failed one;
    ``functions``: name, address and bytes of those in the code."""
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
            if address >= 1 << 31:  # the stack grows downwards, and 32 bits wrap
                limit += (
                    ": its stack has overflowed (a program raises the limit by cudaDeviceSetLimit(cudaLimitStackSize, bytes)),"
                    " or an index lies before its array"
                )
                address -= 1 << 32
            return AddressError(f"{who}: local address {address} (of {size} bytes) is out of bounds; {limit}; {place}")
        if (peer := peer_fault(state, address, size, space)) is not None:
            return AddressError(f"{who}: address 0x{address:x} ({size} bytes) is {peer}; {place}")
        if _mnemonic(program.texts[index]) in _OF_TEXTURES:
            return AddressError(
                f"{who}: its handle is that of no texture or surface: pass a gpusim.Texture or gpusim.Surface for the parameter; {place}"
            )
        return AddressError(
            f"{who}: address 0x{address & (2**64 - 1):x} ({size} bytes) is outside every allocation,"
            f" {memory.describe(address)}; {place}"
        )
    if status == at.BAD_BULK:
        value = address & (2**64 - 1) if address < 0 and space == OUTSIDE else address
        said = FAULTS[space].format(value=value, bytes=size, where=memory.describe(address))
        if space == SHARED_OUTSIDE:
            said += f"; the block has {int(state.shared_bytes)} bytes of shared memory from address {int(state.shared_base)} on"
        return AddressError(f"{kernel}: block {_block(state)}, warp {warp}: {said}; {place}")
    if status == at.MISALIGNED:
        return AddressError(f"{who}: address 0x{address & (2**64 - 1):x} is not a multiple of {size}; {place}")
    if status == at.BAD_TENSOR:
        return ExecutionError(f"{who}: {tensor_fault(size, address, state)}; {place}")
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
    if status == at.ARRIVED_TWICE:
        return ExecutionError(
            f"{who}: arrives at the barrier of the cluster again without having waited for the arrival before"
            f" (barrier.cluster.arrive, .wait: undefined on a GPU); {place}"
        )
    if status == at.TRAPPED:
        return ExecutionError(f"{who}: {trap_cause(program, index, functions)}; {place}")
    return ExecutionError(f"{kernel}: stopped with status {status}; {place}")


def peer_fault(state: np.record, address: int, size: int, space: int) -> str | None:
    """What is wrong with an address in the shared memory of a block of the cluster, in words; None if it is no such
    address, and empty if nothing is."""
    if space not in _SHARED_SPACES or (space == Space.GENERIC and address >> 32 != int(state.shared_window) >> 32):
        return None
    rank, blocks, held = address >> RANK_SHIFT & 0xFF, int(state.cluster_size), int(state.shared_bytes)
    offset = (address & (1 << RANK_SHIFT) - 1) - int(state.shared_base)
    named = f"byte {offset} of the shared memory of block {rank} of the cluster"
    if rank >= blocks:
        return f"{named}, which has {blocks} block{'s' * (blocks != 1)}"
    if not state.peer_shared[rank]:
        return f"{named}, which has ended"
    if offset < 0 or offset + size > held:
        return f"{named}, which has {held} bytes"
    return ""


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
    if int(state.cluster_size) > 1 and resident is not None:
        return (
            f"deadlock in a cluster of {int(state.cluster_size)} blocks, {resident.ended} of which have ended;"
            f" {_cluster_arrivals([state, *others])}{blocks}"
        )
    if (state.fragment == at.AT_GRID).any() and resident is not None:
        have = "block has" if resident.ended == 1 else "blocks have"
        return (
            f"deadlock at the grid-wide barrier: {len(resident.states)} blocks wait, {resident.ended} {have} ended"
            f" without coming to it; {blocks}"
        )
    return f"deadlock in block {_block(state)}: {_standing(state, program)}"


def _cluster_arrivals(states: list[np.record]) -> str:
    """Which blocks of the cluster have threads that have not arrived at its barrier; empty if nobody waits there."""
    if not any((state.fragment == at.AT_CLUSTER).any() for state in states):
        return ""
    said = []
    for state in states:
        live, arrived = (field[: int(state.warps)] for field in (state.live, state.cluster_arrived))
        threads = sum(int(lanes).bit_count() for lanes in live)
        come = sum(int(lanes).bit_count() for lanes in live & arrived)
        if come < threads:
            said.append(f"block {_block(state)} ({come} of {threads} threads have arrived)")
    return f"its barrier waits for {', '.join(said)}; " if said else ""


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
                what += polled_object(state, program, warp, pc)
            groups.setdefault(("run" if status == at.READY else "wait", what), []).append(f"{warp}{lanes}")
    parts = [f"{_warps(warps, verb)} at {what}" for (verb, what), warps in groups.items()]
    if exited:
        parts.append(f"{_warps(exited, 'have')} exited")
    return "; ".join(parts)


def _awaited(state: np.record, warp: int, status: int, wait: int, mask: int) -> str:
    """What a fragment waits for, as far as the state says."""
    if status == at.AT_BARRIER:
        arrived = sum(int(lanes).bit_count() for lanes in state.arrived[wait]) + int(state.again[wait])
        expected = int(state.expected[wait]) or sum(int(lanes).bit_count() for lanes in state.live)
        if wait >= at.BLOCK_BARRIERS:
            return f" for the products of its warp group, of which {arrived} of {expected} threads have come"
        return f" for barrier {wait}, at which {arrived} of {expected} threads have arrived"
    if status == at.AT_WARP_WAIT:
        return f" for lanes 0x{wait & int(state.live[warp]) & ~mask & at.FULL:08x}"
    if status == at.AT_GRID:
        return " for all blocks of the grid"
    if status == at.AT_REGISTERS:
        held = int(state.held_registers[warp])
        return (
            f" for {(wait - held) * at.LANES} registers, to have {wait} a thread instead of {held} (setmaxnreg.inc); the block's pool"
            f" holds {int(state.free_registers)}"
        )
    if status == at.AT_CLUSTER:
        return " for all threads of the cluster"
    return ""


def _warps(names: list[str], verb: str) -> str:
    """ "warps 0, 1 wait": the verb is given in the plural."""
    shown = ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")
    if len(names) == 1:
        return f"warp {shown} {_SINGULAR[verb]}"
    return f"warps {shown} {verb}"
