"""``gpusim project``: what library kernels take on a described GPU, from their behaviour; how it is called."""

from __future__ import annotations

import click

from gpusim.commands.default_command import DefaultCommand
from gpusim.commands.later import done_by
from gpusim.commands.options import HELP, Count, Name, format_option, gpu_option, power_limit_option
from gpusim.commands.project_collective import collective
from gpusim.commands.project_export import export
from gpusim.commands.project_linear_attention import linear_attention
from gpusim.commands.project_memory import memory
from gpusim.commands.project_model import model
from gpusim.commands.project_operators import attention, moe
from gpusim.commands.project_replay import durations, replay
from gpusim.errors import UsageError
from gpusim.tile.formats import BLOCK_FORMATS, FORMATS
from gpusim.tile.library import FRAMEWORKS

DTYPES = tuple(name for name in FORMATS if name != "int4")
UNCONVERTED = ("bf16", "fp16", "fp32", "tf32")
#: Whose conversion and kernels differ by framework.
FRAMEWORKS_DIFFER = ("fp8", "fp8_block", "nvfp4", "int8_wo", "int4_wo")


class _Operators(DefaultCommand):
    """A word that is no operator is a model's name: ``gpusim project llama3_8b`` is ``gpusim project model
    llama3_8b``."""

    default = "model"


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
project.add_command(replay)
project.add_command(durations)


@project.command()
@click.argument("rows", type=Count(1, (1 << 31) - 1))
@click.argument("columns", type=Count(1, (1 << 31) - 1))
@click.argument("depth", type=Count(1, (1 << 31) - 1))
@click.option(
    "--dtype",
    type=Name(DTYPES),
    default="bf16",
    show_default=True,
    help="Of both operands; _wo: of the second alone.",
)
@click.option("--batch", default=1, show_default=True, type=Count(1, 1 << 16), help="Such products in one launch.")
@click.option(
    "--block-scaled",
    is_flag=True,
    help="fp8 and fp4 with scales for blocks of elements: fp8_block (DeepSeek's), nvfp4.",
)
@click.option(
    "--framework",
    type=Name(FRAMEWORKS),
    help="Whose conversion and kernels, of fp8, fp8_block, nvfp4, int8_wo and int4_wo; default: those that the generation's measured rows follow.",
)
@click.option("--cold", is_flag=True, help="The first operand lies in DRAM too, as the second always does.")
@click.option("--warm", is_flag=True, help="Both operands lie in L2 where they fit.")
@power_limit_option
@gpu_option("h100")
@format_option()
@done_by(lambda batch, dtype, **_: "projecting" if batch == 1 and dtype in UNCONVERTED else "projecting_operators")
def gemm(
    rows: int, columns: int, depth: int, dtype: str, batch: int, block_scaled: bool, framework: str | None, cold: bool, warm: bool,
    power_limit_watts: float | None, gpu: str, form: str,
) -> None:  # fmt: skip
    """Time of a product: ROWS x COLUMNS results in 16 bits, each a sum over DEPTH (m, n, k of BLAS), by a library like cuBLAS.

    The tile and the split of the depth are chosen as a library would, the grid is simulated block by block against L2 and DRAM,
    the clock is held to the board's power. The time is that of a node of a CUDA graph. In brackets the interval in which four
    of five measurements should lie, from rows that set nothing. Energy is of random operands; its interval follows from both. Operands of
    8 or 4 bits come with the kernel that converts the first from 16; formats that end in _wo keep the first in 16 bits and widen the weights on their way.

    \b
    Examples:
      gpusim project gemm 4096 4096 4096 --gpu h100
      gpusim project gemm 64 7168 2048 --dtype fp8 --block-scaled
      gpusim project gemm 64 7168 2048 --dtype nvfp4 --gpu b200
      gpusim project gemm 64 512 128 --batch 128
      gpusim project gemm 16 8192 8192 --gpu a100_80gb --format json
      gpusim project gemm 8192 8192 8192 --gpu h100 --power-limit-watts 500
    """
    if cold and warm:
        raise UsageError("--cold and --warm say the opposite: give one of them")
    if (cold or warm) and (batch > 1 or dtype not in UNCONVERTED):
        raise UsageError(f"--cold and --warm are for single products of {', '.join(UNCONVERTED)}")
    if block_scaled and dtype not in BLOCK_FORMATS:
        raise UsageError(f"--block-scaled is for {' and '.join(BLOCK_FORMATS)}, not {dtype}")
    if framework and dtype not in FRAMEWORKS_DIFFER:
        raise UsageError(f"--framework is for {', '.join(FRAMEWORKS_DIFFER)}: products of {dtype} are one library's")


project.add_command(attention)
project.add_command(linear_attention)
project.add_command(moe)
project.add_command(memory)
