"""What to say when an instruction on tensor memory cannot be executed: which descriptor or address asks for what there
is not.

Mental model: the emulator notes a reason (ops.FAULT_*) and the number that it is about. Some misuse compiled code finds
itself: ptxas puts checks beside tcgen05.dealloc that call a function which traps, and the function's name says why.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from gpusim.emulator.tensor_memory import MEMORY
from gpusim.isa import tensor_memory_ops as ops
from gpusim.trace.record import Program

#: Ends of the names of ptxas' functions that trap (read off cubins) -> what the kernel has done.
_TRAPS = {
    "trap_col_being_dealloced_not_returned_by_alloc": (
        "tcgen05.dealloc of tensor memory that begins at no column that tcgen05.alloc has returned, or has been freed already"
    ),
    "trap_unallocated_columns_being_dealloced": "tcgen05.dealloc of columns of tensor memory that are not allocated, or have been freed already",
    "trap_phase_invalid_during_alloc": "tcgen05.alloc after tcgen05.relinquish_alloc_permit",
}


def trap_cause(program: Program, index: int, functions: Sequence[tuple[str, int, int]]) -> str:
    """Why instruction ``index`` has trapped, as the function that it belongs to says; ``functions``: (name, address,
    bytes)."""
    address = int(program.instructions["address"][index]) if 0 <= index < len(program.texts) else -1
    for name, start, size in functions:
        if start <= address < start + size:
            for end, cause in _TRAPS.items():
                if name.endswith(end):
                    return f"{cause}: the kernel trapped, as its compiler has it do"
    return "the kernel trapped"


def _held(state: np.record) -> str:
    """Who holds which columns of the block's tensor memory: "warp 0: 256 columns from 0 on"."""
    warps = int(state.warps)
    memory = np.frombuffer(ctypes.string_at(int(state.tensor_host), MEMORY.itemsize), MEMORY)[0]
    said, unit = [], 0
    while unit < ops.UNITS:
        if not int(memory["allocated"]) >> unit & 1:
            unit += 1
            continue
        first, holder = unit, int(memory["holders"][unit])
        while unit < ops.UNITS and int(memory["allocated"]) >> unit & 1 and int(memory["holders"][unit]) == holder:
            unit += 1
        who = f"warp {holder - 1}" if 0 < holder <= warps else "a warp"
        columns = ops.UNIT_COLUMNS * (unit - first)
        said.append(f"{who} holds {columns} columns from column {ops.UNIT_COLUMNS * first} on")
    return "; ".join(said)


def tensor_fault(reason: int, value: int, state: np.record) -> str:
    """The fault with this reason (ops.FAULT_*) of the block ``state`` about an address, a descriptor or a number."""
    lane, column = value >> ops.LANE_SHIFT & 0xFFFF, value & 0xFFFF
    place = f"tensor memory at lane {lane}, column {column}"
    if reason == ops.FAULT_COLUMNS:
        return (
            f"{place} (0x{value:08x}): the instruction reaches columns that the block has not allocated, or has freed"
        )
    if reason == ops.FAULT_LANES:
        return (
            f"{place} (0x{value:08x}): not a lane that the instruction may begin at (loads and stores: warp i of a warp group has"
            " lanes 32 i to 32 i + 31, of which shapes of 16 lanes may begin at the 16th; products and copies: lane 0)"
        )
    if reason == ops.FAULT_EXHAUSTED:
        return (
            f"tensor memory exhausted: {value} columns are asked for, and so many are not free beside each other, nor does anybody"
            f" free any (an SM has {ops.MEMORY_COLUMNS}; {_held(state)}); on a GPU the kernel hangs"
        )
    if reason == ops.FAULT_SIZE:
        return f"{value} units of 32 columns of tensor memory are asked for: only 1, 2, 4, 8 or 16 can be allocated at once"
    if reason == ops.FAULT_FORMAT:
        return (
            f"instruction descriptor 0x{value:08x}: formats that the product does not have (A is format {value >> 7 & 7}, B {value >> 10 & 7},"
            f" D {value >> 4 & 3})"
        )
    if reason == ops.FAULT_SHAPE:
        rows, columns = (value >> 24 & 31) << 4, (value >> 17 & 63) << 3
        return f"instruction descriptor 0x{value:08x}: the product has no shape of {rows} rows and {columns} columns"
    if reason == ops.FAULT_DESCRIPTOR:
        return f"shared-memory descriptor 0x{value & (2**64 - 1):016x}: its layout (bits 61 to 63) or its mode of leading offsets is none that is known"
    if reason == ops.FAULT_PEER:
        return "the instruction works in two blocks of a cluster (.2CTA), and the block has no partner"
    if reason == ops.FAULT_COLUMN_SHIFT:
        shift, most = value & 0xFF, value >> 8
        return f"a zero-column mask with a column shift of {shift}: the instruction descriptor allows {most} at most (bits 30 and 31), of 32 rows 16"
    if reason == ops.FAULT_GROUP:
        return f"wgmma needs the four warps of a warp group, whose first is warp {value // 4 * 4}, and the block has {value} warps"
    return f"instruction descriptor 0x{value:08x}: products of depth 96 (bit 31) are there on sm_103 alone, and dense"
