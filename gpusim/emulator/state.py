"""Allocates what the interpreter needs for a launch: its arrays, and the state of a resident block.

Mental model: :func:`make_state` writes grid, block and windows into the one-record state of a block slot;
:func:`make_machine` gathers the launch's arrays, among them the register file whose first rows hold
constants, parameters and immediates.
"""

from __future__ import annotations

import struct

import numpy as np

from gpusim.emulator.aligned import aligned_zeros
from gpusim.emulator.bulk_copies import bulk_entry_address
from gpusim.emulator.prepare import PARAMETERS_ADDRESS, Prepared
from gpusim.emulator.runs import arithmetic_entry_address
from gpusim.emulator.tensor_memory import tell_rank
from gpusim.emulator.tensor_unit import ROOM_BYTES, tensor_entry_address
from gpusim.emulator.texture_units import texture_entry_address
from gpusim.emulator.warpgroup_products import product_entry_address
from gpusim.emulator.warpgroup_tiles import WORK
from gpusim.emulator.without_data import no_product_address
from gpusim.isa import system_ops as ops
from gpusim.isa import warp as at
from gpusim.isa.architectures import nearest
from gpusim.isa.binary.cubin import CONSTANTS_ADDRESS, GRID_WORKSPACE_ADDRESS, KernelImage
from gpusim.isa.bodies.tensor_rules import tensor_rules
from gpusim.launch.kernel_launch import KernelLaunch
from gpusim.launch.memory import LOCAL_WINDOW, SHARED_WINDOW, DeviceMemory

#: Instructions of a warp before the next warp of the block runs, at a jump.
WARP_QUANTUM = 4096
#: Instructions of a block before other blocks may run beside it (it may wait for them).
BLOCK_SLICE = 1 << 22
#: Registers are given to a thread in units of so many.
_REGISTER_UNIT = 8
#: Shapes of blocks of which a kernel keeps the first state or a register file.
_SPARE_SHAPES = 8
#: Record arrays of launches that are over, with their bytes: their views cost more than their contents.
_FREE_STATES = 4
_free_states: list[tuple[np.recarray, np.ndarray]] = []


#: Rows of the hash of words and of the signals that a kernel that polls starts with.
_FIRST_WORDS, _FIRST_SIGNALS = 1 << 13, 1 << 14
#: Changes of polled words that are kept (2 MiB), and numbers of words that are told apart when one of them changes.
_HISTORY, _TOUCHED = 1 << 16, 1 << 12


