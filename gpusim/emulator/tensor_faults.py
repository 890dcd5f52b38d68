"""What to say when an instruction on tensor memory cannot be executed: which descriptor or address asks for what there is not."""

from __future__ import annotations

from gpusim.isa import tensor_memory_ops as ops


def tensor_fault(reason: int, value: int) -> str:
    """The fault with this reason (ops.FAULT_*) about an address, a descriptor or a number."""
    lane, column = value >> ops.LANE_SHIFT & 0xFFFF, value & 0xFFFF
    place = f"tensor memory at lane {lane}, column {column}"
    if reason == ops.FAULT_COLUMNS:
        return f"{place} (0x{value:08x}): the instruction reaches columns that the block has not allocated"
    if reason == ops.FAULT_LANES:
        return (
            f"{place} (0x{value:08x}): not a lane that the instruction may begin at (loads and stores: warp i of a warp group has"
            " lanes 32 i to 32 i + 31, of which shapes of 16 lanes may begin at the 16th; products and copies: lane 0)"
        )
    if reason == ops.FAULT_EXHAUSTED:
        return (
            f"tensor memory exhausted: {value} columns are asked for, and so many are not free beside each other, nor does anybody"
            f" free any (an SM has {ops.MEMORY_COLUMNS}); on a GPU the kernel hangs"
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
    return f"instruction descriptor 0x{value:08x}: not emulated (products of depth 96)"
