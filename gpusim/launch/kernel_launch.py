"""One launch of a kernel: the binary, its shape, and the bytes of its parameters.

Mental model: this is what ``cuLaunchKernel`` is given. A capture, an emulated program and a measurement each make one
and hand it on, to the emulator or to a GPU; a launch that the GPU would refuse cannot be made. (What a trace file says
of the launch that it came from is :class:`gpusim.trace.record.Launch`.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpusim.errors import LaunchError
from gpusim.isa.binary.cubin import DEFAULT_STACK_BYTES, KernelImage
from gpusim.isa.target import Target, check_cluster, check_launch, shape
from gpusim.launch.binary import KernelBinary
from gpusim.launch.memory import LOCAL_WINDOW, SHARED_WINDOW, DeviceMemory
from gpusim.trace.record import Launch

#: A side or up to three of a grid or block.
Sides = int | tuple[int, ...]
#: A grid as a user gives it: sides, or a function of the binary's compile-time parameters that returns them.
Grid = Sides | Callable[[Mapping[str, Any]], Sides]


@dataclass(frozen=True, eq=False)
class KernelLaunch:
    """A launch that ``target`` can run. ``parameters``: the parameter bank from its first byte; sizes in bytes.
    ``stack_limit_bytes``: the stack of a thread whose need nobody knows beforehand. ``cluster``: blocks of a
    thread-block cluster along x, y, z; ``large_clusters``: the kernel may have more than the portable eight
    (CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED).

    Raises LaunchError, naming what was asked for and what is possible, for one that the GPU would refuse.
    """

    binary: KernelBinary
    target: Target
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int = 0
    parameters: bytes = field(default=b"", repr=False)
    stack_limit_bytes: int = DEFAULT_STACK_BYTES
    cluster: tuple[int, int, int] = (1, 1, 1)
    large_clusters: bool = False

    def __post_init__(self) -> None:
        _refuse_other_architecture(self.binary, self.target)
        image = self.image
        check_launch(
            self.target, self.binary.name, self.grid, self.block, image.registers_per_thread, image.shared_bytes,
            self.dynamic_shared_bytes,
        )  # fmt: skip
        check_cluster(
            self.target,
            self.binary.name,
            self.grid,
            self.cluster,
            image.cluster,
            image.max_cluster,
            self.large_clusters,
        )

    @property
    def cluster_blocks(self) -> int:
        """Blocks of a cluster; 1: the launch has none."""
        return self.cluster[0] * self.cluster[1] * self.cluster[2]

    @property
    def image(self) -> KernelImage:
        """The binary as a loader sees it."""
        return self.binary.image

    @property
    def local_bytes(self) -> int:
        """Local memory of a thread: what the compiler asks for, and the driver's limit where the stack grows as the
        kernel runs (recursion, ``alloca``)."""
        image = self.image
        if image.open_stack:
            return max(image.local_bytes, image.local_bytes - DEFAULT_STACK_BYTES + self.stack_limit_bytes)
        return image.local_bytes + (self.stack_limit_bytes if self.binary.moves_stack else 0)

    def describe(self, memory: DeviceMemory) -> Launch:
        """What a trace says of this launch with the allocations of ``memory``."""
        image = self.image
        return Launch(
            kernel=self.binary.name,
            capability=self.binary.capability,
            grid=self.grid,
            block=self.block,
            registers_per_thread=image.registers_per_thread,
            shared_bytes=image.shared_bytes + self.dynamic_shared_bytes,
            local_bytes=self.local_bytes,
            cubin_sha256=image.sha256,
            gpu=self.target.gpu,
            toolchain=self.binary.toolchain,
            shared_window=SHARED_WINDOW,
            local_window=LOCAL_WINDOW,
            allocations=tuple((a.base, a.size) for a in memory.sorted()),
            cooperative=self.binary.cooperative,
            cluster=self.cluster,
        )


def make_launch(
    binary: KernelBinary,
    target: Target,
    grid: Grid | None,
    block: Sides | None,
    dynamic_shared_bytes: int = 0,
    grid_arguments: Mapping[str, Any] | None = None,
    cluster: Sides | None = None,
) -> KernelLaunch:
    """The launch that a user asks for, its parameters still to come; ``grid`` and ``block`` as :func:`sides_of` takes
    them, ``cluster`` as :func:`cluster_of` does. ``dynamic_shared_bytes`` come on top of what the binary needs. Raises
    LaunchError."""
    grid, block = sides_of(binary, grid, block, grid_arguments)
    shared = int(dynamic_shared_bytes) + binary.dynamic_shared_bytes
    blocks = cluster_of(binary, cluster)
    return KernelLaunch(binary, target, grid, block, shared, cluster=blocks, large_clusters=True)


def cluster_of(binary: KernelBinary, cluster: Sides | None) -> tuple[int, int, int]:
    """Blocks of a cluster along x, y, z: ``cluster``, or where it is None what the kernel was compiled for
    (``__cluster_dims__``), else one. Raises LaunchError."""
    if cluster is None:
        return binary.cluster or binary.image.cluster or (1, 1, 1)
    return shape(cluster, "cluster")


def sides_of(
    binary: KernelBinary, grid: Grid | None, block: Sides | None, grid_arguments: Mapping[str, Any] | None = None
) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """(grid, block) along x, y, z. ``block`` or ``grid`` None is the one that the binary was compiled for, a ``grid``
    that is a function is asked with ``grid_arguments``, by default its compile-time parameters. Raises LaunchError."""
    if block is None:
        block = binary.block
        if block is None:
            raise LaunchError(f"{binary.name}: give a block: the kernel was compiled for none in particular")
    elif binary.block is not None and shape(block, "block") != binary.block:
        raise LaunchError(f"{binary.name}: block {block!r}: the kernel was compiled for {binary.block}, give None")
    if grid is None:
        grid = binary.grid
        if grid is None:
            raise LaunchError(f"{binary.name}: give a grid: the kernel was compiled for none in particular")
    if callable(grid):
        named = dict(binary.constants if grid_arguments is None else grid_arguments)
        try:
            grid = grid(named)
        except KeyError as error:
            raise LaunchError(f"{binary.name}: the grid asks for {error}; it is given {', '.join(named)}") from None
    sides = shape(grid, f"{binary.name}: grid")
    if binary.grid_of_clusters and binary.cluster is not None:
        x, y, z = (side * part for side, part in zip(sides, binary.cluster, strict=True))
        sides = x, y, z
    return sides, shape(block, f"{binary.name}: block")


def _refuse_other_architecture(binary: KernelBinary, target: Target) -> None:
    """Raise LaunchError for machine code that ``target`` cannot load: it runs code of its own major capability and of
    no higher minor one (CUDA C++ Programming Guide, "Binary Compatibility")."""
    (major, minor), have = binary.capability, target.capability
    if major != have[0] or minor > have[1]:
        raise LaunchError(
            f"{binary.name}: machine code for sm_{major}{minor} does not run on {target.name} (sm_{have[0]}{have[1]})"
        )
