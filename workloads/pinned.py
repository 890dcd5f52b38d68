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

#: Micro-benchmarks, the parameter of the machine that each point shows beside it. Seconds in all.
MACHINE = (
    ("pipe_latency", {"op": "ffma", "rounds": 64}),
    ("pipe_latency", {"op": "iadd", "rounds": 64}),
    ("pipe_latency", {"op": "dfma", "rounds": 64}),
    ("pipe_latency", {"op": "hfma2", "rounds": 64}),
    ("pipe_latency", {"op": "mufu_rsq", "rounds": 64}),
    ("pipe_throughput", {"op": "ffma"}),  # issue interval of FP32
    ("pipe_throughput", {"op": "lop3"}),  # of the integer pipe
    ("pipe_throughput", {"op": "dfma"}),
    ("pipe_throughput", {"op": "mufu_ex2"}),
    ("shuffle", {"mode": "xor"}),
    ("shuffle", {"mode": "xor", "chains": 4, "block_threads": 1024}),
    ("barrier", {"block_threads": 64}),
    ("barrier", {"block_threads": 1024}),
    ("bank_conflicts", {"stride": 1}),  # latency of a shared load
    ("bank_conflicts", {"stride": 32}),  # 32 lanes on one bank
    ("bank_conflicts", {"stride": 1, "width_bytes": 16, "block_threads": 1024}),  # bandwidth
    ("shared_atomics", {"addresses": 1}),
    ("shared_atomics", {"addresses": 32}),
    ("coalescing", {"pattern": "stride", "amount": 1}),
    ("coalescing", {"pattern": "stride", "amount": 32}),
    ("l2_atomics", {"stride": 1}),
    ("l2_atomics", {"stride": 0}),  # one address for all
    ("constant_cache", {"addresses": 1}),
    ("instruction_cache", {"body_instructions": 512}),  # 8 KiB of code
    ("instruction_cache", {"body_instructions": 4096}),  # 64 KiB
    ("divergence", {"paths": 32}),
    ("occupancy_ramp", {"blocks_per_sm": 1}),
    ("occupancy_ramp", {"blocks_per_sm": 4}),
    ("local_memory_spill", {"blocks": 1}),
)

#: Parts of one decoder layer of Llama 3 8B, and its sampling, while eight sequences decode: width 4096, 32 heads
#: of 128, 8 key heads, feed-forward 14,336 (Grattafiori et al., "The Llama 3 Herd of Models", 2024, table 3),
#: 128,256 tokens. The projection is that of one sequence, with int4 weights.
LLAMA_DECODE = (
    ("rmsnorm", {"rows": 8, "columns": 4096}),
    ("rope", {"tokens": 8, "heads": 32, "kv_heads": 8, "head_dim": 128}),
    ("paged_attention_decode", {"sequences": 8, "context": 1024, "heads": 32, "kv_heads": 8, "head_dim": 128}),
    ("gemv_w4a16", {"rows": 1024, "columns": 4096}),  # the projection to keys
    ("silu_mul", {"rows": 8, "columns": 14_336}),
    ("sample_gumbel", {"rows": 8, "vocabulary": 128_256}),
)

#: Layers of ResNet-50 at batch 1 (He et al., "Deep Residual Learning for Image Recognition", 2016, table 1).
RESNET50 = (
    ("maxpool2d", {"planes": 64, "height": 112, "width": 112, "window": 3, "stride": 2, "padding": 1}),
    ("conv2d_implicit_gemm", {"batch": 1, "channels": 64, "size": 56, "filters": 64}),  # conv2_x, 3 x 3
    ("conv2d_implicit_gemm", {"batch": 1, "channels": 256, "size": 14, "filters": 256}),  # conv4_x, 3 x 3
    ("avgpool2d", {"planes": 2048, "height": 7, "width": 7, "window": 7, "stride": 1, "padding": 0}),
)

SUITES = {
    "quick": QUICK,
    "networks": NETWORKS,
    "machine": MACHINE,
    "llama_decode": LLAMA_DECODE,
    "resnet50": RESNET50,
}
