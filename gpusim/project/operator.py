"""One operator of a model: what is launched, how often, in which part of the network.

Mental model: ``op`` is a shape that one of the projecting parts knows (a product, an attention, a collective ...); the
price is looked up by its type.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpusim.collective.shape import Collective
from gpusim.project.earlier_attention import EarlierAttention
from gpusim.project.frameworks import framework_of
from gpusim.project.plan import Plan
from gpusim.tile.operators import AttentionOp, DrawOp, GemmOp, MemoryOp, MoeOp, RecurrentOp, SortOp
from gpusim.tile.software import CONVERTED

#: The name of a loss whose kernel writes the gradient too, so that none is behind it.
FUSED_LOSS = "loss with its gradient"

Shape = GemmOp | AttentionOp | EarlierAttention | MoeOp | MemoryOp | RecurrentOp | SortOp | DrawOp | Collective


@dataclass(frozen=True)
class Operator:
    """``count`` launches of ``op``, called ``name``, in ``part`` of the network ("attention", "feed-forward",
    "experts", "head" ...)."""

    part: str
    name: str
    op: Shape
    count: int = 1

    def times(self, count: int) -> Operator:
        """The same, ``count`` times as often."""
        return replace(self, count=self.count * count)

    @property
    def communicates(self) -> bool:
        """Whether it is other GPUs that it waits for."""
        return isinstance(self.op, Collective)


def written_converted(plan: Plan) -> bool:
    """Whether attention and activations write what the next product takes, so that no kernel of its own converts it:
    TensorRT-LLM's of fp8, whose checkpoints carry the operand's scale (tensorrt_llm/_torch/modules: gated_mlp.py hands
    the down projection's scale to the activation, attention.py the output projection's to attention; norms on one GPU
    write 16 bits). A framework that looks for the largest element first cannot."""
    return (plan.framework, plan.dtype) == ("trtllm", "fp8")


def context_queries(plan: Plan) -> str:
    """The format of queries over a prompt. TensorRT-LLM multiplies keys of an 8-bit cache with queries of 8 bits
    wherever attention's result goes into a product of few bits, whose operand it writes
    (cpp/tensorrt_llm/thop/attentionOp.cpp: mFP8ContextFMHA is set by a result in fp8 or fp4;
    tensorrt_llm/_torch/modules/attention.py asks for one where the output projection has fp8, fp8 with block scales or
    NVFP4); its kernels before 2024 (``reads`` "each") do not."""
    recent = plan.framework == "trtllm" and plan.reads == "shared"
    narrow = recent and plan.kv_dtype == "fp8" and plan.dtype in ("fp8", "fp8_block", "nvfp4")
    return "fp8" if narrow else "bf16"


def multiplied_apart(plan: Plan) -> bool:
    """Whether gate and up are two products, as in TensorRT-LLM's engines before 2024 (``reads`` "each"), which join
    them only where they are told to (its docs/source/performance.md: --use_fused_mlp, which the commands of its
    published figures leave out)."""
    return plan.served_by == "trtllm" and plan.reads == "each"


def _static_fp8(plan: Plan) -> bool:
    """Whether products of fp8 are those of TensorRT-LLM's PyTorch backend: operands brought to fp8 by the checkpoint's
    scales (ModelOpt), multiplied by cuBLAS (tensorrt_llm/_torch/modules/linear.py, FP8QDQLinearMethod:
    static_quantize_e4m3_per_tensor, cublas_scaled_mm). Engines before 2024 (``reads`` "each") chose kernels of their
    own."""
    return (plan.framework, plan.dtype, plan.reads) == ("trtllm", "fp8", "shared")


#: Rows up to which products of NVFP4 are the named framework's own (TensorRT-LLM's: library.toml, nvfp4_trtllm). Its
#: kernels of generation are slower than vLLM's, by a third at 384 rows of Llama 70B's first product: published
#: throughputs of Llama 70B and 405B on B200s and GB200s were projected 5 % too fast with vLLM's. Above, vLLM's are
#: taken: TensorRT-LLM's rows of more were measured in runs that draw 600 to 650 W where vLLM's draw 970, and are as
#: long all the same; with them servers that read prompts come out 8 to 14 % too slow
#: (traces/library/served_models.csv).
_OWN_FP4_ROWS = 512
#: Frameworks whose products of int4 weights are Marlin's kernels, and whose figures these have (library.toml).
_MARLIN, _MARLINS = ("vllm", "sglang"), "vllm"


def product(rows: int, columns: int, depth: int, plan: Plan, dtype: str = "", *, converted: bool = False) -> GemmOp:
    """Of weights in the plan's format or ``dtype``, by the kernels of the framework that the plan names, where
    frameworks differ in the format (:data:`gpusim.tile.software.CONVERTED`). ``converted``: whether the first operand
    comes in the format (:func:`written_converted`), as TensorRT-LLM's of fp8 always does (:func:`quantised`): its
    measured kernels look for the operand's largest element first, which checkpoints that carry scales spare. Of its
    older engines what is followed without a name."""
    dtype = dtype or plan.dtype
    static = dtype == "fp8" and _static_fp8(plan)
    own = dtype in CONVERTED and (static or (plan.framework, dtype) != ("trtllm", "fp8"))
    own = own or (dtype == "nvfp4" and rows <= _OWN_FP4_ROWS)
    framework = plan.framework if own else ""
    if dtype == "int4_wo" and plan.served_by in _MARLIN:
        framework = _MARLINS
    return GemmOp(
        rows, columns, depth, dtype, framework=framework,
        input_dtype=dtype if converted or static else "bf16",
    )  # fmt: skip


def quantised(part: str, rows: int, depth: int, plan: Plan, dtype: str = "") -> list[Operator]:
    """The kernel that brings 16-bit rows to the format of the product behind it, the plan's or ``dtype``, by a scale
    that is known before, where the product has no conversion of its own."""
    if not _static_fp8(plan) or (dtype or plan.dtype) != plan.dtype:
        return []
    elements = float(rows) * depth
    return [Operator(part, "quantisation", MemoryOp("quantize", 2.0 * elements, elements))]


def normalisation(part: str, rows: int, columns: int, *, residual: bool = True) -> Operator:
    """RMS or layer normalisation of 16-bit rows; with the residual that is added, read and written on the way."""
    moved = 2.0 * rows * columns * (2 if residual else 1)
    return Operator(part, "normalisation", MemoryOp("norm", moved, moved))


def added(part: str, rows: int, columns: int, plan: Plan) -> list[Operator]:
    """The kernel that adds 16-bit rows to the residual, where the norm behind does not."""
    if plan.joins:
        return []
    moved = 2.0 * rows * columns
    return [Operator(part, "residual", MemoryOp("activation", 2 * moved, moved))]


def reduced(part: str, rows: int, columns: int, plan: Plan) -> list[Operator]:
    """The sum of 16-bit results over the GPUs that share a layer, where there are several. Serving frameworks sum small
    messages by kernels of their own, unless the plan says otherwise."""
    gpus = plan.tensor_parallel
    if gpus == 1:
        return []
    library = "nccl" if plan.phase == "train" else plan.all_reduce
    if library == "custom" and framework_of(plan).copies_sums:
        library = "copied"
    return [Operator(part, "all-reduce", Collective("all_reduce", gpus, 2 * rows * columns, "bf16", library))]
