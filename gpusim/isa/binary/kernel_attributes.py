"""What a cubin says of one kernel: its parameters, block barriers and the largest block that it was compiled for.

Mental model: a section of attributes for each kernel. Their numbers were read off cubins by experiment and agree with
the names that NVIDIA's cuobjdump prints for them (EIATTR_*).
"""

from __future__ import annotations

from dataclasses import dataclass

from gpusim.isa.binary.cubin_tables import attributes
from gpusim.isa.binary.elf import Elf

# Attributes of .nv.info: (format, number) -> payload.
ATTRIBUTE_MAX_THREADS = 0x05
ATTRIBUTE_PARAMETER_BANK = 0x0A
ATTRIBUTE_PARAMETER = 0x17
#: Of kernels with more than 4 KiB of parameters, whose sizes the 14 bits of the other do not hold.
ATTRIBUTE_LARGE_PARAMETER = 0x45
ATTRIBUTE_CLUSTER = 0x3D
#: Compiled for launches in clusters (PTX .explicitcluster), with the shape of ATTRIBUTE_CLUSTER or the launch's.
ATTRIBUTE_EXPLICIT_CLUSTER = 0x3E
ATTRIBUTE_MAX_CLUSTER = 0x3F
ATTRIBUTE_BARRIERS = 0x4C
#: The code uses shared memory that CUDA reserves (PTX %reserved_smem_offset_1), as groups of several warps do.
ATTRIBUTE_RESERVED_SHARED = 0x41


@dataclass(frozen=True)
class Parameter:
    """One kernel parameter: byte ``offset`` from the parameter base, ``size`` in bytes."""

    ordinal: int
    offset: int
    size: int


@dataclass(frozen=True)
class KernelAttributes:
    """``parameters`` in their order, from byte ``parameter_base`` of constant bank 0 on, ``parameter_bytes`` in all;
    ``barriers``: block barriers; ``max_threads``: of a block, 0 if it does not say; ``cluster``: blocks of its clusters
    along x, y, z, None if the launch is to say, as it must where ``needs_cluster``; ``max_cluster``: blocks of a
    cluster at most, 0 if it does not say; ``uses_reserved``: whether it uses shared memory that CUDA reserves."""

    parameters: tuple[Parameter, ...] = ()
    parameter_base: int = 0
    parameter_bytes: int = 0
    barriers: int = 0
    max_threads: int = 0
    cluster: tuple[int, int, int] | None = None
    max_cluster: int = 0
    needs_cluster: bool = False
    uses_reserved: bool = False


def kernel_attributes(elf: Elf, name: str) -> KernelAttributes:
    """Those of kernel ``name``. Raises CompileError for a damaged section."""
    info = elf.named(f".nv.info.{name}")
    parameters, base, size, barriers, max_threads = [], 0, 0, 0, 0
    cluster, max_cluster, needs_cluster, uses_reserved = None, 0, False, False
    for _, number, payload in attributes(info) if info else ():
        if number == ATTRIBUTE_PARAMETER_BANK and len(payload) >= 8:
            base = int.from_bytes(payload[4:6], "little")
            size = int.from_bytes(payload[6:8], "little")
        elif number in (ATTRIBUTE_PARAMETER, ATTRIBUTE_LARGE_PARAMETER) and len(payload) >= 12:
            ordinal = int.from_bytes(payload[4:6], "little")
            offset = int.from_bytes(payload[6:8], "little")
            large = number == ATTRIBUTE_LARGE_PARAMETER
            length = int.from_bytes(payload[8:10] if large else payload[8:12], "little") >> (0 if large else 18)
            parameters.append(Parameter(ordinal, offset, length))
        elif number == ATTRIBUTE_BARRIERS and payload:
            barriers = payload[0]
        elif number == ATTRIBUTE_MAX_THREADS and len(payload) >= 12 and not max_threads:
            x, y, z = (int.from_bytes(payload[i : i + 4], "little") for i in (0, 4, 8))
            max_threads = x * y * z
        elif number == ATTRIBUTE_CLUSTER and len(payload) >= 12:
            x, y, z = (int.from_bytes(payload[i : i + 4], "little") for i in (0, 4, 8))
            cluster = (x, y, z) if x and y and z else None
        elif number == ATTRIBUTE_EXPLICIT_CLUSTER:
            needs_cluster = True
        elif number == ATTRIBUTE_RESERVED_SHARED:
            uses_reserved = True
        elif number == ATTRIBUTE_MAX_CLUSTER and len(payload) >= 4:
            max_cluster = int.from_bytes(payload[:4], "little")
    return KernelAttributes(
        tuple(sorted(parameters, key=lambda p: p.ordinal)), base, size, barriers, max_threads, cluster, max_cluster,
        needs_cluster, uses_reserved,
    )  # fmt: skip
