"""What an architecture is: one row for each compute capability, which every list of architectures reads.

Mental model: machine code is made for an architecture and runs on GPUs of it. A row says what a launch may ask of an
SM, where the driver puts its constants in bank 0, how tensor cores round, and for which target the toolchain builds.
What a particular GPU adds (clocks, caches, numbers of SMs) is in ``gpusim/gpus``. A new architecture is a row here.

Sources. Limits: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability". Offsets in bank 0: read
off compiled kernels that ask for them. Tensor cores: Xie et al., "MMA-Sim: Bit-Accurate Reference Model of Tensor Cores
and Matrix Cores", arXiv 2511.10909 (bitwise equal to V100, T4-class, A100, Ada, H100, B200 and RTX Blackwell parts:
fraction bits 24, 24, 24, 25, 25, 25 from Turing on; 8 halves a block on Ampere and Ada, 16 from Hopper on; FP8 on Ada
13 bits, and 13 in the result). Earlier and in accord but for Turing's block, which they give as 4: Fasi, Higham,
Mikaitis, Pranesh, "Numerical behavior of NVIDIA tensor cores", PeerJ CS 7:e330, 2021. Hopper computes 8-bit mma.sync
with HMMA; its 13 bits belong to wgmma (gpusim/emulator/warpgroup_sums.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpusim.errors import UnknownGpuError

#: What a grid and a block may be in x, y and z, on every architecture.
GRID_LIMITS = (2**31 - 1, 65535, 65535)
BLOCK_LIMITS = (1024, 1024, 64)
_KIB = 1024


@dataclass(frozen=True)
class BankLayout:
    """Byte offsets in constant bank 0 of what the driver provides; -1 for what a generation lacks. ``grid_workspace``:
    the upper and the lower half of the address of a cooperative launch's workspace (PTX ``%envreg1`` and
    ``%envreg2``); ``reserved_shared``: where the shared memory begins that CUDA reserves for cooperative groups (PTX
    ``%reserved_smem_offset_1``)."""

    block_shape: int
    grid_shape: int
    shared_window: int
    local_window: int
    stack: int
    dynamic_shared: tuple[int, ...]
    constants_pointer: int
    grid_workspace: tuple[int, int]
    cluster: ClusterLayout | None = None
    parameters_pointer: int = -1
    reserved_shared: int = -1


@dataclass(frozen=True)
class ClusterLayout:
    """Byte offsets in bank 0 of what the driver says of clusters: whether the launch names them (PTX
    ``%is_explicit_cluster``), blocks of a cluster along x, y, z and one divided by those of y and of z (FP32), clusters
    of the grid along x, y, z, and blocks of a cluster."""

    explicit: int
    shape: int
    reciprocals: tuple[int, int]
    grid: int
    size: int


@dataclass(frozen=True)
class TensorRules:
    """What tensor cores do to a sum of products: fraction bits of the aligned sum, bytes of a row of A that make up a
    block, and fraction bits of sum and of FP32 result for 8-bit floats; whether products of tensor memory multiply 96
    packed 4-bit floats of a row (PTX ISA, tcgen05.mma, K = 96)."""

    fraction_bits: int
    block_bytes: int
    fraction_bits_8: int
    result_bits_8: int
    deep_nibbles: bool = False


@dataclass(frozen=True)
class Architecture:
    """``suffix``: "a" where the toolchain builds for the architecture-specific target, as Numba does for its kernels;
    ``built``: the toolchain that gpusim installs still builds for it; for others of its major version that of CUDA 12
    does (``gpusim[volta]``), from what is compiled for :attr:`compiled_as`. ``block_shared_bytes``: shared memory that
    a block may have, ``sm_shared_bytes``, ``sm_warps``, ``sm_blocks``: what an SM has; ``reserved_shared_bytes``: of
    each block's, taken by the system. ``generation``: its code stands for that of its neighbours in tests that need one
    architecture of each encoding; ``surveyed``: one of those that ``--arch all`` means."""

    capability: tuple[int, int]
    block_shared_bytes: int
    sm_warps: int
    sm_blocks: int
    sm_shared_bytes: int
    bank: BankLayout
    tensor: TensorRules
    suffix: str = ""
    built: bool = True
    generation: bool = False
    surveyed: bool = False
    reserved_shared_bytes: int = 1024
    block_threads: int = 1024
    sm_registers: int = 65536

    @property
    def name(self) -> str:
        """``sm_90``, as users and NVIDIA's tools name it."""
        return "sm_{}{}".format(*self.capability)

    @property
    def target(self) -> str:
        """``sm_90a``, as the linker is told."""
        return self.name + self.suffix

    @property
    def compiled_as(self) -> Architecture:
        """The oldest architecture of the same major version that the toolchain knows, itself if it does. Its GPUs run
        this one's machine code (CUDA C++ Programming Guide, "Binary Compatibility"), so its disassembler reads it."""
        same = (row for row in BUILT if row.capability[0] == self.capability[0] and row.capability >= self.capability)
        return self if self.built else next(same, self)


