"""What the device says of itself: the driver's device attributes from a GPU's description.

Mental model: a described GPU (:class:`~gpusim.gpus.spec.GpuSpec`) answers the same questions as a real one.
A bare capability such as ``sm_86`` gives a device with that architecture's limits and no timing. What it says of
itself: :mod:`gpusim.driver.device_attributes`; limits by capability: :mod:`gpusim.isa.architectures`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from gpusim.driver.device_attributes import CONSUMER, attributes_of
from gpusim.errors import UsageError
from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec, NodeSpec
from gpusim.isa.architectures import architecture
from gpusim.isa.target import Target, make_target

#: SM count and memory of a device that is no product: enough for any program, small enough to be plausible.
_BARE_SM_COUNT = 16
_BARE_MEMORY_BYTES = 16 << 30
#: GPUs that share the host's page tables (NVIDIA Grace Hopper Superchip Architecture, "NVLink-C2C").
_COHERENT = frozenset({"gh200"})
MOST_DEVICES = 16  # of one node: an HGX-2 has so many
FIRST_BUS = 1


@dataclass(frozen=True)
class Device:
    """A device of a run: ``spec`` for sizes, ``target`` for launches; ``timed``: the spec describes a
    GPU whose cycles can be predicted; ``pageable``: kernels reach all memory of the host. It is ``number`` of ``count``
    alike in one node."""

    spec: GpuSpec
    target: Target
    timed: bool
    pageable: bool = False
    number: int = 0
    count: int = 1

    @property
    def name(self) -> str:
        return self.spec.title

    @property
    def uuid(self) -> bytes:
        """16 bytes that no other device has."""
        own = self.spec.name if not self.number else f"{self.spec.name} {self.number}"
        return hashlib.sha256(own.encode()).digest()[:16]

    @property
    def pci_bus_id(self) -> bytes:
        """Domain, bus, device and function: each device is alone on its bus."""
        return f"0000:{FIRST_BUS + self.number:02x}:00.0".encode()

    @property
    def has_nvlink(self) -> bool:
        """Whether the described node joins its GPUs by NVLink; else they are cards on PCIe."""
        return self.spec.node.channels > NodeSpec().channels

    @property
    def reaches_peers(self) -> bool:
        """Whether kernels can reach other devices' memory. NVIDIA's driver offers no peer access over PCIe between
        :data:`CONSUMER` cards, as owners report it (a guess: no page of NVIDIA's at hand)."""
        return self.spec.name not in CONSUMER

    def all(self) -> tuple[Device, ...]:
        """All devices of the node, by number."""
        return tuple(replace(self, number=number) for number in range(self.count))

    def attributes(self) -> dict[int, int]:
        """``CUdevice_attribute`` number -> value, every one that there is."""
        values = attributes_of(self.spec)
        values[33] = FIRST_BUS + self.number  # PCI bus
        values[88] = int(self.pageable)  # access to pageable memory
        values[100] = int(self.pageable and self.spec.name in _COHERENT)  # by the host's page tables
        values[91] = 1  # registered memory has the host's address
        return values


def make_device(gpu: str | GpuSpec, pageable: bool = False, count: int = 1) -> Device:
    """The first of ``count`` devices from a GPU's name, TOML file or spec, or a bare capability such as ``sm_86``,
    which reaches the host's memory if ``pageable`` or if it does so on silicon; raises UnknownGpuError, SpecError, and
    UsageError for more devices than a node has."""
    if not 1 <= count <= MOST_DEVICES:
        raise UsageError(f"{count} devices: a node has 1 to {MOST_DEVICES}")
    return replace(_one_device(gpu, pageable), count=count)


def _one_device(gpu: str | GpuSpec, pageable: bool) -> Device:
    if isinstance(gpu, str) and gpu.startswith(("sm_", "sm", "compute_")) and "." not in gpu:
        target = make_target(gpu)
        return Device(_bare_spec(target), replace(target, sm_count=_BARE_SM_COUNT), timed=False, pageable=pageable)
    spec = gpu if isinstance(gpu, GpuSpec) else load_gpu(gpu)
    return Device(spec, make_target(spec), timed=True, pageable=pageable or spec.name in _COHERENT)


def _bare_spec(target: Target) -> GpuSpec:
    base = load_gpu("h200")
    row = architecture(target.capability)
    sm = replace(
        base.sm,
        max_warps=row.sm_warps,
        max_blocks=row.sm_blocks,
        shared_max_bytes=row.sm_shared_bytes,
        shared_per_block_max_bytes=target.shared_bytes,
        shared_reserved_bytes=row.reserved_shared_bytes,
    )
    return replace(
        base,
        name=target.name,
        title=f"NVIDIA {target.name}",
        capability=target.capability,
        sm_count=_BARE_SM_COUNT,
        sm=sm,
        dram=replace(base.dram, total_bytes=_BARE_MEMORY_BYTES),
    )
