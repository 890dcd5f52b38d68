"""What the device says of itself: the driver's device attributes from a GPU's description.

Mental model: a described GPU (:class:`~gpusim.gpus.spec.GpuSpec`) answers the same questions as a real one.
A bare capability such as ``sm_86`` gives a device with that architecture's limits and no timing. What a
description does not hold (texture limits, clock of the memory) is answered with what every GPU of
compute capability 7.5 to 12 has, or 0. Numbers of the attributes: ``CUdevice_attribute`` in cuda.h.
Limits by capability: :mod:`gpusim.isa.architectures`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.isa.architectures import BLOCK_LIMITS, GRID_LIMITS, architecture
from gpusim.isa.target import Target, make_target

#: SM count and memory of a device that is no product: enough for any program, small enough to be plausible.
_BARE_SM_COUNT = 16
_BARE_MEMORY_BYTES = 16 << 30
_DEFAULT_SHARED_BYTES = 48 << 10
#: GPUs that share the host's page tables (NVIDIA Grace Hopper Superchip Architecture, "NVLink-C2C").
_COHERENT = frozenset({"gh200"})
_TEXTURE_ALIGNMENT, _PITCH_ALIGNMENT, _MAX_PITCH = 512, 32, 2**31 - 1


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
        """``CUdevice_attribute`` number -> value; what is missing here is 0."""
        spec, sm = self.spec, self.spec.sm
        major, minor = spec.capability
        values = dict(enumerate((sm.max_threads_per_block, *BLOCK_LIMITS, *GRID_LIMITS), start=1))
        yes = (15, 19, 31, 41, 78, 79, 80, 83, 90, 95, 99, 102, 106, 115)
        values.update(dict.fromkeys(yes, 1))
        values.update(
            {
                8: _DEFAULT_SHARED_BYTES,
                9: 64 << 10,  # constant memory
                10: 32,
                11: _MAX_PITCH,
                12: sm.registers,
                13: round(spec.clock_hz / 1000),
                14: _TEXTURE_ALIGNMENT,
                16: spec.sm_count,
                33: 1,  # PCI bus
                38: spec.l2.total_bytes,
                39: sm.max_warps * 32,
                40: 2,  # copy engines
                51: _PITCH_ALIGNMENT,
                75: major,
                76: minor,
                81: sm.shared_max_bytes,
                82: sm.registers,
                86: 0,
                87: spec.pipes["fp64"].interval_cycles // max(1, spec.pipes["fma"].interval_cycles),
                89: 1,  # concurrent access to managed memory
                97: sm.shared_per_block_max_bytes,
                106: sm.max_blocks,
                111: sm.shared_reserved_bytes,
                120: 0,  # thread-block clusters are not emulated
            }
        )
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
