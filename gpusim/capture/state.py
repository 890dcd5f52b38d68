"""Allocates what the interpreter needs for a launch: the launch's Code and the state of a resident block.

Mental model: :func:`make_code` joins a prepared kernel with grid, block, parameters and memory;
:func:`make_block` is the room that one resident block occupies, like its slot on an SM.
"""

from __future__ import annotations

import struct
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from gpusim.capture import layout as at
from gpusim.capture.memory import LOCAL_WINDOW, SHARED_WINDOW, DeviceMemory
from gpusim.capture.prepare import Prepared
from gpusim.capture.target import Target, bank_layout
from gpusim.sass.cubin import CONSTANTS_ADDRESS

#: Instructions of a warp's turn before the next warp of the block runs, at a jump.
WARP_QUANTUM = 4096
#: Instructions of a block before other blocks may run beside it (it may wait for them).
BLOCK_SLICE = 1 << 22
_TOOLS = ("numba-cuda", "nvidia-nvvm", "nvidia-nvjitlink", "nvidia-cuda-nvdisasm")


def make_code(
    prepared: Prepared,
    target: Target,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    dynamic_shared: int,
    parameters: bytes,
    memory: DeviceMemory,
    instruction_limit: int,
) -> at.Code:
    """The read-only side of a launch."""
    image, encoded = prepared.image, prepared.encoded
    threads = block[0] * block[1] * block[2]
    warps = -(-threads // at.LANES)
    shape = np.zeros(at.SHAPE_ENTRIES, np.int64)
    shape[at.S_GRID_X : at.S_GRID_Z + 1] = grid
    shape[at.S_BLOCK_X : at.S_BLOCK_Z + 1] = block
    shape[at.S_WARPS] = warps
    shape[at.S_OWN_BASE] = encoded.shared_rows * at.LANES
    shape[at.S_OWN_STRIDE] = encoded.own_rows * at.LANES
    shape[at.S_SHARED_BASE] = image.shared_base
    shape[at.S_SHARED_BYTES] = image.shared_bytes + dynamic_shared
    shape[at.S_LOCAL_BYTES] = -(-image.local_bytes // 16) * 16
    shape[at.S_SHARED_WINDOW] = SHARED_WINDOW
    shape[at.S_LOCAL_WINDOW] = LOCAL_WINDOW
    shape[at.S_SM_COUNT] = target.sm_count
    shape[at.S_QUANTUM] = WARP_QUANTUM
    shape[at.S_LIMIT] = instruction_limit
    shape[at.S_SLICE] = BLOCK_SLICE
    shape[at.S_BLOCKS] = grid[0] * grid[1] * grid[2]
    lane = np.arange(warps * at.LANES)
    exists = lane < threads
    rows = np.zeros((3, warps * at.LANES), np.int32)
    rows[0] = lane % block[0]
    rows[1] = lane // block[0] % block[1]
    rows[2] = lane // (block[0] * block[1])
    weights = np.left_shift(np.int64(1), np.arange(at.LANES, dtype=np.int64))
    allocations = memory.sorted()
    return at.Code(
        matrix=encoded.matrix,
        index_of=encoded.index_of,
        address_of=encoded.address_of,
        constants=_constants(prepared, grid, block, dynamic_shared, parameters),
        thread_rows=np.ascontiguousarray(rows.reshape(3, warps, at.LANES).transpose(1, 0, 2)),
        live=exists.reshape(warps, at.LANES) @ weights,
        shape=shape,
        allocation_base=np.array([a.base for a in allocations], np.int64),
        allocation_bytes=np.array([a.size for a in allocations], np.int64),
        allocation_host=np.array([a.host for a in allocations], np.int64),
        hint=np.zeros(len(encoded.matrix), np.int64),
    )


def _constants(
    prepared: Prepared,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    dynamic_shared: int,
    parameters: bytes,
) -> np.ndarray:
    """All constant banks one after another, bank 0 filled as the driver fills it."""
    image, encoded = prepared.image, prepared.encoded
    end = max((encoded.bank_start[b] + -(-encoded.bank_bytes[b] // 16) * 16 for b in encoded.bank_start), default=0)
    constants = bytearray(end)
    for bank, content in image.constants.items():
        start = encoded.bank_start[bank]
        constants[start : start + len(content)] = content
    start, size = encoded.bank_start.get(0, 0), encoded.bank_bytes.get(0, 0)
    layout = bank_layout(prepared.built.capability)

    def put(offset: int, kind: str, *values: int) -> None:
        if offset >= 0 and offset + struct.calcsize(kind) <= size:
            struct.pack_into(kind, constants, start + offset, *values)

    put(layout.block_shape, "<3I", *block)
    put(layout.grid_shape, "<3I", *grid)
    put(layout.shared_window, "<Q", SHARED_WINDOW)
    put(layout.local_window, "<Q", LOCAL_WINDOW)
    put(layout.stack, "<I", -(-image.local_bytes // 16) * 16)
    for offset in layout.dynamic_shared:
        put(offset, "<I", dynamic_shared)
    put(layout.constants_pointer, "<Q", CONSTANTS_ADDRESS)
    base = start + image.parameter_base
    constants[base : base + len(parameters)] = parameters
    return np.frombuffer(bytes(constants), np.uint8)


def make_block(prepared: Prepared, code: at.Code) -> at.Block:
    """Room for one resident block."""
    encoded, shape = prepared.encoded, code.shape
    warps = int(shape[at.S_WARPS])
    registers = np.zeros((encoded.shared_rows + warps * encoded.own_rows, at.LANES), np.int32)
    for row, value in encoded.immediates:
        registers[row] = np.uint32(value).view(np.int32)
    for row, bank, offset in encoded.constants:
        place = encoded.bank_start.get(bank, 0) + offset
        if 0 <= offset and offset + 4 <= encoded.bank_bytes.get(bank, 0):
            registers[row] = code.constants[place : place + 4].view(np.int32)[0]
    # Shared memory starts on a cache line of the host, so that aligned device accesses are aligned here.
    shared = np.zeros(max(1, int(shape[at.S_SHARED_BYTES])), np.uint8)
    local = np.zeros(max(1, int(shape[at.S_LOCAL_BYTES]) * warps * at.LANES), np.uint8)
    scratch = [np.zeros((4, at.LANES), np.int32) for _ in range(4)]
    where = np.zeros(at.WHERE_ENTRIES, np.int64)
    where[at.W_SHARED_HOST] = shared.ctypes.data
    where[at.W_LOCAL_HOST] = local.ctypes.data
    where[at.W_RESULT_HOST] = scratch[3].ctypes.data
    return at.Block(
        registers=registers.reshape(-1),
        predicates=np.zeros(warps * at.PREDICATE_SLOTS, np.int64),
        pc=np.zeros((warps, at.LANES), np.int32),
        mask=np.zeros((warps, at.LANES), np.int64),
        state=np.zeros((warps, at.LANES), np.int32),
        wait=np.zeros((warps, at.LANES), np.int64),
        stamp=np.zeros((warps, at.LANES), np.int64),
        ready=np.zeros(warps, np.int64),
        live=np.zeros(warps, np.int64),
        arrived=np.zeros((at.BLOCK_BARRIERS, warps), np.int64),
        expected=np.zeros(at.BLOCK_BARRIERS, np.int64),
        vote=np.zeros((at.BLOCK_BARRIERS, warps), np.int64),
        reduction=np.zeros(at.BLOCK_BARRIERS, np.int64),
        result=np.zeros(warps, np.int32),
        shared=shared,
        local=local,
        where=where,
        x=scratch[0],
        y=scratch[1],
        z=scratch[2],
        w=scratch[3],
        xf=scratch[0].view(np.float32),
        yf=scratch[1].view(np.float32),
        zf=scratch[2].view(np.float32),
        wf=scratch[3].view(np.float32),
        q=np.zeros(2, np.uint32),
        lane_address=np.zeros(at.LANES, np.int64),
        second_address=np.zeros(at.LANES, np.int64),
        fault=np.zeros(8, np.int64),
    )


def toolchain() -> str:
    """Versions of the tools that made the machine code, for the trace."""
    parts = []
    for name in _TOOLS:
        try:
            parts.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join(parts)
