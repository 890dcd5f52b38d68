"""The new keys' and values' way into the cache, by a kernel with a block for each token (vLLM's
reshape_and_cache_flash).

Mental model: a block finds where its token goes, then reads and writes it: waits for memory one after the other, which
take as long whatever there is to copy. As many blocks run at once as an SM has threads for; so many tokens of few heads
take longer than their bytes.
"""

from __future__ import annotations

from gpusim.gpus.spec import GpuSpec

#: Threads of a block: an element of the token's keys each, up to so many (csrc/cache_kernels.cu,
#: reshape_and_cache_flash).
_MOST_THREADS = 512
_WARP_LANES = 32


def cache_blocks_ns(spec: GpuSpec, block_ns: float, tokens: int, kv_heads: int, head_dim: int) -> float:
    """Time of the blocks of ``tokens``, each of ``block_ns``, in ns; their bytes' own time is not in it."""
    warps = -(-min(_MOST_THREADS, kv_heads * head_dim) // _WARP_LANES)
    places = spec.sm_count * min(spec.sm.max_blocks, spec.sm.max_warps // warps)
    return block_ns * max(1.0, tokens / places)
