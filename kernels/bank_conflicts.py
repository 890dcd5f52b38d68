"""Shared-memory accesses whose lanes lie a stride apart: how many wavefronts, and what each costs.

Loads are a chain: a cell holds its own shared address, so that the word loaded is the next address. One
warp shows the latency of a conflicting load, many warps its rate. Stores go one after another to the
same cells and show the rate.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from llvmlite import ir
from numba import cuda, types, uint32
from numba.cuda.extending import intrinsic

from .block_scan import WARP_THREADS
from .case import Case, Kernel, Launch, require_block, require_positive
from .ptx import chain, clock64

UNROLL = 32
MAX_STRIDE = 32
MAX_WIDTH_BYTES = 16
WORDS = MAX_STRIDE * WARP_THREADS * MAX_WIDTH_BYTES // 4
_SHARED_ADDRESS_SPACE = 3  # of NVVM IR

#: (access, bytes a lane) -> PTX: $1 is the address, $3 the word to store.
_STATEMENTS = {
    ("load", 4): "ld.volatile.shared.u32 $0, [$1];",
    ("load", 8): "{.reg .u32 p; ld.volatile.shared.v2.u32 {$0, p}, [$1];}",
    ("load", 16): "{.reg .u32 p, q, r; ld.volatile.shared.v4.u32 {$0, p, q, r}, [$1];}",
    ("store", 4): "st.volatile.shared.u32 [$1], $3; mov.u32 $0, $1;",
    ("store", 8): "st.volatile.shared.v2.u32 [$1], {$3, $3}; mov.u32 $0, $1;",
    ("store", 16): "st.volatile.shared.v4.u32 [$1], {$3, $3, $3, $3}; mov.u32 $0, $1;",
}


@intrinsic
def _shared_address(typingctx, array):
    """The address of a shared array's first element within shared memory, as PTX's ld.shared takes it."""
    if not isinstance(array, types.Array):
        return None

    def lower(context, builder, signature, args):
        struct = context.make_array(signature.args[0])(context, builder, value=args[0])
        pointee = ir.PointerType(ir.IntType(32), addrspace=_SHARED_ADDRESS_SPACE)
        return builder.ptrtoint(builder.addrspacecast(struct.data, pointee), ir.IntType(32))

    return types.uint32(array), lower


@cache
def _kernel(access: str, width_bytes: int):
    steps = chain(_STATEMENTS[access, width_bytes], types.uint32, UNROLL)

    @cuda.jit
    def bank_conflicts(stride_bytes, word, rounds, offsets, words, cycles):
        cells = cuda.shared.array(WORDS, uint32, alignment=MAX_WIDTH_BYTES)
        t = cuda.threadIdx.x
        for k in range(t, WORDS, cuda.blockDim.x):
            cells[k] = uint32(0)
        cuda.syncthreads()
        base = _shared_address(cells)
        own = t % WARP_THREADS * stride_bytes
        address = uint32(base + own)
        cells[own // 4] = address
        cuda.syncthreads()
        begin = clock64()
        for _ in range(rounds):
            address = steps((address,), word, word)[0]
        cycles[t] = clock64() - begin
        cuda.syncthreads()
        offsets[t] = uint32(address - base)
        words[t] = cells[own // 4] - base

    return bank_conflicts


def make(*, access: str, stride: int, width_bytes: int, rounds: int, block_threads: int, seed: int = 0) -> Case:
    """``stride``: elements of ``width_bytes`` from lane to lane, 0 to 32."""
    require_positive(rounds=rounds)
    require_block(block_threads)
    if (access, width_bytes) not in _STATEMENTS:
        raise ValueError(f"access must be load or store of 4, 8 or 16 bytes, not {access!r} of {width_bytes}")
    if not 0 <= stride <= MAX_STRIDE:
        raise ValueError(f"stride must lie from 0 to {MAX_STRIDE}, not {stride}")
    word = np.uint32(np.random.default_rng(seed).integers(1, 2**32))
    offsets = np.full(block_threads, 2**32 - 1, np.uint32)
    words, cycles = np.full(block_threads, 2**32 - 1, np.uint32), np.zeros(block_threads, np.int64)

    def check() -> None:
        own = (np.arange(block_threads) % WARP_THREADS * stride * width_bytes).astype(np.uint32)
        np.testing.assert_array_equal(offsets, own)
        if access == "load":
            np.testing.assert_array_equal(words, own)
        else:
            # The address that the array has in shared memory is the same for all threads.
            assert (words == words[0]).all()

    args = (stride * width_bytes, word, rounds, offsets, words, cycles)
    warps = -(-block_threads // WARP_THREADS)
    accesses = float(rounds * UNROLL)
    return Case(
        launches=(Launch(_kernel(access, width_bytes), (1,), (block_threads,), args),),
        check=check,
        work={"steps_per_warp": accesses, "warp_accesses": warps * accesses},
    )


KERNELS = {
    "bank_conflicts": Kernel(
        name="bank_conflicts",
        purpose="latency and rate of shared-memory accesses against the lanes' stride: bank conflicts by width",
        axes={
            "access": ("load", "store"),
            "stride": (0, 1, 2, 3, 4, 8, 16, 17, 32),
            "width_bytes": (4, 8, 16),
            "rounds": (16, 64, 256),
            "block_threads": (32, 128, 1024),
        },
        default={"access": "load", "stride": 1, "width_bytes": 4, "rounds": 64, "block_threads": 32},
        small={"access": "load", "stride": 2, "width_bytes": 8, "rounds": 2, "block_threads": 64},
        make=make,
    )
}