_VOLTA = BankLayout(0x0, 0xC, 0x18, 0x20, 0x28, (0x2C,), 0x50, (0x8C, 0x90), reserved_shared=0x124)
_HOPPER = BankLayout(
    0x0,
    0xC,
    0x18,
    0x20,
    0x28,
    (0x2C,),
    0xD0,
    (0x44, 0x48),
    ClusterLayout(0x140, 0x144, (0x154, 0x158), 0x15C, 0x188),
    parameters_pointer=0x198,
    reserved_shared=0x6C,
)
_BLACKWELL = BankLayout(
    0x360, 0x370, -1, 0x2F8, 0x37C, (0x2AC,), 0x120, (0x254, 0x258),
    ClusterLayout(0x36C, 0x2A0, (0x2B4, 0x2B8), 0x2C0, 0x2CC), parameters_pointer=0x348, reserved_shared=0x27C,
)  # fmt: skip
_BITS_24, _BITS_25 = TensorRules(24, 16, 24, 23), TensorRules(25, 32, 25, 23)
_ADA = TensorRules(24, 16, 13, 13)

#: In order of capability.
ARCHITECTURES = (
    Architecture((7, 0), 96 * _KIB, 64, 32, 96 * _KIB, _VOLTA, _BITS_24, built=False, reserved_shared_bytes=0),
    Architecture((7, 2), 96 * _KIB, 64, 32, 96 * _KIB, _VOLTA, _BITS_24, built=False, reserved_shared_bytes=0),
    Architecture(
        (7, 5), 64 * _KIB, 32, 16, 64 * _KIB, _VOLTA, _BITS_24,
        generation=True, surveyed=True, reserved_shared_bytes=0,
    ),
    Architecture((8, 0), 163 * _KIB, 64, 32, 164 * _KIB, _VOLTA, _BITS_24, generation=True, surveyed=True),
    Architecture((8, 6), 99 * _KIB, 48, 16, 100 * _KIB, _VOLTA, _BITS_24, surveyed=True),
    Architecture((8, 7), 163 * _KIB, 48, 16, 164 * _KIB, _VOLTA, _BITS_24),
    Architecture((8, 9), 99 * _KIB, 48, 24, 100 * _KIB, _VOLTA, _ADA, surveyed=True),
    Architecture((9, 0), 227 * _KIB, 64, 32, 228 * _KIB, _HOPPER, _BITS_25, "a", generation=True, surveyed=True),
    Architecture((10, 0), 227 * _KIB, 64, 32, 228 * _KIB, _BLACKWELL, _BITS_25, "a", generation=True, surveyed=True),
    Architecture((10, 3), 227 * _KIB, 64, 32, 228 * _KIB, _BLACKWELL, replace(_BITS_25, deep_nibbles=True), "a"),
    Architecture((11, 0), 227 * _KIB, 48, 24, 228 * _KIB, _BLACKWELL, _BITS_25, "a"),
    Architecture((12, 0), 99 * _KIB, 48, 24, 100 * _KIB, _BLACKWELL, _BITS_25, "a", generation=True, surveyed=True),
    Architecture((12, 1), 99 * _KIB, 48, 24, 100 * _KIB, _BLACKWELL, _BITS_25, "a"),
)  # fmt: skip
BUILT = tuple(row for row in ARCHITECTURES if row.built)
#: Those whose machine code the toolchain reads.
READ = tuple(row for row in ARCHITECTURES if row.compiled_as.built)
SURVEYED = tuple(row for row in ARCHITECTURES if row.surveyed)
GENERATIONS = tuple(row for row in ARCHITECTURES if row.generation)
_BY_CAPABILITY = {row.capability: row for row in ARCHITECTURES}


def architecture(capability: tuple[int, int]) -> Architecture:
    """The row of a capability; raises UnknownGpuError."""
    found = _BY_CAPABILITY.get(capability)
    if found is None:
        known = ", ".join(row.name for row in ARCHITECTURES)
        raise UnknownGpuError("unknown compute capability sm_{}{}: known are {}".format(*capability, known))
    return found


def nearest(capability: tuple[int, int]) -> Architecture:
    """The row of a capability or, for one that a GPU's file invents, of the newest architecture that is older."""
    older = [row for row in ARCHITECTURES if row.capability <= capability]
    return older[-1] if older else ARCHITECTURES[0]
