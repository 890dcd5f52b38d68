"""What a GPU or a bare capability allows a launch to be.

Mental model: a launch is checked against a few limits before anything runs. They are those of a GPU's file or, without
one, of its architecture (:mod:`gpusim.isa.architectures`).
"""

from __future__ import annotations

from dataclasses import dataclass

from gpusim.errors import LaunchError
from gpusim.gpus.load import load_gpu
from gpusim.gpus.names import capability_of
from gpusim.gpus.spec import GpuSpec
from gpusim.isa.architectures import BLOCK_LIMITS, GRID_LIMITS, architecture

#: Blocks that a cluster may have on every GPU with clusters, and on those that allow more to kernels that ask for it
#: (CUDA C++ Programming Guide, "Thread Block Clusters"; Hopper Tuning Guide).
PORTABLE_CLUSTER, LARGEST_CLUSTER = 8, 16
CLUSTER_CAPABILITY = (9, 0)


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


def make_target(gpu: str | GpuSpec | tuple[int, int]) -> Target:
    """A Target from a GPU name, a GpuSpec, a capability ``(9, 0)`` or ``"sm_90"``."""
    if isinstance(gpu, str) and (named := capability_of(gpu)):
        gpu = named
    if isinstance(gpu, tuple):
        row = architecture((int(gpu[0]), int(gpu[1])))
        return Target(row.name, "", row.capability, row.block_threads, row.sm_registers, row.block_shared_bytes, 1)
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
            raise LaunchError(
                f"{what} {value!r}: {number} is not positive: a launch has at least one block of one thread"
            )
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


def check_cluster(
    target: Target,
    kernel: str,
    grid: tuple[int, int, int],
    cluster: tuple[int, int, int],
    compiled: tuple[int, int, int] | None,
    compiled_most: int,
    large: bool,
) -> None:
    """Raise LaunchError if the GPU would refuse clusters of ``cluster`` blocks. ``compiled``: what the kernel was
    compiled for,
    ``compiled_most``: blocks at most (0: it does not say); ``large``: more than the portable number are allowed to
    it."""
    blocks = cluster[0] * cluster[1] * cluster[2]
    if compiled is not None and cluster != compiled:
        raise LaunchError(f"{kernel}: a cluster of {cluster} blocks: the kernel was compiled for {compiled}, give None")
    if blocks == 1:
        return
    if target.capability < CLUSTER_CAPABILITY:
        raise LaunchError(
            f"{kernel}: a cluster of {cluster} blocks: {target.name} (sm_{target.capability[0]}{target.capability[1]})"
            " has no thread-block clusters, sm_90 and later have"
        )
    most = LARGEST_CLUSTER if large else PORTABLE_CLUSTER
    most = min(most, compiled_most or most)
    if blocks > most:
        raise LaunchError(f"{kernel}: a cluster of {cluster} blocks has {blocks}, at most {most} are possible")
    for axis, whole, part in zip("xyz", grid, cluster, strict=True):
        if whole % part:
            raise LaunchError(
                f"{kernel}: grid {axis} is {whole}, which does not divide into clusters of {part} blocks (cluster {cluster})"
            )
