"""``gpusim project``: what library kernels take on a described GPU, from their behaviour; how it is called."""

from __future__ import annotations

import click

from gpusim.commands.later import done_by
from gpusim.commands.options import HELP, format_option, gpu_option
from gpusim.commands.project_collective import collective
from gpusim.commands.project_export import export
from gpusim.commands.project_model import model
from gpusim.errors import UsageError

DTYPES = ("bf16", "fp16", "tf32", "int8", "fp8")


_power_limit_option = click.option(
    "--power-limit-watts",
    type=click.FloatRange(1.0, 100_000.0),
    help="Of the board, if not its own; long operators slow down to stay within.",
)


class _Operators(click.Group):
    """A word that is no operator is a model's name: ``gpusim project llama3_8b`` is ``gpusim project model llama3_8b``."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            return "model", self.commands["model"], args
        return super().resolve_command(ctx, args)


@click.group(cls=_Operators, context_settings=HELP)
def project() -> None:
    """Project library kernels, whose machine code is not at hand, at the level of their tiles, and whole models.

    \b
    Examples:
      gpusim project gemm 4096 4096 4096 --gpu h100
      gpusim project llama3_70b --gpu h100:8 --batch 32
    """


project.add_command(model)
project.add_command(collective)
project.add_command(export)


@project.command()
@click.argument("rows", type=click.IntRange(1, (1 << 31) - 1))
@click.argument("columns", type=click.IntRange(1, (1 << 31) - 1))
@click.argument("depth", type=click.IntRange(1, (1 << 31) - 1))
@click.option("--dtype", type=click.Choice(DTYPES), default="bf16", show_default=True, help="Of both operands.")
@click.option("--cold", is_flag=True, help="The first operand lies in DRAM too, as the second always does.")
@click.option("--warm", is_flag=True, help="Both operands lie in L2 where they fit.")
@_power_limit_option
@gpu_option("h100")
@format_option()
@done_by("projecting")
def gemm(
    rows: int, columns: int, depth: int, dtype: str, cold: bool, warm: bool, power_limit_watts: float | None, gpu: str, form: str
) -> None:  # fmt: skip
    """Time of a product: ROWS x COLUMNS results in 16 bits, each a sum over DEPTH (m, n, k of BLAS), by a library like cuBLAS.

    The tile and the split of the depth are chosen as a library would, the grid is simulated block by block against L2 and DRAM,
    the clock is held to the board's power. The time is that of a node of a CUDA graph. In brackets the interval in which four
    of five measurements should lie, from rows that set nothing. Energy is of random operands; its interval follows from both.

    \b
    Examples:
      gpusim project gemm 4096 4096 4096 --gpu h100
      gpusim project gemm 16 8192 8192 --gpu a100_80gb --format json
      gpusim project gemm 8192 8192 8192 --gpu h100 --power-limit-watts 500
    """
    if cold and warm:
        raise UsageError("--cold and --warm say the opposite: give one of them")


@project.command()
@click.option(
    "--phase",
    type=click.Choice(("generation", "context")),
    default="generation",
    show_default=True,
    help="One query token a sequence, or all tokens of each at once under a causal mask.",
)
@click.option("--batch", required=True, type=click.IntRange(1, (1 << 31) - 1), help="Sequences.")
@click.option(
    "--length", required=True, type=click.IntRange(1, (1 << 31) - 1), help="Keys of each, the new ones included."
)
@click.option("--heads", required=True, type=click.IntRange(1, (1 << 31) - 1), help="Query heads on this GPU.")
@click.option("--kv-heads", type=click.IntRange(1, (1 << 31) - 1), help="Key/value heads; as --heads if not given.")
@click.option(
    "--head-dim", default=128, show_default=True, type=click.IntRange(1, (1 << 31) - 1), help="Elements a head."
)
@click.option(
    "--window",
    default=0,
    show_default=True,
    type=click.IntRange(0, (1 << 31) - 1),
    help="Only so many of the last keys; 0: all.",
)
@click.option(
    "--dtype",
    type=click.Choice(("bf16", "fp16")),
    default="bf16",
    show_default=True,
    help="Of queries, keys and values.",
)
@_power_limit_option
@gpu_option("h100")
@format_option()
@done_by("projecting")
def attention(
    phase: str, batch: int, length: int, heads: int, kv_heads: int | None, head_dim: int, window: int, dtype: str,
    power_limit_watts: float | None, gpu: str, form: str,
) -> None:  # fmt: skip
    """Time of attention by a library like FlashAttention: of one query token a sequence, as when text is generated, or of a whole context.

    How many parts the keys are split into is chosen as the library does; blocks run in waves against L2 and DRAM. The time is
    that of nodes of a CUDA graph, the write of the new key and value among them. In brackets the interval in which four of five
    measurements should lie, from rows that set nothing.

    \b
    Examples:
      gpusim project attention --batch 32 --length 4096 --heads 32 --kv-heads 8 --gpu h100
      gpusim project attention --phase context --batch 4 --length 8192 --heads 32 --kv-heads 8 --gpu h100
      gpusim project attention --batch 1 --length 131072 --heads 8 --kv-heads 1 --gpu a100_80gb --format json
    """
    if window and phase == "context":
        raise UsageError(
            "--window with --phase context is not projected: leave it out for the time of the whole context"
        )
