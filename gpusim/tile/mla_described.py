"""Latent attention on a GPU of a generation that ``mla.toml`` has no rows of: worked out from its description.

Mental model: which kernel runs is known from the frameworks' sources: below capability 9.0 the fused attention of
TensorRT-LLM, whose block goes through all keys of a sequence, since queries and one step of keys fill an SM's shared
memory; above, kernels that split keys over the SMs and load ahead. A step is then its products and what shared memory
reads for them: in turn where warps load fragments, side by side where tensor cores read shared memory themselves. What
is left are times (a launch, a block's start) and shares of described rates, which are the means of generations with
rows of their own, and what all products have (:mod:`gpusim.tile.described`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from gpusim.gpus.spec import GpuSpec
from gpusim.tile.attention_figures import (
    ContextLibrary,
    attention_generations,
    attention_library_of,
    context_library_of,
)
from gpusim.tile.described import SHARED_BYTES_PER_CYCLE, Constants, constants_of
from gpusim.tile.library import kernels_of, named_kernels
from gpusim.tile.machine import OPERANDS, has_products, loaded_bytes_per_cycle, tile_machine
from gpusim.tile.mla_library import LATENT, ROTATED, MlaLibrary, mla_context_library_of, mla_library_of, mla_tables

#: Heads, and keys, of a step: FlashMLA (64 x 64); of tensor memory a product has 128 rows in any case.
_ROWS, _MEMORY_ROWS, _KEYS = 64, 128, 64
#: Warps of a block that each read all keys of a step, of kernels of warps: 16 rows of heads a warp (mma.sync,
#: m16n8k16).
_WARPS = 4
#: Below, TensorRT-LLM has its fused attention for latents (cpp/tensorrt_llm/thop/attentionOp.cpp: FlashMLA on sm_90
#: alone; XQA's on sm_120, generated kernels on sm_100).
_SPLITTING = (9, 0)
_MOST_PARTS = 128
#: Launches by how tensor cores are fed (the same source): queries rotated and laid out, attention; of FlashMLA the
#: table of parts before and their sums behind too; of others the sums.
_LAUNCHES = {"warps": 2, "warp groups": 4, "tensor memory": 3}
#: The same of a context. Kernels of warp groups deal tiles out by a counter that is set to zero before each launch
#: (cpp/kernels/fmha_v2/setup.py: cudaMemsetAsync of tile_id_counter_ptr where SCHEDULING_MODE is above 0), which is one
#: launch more. That there are five of the others is read off the rows: 10.6 us of an A100 and 12.7 of an H100 are five
#: and six of 2.12 us. What tensor memory's are dealt out by is taken to be alike.
_CONTEXT_LAUNCHES = {"warps": 5, "warp groups": 6, "tensor memory": 6}
#: A step costs at least a cycle: all of it is arithmetic here.
_LEAST_CYCLES = 1.0
_BF16_BYTES = 2.0
#: How a context is cut into blocks, and what writes the cache: alike in the rows of all generations that have some
#: (mla.toml).
_CUT = ("tiles", "splits_keys", "blocks_stay", "cache_block_ns")


def mla_library_on(spec: GpuSpec, kv_dtype: str = "") -> MlaLibrary:
    """Whose latent attention runs on ``spec`` when text is generated: its generation's where that was measured, else
    what its description says."""
    name = named_kernels(spec)
    return mla_library_of(name, kv_dtype) if name in mla_tables() else described_mla(spec, kv_dtype)


def mla_context_library_on(spec: GpuSpec, kv_dtype: str = "") -> ContextLibrary:
    """The same over a context."""
    name = named_kernels(spec)
    return mla_context_library_of(name, kv_dtype) if name in mla_tables() else described_mla_context(spec, kv_dtype)


def _feed(spec: GpuSpec) -> str:
    """What the tensor cores' operands of latent attention come from."""
    if spec.tensor_memory.columns_per_cycle:
        return "tensor memory"
    return "warp groups" if spec.tensor.warpgroup_f16_macs_per_cycle else "warps"


def _feed_of(generation: str) -> str:
    """The same of a generation with rows."""
    return {"ampere": "warps", "hopper": "warp groups"}[generation]


