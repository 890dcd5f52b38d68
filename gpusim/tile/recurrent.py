"""Linear attention with a gated delta rule, and the short causal convolution before it: a state of fixed size in place
of keys and values.

Mental model: a head has a state of ``key_dim`` x ``value_dim`` that each token changes. When text is generated, a
kernel reads and writes the states of all sequences, and nothing grows with their length. Of a prompt, tokens are taken
in chunks: what lies within a chunk is products of all chunks at once, the state goes through the chunks one after the
other. A launch lasts as long as the longest of its blocks' chain of chunks, the work of all blocks on the SMs, L2's
traffic and DRAM's. Figures are in ``recurrent.toml``, by generation, framework and kernel. Yang et al., Gated Delta
Networks (2024), sections 3.2 and 3.3, have the formulas; Hugging Face transformers' ``modeling_qwen3_next.py`` the
layer.
"""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path

from gpusim.energy.power import limited_by_power, slowed_beside_dram
from gpusim.errors import SpecError
from gpusim.gpus.spec import GpuSpec
from gpusim.tile.bands import operator_band
from gpusim.tile.library import FRAMEWORKS, LIKE, kernels_of
from gpusim.tile.machine import has_products, tile_machine
from gpusim.tile.projection import Projection

_FILE = Path(__file__).with_name("recurrent.toml")
KINDS, PHASES = ("conv", "delta"), ("generation", "context")
#: Whose figures a generation without its own has.
_MEASURED = "hopper"
#: FlashInfer's kernel for prompts, which vLLM takes, is written for Hopper's warp groups (flashinfer, gdn_prefill.py);
#: elsewhere vLLM and SGLang have the same Triton kernels.
_OF_WARP_GROUPS = ("vllm", "delta_context")
#: Tokens of a chunk in the formulas' products (flash-linear-attention, chunk_gated_delta_rule).
_CHUNK_TOKENS = 64
_ELEMENT_BYTES = 2.0


@dataclass(frozen=True)
class RecurrentOp:
    """``kind`` "conv": a causal convolution of ``width`` tokens over ``channels``; "delta": the gated delta rule of
    ``value_heads`` heads, whose keys and queries are those of ``key_heads`` (a head of them for several values).
    ``phase`` "generation": one token of each of ``batch`` sequences; "context": ``tokens`` of each. ``framework``:
    whose kernels (:data:`FRAMEWORKS`). ``cold``: states lie in DRAM even where they would fit into L2."""

    kind: str
    phase: str
    batch: int
    tokens: int = 1
    channels: int = 0
    width: int = 4
    key_heads: int = 0
    value_heads: int = 0
    key_dim: int = 128
    value_dim: int = 128
    framework: str = FRAMEWORKS[0]
    cold: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise SpecError(f"a recurrent operator's kind is {self.kind!r}: known are {', '.join(KINDS)}")
        if self.phase not in PHASES:
            raise SpecError(f"a recurrent operator's phase is {self.phase!r}: known are {', '.join(PHASES)}")
        if self.framework not in FRAMEWORKS:
            raise SpecError(
                f"a recurrent operator's framework is {self.framework!r}: known are {', '.join(FRAMEWORKS)}"
            )
        sizes = ("channels", "width") if self.kind == "conv" else ("key_heads", "value_heads", "key_dim", "value_dim")
        for name in ("batch", "tokens", *sizes):
            value = getattr(self, name)
            if not 1 <= value <= 1 << 31:
                raise SpecError(f"a recurrent operator's {name} is {value}, not between 1 and {1 << 31}")
        if self.phase == "generation" and self.tokens != 1:
            raise SpecError(f"in generation a sequence has one token, not {self.tokens}")

    @property
    def kernel(self) -> str:
        """The row of ``recurrent.toml``."""
        return f"{self.kind}_{self.phase}"

    @property
    def moved_bytes(self) -> float:
        """Inputs and outputs, each once, without states."""
        if self.kind == "conv":
            wide = 2 * self.channels
        else:
            wide = 2 * self.key_heads * self.key_dim + 2 * self.value_heads * self.value_dim
        return _ELEMENT_BYTES * self.batch * self.tokens * wide

    @property
    def head_bytes(self) -> float:
        """A key and a value of each value head, as kernels hand them on to each other."""
        return _ELEMENT_BYTES * self.batch * self.tokens * self.value_heads * (self.key_dim + self.value_dim)

    @property
    def states(self) -> float:
        """Elements of all sequences' states."""
        if self.kind == "conv":
            return float(self.batch * self.channels * (self.width - 1))
        return float(self.batch * self.value_heads * self.key_dim * self.value_dim)


@dataclass(frozen=True)
class RecurrentKernel:
    """A row of ``recurrent.toml``, units in the names; shares are of 1."""

    launches: int
    launch_ns: float
    start_cycles: float
    block_width: int
    chunk_tokens: int
    parallel: bool
    blocks_per_sm: int
    token_cycles: float
    chunk_cycles: float
    block_work_cycles: float
    token_work_cycles: float
    state_bytes: float
    between_passes: float
    dram_share: float
    l2_rate_share: float
    l2_share: float


