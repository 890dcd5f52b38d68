"""``gpusim project MODEL``: a whole model on GPUs; how it is called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gpusim.commands.later import done_by
from gpusim.commands.links_options import links_options
from gpusim.commands.options import Count, Name, format_option, gpu_option, power_limit_option, set_option
from gpusim.project.plan import (
    ALL_REDUCES,
    ENGINES,
    KV_BYTES,
    LAUNCHES,
    LOSSES,
    OVERLAPS,
    PHASES,
    READS,
    RECOMPUTES,
    SAMPLINGS,
    SCORES,
    SERVING_FRAMEWORKS,
    WEIGHT_BYTES,
    ZERO_STAGES,
)

_COUNT = Count(min=1)


class PageOption(click.Option):
    """``-o FILE``. Until 0.1 ``--output 512`` meant --output-tokens here, and it still does: a file that is called by a
    whole number is written ``./512``."""

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        parser.add_option(obj=self, opts=self.opts, dest=self.name, action="append", nargs=1)

    def consume_value(self, ctx: click.Context, opts: Any) -> Any:
        given = opts.get(self.name)
        if isinstance(given, list):
            files = [each for each in given if not each.isdecimal()]
            if len(files) > 1:
                raise click.UsageError(f"-o is given {len(files)} times ({', '.join(files)}) and takes one file", ctx)
            opts = {**opts, self.name: files[0] if files else None}
        return super().consume_value(ctx, opts)


class TokensOption(click.Option):
    """``--output-tokens N``, also where it is still spelt ``--output N``."""

    def consume_value(self, ctx: click.Context, opts: Any) -> Any:
        formerly = [each for each in opts.get("output_file") or () if each.isdecimal()]
        if formerly and opts.get(self.name) is None:
            opts = {**opts, self.name: formerly[-1]}
        return super().consume_value(ctx, opts)


@click.command()
@click.argument("network", metavar="MODEL")
@click.option("--phase", type=Name(PHASES), default="request", show_default=True, help="See above.")
@click.option(
    "--batch",
    type=_COUNT,
    help="Sequences, of all replicas together; of a server those in progress at most. [default: 1; of a server as many as memory and --framework allow]",
)
@click.option(
    "--sequence",
    type=_COUNT,
    default=2048,
    show_default=True,
    help="Tokens of a prompt, or in the cache of each sequence (decode, mixed).",
)
@click.option(
    "--output-tokens",
    "output",
    cls=TokensOption,
    type=Count(min=0),
    default=256,
    show_default=True,
    help="Tokens that a request generates (request, serve).",
)
@click.option(
    "--tp",
    type=_COUNT,
    help="GPUs that share each layer (tensor parallel). [default: what --pp and --dp leave of the GPUs]",
)
@click.option(
    "--pp", type=_COUNT, default=1, show_default=True, help="Stages that layers are split into (pipeline parallel)."
)
@click.option("--dp", type=_COUNT, default=1, show_default=True, help="Replicas that share the batch (data parallel).")
@click.option(
    "--ep", type=_COUNT, default=1, show_default=True, help="GPUs that share out the experts (expert parallel)."
)
@click.option(
    "--dtype",
    type=Name(list(WEIGHT_BYTES)),
    default="bf16",
    show_default=True,
    help="Of weights and their products; _wo: of weights alone.",
)
@click.option(
    "--experts-dtype",
    type=Name(list(WEIGHT_BYTES)),
    default=None,
    help="Of experts' weights and their products, if not --dtype (GPT-OSS: mxfp4_wo or mxfp4).",
)
@click.option(
    "--attention-dtype",
    type=Name(list(WEIGHT_BYTES)),
    default=None,
    help="Of weights that make queries, keys and values, if not --dtype (DeepSeek-R1 in NVFP4: bf16).",
)
@click.option(
    "--kv-dtype",
    type=Name(list(KV_BYTES)),
    default="bf16",
    show_default=True,
    help="Of cached keys and values.",
)
@click.option(
    "--page-tokens",
    type=Count(1, 1 << 16),
    default=16,
    show_default=True,
    help="Of a page of the cache; a sequence takes whole pages.",
)
@click.option(
    "--chunk",
    type=Count(min=0),
    default=0,
    help="Prompt tokens a step (chunked prefill); in a mixed step those beside the batch's.",
)
@click.option(
    "--requests",
    type=_COUNT,
    help="Of a server: requests that wait at once. [default: eight for each sequence that can be in progress]",
)
@click.option(
    "--step-tokens",
    type=_COUNT,
    help="Of a server: new tokens that a step reads at most. [default: as --framework sets itself up]",
)
@click.option(
    "--memory-share",
    type=click.FloatRange(0.1, 1.0),
    help="Of a server: share of memory for weights, keys and values (trtllm: of what weights leave free, for keys and values). [default: as --framework has it]",
)
@click.option(
    "--micro-batches",
    type=_COUNT,
    default=1,
    show_default=True,
    help="Into which a replica's batch is split for its pipeline.",
)
@click.option(
    "--virtual-stages",
    type=_COUNT,
    default=1,
    show_default=True,
    help="Pieces of its layers that each stage of a training pipeline works on in turn, as Megatron's interleaved schedule does.",
)
@click.option(
    "--recompute",
    type=Name(RECOMPUTES),
    default="none",
    show_default=True,
    help="Activations that training computes again.",
)
@click.option(
    "--zero",
    type=click.Choice(ZERO_STAGES),
    default=0,
    show_default=True,
    help="Stage of ZeRO in training: 1 shares out the optimizer's state over replicas, 3 weights and gradients too (fully sharded data parallel).",
)
@click.option(
    "--overlap",
    type=Name(OVERLAPS),
    default="none",
    show_default=True,
    help="two-batch: halves of the batch take turns, one computes while the other's collectives run; products: in training sums over --tp run beside products.",
)
@click.option(
    "--reads",
    type=Name(READS),
    default="shared",
    show_default=True,
    help="Keys and values that heads share are read once for all of them, or for each (kernels before about 2024).",
)
@click.option(
    "--scores",
    type=Name(SCORES),
    default="fused",
    show_default=True,
    help="Of attention in training: on the chip in one kernel (the one measured on the GPU, FlashAttention-2, or FlashAttention in Triton before it), or in memory between kernels of their own (eager: before FlashAttention).",
)
@click.option(
    "--loss",
    type=Name(LOSSES),
    default="apart",
    show_default=True,
    help="Of training: apart from its gradient, over logits in FP32 (Megatron-LM), or in one kernel with it, over 16 bits (Liger, llm.c).",
)
@click.option(
    "--all-reduce",
    type=Name(ALL_REDUCES),
    default="custom",
    show_default=True,
    help="Kernels that sum a layer's results over GPUs while serving: the framework's own, or NCCL's.",
)
@click.option(
    "--framework",
    type=Name(SERVING_FRAMEWORKS),
    help="Whose kernels attention (but latent attention), experts and products of fp8 have, and whose host works between steps (serve, request); default: vllm's, of experts and products those that are followed for their format, and of requests no host.",
)
@click.option(
    "--engine",
    type=Name([name for name in ENGINES if name]),
    help="Of --framework vllm: v0, the engine before 0.8 (0.5 before 0.6, 0.4 before 0.5.1); 0.10, those before 0.11, whose graphs are in pieces; 0.13, those before 0.14, whose host works between steps; or 0.15, those before 0.16 with asynchronous scheduling; of sglang: 0.3, those before 0.4, whose host works between steps; of trtllm: 1.0, whose host takes longer, or 0.9, an engine of TensorRT, whose host launches kernels faster; default: the newest.",
)
@click.option(
    "--launch",
    type=Name(LAUNCHES),
    default=LAUNCHES[0],
    show_default=True,
    help="Kernels are launched one by one by the host, where a step may wait for it, or as a CUDA graph; default: as the framework does of itself.",
)
@click.option(
    "--sampling",
    type=Name(SAMPLINGS),
    default=SAMPLINGS[0],
    show_default=True,
    help="How a next token is drawn: top is among the most probable (top-k, top-p), for which vLLM before 0.16 sorts the vocabulary.",
)
@gpu_option("h100", instead="; for several: --sweep gpu=h100:8,b200:4")
@set_option()
@links_options
@power_limit_option
@click.option(
    "--one-clock",
    is_flag=True,
    help="The power limit acts on the mean of a step, whose operators have one clock, and not on each as if it alone were repeated.",
)
@click.option(
    "--what-if",
    multiple=True,
    metavar="KEY=VALUE",
    help="Project again with this value of the GPU changed, and compare; may be repeated.",
)
@click.option("--helps", is_flag=True, help="Try which part of the GPU, a quarter better, would save most.")
@click.option("--operators", is_flag=True, help="Print the operators, the costliest first, instead of the summary.")
@click.option(
    "--sweep",
    multiple=True,
    metavar="NAME=VALUES",
    help="All of NAME's values (1,2,4 or 1..64, powers of two), combined; may be repeated.",
)
@click.option(
    "--pareto",
    is_flag=True,
    help="Of a sweep only plans that fit and that no other beats in both latency and throughput a GPU.",
)
@click.option(
    "--ttft-ms",
    type=click.FloatRange(min=0.0, min_open=True),
    metavar="MOST",
    help="Of a sweep only plans that fit and whose time to first token is at most this, the most tokens a second and GPU first.",
)
@click.option(
    "--tpot-ms",
    type=click.FloatRange(min=0.0, min_open=True),
    metavar="MOST",
    help="The same of the time per output token.",
)
@click.option(
    "--resume",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep a sweep's rows in this file, and do not project what is in it again.",
)
@click.option(
    "--traces",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the step as Chakra execution traces into this folder, one a GPU, and groups.json.",
)
@click.option(
    "-o",
    "--output",
    "--output-file",
    "output_file",
    cls=PageOption,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a report, in HTML; with --sweep of the plans, the front that nothing beats and what limits it. A file that ends in .json, .csv, .md or .txt gets the data instead of stdout.",
)
@format_option(default=None)
@done_by("projecting_models")
def model(**options: object) -> None:
    """Project a whole MODEL: a name of `gpusim workloads list`, or the path of a config.json.

    \b
    Phases:
      request   prompts are read, then tokens generated: time to first token, time per output token
      prefill   one pass over the prompts
      decode    the next token of each sequence
      mixed     a step of continuous batching: the batch's next tokens beside --chunk tokens of a prompt
      serve     a server under full load: many requests, read and answered by --framework's scheduler
      train     forward, backward, optimizer

    `--gpu NAME:COUNT` gives the number of GPUs; what --pp and --dp leave of them is shared by --tp. Times are sums of projected operators, each with its
    interval; what was compared with measurements and what was not is said.

    \b
    Examples:
      gpusim project llama3_70b --gpu h100:8 --batch 32 --sequence 4096 --output-tokens 512
      gpusim project deepseek_v3 --gpu h200:8 --phase decode --batch 64 --dtype fp8 --ep 8
      gpusim project gpt_oss_120b --gpu h100:1 --phase decode --batch 32 --experts-dtype mxfp4_wo
      gpusim project llama3_70b --gpu h200:1 --phase serve --framework trtllm --dtype fp8 --kv-dtype fp8 --sequence 1000 --output-tokens 1000
      gpusim project llama3_70b --gpu h100:8 --phase prefill --batch 8 --overlap two-batch
      gpusim project llama3_70b --gpu h100:8 --phase decode --what-if dram.peak_bytes_per_ns=4800
      gpusim project llama3_70b --gpu h100:8 --phase prefill --batch 8 --power-limit-watts 500 --one-clock
      gpusim project llama3_8b --gpu rtx4090:8 --phase decode --batch 16 --links host
      gpusim project llama3_70b --gpu h100:8 --phase decode --batch 32 --traces step
      gpusim project llama3_8b --gpu h100:1 --sweep batch=1..256 --sweep gpu=a100_80gb,h100 --pareto
      gpusim project llama3_70b --gpu h100:8 --sweep batch=1..256 --sweep tp=1..8 --sweep dp=1..8 --ttft-ms 1000 --tpot-ms 30
    """
