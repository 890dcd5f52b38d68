"""How a model is run: its phase, its load, how it is shared out over GPUs, its number formats.

Mental model: a plan is a frozen value that is checked once against a network and a number of GPUs; everything else
reads it. A replica is ``tensor_parallel`` x ``pipeline_parallel`` GPUs, of which there are ``data_parallel``; experts
are shared out over ``expert_parallel`` GPUs of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpusim.errors import UsageError
from gpusim.project.decoder import Decoder
from gpusim.tile.formats import FORMATS
from gpusim.tile.library import FRAMEWORKS

PHASES = ("prefill", "decode", "mixed", "request", "serve", "train")
#: Of weights and the products with them -> bytes an element, scales of blocks included.
WEIGHT_BYTES = {
    name: FORMATS[name].b_bytes
    for name in (
        "bf16",
        "fp16",
        "fp8",
        "fp8_block",
        "mxfp8",
        "int8",
        "nvfp4",
        "mxfp4",
        "mxfp4_mxfp8",
        "int8_wo",
        "int4_wo",
        "mxfp4_wo",
        "q4_0",
        "q4_k_m",
        "q8_0",
    )
}
#: Frameworks whose requests are projected: those whose kernels were measured one by one, and llama.cpp.
LLAMA_CPP = "llama.cpp"
SERVING_FRAMEWORKS = (*FRAMEWORKS, LLAMA_CPP)
KV_BYTES = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0}
#: "two-batch": halves of a batch take turns, one computes while the other's exchanges run. "products": in training a
#: layer's sums run piece by piece beside the products next to them (Megatron's --tp-comm-overlap).
OVERLAPS = ("none", "two-batch", "products")
READS = ("shared", "each")
#: Attention of a training step: one kernel that keeps scores on the chip (the GPU's measured one; "flash-2",
#: "flash-triton": :mod:`gpusim.project.earlier_attention`), or "eager": products, softmax and dropout each with scores
#: in memory, as before FlashAttention.
SCORES = ("fused", "flash-2", "flash-triton", "eager")
#: The loss of a training step: "apart", its passes and their backward ones over logits in FP32 (Megatron-LM, PyTorch
#: without a compiler), or "fused": one kernel goes over logits in 16 bits and leaves their gradient in their place
#: (karpathy/llm.c, llmc/fused_classifier.cuh; linkedin/Liger-Kernel, ops/cross_entropy.py).
LOSSES = ("apart", "fused")
#: Kernels that sum results over the GPUs of a layer while serving: a framework's own (one-shot and two-shot, vLLM,
#: SGLang, TensorRT-LLM since 0.7), or NCCL's.
ALL_REDUCES = ("custom", "nccl")
#: Versions of frameworks' engines that differ in their scheduler, its host, its graphs or its sampler, and whose they
#: are: the newest ("") of any, vLLM's before 0.8, before 0.6, before 0.5.1, before 0.11, before 0.14, and before 0.16
#: with asynchronous scheduling, SGLang's before 0.4, TensorRT-LLM's before 1.2 and TensorRT's engines of 0.9.
ENGINES = {
    "": "",
    "v0": "vllm",
    "0.5": "vllm",
    "0.4": "vllm",
    "0.10": "vllm",
    "0.13": "vllm",
    "0.15": "vllm",
    "0.3": "sglang",
    "1.0": "trtllm",
    "0.9": "trtllm",
}
#: How the host launches a step's kernels: as the framework does of itself, one by one, or as a CUDA graph.
LAUNCHES = ("default", "eager", "graphs")
#: How a next token is drawn: the most probable or one of all, or one of the most probable ("top": top-k, top-p), for
#: which some engines sort the vocabulary.
SAMPLINGS = ("greedy", "top")
RECOMPUTES = ("none", "selective", "full")
#: Stages of ZeRO (Rajbhandari et al., 2020): what replicas share out is nothing, the optimizer's state, or (3;
#: PyTorch's fully sharded data parallel) weights and gradients too.
ZERO_STAGES = (0, 1, 3)
#: Figures that a command line may give: name in the plan -> most.
_MOST = {
    "batch": 1 << 20, "sequence": 1 << 24, "output": 1 << 20, "tensor_parallel": 1 << 10, "pipeline_parallel": 1 << 10,
    "data_parallel": 1 << 16, "expert_parallel": 1 << 14, "chunk": 1 << 24, "micro_batches": 1 << 16, "virtual_stages": 1 << 8, "page_tokens": 1 << 16,
}  # fmt: skip

#: Rows of a product, which are tokens of a step (with experts: each token once for each of its experts).
_MOST_ROWS = (1 << 31) - 1


@dataclass(frozen=True)
class Plan:
    """``batch``: sequences of all replicas together; ``sequence``: tokens of a prompt (prefill, request, train) or in
    the cache of each (decode, mixed); ``output``: tokens generated a request; ``chunk``: prompt tokens a step, 0 for
    whole prompts (in a mixed step: those beside the batch's one token each); ``micro_batches``: into which a replica's
    batch is split for its pipeline; ``virtual_stages``: pieces of its layers that a stage of a training pipeline works
    on in turn (Megatron's interleaved schedule); ``recompute``: of a training step's activations; ``zero``: stage of
    ZeRO (:data:`ZERO_STAGES`); ``overlap``: of :data:`OVERLAPS`; ``reads``: of keys and values that heads share, when
    text is generated: "shared", once for all of them, or "each" (kernels before about 2024); ``scores``: of
    :data:`SCORES`; ``loss``: of :data:`LOSSES`; ``all_reduce``: of :data:`ALL_REDUCES`, whose kernels sum a layer's
    results while serving (training takes NCCL's). ``experts_dtype``: of experts' weights and their products, where that
    is not ``dtype`` (""); ``attention_dtype``: of the weights that make queries, keys and values, likewise;
    ``page_tokens``: of a page of the cache, which a sequence fills whole or in part (vLLM's block size is 16 if not
    said otherwise); ``framework``: whose kernels attention and experts have ("": :attr:`served_by`'s, but that experts
    have those that are followed for their format, as ``moe.toml`` has it); ``engine``: of :data:`ENGINES`; ``launch``:
    of :data:`LAUNCHES` (:mod:`gpusim.project.host`); ``sampling``: of :data:`SAMPLINGS`; ``groups``: what one
    micro-batch of a decode or mixed step works on, where sequences differ: (sequences, new tokens of each, keys that
    they meet) each, in place of ``batch``, ``sequence`` and ``chunk``. In phase "serve" ``batch`` is how many sequences
    are in progress at once at most."""

    phase: str
    batch: int = 1
    sequence: int = 2048
    output: int = 0
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    data_parallel: int = 1
    expert_parallel: int = 1
    dtype: str = "bf16"
    kv_dtype: str = "bf16"
    chunk: int = 0
    micro_batches: int = 1
    virtual_stages: int = 1
    recompute: str = "none"
    zero: int = 0
    overlap: str = "none"
    reads: str = "shared"
    scores: str = "fused"
    loss: str = "apart"
    all_reduce: str = "custom"
    experts_dtype: str = ""
    attention_dtype: str = ""
    page_tokens: int = 16
    framework: str = ""
    engine: str = ""
    launch: str = "default"
    sampling: str = "greedy"
    groups: tuple[tuple[int, int, int], ...] = ()

    def __post_init__(self) -> None:
        for name, most in _MOST.items():
            least = 0 if name in ("output", "chunk") else 1
            if not least <= getattr(self, name) <= most:
                raise UsageError(f"a plan's {name} is {getattr(self, name)}, not between {least} and {most}")
        for name, known in (
            ("phase", PHASES),
            ("dtype", WEIGHT_BYTES),
            ("experts_dtype", ("", *WEIGHT_BYTES)),
            ("attention_dtype", ("", *WEIGHT_BYTES)),
            ("kv_dtype", KV_BYTES),
            ("recompute", RECOMPUTES),
            ("overlap", OVERLAPS),
            ("reads", READS),
            ("scores", SCORES),
            ("loss", LOSSES),
            ("framework", ("", *SERVING_FRAMEWORKS)),
            ("engine", ENGINES),
            ("all_reduce", ALL_REDUCES),
            ("launch", LAUNCHES),
            ("sampling", SAMPLINGS),
        ):
            if getattr(self, name) not in known:
                raise UsageError(
                    f"a plan's {name} is {getattr(self, name)!r}: known are {', '.join(filter(None, known))}"
                )
        if self.engine and self.served_by != ENGINES[self.engine]:
            raise UsageError(
                f"{self.served_by} has no engine {self.engine!r}: that is {ENGINES[self.engine]}'s; leave out --engine"
            )
        if self.zero not in ZERO_STAGES:
            raise UsageError(f"a plan's zero is {self.zero}: stages 0, 1 and 3 are projected")
        if self.zero == 3 and (self.pipeline_parallel > 1 or self.expert_parallel > 1):
            raise UsageError(
                "weights shared out over replicas are not projected beside a pipeline or experts shared out: leave out --pp and --ep, or give --zero 1"
            )
        if self.batch % self.data_parallel:
            raise UsageError(
                f"a batch of {self.batch} cannot be shared evenly by {self.data_parallel} replicas (data parallel)"
            )
        if self.replica_batch % self.micro_batches:
            raise UsageError(
                f"a replica's batch of {self.replica_batch} cannot be split evenly into {self.micro_batches} micro-batches"
            )
        if self.overlap != "none":
            self._check_overlap()
        if self.phase == "mixed" and not self.chunk and not self.groups:
            raise UsageError("a mixed step needs the prompt tokens beside the batch's: give --chunk")
        if self.scores != "fused" and self.phase != "train":
            raise UsageError("attention has other kernels in training alone: give --phase train, or leave out --scores")
        if self.loss != "apart" and self.phase != "train":
            raise UsageError("there is a loss in training alone: give --phase train, or leave out --loss")
        if self.virtual_stages > 1 and (self.phase != "train" or self.pipeline_parallel == 1):
            raise UsageError(
                "stages are worked on in pieces where a pipeline trains: give --phase train and --pp, or leave out --virtual-stages"
            )
        for name in (self.dtype, self.of_experts, self.of_attention):
            if self.phase == "train" and name not in ("bf16", "fp16", "fp8"):
                raise UsageError(f"training in {name} is not projected: give bf16, fp16 or fp8")
        if self.expert_parallel > self.stage_gpus or self.stage_gpus % self.expert_parallel:
            raise UsageError(
                f"experts over {self.expert_parallel} GPUs: that must divide tensor parallel x data parallel, "
                f"{self.stage_gpus}"
            )

    def _check_overlap(self) -> None:
        if self.overlap == "products":
            if self.phase != "train" or self.tensor_parallel == 1:
                raise UsageError(
                    "sums run beside products where several GPUs train a layer: give --phase train and --tp, or leave out --overlap"
                )
            return
        if self.phase in ("mixed", "train") or self.chunk:
            raise UsageError(
                "halves of a batch take turns in prefill, decode and request, without --chunk: leave out --overlap"
            )
        if self.replica_batch // self.micro_batches < 2:
            raise UsageError(
                "one sequence has no halves that could take turns: leave out --overlap or give a larger --batch"
            )

    @property
    def of_experts(self) -> str:
        """The number format of experts' weights."""
        return self.experts_dtype or self.dtype

    @property
    def of_attention(self) -> str:
        """The number format of weights that make queries, keys and values."""
        return self.attention_dtype or self.dtype

    @property
    def served_by(self) -> str:
        """The framework whose attention kernels and ways to launch are taken."""
        return self.framework or FRAMEWORKS[0]

    @property
    def attended_by(self) -> str:
        """The framework whose attention kernels are taken: llama.cpp's were not measured by themselves."""
        return self.served_by if self.served_by in FRAMEWORKS else FRAMEWORKS[0]

    @property
    def joins(self) -> bool:
        """Whether weights that multiply the same activations are one product, and residuals are added by the norm
        behind: not in llama.cpp (src/llama-model.cpp, build_qkv, build_ffn)."""
        return self.served_by != LLAMA_CPP

    @property
    def of_head(self) -> str:
        """The number format of the weights that make logits. llama.cpp keeps them in Q6_K where layers have 4 bits
        (src/llama-quant.cpp), in the layers' format elsewhere."""
        if self.served_by != LLAMA_CPP:
            return "bf16"
        return {"q4_0": "q6_k", "q4_k_m": "q6_k"}.get(self.dtype, self.dtype)

    @property
    def shares_weights(self) -> bool:
        """Whether replicas gather a layer's weights when they need them (:mod:`gpusim.project.sharded`)."""
        return self.phase == "train" and self.zero == 3 and self.data_parallel > 1

    @property
    def gpus(self) -> int:
        """All of them."""
        return self.stage_gpus * self.pipeline_parallel

    @property
    def stage_gpus(self) -> int:
        """Of one stage, of all replicas."""
        return self.tensor_parallel * self.data_parallel

    @property
    def replica_batch(self) -> int:
        """Sequences of one replica."""
        return self.batch // self.data_parallel

    def check(self, config: Decoder) -> None:
        """Raises UsageError where ``config`` cannot be shared out so."""
        tp = self.tensor_parallel
        for what, amount in (("heads", config.heads), ("feed-forward columns", config.feed_forward)):
            if amount % tp:
                raise UsageError(
                    f"{config.name}: {amount} {what} cannot be shared evenly by {tp} GPUs (tensor parallel); --pp shares out layers, --dp sequences"
                )
        if config.linear is not None and config.linear.key_heads % tp:
            raise UsageError(
                f"{config.name}: {config.linear.key_heads} key heads of linear attention cannot be shared evenly by {tp} GPUs (tensor parallel)"
            )
        if tp > config.kv_heads and tp % config.kv_heads and config.latent is None:
            raise UsageError(
                f"{config.name}: {config.kv_heads} key/value heads cannot be copied evenly onto {tp} GPUs (tensor parallel)"
            )
        read = (self.replica_batch // self.micro_batches) * (1 if self.phase in ("decode", "mixed") else self.sequence)
        most = _MOST_ROWS // (config.experts.per_token if config.experts is not None else 1)
        if self.phase != "serve" and not self.groups and read > most:
            each = " each" if self.micro_batches > 1 or self.data_parallel > 1 else ""
            raise UsageError(
                f"--batch {self.batch} of --sequence {self.sequence} makes {read:,} tokens to read at once{each}; at most {most:,} are projected: give a smaller"
                " --batch or --sequence, or more --micro-batches or --dp"
            )
        pieces = self.pipeline_parallel * self.virtual_stages
        if pieces > config.layers:
            raise UsageError(
                f"{config.name}: {config.layers} layers cannot be shared by {pieces} stages (pipeline parallel, virtual ones counted)"
            )
        for given, option in ((self.expert_parallel > 1, "--ep"), (self.experts_dtype, "--experts-dtype")):
            if given and config.experts is None:
                raise UsageError(f"{config.name} has no experts: leave out {option}")
        if config.experts is not None and self.served_by == LLAMA_CPP:
            raise UsageError(
                f"{config.name} has experts, and how {LLAMA_CPP}'s kernels take these is not projected, as no measurements of them are known: "
                f"give --framework {', '.join(FRAMEWORKS[:-1])} or {FRAMEWORKS[-1]}, and --dtype or --experts-dtype int4_wo for weights of 4 bits"
            )
        if config.experts is not None and config.experts.routed < self.expert_parallel:
            raise UsageError(
                f"{config.name}: {config.experts.routed} experts cannot be shared out over {self.expert_parallel} GPUs (expert parallel): give --ep {config.experts.routed} at most"
            )

    @property
    def experts_tensor_parallel(self) -> int:
        """GPUs that share each expert's columns: those of a replica's layer that do not hold experts of their own."""
        return max(1, self.tensor_parallel // self.expert_parallel)

    @property
    def expert_copies(self) -> int:
        """How many times every expert's weights are there: once for each group of GPUs that shares experts out."""
        return self.stage_gpus // max(self.tensor_parallel, self.expert_parallel)

    def meeting_tokens(self, tokens: int) -> int:
        """Of all replicas that share experts out with a replica which has ``tokens``."""
        return -(-tokens * max(self.tensor_parallel, self.expert_parallel) // self.tensor_parallel)
