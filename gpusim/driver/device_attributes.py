"""Every CUdevice_attribute of cuda.h 13, by number.

Mental model: sizes of the machine come from the GPU's description. Limits of textures, addressing and such are those of
its compute capability, which are the same from 7.5 to 12 (CUDA Programming Guide, "Technical Specifications per Compute
Capability"). A feature counts as there when the emulated driver has it, whatever the GPU could do: a program that asks
first then takes the way that works.
"""

from __future__ import annotations

from gpusim.gpus.memory_kinds import MEMORY_KINDS, MEMORY_OF
from gpusim.gpus.spec import GpuSpec
from gpusim.isa.architectures import BLOCK_LIMITS, GRID_LIMITS

_LAST = 161
_DEFAULT_SHARED_BYTES, _CONSTANT_BYTES, _WARP = 48 << 10, 64 << 10, 32
_MAX_PITCH = 2**31 - 1
_TEXTURE_ALIGNMENT, _SURFACE_ALIGNMENT, _PITCH_ALIGNMENT = 512, 512, 32
#: Elements of a one-dimensional texture in linear memory.
LINEAR_TEXTURE_ELEMENTS = 1 << 28
#: Bits of the memory interface (NVIDIA's datasheets), where the description has fewer channels than they make.
_BUS_BITS = {"b200": 8192}
#: Of a channel of memory that is not known.
_CHANNEL_BITS = 64
#: GeForce cards, and the TITAN RTX like the RTX 2080 Ti.
CONSUMER = frozenset({
    "rtx2070", "rtx2070_super", "rtx2080ti", "titan_rtx", "rtx3060", "rtx3070", "rtx3070ti_laptop", "rtx3080", "rtx3080ti", "rtx3090", "rtx4060ti", "rtx4070", "rtx4070_super",
    "rtx4070ti_super", "rtx4080", "rtx4090", "rtx5060ti", "rtx5070", "rtx5070ti", "rtx5080", "rtx5080_laptop", "rtx5090",
})  # fmt: skip
#: GPUs without ECC, or with it switched off as they come.
_WITHOUT_ECC = CONSUMER | {"titan_v"}
_HOST_COHERENT = frozenset({"gh200"})
#: Attributes that are 1: copies and kernels side by side (15, 31), host memory mapped and in one address space (19,
#: 41), gather (44), stream priorities (78), L1 caches global and local memory (79, 80), managed memory, also while the
#: host uses it (83, 89), preemption (90), registered memory at the host's address (91), memory operations (92 to 94,
#: 122, 123), cooperative launches (95), host registration (99), virtual memory management (102), its descriptors (103),
#: memory pools (115) also of host memory (142, 144), host memory of cuMemCreate (141, 145), events of several processes
#: (125).
_YES = (
    15,
    19,
    31,
    41,
    44,
    78,
    79,
    80,
    83,
    89,
    90,
    91,
    92,
    93,
    94,
    95,
    99,
    102,
    103,
    115,
    122,
    123,
    125,
    141,
    142,
    144,
    145,
)
_TEXTURES = {
    21: 131072, 22: 131072, 23: 65536, 24: 16384, 25: 16384, 26: 16384, 27: 32768, 28: 32768, 29: 2048, 42: 32768, 43: 2048,
    45: 32768, 46: 32768, 47: 8192, 48: 8192, 49: 32768, 52: 32768, 53: 32768, 54: 2046, 55: 32768, 56: 131072, 57: 65536,
    58: 16384, 59: 16384, 60: 16384, 61: 32768, 62: 2048, 63: 32768, 64: 32768, 65: 2048, 66: 32768, 67: 32768, 68: 2046,
    69: LINEAR_TEXTURE_ELEMENTS, 70: 131072, 71: 65000, 72: 2097120, 73: 32768, 74: 32768, 77: 32768,
}  # fmt: skip
_PERSISTING_SHARE = 0.75  # of the L2 may be set aside, since compute capability 8.0 (deviceQuery of A100, H100)
_POLICY_WINDOW_BYTES = (128 << 20) - 4096  # the same source


def attributes_of(spec: GpuSpec) -> dict[int, int]:
    """``CUdevice_attribute`` number -> value, for every number that cuda.h 13 knows; what the device lacks is 0."""
    sm = spec.sm
    major, minor = spec.capability
    values = dict.fromkeys(range(1, _LAST + 1), 0)
    values.update(enumerate((sm.max_threads_per_block, *BLOCK_LIMITS, *GRID_LIMITS), start=1))
    values.update(dict.fromkeys(_YES, 1))
    values.update(_TEXTURES)
    bus_bits = _bus_bits(spec)
    persisting = round(spec.l2.total_bytes * _PERSISTING_SHARE) if spec.capability >= (8, 0) else 0
    values.update(
        {
            8: _DEFAULT_SHARED_BYTES,
            9: _CONSTANT_BYTES,
            10: _WARP,
            11: _MAX_PITCH,
            12: sm.registers,
            13: round(spec.clock_hz / 1000),
            14: _TEXTURE_ALIGNMENT,
            16: spec.sm_count,
            30: _SURFACE_ALIGNMENT,
            32: int(spec.name not in _WITHOUT_ECC),
            33: 1,  # PCI bus
            36: round(spec.dram.peak_bytes_per_ns * 8 / bus_bits / 2 * 1e6),  # kHz
            37: bus_bits,
            38: spec.l2.total_bytes,
            39: sm.max_warps * _WARP,
            40: 2,  # copy engines
            51: _PITCH_ALIGNMENT,
            75: major,
            76: minor,
            81: sm.shared_max_bytes,
            82: sm.registers,
            85: 0,
            86: int(spec.name in _HOST_COHERENT),
            87: spec.pipes["fp64"].interval_cycles // max(1, spec.pipes["fma"].interval_cycles),
            97: sm.shared_per_block_max_bytes,
            101: int(spec.name in _HOST_COHERENT),
            106: sm.max_blocks,
            107: int(spec.capability >= (8, 0)),  # cuMemCreate takes compressible memory, since the A100's L2
            108: persisting,
            109: _POLICY_WINDOW_BYTES if persisting else 0,
            111: sm.shared_reserved_bytes,
            118: 100,  # CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER
            120: int(spec.capability >= (9, 0)),
            126: 4 if spec.capability >= (9, 0) else 1,  # memory synchronization domains (CUDA Programming Guide)
            127: int(spec.capability >= (9, 0)),
            131: -1,  # no NUMA node
            134: 0,
            149: 1,
            157: spec.sm_count,
        }
    )
    return values


def _bus_bits(spec: GpuSpec) -> int:
    """Of all channels of its memory, whose standard says how wide one is; memory transfers twice a clock as CUDA counts
    clocks."""
    kind = MEMORY_OF.get(spec.name)
    channel_bits = MEMORY_KINDS[kind].channel_bits if kind else _CHANNEL_BITS
    return _BUS_BITS.get(spec.name, channel_bits * spec.dram.channels)
