"""What a GPU or a bare capability allows a launch to be, and where the driver puts its constants.

Mental model: a launch is checked against a few limits before anything runs, and constant bank 0 is filled
as the driver would. Limits without a GPU file come from the CUDA C++ Programming Guide's table of technical
specifications by capability; the offsets in bank 0 were read off compiled kernels that ask for them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from gpusim.errors import LaunchError, UnknownGpuError
from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec

GRID_LIMITS = (2**31 - 1, 65535, 65535)
BLOCK_LIMITS = (1024, 1024, 64)
_MAX_BLOCK_THREADS = 1024
_REGISTERS = 65536
_SHARED_BYTES = {
    (7, 0): 98304, (7, 2): 98304, (7, 5): 65536, (8, 0): 166912, (8, 6): 101376, (8, 7): 166912,
    (8, 9): 101376, (9, 0): 232448, (10, 0): 232448, (10, 3): 232448, (11, 0): 232448, (12, 0): 101376,
    (12, 1): 101376,
}  # fmt: skip
_CAPABILITY = re.compile(r"^(?:sm_?|compute_)(\d+)(\d)[af]?$")


@dataclass(frozen=True)
class Target:
    """``name`` for messages; ``gpu`` the GPU's name or empty; limits of one block."""

    name: str
    gpu: str
    capability: tuple[int, int]
    max_block_threads: int
    registers: int
    shared_bytes: int
    sm_count: int


@dataclass(frozen=True)
class BankLayout:
    """Byte offsets in constant bank 0 of what the driver provides; -1 for what a generation lacks."""

    block_shape: int
    grid_shape: int
    shared_window: int
    local_window: int
    stack: int
    dynamic_shared: tuple[int, ...]
    constants_pointer: int


@cache
def bank_layout(capability: tuple[int, int]) -> BankLayout:
    """Where bank 0 of this generation holds launch facts."""
    if capability >= (10, 0):
        return BankLayout(0x360, 0x370, -1, 0x2F8, 0x37C, (0x2AC,), 0x120)
    if capability >= (9, 0):
        return BankLayout(0x0, 0xC, 0x18, 0x20, 0x28, (0x2C,), 0xD0)
    return BankLayout(0x0, 0xC, 0x18, 0x20, 0x28, (0x2C,), 0x50)


def make_target(gpu: str | GpuSpec | tuple[int, int]) -> Target:
    """A Target from a GPU name, a GpuSpec, a capability ``(9, 0)`` or ``"sm_90"``."""
    if isinstance(gpu, str) and (match := _CAPABILITY.match(gpu)):
        gpu = (int(match.group(1)), int(match.group(2)))
    if isinstance(gpu, tuple):
        capability = (int(gpu[0]), int(gpu[1]))
        name = f"sm_{capability[0]}{capability[1]}"
        if capability not in _SHARED_BYTES:
            known = ", ".join(f"sm_{a}{b}" for a, b in _SHARED_BYTES)
            raise UnknownGpuError(f"unknown compute capability {name}: known are {known}")
        return Target(name, "", capability, _MAX_BLOCK_THREADS, _REGISTERS, _SHARED_BYTES[capability], 1)
    spec = gpu if isinstance(gpu, GpuSpec) else load_gpu(gpu)
    return Target(
        spec.name,
        spec.name,
        tuple(spec.capability),
        spec.sm.max_threads_per_block,
        spec.sm.registers,
        spec.sm.shared_per_block_max_bytes,
        spec.sm_count,
    )


def shape(value: int | tuple[int, ...], what: str) -> tuple[int, int, int]:
    """A grid or block as three positive numbers; raises LaunchError."""
    parts = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if not 1 <= len(parts) <= 3:
        raise LaunchError(f"{what} has {len(parts)} dimensions: one to three are possible")
    numbers = []
    for part in parts:
        try:
            number = part.__index__()
        except AttributeError:
            raise LaunchError(f"{what} {value!r}: {part!r} is not a whole number") from None
        if number < 1:
            raise LaunchError(f"{what} {value!r}: {number} is not positive")
        numbers.append(number)
    return tuple(numbers + [1] * (3 - len(numbers)))


def check_launch(
    target: Target,
    kernel: str,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    registers_per_thread: int,
    static_shared: int,
    dynamic_shared: int,
) -> None:
    """Raise LaunchError, naming what was asked for and what is possible, if the GPU would refuse."""
    for axis, number, limit in zip("xyz", grid, GRID_LIMITS, strict=True):
        if number > limit:
            raise LaunchError(f"{kernel}: grid {axis} is {number}, at most {limit} is possible")
    for axis, number, limit in zip("xyz", block, BLOCK_LIMITS, strict=True):
        if number > limit:
            raise LaunchError(f"{kernel}: block {axis} is {number}, at most {limit} is possible")
    threads = block[0] * block[1] * block[2]
    if threads > target.max_block_threads:
        raise LaunchError(
            f"{kernel}: a block of {threads} threads is too large for {target.name}, which allows"
            f" {target.max_block_threads}"
        )
    shared = static_shared + dynamic_shared
    if dynamic_shared < 0 or shared > target.shared_bytes:
        raise LaunchError(
            f"{kernel}: {shared} bytes of shared memory a block ({static_shared} static, {dynamic_shared}"
            f" dynamic) do not fit {target.name}, which allows {target.shared_bytes}"
        )
    # Registers are given out by the warp, 256 at a time.
    warps = -(-threads // 32)
    needed = warps * (-(-registers_per_thread * 32 // 256) * 256)
    if needed > target.registers:
        raise LaunchError(
            f"{kernel}: {threads} threads of {registers_per_thread} registers need {needed} registers,"
            f" {target.name} has {target.registers} an SM: use a smaller block or max_registers"
        )