def described_mla(
    spec: GpuSpec, kv_dtype: str = "", without: str = "", constants: Constants | None = None
) -> MlaLibrary:
    """The kernels of latent attention on ``spec`` when text is generated, as its description, other generations'
    figures (all but those of ``without``) and ``constants`` (of all products) have them."""
    used = constants or constants_of(f"without_{without}" if without else "all")
    ghz = spec.clock_hz / 1e9
    multiplied = (
        kv_dtype if kv_dtype and has_products(spec, kv_dtype) else "bf16" if has_products(spec, "bf16") else "fp16"
    )
    machine, feed = tile_machine(spec, multiplied), _feed(spec)
    measured = [name for name in mla_tables() if name != without]
    streaming = [attention_library_of(name) for name in attention_generations() if name != without]
    clocks_ghz = {name: context_library_of(name).clock_mhz / 1e3 for name in measured}
    kernel_ns = _mean(mla_library_of(name).launch_ns / _LAUNCHES[_feed_of(name)] for name in measured)
    start_ns = _mean(mla_library_of(name).start_cycles / clocks_ghz[name] for name in measured)
    dram_share = _mean(each.dram_share for each in streaming)
    rows = _MEMORY_ROWS if feed == "tensor memory" else _ROWS
    loaded = used.fill_share * loaded_bytes_per_cycle(spec)
    head_bytes = _BF16_BYTES * (2 * LATENT + ROTATED)  # of a query and of its result
    return MlaLibrary(
        query_rows=rows,
        kv_columns=_KEYS,
        most_parts=_MOST_PARTS if spec.capability >= _SPLITTING else 1,
        launch_ns=kernel_ns * _LAUNCHES[feed],
        start_cycles=start_ns * ghz,
        step_cycles=_LEAST_CYCLES,
        pair_factor=1.0,
        rate=_reached(spec, feed, rows, machine.flops_per_cycle, OPERANDS[multiplied][0], used.rate, loaded),
        block_bytes_per_cycle=loaded,
        head_cycles=head_bytes * machine.sm_count / (machine.dram_bytes_per_cycle * dram_share),
        combine_cycles=used.block_start_ns * ghz,
        dram_share=dram_share,
        l2_rate_share=used.l2_rate_share,
        l2_share=_mean(each.l2_share for each in streaming),
    )  # fmt: skip


def _reached(
    spec: GpuSpec, feed: str, rows: int, flops_per_cycle: float, element_bytes: float, rate: float, loaded: float
) -> float:
    """Of the tensor cores' peak, by shared memory's port: each key is written and read, its latent read again as value,
    queries are read once a step. ``loaded``: bytes that a block takes a cycle from L2."""
    work_cycles = 2.0 * rows * _KEYS * (2 * LATENT + ROTATED) / flops_per_cycle
    key = _KEYS * (LATENT + ROTATED) * element_bytes
    value, query = _KEYS * LATENT * element_bytes, rows * (LATENT + ROTATED) * element_bytes
    if feed == "warps":  # shared memory has room for one step of keys, so reading, multiplying and loading take turns
        port_cycles = (_WARPS * (key + value) + query + key) / SHARED_BYTES_PER_CYCLE
        return work_cycles / (work_cycles + port_cycles + key / loaded)
    if feed == "tensor memory":
        port_cycles = (query + key + value) / spec.tensor_memory.shared_bytes_per_cycle
    else:
        port_cycles = (query + 2 * key + value) / SHARED_BYTES_PER_CYCLE
    return work_cycles / max(work_cycles / rate, port_cycles)


def described_mla_context(spec: GpuSpec, kv_dtype: str = "", without: str = "") -> ContextLibrary:
    """The same over a context: the plain attention of its generation (or of the one whose tensor cores are fed alike),
    with the launches, starts and passes over keys and heads that latent attention has on other generations (all but
    ``without``), and cut into blocks as there: what FlashAttention 3 does with plain heads, and the kernel that writes
    their cache, are not its."""
    own = context_library_of(kernels_of(spec))
    others = [mla_context_library_of(name, kv_dtype) for name in mla_tables() if name != without]

    kernel_ns = _mean(
        mla_context_library_of(name, kv_dtype).launch_ns / _CONTEXT_LAUNCHES[_feed_of(name)]
        for name in mla_tables()
        if name != without
    )

    def mean(figure: Callable[[ContextLibrary], float]) -> float:
        return _mean(map(figure, others))

    return replace(
        own,
        **{name: getattr(others[0], name) for name in _CUT},
        launch_ns=kernel_ns * _CONTEXT_LAUNCHES[_feed(spec)],
        start_cycles=mean(lambda each: each.start_cycles / each.clock_mhz) * own.clock_mhz,
        tail=mean(lambda each: each.tail),
        kv_passes=mean(lambda each: each.kv_passes),
        head_passes=mean(lambda each: each.head_passes),
    )


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)