@functools.cache
def recurrent_kernel_of(generation: str, framework: str, kernel: str) -> RecurrentKernel:
    """The figures of a framework's kernel on a GPU generation; of one without its own, Hopper's. Raises SpecError for a
    table that lacks a figure."""
    table = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    if (framework, kernel) == _OF_WARP_GROUPS and generation != _MEASURED:
        framework = "sglang"
    name = generation if generation in table else LIKE.get(generation, _MEASURED)
    row = table.get(name, {}).get(framework, {}).get(kernel) or table[_MEASURED][framework][kernel]
    expected = {each.name for each in fields(RecurrentKernel)}
    if set(row) != expected:
        raise SpecError(f"{_FILE.name}, {kernel}: missing or unknown: {', '.join(sorted(set(row) ^ expected))}")
    return RecurrentKernel(**row)


def project_recurrent(
    spec: GpuSpec, op: RecurrentOp, kernel: RecurrentKernel | None = None, limit_watts: float | None = None
) -> Projection:
    """Time of ``op`` on ``spec``, all its launches together, as nodes of a CUDA graph; ``kernel``: other figures than
    the generation's own; ``limit_watts``: another power limit than the board's (``inf``: none)."""
    generation = kernels_of(spec)
    used = kernel or recurrent_kernel_of(generation, op.framework, op.kernel)
    dtype = "bf16" if has_products(spec, "bf16") else "fp16"
    machine = tile_machine(spec, dtype)
    chunks = -(-op.tokens // used.chunk_tokens)
    wide = op.channels if op.kind == "conv" else op.value_heads
    blocks = op.batch * -(-wide // used.block_width) * (chunks if used.parallel else 1)
    first = min(op.tokens, used.chunk_tokens)
    chain = used.token_cycles * first + used.chunk_cycles * (chunks - 1)
    waves = 1 if used.parallel else -(-blocks // (machine.sm_count * used.blocks_per_sm))
    tokens = first if used.parallel else op.tokens
    work = blocks * (used.block_work_cycles + tokens * used.token_work_cycles) / machine.sm_count
    state_bytes = (2.0 if op.phase == "generation" or op.kind == "delta" else 1.0) * op.states * used.state_bytes
    streamed_bytes = op.moved_bytes + used.between_passes * op.head_bytes
    passed_bytes = streamed_bytes + state_bytes
    missed = min(1.0, max(0.0, (op.moved_bytes + state_bytes / 2) / (used.l2_share * machine.l2_bytes) - 1.0))
    dram_bytes = streamed_bytes * missed + state_bytes * (1.0 if op.cold else missed)
    l2_cycles = passed_bytes / (machine.l2_bytes_per_cycle * used.l2_rate_share)
    dram_cycles = dram_bytes / (machine.dram_bytes_per_cycle * used.dram_share)
    # Blocks that stay run their chains beside each other's traffic; of short ones, and of kernels one after the other,
    # the first chain comes before the rest.
    start = used.start_cycles + (chain if used.parallel or used.launches > 1 else 0.0)
    bounds = {
        "latency": used.start_cycles + waves * chain,
        "issue": start + work,
        "L2": start + l2_cycles,
        "DRAM": start + dram_cycles,
    }
    limiter = max(bounds, key=lambda unit: bounds[unit])
    launch_seconds = 1e-9 * used.launch_ns * used.launches
    flops = 0.0
    if op.kind == "delta":
        chunk = _CHUNK_TOKENS if op.phase == "context" else 0
        macs = chunk * (3 * op.key_dim + 2 * op.value_dim) + 3 * op.key_dim * op.value_dim
        flops = 2.0 * op.batch * op.tokens * op.value_heads * macs
    of_tensor_cores = flops if op.phase == "context" else 0.0
    vector_flops = flops - of_tensor_cores + (2.0 * op.batch * op.tokens * op.channels * op.width)

    def seconds_at(clock_share: float) -> float:
        clocked = max(cycles for unit, cycles in bounds.items() if unit != "DRAM")
        return max(bounds["DRAM"] - start + start / clock_share, clocked / clock_share) / machine.clock_hz

    limited_seconds = slowed_beside_dram(
        spec, limit_watts, seconds_at, dtype, of_tensor_cores, dram_bytes, passed_bytes, vector_flops
    )
    seconds = launch_seconds + limited_seconds
    if launch_seconds > seconds / 2:
        limiter = "launch"
    elif limited_by_power(limited_seconds, seconds_at(1.0)):
        limiter = "power"
    of_framework = f"_{op.framework}" * (op.framework != FRAMEWORKS[0])
    size = op.tokens if op.phase == "context" else 4.0 * op.states
    band = operator_band(op.kernel + of_framework, generation, size)
    what = f"{op.channels} channels" if op.kind == "conv" else f"{op.value_heads} heads"
    return Projection(
        operator=f"{op.kernel.replace('_', ' in ')}, {op.batch} x {op.tokens} tokens, {what}", gpu=spec.name, seconds=seconds, low_seconds=seconds / band.factor,
        high_seconds=seconds * band.factor, validated=band.validated, reason=band.reason, limiter=limiter, dtype=dtype if of_tensor_cores else "", flops=of_tensor_cores,
        vector_flops=vector_flops, dram_bytes=dram_bytes, l2_bytes=passed_bytes, launches=used.launches,
    )  # fmt: skip
