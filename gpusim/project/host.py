"""The host's part of a step: kernels that it launches one by one, where no CUDA graph replays them.

Mental model: the host launches ahead of the GPU, which waits for it only where a step's kernels take less time than
launching them; so a step takes the longer of the two. Which steps are launched one by one is the framework's: of
prompts those of TensorRT-LLM and SGLang (CUDA graphs are for generation), of vLLM those of more than 512 tokens
(docs.vllm.ai, design/cuda_graphs: sizes that are captured unless said otherwise); generation is replayed, but for
sequences longer than a framework captures, and training's steps are far longer.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpusim.project.frameworks import framework_of
from gpusim.project.part import Priced
from gpusim.project.plan import Plan


def launched_one_by_one(plan: Plan, tokens: int, keys: int = 0) -> bool:
    """Whether the host launches a step of so many ``tokens`` kernel by kernel; ``keys``: most that one meets."""
    if plan.launch != "default":
        return plan.launch == "eager"
    framework = framework_of(plan)
    if plan.phase in ("prefill", "mixed"):
        return tokens > framework.captured_tokens
    return plan.phase == "decode" and 0 < framework.graph_keys < keys


def launched_kernels(items: Iterable[Priced]) -> int:
    """That ``items`` launch in all."""
    return sum(item.operator.count * max(1, item.projection.launches) for item in items)


def host_seconds(items: Iterable[Priced], plan: Plan, generates: bool = False) -> float:
    """In which the host launches all of ``items`` one by one, of a step that ``generates`` alone or reads prompts."""
    framework = framework_of(plan)
    own = framework.token_launch_seconds if generates else None
    return (framework.launch_seconds if own is None else own) * launched_kernels(items)


def gap_seconds(items: Iterable[Priced], plan: Plan) -> float:
    """In which a GPU idles between ``items``, launched one by one, more than between nodes of a graph."""
    return framework_of(plan).gap_seconds * launched_kernels(items)


def pieces_seconds(plan: Plan, layers: int) -> float:
    """In which a GPU idles between the pieces of a step that graphs replay, of so many ``layers``."""
    return framework_of(plan).layer_gap_seconds * layers
