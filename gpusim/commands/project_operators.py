"""``gpusim project``'s attention and experts: how they are called."""

from __future__ import annotations

import click

from gpusim.commands.later import done_by
from gpusim.commands.options import Count, Name, format_option, gpu_option, power_limit_option
from gpusim.errors import UsageError
from gpusim.tile.formats import FORMATS
from gpusim.tile.library import FRAMEWORKS

_COUNT = Count(1, (1 << 31) - 1)


@click.command()
@click.option(
    "--phase",
    type=Name(("generation", "context")),
    default="generation",
    show_default=True,
    help="One query token a sequence, or many at once under a causal mask.",
)
@click.option(
    "--kind",
    type=Name(("gqa", "mla")),
    default="gqa",
    show_default=True,
    help="Keys and values a head (any number of heads may share them), or DeepSeek's latents.",
)
@click.option("--batch", required=True, type=_COUNT, help="Sequences.")
@click.option("--length", required=True, type=_COUNT, help="Keys of each, the new ones included.")
@click.option("--queries", type=_COUNT, help="New tokens of each, with --phase context; all of --length if not given.")
@click.option("--heads", required=True, type=_COUNT, help="Query heads on this GPU.")
@click.option("--kv-heads", type=_COUNT, help="Key/value heads; as --heads if not given.")
@click.option("--head-dim", default=128, show_default=True, type=_COUNT, help="Elements a head.")
@click.option(
    "--window",
    default=0,
    show_default=True,
    type=Count(0, (1 << 31) - 1),
    help="Only so many of the last keys; 0: all.",
)
@click.option(
    "--dtype",
    type=Name(("bf16", "fp16")),
    default="bf16",
    show_default=True,
    help="Of queries, keys and values.",
)
@click.option("--kv-dtype", type=Name(("bf16", "fp16", "fp8")), help="Of the cache; as --dtype if not given.")
@click.option(
    "--framework",
    type=Name(FRAMEWORKS),
    default=FRAMEWORKS[0],
    show_default=True,
    help="Whose kernels; not with --kind mla.",
)
@power_limit_option
@gpu_option("h100")
@format_option()
@done_by("projecting_operators")
def attention(
    phase: str, kind: str, batch: int, length: int, queries: int | None, heads: int, kv_heads: int | None, head_dim: int, window: int,
    dtype: str, kv_dtype: str | None, framework: str, power_limit_watts: float | None, gpu: str, form: str,
) -> None:  # fmt: skip
    """Time of attention by a library like FlashAttention: of one query token a sequence, as when text is generated, or of a whole context.

    How many parts the keys are split into is chosen as the library does; blocks run in waves against L2 and DRAM. The time is
    that of nodes of a CUDA graph, the write of the new key and value among them. In brackets the interval in which four of five
    measurements should lie, from rows that set nothing. With --queries below --length the context is a chunk after keys that
    are in the cache.

    \b
    Examples:
      gpusim project attention --batch 32 --length 4096 --heads 32 --kv-heads 8 --gpu h100
      gpusim project attention --phase context --batch 4 --length 8192 --heads 32 --kv-heads 8 --gpu h100
      gpusim project attention --phase context --batch 1 --queries 512 --length 8192 --heads 32 --kv-heads 8
      gpusim project attention --kind mla --batch 64 --length 4096 --heads 128
      gpusim project attention --batch 1 --length 131072 --heads 8 --kv-heads 1 --gpu a100_80gb --format json
    """
    if queries is not None and phase == "generation":
        raise UsageError("--queries is for --phase context: in generation each sequence has one")
    if queries is not None and queries > length:
        raise UsageError(f"--queries {queries} is more than --length {length}, which has the new tokens too")
    if kind == "mla" and window:
        raise UsageError("--window is not for --kind mla: latent attention meets all keys")
    if kind == "mla" and framework != "vllm":
        raise UsageError("--framework is not for --kind mla: one library's kernels of latent attention are known")


@click.command()
@click.argument("tokens", type=_COUNT)
@click.option("--hidden", required=True, type=_COUNT, help="Elements of a token.")
@click.option("--intermediate", required=True, type=_COUNT, help="Elements within an expert, before --tp.")
@click.option("--experts", required=True, type=Count(1, 1 << 14), help="Of the layer, on all GPUs.")
@click.option("--top-k", required=True, type=_COUNT, help="Experts that a token goes to.")
@click.option("--ep", default=1, show_default=True, type=_COUNT, help="GPUs that share the experts out.")
@click.option("--tp", default=1, show_default=True, type=_COUNT, help="GPUs that share each expert.")
@click.option(
    "--distribution",
    default="power_law_1.2",
    show_default=True,
    help="Tokens an expert: balanced, uniform (by random numbers), or power_law_A of exponent A.",
)
@click.option(
    "--dtype",
    type=Name([name for name in FORMATS if name not in ("fp32", "tf32", "int4")]),
    default="bf16",
    show_default=True,
    help="Of weights and activations; _wo: of weights alone.",
)
@click.option(
    "--framework",
    type=Name(FRAMEWORKS),
    help="Whose kernels; the one that is followed for the format if not given.",
)
@power_limit_option
@gpu_option("h100")
@format_option()
@done_by("projecting_operators")
def moe(
    tokens: int, hidden: int, intermediate: int, experts: int, top_k: int, ep: int, tp: int, distribution: str, dtype: str, framework: str | None, power_limit_watts: float | None,
    gpu: str, form: str,
) -> None:  # fmt: skip
    """Time of a layer of experts for TOKENS: routing, two grouped products with the activation between them, the sum; without communication.

    The rows of each expert are one product of a launch that has them all. With --ep the time is that of the GPU with the most
    to do. In brackets the interval in which four of five measurements should lie, from rows that set nothing.

    \b
    Examples:
      gpusim project moe 128 --hidden 7168 --intermediate 2048 --experts 256 --top-k 8 --ep 8 --gpu h100
      gpusim project moe 4096 --hidden 4096 --intermediate 14336 --experts 8 --top-k 2 --tp 4 --gpu a100_80gb --format json
    """
