"""How each serving framework sets itself up, and what its host does: one table.

Mental model: a framework is a handful of figures: memory that it takes, the budgets of a step, what its scheduler may
put into one, which steps are replayed as CUDA graphs, and how long its host works between steps, for the step and for
each sequence in it. The host's work runs beside the GPU's (overlapped) or while that waits. The figures are the
frameworks' defaults, each with its source.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from gpusim.project.plan import LLAMA_CPP, Plan

#: GPUs whose host is a Grace CPU, and how much longer a Python scheduler's work takes there than on the x86 hosts of
#: the others: Qwen3 30B under TensorRT-LLM answers 24,107 tokens a second on a GB200 and 39,827 on a B200 where it
#: waits for the host (traces/library/served_models.csv). A guess for other frameworks.
_OF_GRACE, _GRACE_SLOWER = ("gb200", "gb300", "gh200"), 1.6
#: GPUs whose hosts are of 2020 and 2021 (EPYC of Zen 2 and 3), and how much longer these take for what was set on hosts
#: of H100s: vLLM of 2024 on Polaris takes 1.47 times as long for a step, a sequence and a page
#: (traces/library/published_runs.csv, llm-inference-bench-vllm, learning rows). Qwen's A100s, which did not set it, say
#: the same of vLLM 0.4.2 (qwen2-docs): 0.4 to 0.6 ms more a step than beside an H100. Launches one by one are not among
#: it: with 23.6 us, set beside an H100, their longer sequences, which have no graph, come out 7 to 10 % too fast.
_OF_EARLIER_HOSTS, _EARLIER_SLOWER = ("a100",), 1.47


@dataclass(frozen=True)
class Framework:
    """``memory_share``: that weights, keys and values may take, of all memory or (``of_free``) of what weights leave;
    ``page_tokens``: of a page of the cache; ``chunked``: whether prompts are read in pieces; ``mixed``: whether prompts
    are read beside the next tokens of others, or those wait; ``keeps_ends``: whether a sequence is admitted only where
    its end has room; ``graphs``: batches that are captured, to which smaller ones are padded, () for no padding;
    ``captured_tokens``: most of a step of prompts that is replayed; ``graph_keys``: of a sequence in a step of
    generation that is replayed at most (0: any); ``most_sequences``, ``step_tokens``: of a step; ``large``: the same
    two of GPUs with ``large_bytes`` or more but those of ``small_names``; ``launch_seconds``: of one kernel that the
    host launches by itself, and ``token_launch_seconds`` where the step generates alone (None: the same);
    ``gap_seconds``: that a GPU idles before such a kernel, more than between nodes of a graph, however far ahead the
    host is; ``layer_gap_seconds``: that it idles in each layer of a step that is replayed in pieces, as attention is
    launched by itself between two graphs; ``draws_by_few_blocks``: whether few blocks go over a sequence's logits to
    draw a token; ``splits_keys``: whether attention of new tokens may split a sequence's keys; ``splits_single_heads``:
    whether it does where each query head has keys of its own, even if the framework's kernels of today do not;
    ``copies_sums``: whether what a layer's GPUs sum by the framework's kernels is copied first, to where all reach it;
    ``step_seconds``, ``sequence_seconds``, ``page_seconds``: of the host's work between steps, of all of it, of a
    sequence and of a page of its keys; ``worker_seconds``: of it, where a layer is shared, until the processes of its
    other GPUs have what the step works on; ``overlapped``: whether that runs beside the GPU's, and
    ``ending_step_seconds`` and, of a sequence, ``ending_seconds``, what then still comes after it;
    ``pipeline_sequence_seconds``: of pipelines, beside nothing; ``streaming_seconds``: of the processes that turn a
    token into text and send it, beside everything; ``sorts``: whether drawing among the most probable tokens sorts all
    of them (:mod:`gpusim.tile.sorting`); ``own_bytes``: of memory that the driver's context, libraries' workspaces and
    captured graphs take on one GPU; ``collective_bytes``: what communicators and their buffers add on each of several;
    ``beside_h100s``: whether the host's work was set on hosts of H100s alone."""

    memory_share: float
    of_free: bool
    page_tokens: int
    chunked: bool
    mixed: bool
    keeps_ends: bool
    most_sequences: int
    step_tokens: int
    launch_seconds: float
    gap_seconds: float = 0.0
    layer_gap_seconds: float = 0.0
    draws_by_few_blocks: bool = False
    token_launch_seconds: float | None = None
    large: tuple[int, int] | None = None
    large_bytes: float = 0.0
    small_names: tuple[str, ...] = ()
    graphs: tuple[int, ...] = ()
    captured_tokens: int = 0
    graph_keys: int = 0
    step_seconds: float = 0.0
    sequence_seconds: float = 0.0
    page_seconds: float = 0.0
    worker_seconds: float = 0.0
    overlapped: bool = False
    ending_step_seconds: float = 0.0
    ending_seconds: float = 0.0
    pipeline_sequence_seconds: float = 0.0
    streaming_seconds: float = 0.0
    sorts: bool = False
    splits_keys: bool = True
    splits_single_heads: bool = False
    copies_sums: bool = False
    own_bytes: float = 2.5e9
    collective_bytes: float = 1.92e9
    beside_h100s: bool = False

    def limits(self, gpu: str, capacity_bytes: float) -> tuple[int, int]:
        """Most sequences and tokens of a step on a GPU of that name and memory."""
        large = self.large is not None and capacity_bytes >= self.large_bytes
        if large and not any(name in gpu for name in self.small_names):
            assert self.large is not None
            return self.large
        return self.most_sequences, self.step_tokens

    def host_seconds(self, sequences: int, gpu: str, pages: int = 0, shared: bool = False) -> float:
        """Between two steps of so many ``sequences``, which hold so many ``pages``, on GPUs called so; ``shared``:
        whether several GPUs share a layer."""
        seconds = self.step_seconds + self.sequence_seconds * sequences + self.page_seconds * pages
        earlier = _earlier(gpu) if self.beside_h100s else 1.0
        return _slower(gpu) * earlier * (seconds + shared * self.worker_seconds)

    def waited_seconds(self, sequences: int, gpu: str, pages: int = 0, shared: bool = False) -> float:
        """Of its work between two steps, that GPUs wait for where they take longer than what runs beside them."""
        if not self.overlapped:
            return self.host_seconds(sequences, gpu, pages, shared)
        return _slower(gpu) * (self.ending_step_seconds + self.ending_seconds * sequences)

    def step_of(
        self, device_seconds: float, sequences: int, gpu: str, launch_seconds: float = 0.0, pages: int = 0, shared: bool = False,
    ) -> float:  # fmt: skip
        """A step with the host's work, beside the GPU's or after it; ``launch_seconds``: of it, that launching kernels
        takes where no graph replays them, within ``device_seconds`` if the GPU waits for it. No step is shorter for
        long than its tokens take to be sent."""
        waited, sent = (
            self.waited_seconds(sequences, gpu, pages, shared),
            _slower(gpu) * self.streaming_seconds * sequences,
        )
        if not self.overlapped:
            return max(max(device_seconds, launch_seconds) + waited, sent)
        return max(
            max(device_seconds, self.host_seconds(sequences, gpu, pages, shared) + _slower(gpu) * launch_seconds)
            + waited,
            sent,
        )


