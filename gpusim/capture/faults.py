"""What to say when a kernel cannot go on: who, where in the code, where in the source, and why.

Mental model: the interpreter stops with a number and leaves the place in the state's fault fields; this file turns
both into the one line that the user reads.
"""

from __future__ import annotations

import numpy as np

from gpusim.capture import layout as at
from gpusim.capture.memory import DeviceMemory
from gpusim.errors import (
    AddressError,
    DeadlockError,
    ExecutionError,
    GpusimError,
    InstructionLimitError,
)
from gpusim.trace.record import Program, Space

_SPACES = {int(Space.SHARED): "shared", int(Space.LOCAL): "local", 4: "constant"}
_LISTED = 8


def explain(
    status: int,
    state: np.record,
    program: Program,
    memory: DeviceMemory,
    kernel: str,
) -> GpusimError:
    """The error for a status that ended an emulation."""
    if status == at.DEADLOCK:
        return DeadlockError(f"{kernel}: deadlock in block {_block(state)}: {_waiting(state, program)}")
    if status == at.LIMIT:
        limit = int(state.limit)
        return InstructionLimitError(
            f"{kernel} executed {limit} warp instructions without ending (block {_block(state)}):"
            f" raise instruction_limit if that is intended"
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
            return AddressError(f"{who}: shared address {address - start} (of {size} bytes) is out of bounds; {limit}; {place}")
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
        return ExecutionError(f"{kernel}: block {_block(state)}: jump to no instruction (0x{address:x}); {place}")
    if status == at.TRAPPED:
        return ExecutionError(f"{who}: the kernel trapped; {place}")
    return ExecutionError(f"{kernel}: stopped with status {status}; {place}")


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


def _waiting(state: np.record, program: Program) -> str:
    """Which warps wait where, and which have exited."""
    groups: dict[str, list[str]] = {}
    exited = []
    for warp in range(int(state.warps)):
        if not state.live[warp]:
            exited.append(str(warp))
            continue
        for f in range(at.LANES):
            if state.fragment[warp, f] in (at.FREE, at.READY):
                continue
            mask = int(state.mask[warp, f])
            lanes = "" if mask == int(state.exists[warp]) else f" lanes 0x{mask:08x}"
            groups.setdefault(place_of(program, int(state.pc[warp, f])), []).append(f"{warp}{lanes}")
    parts = [f"{_warps(warps)} at {place}" for place, warps in groups.items()]
    if exited:
        parts.append(f"{_warps(exited, have=True)} exited")
    return "; ".join(parts)


def _warps(names: list[str], have: bool = False) -> str:
    shown = ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")
    one = len(names) == 1
    verb = ("has" if one else "have") if have else ("waits" if one else "wait")
    return f"{'warp' if one else 'warps'} {shown} {verb}"
