"""``gpusim project linear-attention``: how it is called."""

from __future__ import annotations

import click

from gpusim.commands.later import done_by
from gpusim.commands.options import Count, Name, format_option, gpu_option, power_limit_option
from gpusim.errors import UsageError
from gpusim.tile.library import FRAMEWORKS
from gpusim.tile.recurrent import PHASES

_COUNT = Count(1, (1 << 31) - 1)


@click.command()
@click.option(
    "--part",
    type=Name(("rule", "convolution")),
    default="rule",
    show_default=True,
    help="The gated delta rule, or the causal convolution before it (Mamba's as well).",
)
@click.option(
    "--phase",
    type=Name(PHASES),
    default="generation",
    show_default=True,
    help="One new token a sequence, or many at once.",
)
@click.option("--batch", required=True, type=_COUNT, help="Sequences.")
@click.option("--tokens", type=_COUNT, help="New tokens of each, with --phase context.")
@click.option("--key-heads", default=16, show_default=True, type=_COUNT, help="Of queries and keys, on this GPU.")
@click.option("--value-heads", default=32, show_default=True, type=_COUNT, help="Of values, each with a state.")
@click.option("--head-dim", default=128, show_default=True, type=_COUNT, help="Elements a head.")
@click.option("--channels", type=_COUNT, help="Of the convolution; those of all heads if not given.")
@click.option("--width", default=4, show_default=True, type=_COUNT, help="Tokens that the convolution is over.")
@click.option("--cold", is_flag=True, help="States lie in DRAM, even where they would fit into L2.")
@click.option("--framework", type=Name(FRAMEWORKS), default=FRAMEWORKS[0], show_default=True, help="Whose kernels.")
@power_limit_option
@gpu_option("h100")
@format_option()
@done_by("projecting_operators")
def linear_attention(
    part: str, phase: str, batch: int, tokens: int | None, key_heads: int, value_heads: int, head_dim: int, channels: int | None, width: int, cold: bool,
    framework: str, power_limit_watts: float | None, gpu: str, form: str,
) -> None:  # fmt: skip
    """Time of linear attention with a gated delta rule (Qwen3-Next and its like), all launches together; without the products around it.

    A head keeps a state of --head-dim x --head-dim in FP32 in place of keys and values, so a token takes as long at any length. In brackets the interval
    in which four of five measurements should lie, from rows that set nothing.

    \b
    Examples:
      gpusim project linear-attention --batch 64 --value-heads 32 --gpu h100
      gpusim project linear-attention --phase context --batch 4 --tokens 8192 --framework sglang --gpu h200
      gpusim project linear-attention --part convolution --phase context --batch 1 --tokens 4096 --channels 10240
    """
    if tokens is not None and phase == "generation":
        raise UsageError("--tokens is for --phase context: in generation each sequence has one")
    if tokens is None and phase == "context":
        raise UsageError("--phase context wants --tokens: how many new ones each sequence has")
    if channels is not None and part == "rule":
        raise UsageError("--channels is for --part convolution")