def make_state(
    prepared: Prepared,
    launch: KernelLaunch,
    instruction_limit: int,
    lockstep: bool = True,
    without_data: bool = False,
) -> tuple[np.recarray, np.ndarray, list[np.ndarray]]:
    """A slot for one resident block: (STATE[1], its bytes, the shared, local and other memory that it points to); the
    address of its register file is still to be set. ``lockstep``: warps at the same instruction may run together.
    ``without_data``: paths and addresses alone count (:mod:`gpusim.emulator.without_data`)."""
    key = ("state", launch.target.sm_count, launch.block, launch.dynamic_shared_bytes, lockstep)
    image = prepared.spare.get(key)
    if image is None:
        _make_room(prepared)
        image = prepared.spare[key] = _blank(prepared, launch, lockstep)
    if _free_states:
        states, raw = _free_states.pop()
    else:
        raw = aligned_zeros(at.STATE.itemsize, np.dtype(np.uint8))
        states = raw.view(at.STATE).view(np.recarray)
    raw[:] = image
    state = states[0]
    state["grid_dim"] = launch.grid
    state["cluster_dim"] = launch.cluster
    state["cluster_size"] = launch.cluster_blocks
    state["limit"] = instruction_limit
    warps = int(state["warps"])
    below = int(state["shared_base"] - state["shared_low"])
    # Atomics on less than a word reach the whole of the last one.
    shared = np.zeros(max(1, below + -(-int(state["shared_bytes"]) // 4) * 4), np.uint8)
    local = np.zeros(max(1, int(state["local_bytes"]) * warps * at.LANES), np.uint8)
    state["shared_host"], state["local_host"] = shared.ctypes.data + below, local.ctypes.data
    state["peer_shared"][0] = state["shared_host"]
    state["state_host"] = raw.ctypes.data
    rooms = [shared, local]
    if (prepared.encoded.matrix[:, at.OP] == ops.WARPGROUP_PRODUCT).any():
        rooms.append(aligned_zeros(WORK.itemsize, np.dtype(np.uint8)))
        state["product_host"] = rooms[-1].ctypes.data
        if without_data:
            state["product_entry"] = no_product_address()
    state["without_data"] = without_data
    if prepared.encoded.uses_tensor_memory:
        rooms.append(aligned_zeros(ROOM_BYTES, np.dtype(np.uint8)))
        state["tensor_host"] = state["peer_tensor"][0] = rooms[-1].ctypes.data
        tell_rank(state, 0)
    return states, raw, rooms


def release(prepared: Prepared, states: np.recarray, raw: np.ndarray, registers: np.ndarray) -> None:
    """Let later launches have the record array of a slot, with its bytes, and its register file."""
    if len(_free_states) < _FREE_STATES:
        _free_states.append((states, raw))
    prepared.spare["file", len(registers)] = registers


def _make_room(prepared: Prepared) -> None:
    """Keep no more than a few shapes of blocks."""
    while len(prepared.spare) >= _SPARE_SHAPES:
        del prepared.spare[next(iter(prepared.spare))]


def _blank(prepared: Prepared, launch: KernelLaunch, lockstep: bool) -> np.ndarray:
    """The bytes of a state before its launch begins, but for the grid, the instruction limit and host addresses."""
    image, encoded = prepared.image, prepared.encoded
    block = launch.block
    threads = block[0] * block[1] * block[2]
    warps = -(-threads // at.LANES)
    states = np.zeros(1, at.STATE)
    state = states[0]
    state["block_dim"][:] = block
    state["warps"] = warps
    state["own_base"] = encoded.shared_rows * at.ROW
    state["own_stride"] = encoded.own_rows * at.ROW
    state["shared_base"] = state["shared_low"] = image.shared_base
    state["pair_allocation"] = image.pair_allocation
    state["shared_bytes"] = _own_shared_bytes(image, launch.dynamic_shared_bytes)
    state["shared_bytes"] += _RESERVED_BYTES if image.uses_reserved else 0
    state["local_bytes"] = stack_bytes(launch)
    state["thread_registers"] = -(-image.registers_per_thread // _REGISTER_UNIT) * _REGISTER_UNIT
    state["shared_window"] = SHARED_WINDOW
    state["local_window"] = LOCAL_WINDOW
    state["sm_count"] = launch.target.sm_count
    state["sm_warps"] = nearest(prepared.capability).sm_warps
    state["quantum"] = WARP_QUANTUM
    state["slice"] = BLOCK_SLICE
    state["entries"][:] = encoded.entries
    state["arithmetic_entry"] = arithmetic_entry_address()
    if (encoded.matrix[:, at.OP] == ops.TEXTURE).any():
        state["texture_entry"] = texture_entry_address()
    if encoded.uses_tensor_memory:
        state["tensor_entry"] = tensor_entry_address()
        # Where the system keeps shared memory for itself, compiled code notes what tensor memory it has.
        state["shared_low"] = 0
    if (encoded.matrix[:, at.OP] == ops.BULK).any():
        state["bulk_entry"] = bulk_entry_address()
    if (encoded.matrix[:, at.OP] == ops.WARPGROUP_PRODUCT).any():
        state["product_entry"] = product_entry_address()
    state["matrix_host"] = encoded.matrix.ctypes.data
    state["rules"][:] = tensor_rules(prepared.capability)
    lane = np.arange(warps * at.LANES)
    weights = np.left_shift(np.int64(1), np.arange(at.LANES, dtype=np.int64))
    state["exists"][:warps] = (lane < threads).reshape(warps, at.LANES) @ weights
    state["thread"][:warps, 0] = (lane % block[0]).reshape(warps, at.LANES)
    state["thread"][:warps, 1] = (lane // block[0] % block[1]).reshape(warps, at.LANES)
    state["thread"][:warps, 2] = (lane // (block[0] * block[1])).reshape(warps, at.LANES)
    state["lockstep"] = lockstep and not encoded.reads_clock
    return states.view(np.uint8)


def another_file(registers: np.ndarray) -> np.ndarray:
    """A register file of its own for a further slot, with the same shared rows."""
    copy = aligned_zeros(registers.size, registers.dtype)
    copy[:] = registers
    return copy


def stack_bytes(launch: KernelLaunch) -> int:
    """Bytes of local memory a thread has, in whole 16-byte units."""
    return -(-launch.local_bytes // 16) * 16


def make_machine(
    prepared: Prepared,
    launch: KernelLaunch,
    memory: DeviceMemory,
    log: tuple[np.ndarray, np.ndarray, np.ndarray],
    module_constants: bytes = b"",
) -> at.Machine:
    """The arrays of a launch, with a register file for one resident block. ``module_constants``: what bank 3 holds,
    else what the cubin says."""
    encoded = prepared.encoded
    constants = _constants(prepared, launch, module_constants)
    block = launch.block
    warps = -(-block[0] * block[1] * block[2] // at.LANES)
    groups = -(-warps // at.GROUP_WARPS)
    # Bodies may look at four rows of an operand wherever it begins: three spare ones at the end.
    words = (encoded.shared_rows + groups * encoded.own_rows + 3) * at.ROW
    registers = prepared.spare.pop(("file", words), None)
    if registers is None:
        _make_room(prepared)
        registers = aligned_zeros(words, np.dtype(np.int32))
        rows, values = encoded.immediate_rows
        registers.reshape(-1, at.ROW)[rows] = values
    rows, places = encoded.constant_rows
    registers.reshape(-1, at.ROW)[rows] = constants[places].view(np.int32)
    allocations = memory.sorted()
    polls = len(encoded.polls) > 0
    table = np.array([(a.base, a.size, a.host) for a in allocations], np.int64).reshape(len(allocations), 3)
    return at.Machine(
        matrix=encoded.matrix,
        registers=registers,
        index_of=encoded.index_of,
        pointers=encoded.pointers,
        allocations=table,
        hint=np.zeros(len(encoded.matrix), np.int64),
        constants=constants,
        runs=log[0],
        accesses=log[1],
        scattered=log[2],
        syncs=np.empty((0, at.SYNC_TABLE.width), np.int64),
        polls=encoded.polls,
        words=np.zeros((_FIRST_WORDS if polls else 0, at.WORD_TABLE.width), np.int64),
        signals=np.empty((_FIRST_SIGNALS if polls else 0, at.SIGNAL_TABLE.width), np.int64),
        history=np.zeros((_HISTORY if polls else 1, at.HISTORY_TABLE.width), np.int64),
        touched=np.zeros(_TOUCHED if polls else 1, np.int64),
    )


def _reciprocal(side: int) -> float:
    """One divided by ``side`` in FP32, rounded up: compiled code multiplies a block's index by it and drops the
    fraction."""
    rounded = np.float32(1) / np.float32(side)
    return float(rounded if float(rounded) * side >= 1 else np.nextafter(rounded, np.float32(1)))


#: Shared memory that CUDA reserves for groups of several warps, which the headers of cooperative groups count on
#: (cooperative_groups/details/memory.h, multi_warp_scratch). Here it lies behind the block's own.
_RESERVED_BYTES = 288


def _reserved_start(launch: KernelLaunch) -> int:
    """Its shared address."""
    return launch.image.shared_base + _own_shared_bytes(launch.image, launch.dynamic_shared_bytes)


def _own_shared_bytes(image: KernelImage, dynamic_bytes: int) -> int:
    """A block's shared memory, without what CUDA reserves."""
    if dynamic_bytes or image.uses_reserved:
        # The compiler does not know the end of dynamic shared memory, and may read up to the next 16-byte
        # boundary when it merges loads: on a GPU that is always there, memory comes in larger units.
        return -(-(image.shared_bytes + dynamic_bytes) // 16) * 16
    return image.shared_bytes


#: The constant variables of a module.
_MODULE_BANK = 3


def _constants(prepared: Prepared, launch: KernelLaunch, module_constants: bytes) -> np.ndarray:
    """All constant banks one after another, bank 0 filled as the driver fills it."""
    image, encoded = prepared.image, prepared.encoded
    end = max((encoded.bank_start[b] + -(-encoded.bank_bytes[b] // 16) * 16 for b in encoded.bank_start), default=0)
    constants = bytearray(end)
    for bank, content in image.constants.items():
        start = encoded.bank_start[bank]
        content = module_constants or content if bank == _MODULE_BANK else content
        constants[start : start + len(content)] = content
    start, size = encoded.bank_start.get(0, 0), encoded.bank_bytes.get(0, 0)
    layout = nearest(prepared.capability).bank

    def put(offset: int, kind: str, *values: int) -> None:
        if offset >= 0 and offset + struct.calcsize(kind) <= size:
            struct.pack_into(kind, constants, start + offset, *values)

    put(layout.block_shape, "<3I", *launch.block)
    put(layout.grid_shape, "<3I", *launch.grid)
    put(layout.shared_window, "<Q", SHARED_WINDOW)
    put(layout.local_window, "<Q", LOCAL_WINDOW)
    put(layout.stack, "<I", stack_bytes(launch))
    if image.uses_reserved:
        put(layout.reserved_shared, "<I", _reserved_start(launch))
    for offset in layout.dynamic_shared:
        put(offset, "<I", launch.dynamic_shared_bytes)
    put(layout.constants_pointer, "<Q", CONSTANTS_ADDRESS)
    put(layout.parameters_pointer, "<Q", PARAMETERS_ADDRESS + image.parameter_base)
    if launch.binary.cooperative:
        for offset, half in zip(layout.grid_workspace, divmod(GRID_WORKSPACE_ADDRESS, 1 << 32), strict=True):
            put(offset, "<I", half)
    if layout.cluster is not None:
        shape = layout.cluster
        put(shape.explicit, "<I", launch.cluster_blocks > 1 or image.cluster is not None)
        put(shape.shape, "<3I", *launch.cluster)
        for offset, side in zip(shape.reciprocals, launch.cluster[1:], strict=True):
            put(offset, "<f", _reciprocal(side))
        put(shape.grid, "<3I", *(whole // part for whole, part in zip(launch.grid, launch.cluster, strict=True)))
        put(shape.size, "<I", launch.cluster_blocks)
    base = start + image.parameter_base
    constants[base : base + len(launch.parameters)] = launch.parameters
    return np.frombuffer(constants, np.uint8)
