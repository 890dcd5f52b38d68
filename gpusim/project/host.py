"""The host's part of a step: kernels that it launches one by one, where no CUDA graph replays them.

Mental model: the host launches ahead of the GPU, which waits for it only where a step's kernels take less time than launching them; so a step takes the longer of the two. Which steps are launched
one by one is the framework's: of prompts those of TensorRT-LLM and SGLang (CUDA graphs are for generation), of vLLM those of more than 512 tokens (docs.vllm.ai, design/cuda_graphs: sizes that are captured unless
said otherwise); generation is replayed, and training's steps are far longer.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpusim.project.part import Priced
from gpusim.project.plan import Plan

#: Of one kernel as they are counted here, by framework. Python's eager mode: a step of one token of Llama 3.1 8B takes 8.4 ms on an H100 SXM, and 5.1 as a CUDA graph (cloudai.pt, CUDA Graphs + torch.compile): 356
#: kernels; vLLM's is reported three times as slow (22 ms for 28 layers, 13 as a graph: vllm-project/vllm-omni, issue 7960). Engines of TensorRT-LLM: the mean of what first tokens of four networks after
#: 128 tokens took on H100, 15.5 to 21.0 us a kernel (traces/library/whole_models.csv; tools/model_error.py prints each by the other three).
LAUNCH_SECONDS = {"vllm": 23.6e-6, "sglang": 23.6e-6, "trtllm": 18.6e-6}
#: Most tokens of a step of prompts that vLLM captures.
_CAPTURED_TOKENS = {"vllm": 512}


def launched_one_by_one(plan: Plan, tokens: int) -> bool:
    """Whether the host launches a step of so many ``tokens`` kernel by kernel."""
    if plan.launch != "default":
        return plan.launch == "eager"
    return plan.phase in ("prefill", "mixed") and tokens > _CAPTURED_TOKENS.get(plan.served_by, 0)


def launched_kernels(items: Iterable[Priced]) -> int:
    """That ``items`` launch in all."""
    return sum(item.operator.count * max(1, item.projection.launches) for item in items)


def host_seconds(items: Iterable[Priced], framework: str) -> float:
    """In which the host launches all of ``items`` one by one."""
    return LAUNCH_SECONDS[framework] * launched_kernels(items)
