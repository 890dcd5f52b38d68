"""FlashAttention 2 on GPUs whose attention set no figure: the projected kernel beside rates that others published.

A published rate is of the kernel alone, so that what a framework launches around it (copies, the write into the cache)
is left out of the projection.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpusim.gpus.load import load_gpu
from gpusim.tile.attention_context import ContextShape, project_context
from gpusim.tile.attention_figures import context_library_of
from gpusim.tile.library import kernels_of

#: GPU, sequences, queries, keys before them, heads, elements of a head, causal, 10^12 operations a second, a causal
#: mask's halved. RTX 4090: apache/tvm (fork of tilelang), tl_doc/flash_perf.md, 2,048 keys (sequences and heads are not
#: said; a GPU's worth is taken). RTX 5090: the first row of gau-nernst, fa-5090 (flash-attn 190.6); the others what a
#: bf16 SDPA takes by a report of MXFP8 kernels (345 and 290 TFLOP/s, 1.72 and 1.58 times as fast).
PUBLISHED = (
    ("rtx4090", 8, 2048, 0, 16, 64, False, 168.9),
    ("rtx4090", 8, 2048, 0, 16, 128, False, 169.3),
    ("rtx4090", 8, 2048, 0, 8, 256, False, 156.2),
    ("rtx4090", 8, 2048, 0, 16, 64, True, 142.2),
    ("rtx4090", 8, 2048, 0, 16, 128, True, 151.2),
    ("rtx4090", 8, 2048, 0, 8, 256, True, 144.1),
    ("rtx5090", 1, 4096, 4096, 8, 128, False, 190.6),
    ("rtx5090", 4, 2048, 0, 32, 128, False, 200.6),
    ("rtx5090", 4, 2048, 0, 32, 128, True, 183.5),
)
MOST_OFF = 0.15


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: "-".join(map(str, row[:-1])))
def test_flash_attention_2_reaches_what_others_measured_where_tensor_cores_are_slow(row):
    gpu, sequences, queries, prefix, heads, head_dim, causal, published = row
    spec = load_gpu(gpu)
    alone = replace(context_library_of(kernels_of(spec), causal), kv_passes=0.0, head_passes=0.0, cache_block_ns=0.0)
    shape = ContextShape(sequences, queries, heads, heads, head_dim, "bf16", prefix, causal=causal)
    operations = 4.0 * sequences * heads * head_dim * queries * (queries + prefix) / (2 if causal else 1)
    reached = 1e-12 * operations / project_context(spec, shape, alone).seconds
    assert abs(published / reached - 1.0) < MOST_OFF
