"""Products of a model's layers, projected: dense or in batches, on operands of 16, 8 or 4 bits, and the conversion of
the first where there is one.

Mental model: a launch of :mod:`gpusim.tile.gemm`, whose products each have operands of their own where they come in a
batch; operands of few bits have scales for blocks of elements beside them; what comes in 16 bits is converted by a
kernel of its own (:mod:`gpusim.tile.memory`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpusim.errors import SpecError
from gpusim.gpus.spec import GpuSpec
from gpusim.tile.bands import OPERATOR_REGIONS, Band, borrowed_band, gemm_band, operator_band
from gpusim.tile.described import library_on
from gpusim.tile.formats import Format, format_of
from gpusim.tile.gemm import SIMULATED, GemmShape, project_gemm
from gpusim.tile.joined import joined
from gpusim.tile.library import Library, kernels_of, named_kernels
from gpusim.tile.machine import OPERANDS, RESULT_BYTES, tile_machine
from gpusim.tile.memory import MemoryLibrary, MemoryOp, memory_library_of, project_memory
from gpusim.tile.projection import Projection
from gpusim.tile.reach import PRODUCT_SIZES, within_reach
from gpusim.tile.scaled import SCALED, scaled_library
from gpusim.tile.software import CONVERTED, MULTIPLIED, TOLD_APART, followed_in, product_library, widest_columns


@dataclass(frozen=True)
class GemmOp:
    """``batch`` products of ``rows`` x ``columns`` over ``depth`` in one launch, results in 16 bits (fp32 and tf32: in
    32). ``dtype``: a number format of :data:`gpusim.tile.formats.FORMATS`; ``block_scaled``: with the scales for blocks
    of elements that are usual for it (fp8, fp4). ``input_dtype``: of the first operand as it comes; where that is not
    ``dtype`` a kernel converts it first, as frameworks do for fp8, fp4 and int8 (as ``dtype``: it comes converted).
    ``warm``: the second operands lie in L2 where they fit, as when the same product is repeated; the weights of a
    model's next layer do not. ``run_launches``: how often it is repeated in its run, of which a board's power limit
    leaves out the beginning (0: as often as in the runs of its generation's rows). ``framework``: whose conversion and
    kernels, of fp8 with or without block scales and of weights of few bits (:data:`gpusim.tile.library.FRAMEWORKS`; "":
    those that the generation's rows follow)."""

    rows: int
    columns: int
    depth: int
    dtype: str = "bf16"
    batch: int = 1
    block_scaled: bool = False
    input_dtype: str = "bf16"
    warm: bool = False
    framework: str = ""
    run_launches: int = 0

    def __post_init__(self) -> None:
        if self.run_launches < 0:
            raise SpecError(
                f"a product's run has {self.run_launches} launches, not 1 or more (0: as its generation's rows)"
            )
        if not 1 <= self.batch <= 1 << 16:
            raise SpecError(f"a product's batch is {self.batch}, not between 1 and {1 << 16}")
        format_of(self.dtype, self.block_scaled)

    @property
    def format(self) -> Format:
        """Of the operands in memory, as the framework's kernels multiply them."""
        known = format_of(self.dtype, self.block_scaled)
        multiplied = MULTIPLIED.get((self.framework, known.library))
        return replace(format_of(multiplied), name=known.name, library=known.library) if multiplied else known


def project_product(
    spec: GpuSpec, op: GemmOp, library: Library | None = None, memory: MemoryLibrary | None = None,
    limit_watts: float | None = None,
) -> Projection:  # fmt: skip
    """Time of ``op`` on ``spec``: the product, after the conversion of its first operand where there is one.
    ``library``,
    ``memory``: other figures than the generation's own; ``limit_watts``: another power limit than the board's (``inf``:
    none). Raises SpecError where the GPU has no such products."""
    shape, kernels = shape_of(op), library or library_for(spec, op)
    found = project_gemm(spec, shape, kernels, limit_watts, op.run_launches, SIMULATED)
    band = _band(named_kernels(spec), op)
    widest = widest_columns(named_kernels(spec), op.format.library)
    kind = f"products of {op.format.name}"
    band = within_reach(band, "gemm", kind, PRODUCT_SIZES, op.rows * op.batch, op.columns, op.depth)
    if op.columns > widest and band.validated:
        band = borrowed_band("gemm", "", band.factor, f"{kind} of more than {widest:,} columns")
    dtype = f"{op.dtype}{' with block scales' if op.block_scaled else ''}"
    title = f"{f'{op.batch} products' if op.batch > 1 else 'product'} {op.rows} x {op.columns} x {op.depth}, {dtype}"
    product = Projection(
        operator=title, gpu=spec.name, seconds=found.seconds, low_seconds=found.seconds / band.factor,
        high_seconds=found.seconds * band.factor, validated=band.validated, reason=band.reason, limiter=found.limiter,
        dtype=op.format.operands, flops=shape.flops, dram_bytes=found.dram_bytes, l2_bytes=found.l2_bytes,
        launches=1 + (found.splits > 1),
    )  # fmt: skip
    input_bytes = OPERANDS.get(op.input_dtype, (2.0, ""))[0]
    if op.input_dtype == op.dtype or input_bytes <= op.format.a_bytes or op.dtype in RESULT_BYTES:
        return product
    elements = float(op.rows) * op.batch * op.depth
    converting = project_memory(
        spec,
        MemoryOp("quantize", input_bytes * elements, op.format.a_bytes * elements, op.rows * op.batch),
        converting_library(spec, memory or memory_library_of(kernels_of(spec)), kernels),
        limit_watts,
    )
    return joined(title, [converting, product], band.factor, band.validated, band.reason)


def converting_library(spec: GpuSpec, memory: MemoryLibrary, kernels: Library) -> MemoryLibrary:
    """Kernels that move data at a share of what those of ``memory`` reach: a conversion that looks for the largest
    element first reads its input twice. Others have few loads under way, which bring so many bytes a cycle of an SM
    from DRAM, whatever DRAM has, and from L2 as many times as many as they wait shorter for it; one whose blocks wait
    for their row's largest element holds fewer of them, each for longer."""
    rate = kernels.convert_rate
    dram_share, l2_rate_share = memory.dram_share * rate, memory.l2_rate_share * rate
    if kernels.convert_bytes_per_cycle:
        machine = tile_machine(spec, "fp16")
        of_sms = kernels.convert_bytes_per_cycle * machine.sm_count
        from_l2 = of_sms * machine.dram_latency_cycles / machine.l2_latency_cycles
        dram_share = min(memory.dram_share, of_sms / machine.dram_bytes_per_cycle)
        l2_rate_share = min(memory.l2_rate_share, from_l2 / machine.l2_bytes_per_cycle)
    return replace(
        memory,
        start_cycles=kernels.convert_start_cycles or memory.start_cycles,
        blocks_per_sm=int(kernels.convert_blocks) or memory.blocks_per_sm,
        dram_share=dram_share,
        l2_rate_share=l2_rate_share,
        block_bytes_per_cycle=memory.block_bytes_per_cycle * rate,
    )


def shape_of(op: GemmOp) -> GemmShape:
    """The launch of ``op``'s product."""
    known = op.format
    groups = (op.rows,) * op.batch if op.batch > 1 else ()
    return GemmShape(
        op.rows * op.batch, op.columns, op.depth, known.operands, RESULT_BYTES.get(op.dtype, 2), cold_b=float(not op.warm), group_rows=groups, a_bytes=known.a_bytes, b_bytes=known.b_bytes
    )  # fmt: skip


def _band(generation: str, op: GemmOp) -> Band:
    if op.batch > 1:
        return operator_band("bmm" if op.dtype in ("bf16", "fp16") else f"bmm_{op.dtype}", generation, op.rows)
    kind = f"gemm_{op.format.name}" + f"_{op.framework}" * (
        op.format.library not in TOLD_APART and op.framework not in ("", followed_in(generation, op.format.library))
    )
    if kind in OPERATOR_REGIONS:
        return operator_band(kind, generation, op.rows)
    return gemm_band(generation, op.dtype, op.rows)


def library_for(spec: GpuSpec, op: GemmOp) -> Library:
    """Whose kernels: of batches, of the format, of a framework, in this order; what comes converted needs no launches
    of a conversion."""
    batched = op.batch > 1 and op.dtype in ("bf16", "fp16")
    kernels = product_library(spec, "batch" if batched else op.format.library, op.framework, op.columns)
    if op.format.library == SCALED:
        return scaled_library(spec, op.rows)
    if op.format.library not in CONVERTED or op.input_dtype != op.dtype:
        return kernels
    return replace(kernels, launch_ns=min(kernels.launch_ns, library_on(spec).launch_ns))