def _slower(gpu: str) -> float:
    """How much longer a host of GPUs called so takes."""
    return _GRACE_SLOWER if any(name in gpu for name in _OF_GRACE) else 1.0


def _earlier(gpu: str) -> float:
    """How much longer hosts of GPUs called so take for what was set on hosts of H100s."""
    return _EARLIER_SLOWER if any(name in gpu for name in _OF_EARLIER_HOSTS) else 1.0


#: Launches. Python's eager mode: a step of one token of Llama 3.1 8B takes 8.4 ms on an H100 SXM, and 5.1 as a CUDA
#: graph (cloudai.pt, CUDA Graphs + torch.compile): 356 kernels; vLLM's is reported three times as slow (22 ms for 28
#: layers, 13 as a graph: vllm-project/vllm-omni, issue 7960). Engines of TensorRT-LLM: the mean of what first tokens of
#: four networks after 128 tokens took on H100, 16.7 to 24.0 us a kernel (traces/library/whole_models.csv;
#: tools/model_error.py prints each by the other three).
_EAGER, _ENGINES = 23.6e-6, 20.7e-6
#: Memory (TensorRT-LLM: trtllm-bench's kv_cache_free_gpu_mem_fraction; vLLM: gpu_memory_utilization; SGLang:
#: mem_fraction_static on one GPU), pages (TensorRT-LLM's PyTorch backend: 32) and graphs (TensorRT-LLM: those of its
#: published benchmarks, docs/source/performance/perf-overview.md; vLLM and SGLang capture in steps of eight and pad by
#: a few sequences at most, which is left out; vLLM captures steps of up to 512 tokens, prompts or not: docs.vllm.ai,
#: design/cuda_graphs). Budgets: vLLM's EngineArgs.get_batch_defaults (the A100 apart, which is slower with the larger
#: ones: vllm-project/vllm, pull request 17885), SGLang's server_args.py, TensorRT-LLM's rule is in
#: gpusim.project.tuned. vLLM's engine before 0.8 (V0) reads whole prompts first, 256 sequences at most, and has no
#: graph for sequences of more than 8,192 tokens (its max_seq_len_to_capture). Own memory: 2.5 GB is a guess of the size
#: that frameworks report. TensorRT-LLM's PyTorch backend: Llama 3.3 70B in fp8 leaves an H100 8 to 10 GB for keys and
#: values, so that each GB more is 12 % of the published throughput: five rows of 0.20 say 3.4 GB
#: (traces/library/served_before.csv; seven of 0.17, whose runtime is C++ and its engine TensorRT's, 1.7), and so does a
#: log of 0.20 with Llama 3.1 8B on an H100: 52.5 GiB for keys and values at a share of 0.8 beside 7.9 of weights and
#: steps of 23,552 tokens (NVIDIA/TensorRT-LLM, issue 6294). Collectives: vLLM reports 1.79 GiB outside of PyTorch for
#: Llama 3 8B on one GPU and 3.58 on each of two (vllm-project/vllm, pull request 10511), TensorRT-LLM 7.66 GiB for
#: DeepSeek-R1 on each of four (its pull request 15632 and what its notes of regressions say of it: a part of a GiB that
#: crosses a batch's bound takes 10 % of the throughput). Host. vLLM schedules asynchronously, beside the GPU, from 0.14
#: on (its release notes; vllm-project/vllm, pull request 27614). Learning rows of 0.23 on an L4 (1, 16 and 32
#: sequences) and an RTX A6000 (1, 4 and 8) leave 18 us a sequence after a step, by the rise of both, and 0.28 ms a step
#: (0.20 to 0.43), in which kernels that draw tokens and prepare the next step are launched one by one. What is beside
#: the GPU is what --async-scheduling hides in 0.11: GPT-OSS 20B on an A100 with 256 sequences in progress, all greedy,
#: takes 34.0 ms between tokens without it and 28.4 with it (median; 42.0 and 36.9 in the mean; gpustack/gpustack,
#: docs/performance-lab/gpt-oss-20b/a100.md, commit 7ae332aa): 0.6 ms a step, which Qwen3 14B on H100s leaves at few
#: sequences, and 20 us a sequence; before 0.14 both come after a step. (58 us were reckoned from what H100s of
#: ML.ENERGY took between tokens, which have the sort of their logits, longer answers in progress and asynchronous
#: scheduling, as its configurations say.) What sends tokens is other processes: three networks of 8 and 14 B on B200s
#: with 1,427 to 2,045 sequences in progress come to 14,800 to 15,900 tokens a second (ml-energy/leaderboard, commit
#: 0ea52b6a), 63 to 68 us each, whatever the network; Qwen3 0.6B with 500 sequences on an H100, which set nothing, to
#: 12,100. Sort: :mod:`gpusim.tile.sorting`; vLLM has kernels of its own since pull request 33538. SGLang 0.2 sorts even
#: where it draws the most probable (_top_p_top_k), and has no overlap before 0.4 (its release notes); Llama 3 8B on one
#: and on eight H100s leave 0.8 and 1.1 ms a step there. V0: one sequence of Qwen2.5 0.5B on an A100 (its
#: documentation), and Llama 3 8B on an H100 with and without 64 steps a call of the scheduler (vllm-project/vllm, pull
#: requests 7117 and 11078: 41.3 and 22.5 s for 1,024 steps of about 250 sequences). Both are what clients see, so that
#: streams of answers are in them. SGLang's and TensorRT-LLM's schedulers run beside the GPU. What version 1.0 of
#: TensorRT-LLM's takes a sequence and step shows where it is longer than the GPU's: 20 us on x86, by the learning half
#: of the published throughputs of Qwen3 30B on B200s, GB200s and RTX PRO 6000 (traces/library/served_models.csv): 15.9
#: to 9.4 % off. From 1.2 on at most 5 us fit GPT-OSS 20B on a GB200 (8 there), which hardly shows and is not projected
#: (its sampler and its preparation of inputs were made faster: NVIDIA/TensorRT-LLM, pull requests 5550, 11141 and 11704
#: measure such times). SGLang's is not projected. Pipelines of TensorRT-LLM: half of the published throughputs of Llama
#: 3.3 70B on 2, 4 and 8 RTX PRO 6000 Server Edition (traces/library/served_models.csv), 5.6 % off with it: one network
#: on one host, so a guess on others. llama.cpp: llama-server's slots, pieces of 512 tokens (--ubatch-size) and pages
#: are its defaults (tools/server/README.md), its share of memory and what its host, which is no Python, takes for a
#: launch are guesses; its attention of one token splits keys by as many blocks as fill the GPU, whether heads share
#: them or not (ggml/src/ggml-cuda/fattn-common.cuh, parallel_blocks); what it does between two tokens is in no figure:
#: generation of one sequence on ten GPUs is as long as its kernels (tools/framework_error.py).
_TABLE = {
    ("trtllm", ""): Framework(
        memory_share=0.90, of_free=True, page_tokens=32, chunked=False, mixed=True, keeps_ends=True, most_sequences=4096, step_tokens=2048, launch_seconds=_ENGINES,
        graphs=(*(1 << power for power in range(9)), 384, *(1 << power for power in range(9, 14))), overlapped=True, pipeline_sequence_seconds=35e-6,
        own_bytes=3.4e9, collective_bytes=4.8e9,
    ),
    ("vllm", ""): Framework(
        memory_share=0.90, of_free=False, page_tokens=16, chunked=True, mixed=True, keeps_ends=False, most_sequences=256, step_tokens=2048, launch_seconds=_EAGER,
        large=(1024, 8192), large_bytes=70 << 30, small_names=("a100",), captured_tokens=512, step_seconds=0.6e-3, sequence_seconds=20e-6, overlapped=True, ending_step_seconds=0.28e-3, ending_seconds=18e-6, streaming_seconds=66e-6,
    ),
    ("vllm", "v0"): Framework(
        memory_share=0.90, of_free=False, page_tokens=16, chunked=False, mixed=False, keeps_ends=False, most_sequences=256, step_tokens=8192, launch_seconds=_EAGER,
        step_seconds=1.3e-3, sequence_seconds=66e-6, sorts=True, splits_single_heads=True, graph_keys=8192,
    ),
    ("sglang", ""): Framework(
        memory_share=0.88, of_free=False, page_tokens=1, chunked=True, mixed=False, keeps_ends=False, most_sequences=4096, step_tokens=8192, launch_seconds=_EAGER,
        large=(4096, 16384), large_bytes=160 << 30, overlapped=True,
    ),
    (LLAMA_CPP, ""): Framework(
        memory_share=0.95, of_free=True, page_tokens=256, chunked=True, mixed=True, keeps_ends=True, most_sequences=4, step_tokens=512, launch_seconds=4e-6, splits_single_heads=True,
    ),
}  # fmt: skip


