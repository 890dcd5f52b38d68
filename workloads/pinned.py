"""Pinned suites: named lists of kernel shapes that stay the same from release to release.

Mental model: a suite is plain data, ``(kernel name, shape)`` pairs; whoever runs it looks the names
up in the kernel suite. Axes that a shape leaves out keep the kernel's default. A shape once listed
here is not edited: results of different versions are compared over it. Add a suite instead.
"""

from __future__ import annotations

#: Half a minute of simulation in all: one point of each kind of behaviour.
QUICK = (
    ("pointer_chase", {"buffer_kib": 16, "loads": 4096}),
    ("pointer_chase", {"buffer_kib": 8192, "loads": 4096}),
    ("stream_triad", {"n": 2**20 + 2, "block_threads": 1024, "blocks_per_sm": 2}),
    ("stencil3", {"n": 2**20 + 2, "block_threads": 256, "blocks_per_sm": 2}),
    ("l1_stride", {"width_or_stride": 8, "iterations": 64}),
    ("saxpy", {"n": 2**18}),
    ("reduce_sum", {"n": 2**18}),
    ("matmul_tiled", {"m": 128, "n": 128, "k": 128}),
    ("transpose", {"rows": 512, "columns": 512}),
    ("softmax", {"rows": 128, "columns": 1024}),
    ("histogram", {"n": 2**18}),
    ("spmv_csr", {"rows": 4096}),
)

#: Layers of widely used networks at batch 1: rows are tokens, columns the model's width.
NETWORKS = (
    ("layernorm", {"rows": 128, "columns": 768}),  # BERT base, 128 tokens
    ("layernorm", {"rows": 128, "columns": 1600}),  # GPT-2 XL
    ("softmax", {"rows": 12 * 128, "columns": 128}),  # BERT base, attention of 12 heads
    ("softmax", {"rows": 1, "columns": 50_257}),  # GPT-2, next-token distribution
    ("matmul_tiled", {"m": 128, "n": 768, "k": 768}),  # BERT base, one projection
    ("matmul_tiled", {"m": 128, "n": 3072, "k": 768}),  # BERT base, feed-forward
)

SUITES = {"quick": QUICK, "networks": NETWORKS}
