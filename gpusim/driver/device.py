"""What the device says of itself: the driver's device attributes from a GPU's description.

Mental model: a described GPU (:class:`~gpusim.gpus.spec.GpuSpec`) answers the same questions as a real one.
A bare capability such as ``sm_86`` gives a device with that architecture's limits and no timing. What it says of itself:
:mod:`gpusim.driver.device_attributes`; limits by capability: :mod:`gpusim.isa.architectures`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from gpusim.driver.device_attributes import attributes_of
from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.isa.architectures import architecture
from gpusim.isa.target import Target, make_target

#: SM count and memory of a device that is no product: enough for any program, small enough to be plausible.
_BARE_SM_COUNT = 16
_BARE_MEMORY_BYTES = 16 << 30
#: GPUs that share the host's page tables (NVIDIA Grace Hopper Superchip Architecture, "NVLink-C2C").
_COHERENT = frozenset({"gh200"})


@dataclass(frozen=True)
class Device:
    """The one device of a run: ``spec`` for sizes, ``target`` for launches; ``timed``: the spec describes a
    GPU whose cycles can be predicted; ``pageable``: kernels reach all memory of the host."""

    spec: GpuSpec
    target: Target
    timed: bool
    pageable: bool = False

    @property
    def name(self) -> str:
        return self.spec.title

    @property
    def uuid(self) -> bytes:
        return hashlib.sha256(self.spec.name.encode()).digest()[:16]

    def attributes(self) -> dict[int, int]:
        """``CUdevice_attribute`` number -> value, every one that there is."""
        values = attributes_of(self.spec)
        values[88] = int(self.pageable)  # access to pageable memory
        values[100] = int(self.pageable and self.spec.name in _COHERENT)  # by the host's page tables
        values[91] = 1  # registered memory has the host's address
        return values


def make_device(gpu: str | GpuSpec, pageable: bool = False) -> Device:
    """A device from a GPU's name, TOML file or spec, or a bare capability such as ``sm_86``, which reaches the host's memory if
    ``pageable`` or if it does so on silicon; raises
    UnknownGpuError and SpecError."""
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