#: What a launch takes in 0.9: first tokens after 128 tokens of GPT-J, Llama 2 7B and 70B and Mistral 7B on H100s, 15.0
#: to 16.3 us a kernel; on H200s, which did not set it, 13.6 to 14.8: each network's is 10 % less there, whatever its
#: bytes, as of another host. Falcon 180B takes twice as long a kernel on both (36 and 32 us), which no figure has.
#: Steps that generate are not bound by it: Llama 3 8B in fp8 on two H100s takes 4.6 ms, 9.5 us a kernel, and in fp16
#: longer by what its weights' bytes take (traces/library/published_runs.csv, nim), so that no bound of these is known.
#: Drawing: :mod:`gpusim.tile.sorting`. What they idle between kernels: learning rows of NIM with one or two clients
#: leave 0.9 us a kernel beside that for Llama 3 8B, 1.3 for 70B on four GPUs (2.1 and 1.7 when drawing was not told
#: apart); a part of it may be the batch manager's work between two steps. Keys: engines have multi_block_mode off
#: unless told otherwise (tensorrt_llm/plugin/plugin.py of before 0.12), and the kernels for shared heads are then taken
#: from a block for each fourth SM on (decoderXQAImplPrecompiled.cpp, mayHavePerfGain).
_TABLE["trtllm", "0.9"] = replace(
    _TABLE["trtllm", ""],
    launch_seconds=15.7e-6,
    token_launch_seconds=0.0,
    gap_seconds=1.2e-6,
    draws_by_few_blocks=True,
    splits_keys=False,
    copies_sums=True,
)
_TABLE["trtllm", "1.0"] = replace(_TABLE["trtllm", ""], sequence_seconds=20e-6)
#: Before 0.6 tables of blocks are lists that the host makes anew for every step: learning rows of LLM-Inference-Bench
#: on H100s (traces/library/published_runs.csv), batches of 1 to 64 with 192 to 3,072 keys each, leave 1.38 ms a step,
#: 54 us a sequence and 0.33 us a page of its keys by least squares, whatever the network and however many GPUs share
#: it, so that slower attention is no other explanation; its A100s, whose host is an EPYC of Zen 3, 1.47 times each of
#: the three. (0.6.3 has no such term: Qwen2.5 0.5B takes no longer for 1,920 pages.) Where GPUs share a layer its H100s
#: leave 1.1 ms more, as long for 80 layers as for 32 (two and four GPUs: 1.0 and 1.3): before 0.5.1 the driver's
#: process broadcast what a step works on to the others by torch.distributed (vllm-project/vllm, issue 4440; one
#: broadcast fewer is 4 to 5 % of a step of Llama 2 7B on two GPUs, pull request 4844). From then on it does so through
#: shared memory, and nothing shows: 0.6.3 takes 9.0 ms for a token of each of eight sequences on two A100s (pull
#: request 9856).
_TABLE["vllm", "0.5"] = replace(_TABLE["vllm", "v0"], sequence_seconds=54e-6, page_seconds=0.33e-6, beside_h100s=True)
_TABLE["vllm", "0.4"] = replace(_TABLE["vllm", "0.5"], worker_seconds=1.1e-3)
_TABLE["sglang", "0.3"] = replace(_TABLE["sglang", ""], step_seconds=0.9e-3, overlapped=False, sorts=True)
_TABLE["vllm", "0.15"] = replace(_TABLE["vllm", ""], sorts=True)
_TABLE["vllm", "0.13"] = replace(
    _TABLE["vllm", "0.15"], sequence_seconds=38e-6, overlapped=False, ending_step_seconds=0.0, ending_seconds=0.0
)
#: Before 0.11 the engine of 0.8 (V1) replays a step in pieces, with attention launched between them
#: (vllm-project/vllm, pull request 10058; whole steps by default since pull request 20059, in 0.11). What that idles in
#: each layer is the middle of four: Qwen2.5 and Llama 3 of 1.5 to 14 B with 2 to 16 sequences on an H100 PCIe 16 to
#: 27 us, whatever their size (traces/library/published_runs.csv, iog, learning rows), Qwen3 1.7B on an A100 9 to 15 and
#: Qwen2.5 32B on eight H200s 13 (traces/library/served_elsewhere.csv, tt-inference-server and vllm-18725, learning
#: rows), and 7 % of a token of Qwen2.5 1.5B by its first pull request (16072), some 11.
_TABLE["vllm", "0.10"] = replace(_TABLE["vllm", "0.13"], layer_gap_seconds=12.4e-6)


def pages_held(groups: Iterable[tuple[int, int, int]], page_tokens: int) -> int:
    """Of the cache, by sequences in ``groups``: how many, their new tokens, the tokens that they hold with these."""
    return sum(sequences * -(-tokens // page_tokens) for sequences, _, tokens in groups)


def framework_of(plan: Plan) -> Framework:
    """That serves ``plan``, in its version."""
    return _TABLE[plan.served_by, plan.engine]
