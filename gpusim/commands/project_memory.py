"""``gpusim project memory``: kernels that multiply nothing; how it is called."""

from __future__ import annotations

import click

from gpusim.commands.later import done_by
from gpusim.commands.options import Count, Name, format_option, gpu_option, power_limit_option
from gpusim.errors import UsageError
from gpusim.tile.formats import FORMATS
from gpusim.tile.memory import KINDS

_SIZE = Count(1, (1 << 31) - 1)


@click.command()
@click.argument("kind", type=Name(KINDS))
@click.argument("rows", type=_SIZE)
@click.argument("columns", type=_SIZE)
@click.option(
    "--dtype",
    type=Name(("bf16", "fp16", "fp32", "fp8")),
    default="bf16",
    show_default=True,
    help="Of an element; logits (sampling, softmax) have 32 bits.",
)
@click.option(
    "--to",
    type=Name([each.name for each in FORMATS.values() if each.a_bytes < 2]),
    help="The format that quantize brings elements into, scales of its blocks included.  [default: fp8]",
)
@click.option("--no-residual", is_flag=True, help="A norm that adds nothing to its input first.")
@click.option("--no-gate", is_flag=True, help="An activation of one input, as GELU and ReLU.")
@click.option("--cold", is_flag=True, help="What is read lies in DRAM, even where it would fit into L2.")
@power_limit_option
@gpu_option("h100")
@format_option()
@done_by("projecting_operators")
def memory(
    kind: str, rows: int, columns: int, dtype: str, to: str | None, no_residual: bool, no_gate: bool, cold: bool, power_limit_watts: float | None, gpu: str,
    form: str,
) -> None:  # fmt: skip
    """Time of a kernel that moves or converts data: ROWS (tokens, sequences) of COLUMNS elements each.

    \b
    Kinds:
      norm        RMS or layer normalisation, with the residual added
      rotary      positions turned into queries and keys
      activation  gate times up, as of SwiGLU: COLUMNS results of twice as many inputs
      embedding   rows looked up in a table
      sampling    one token drawn of COLUMNS logits
      softmax     of COLUMNS logits
      quantize    16 bits into fewer, a block of elements at a time
      copy        from one place to another

    In brackets the interval in which four of five measurements should lie; where nothing was compared it says so.

    \b
    Examples:
      gpusim project memory norm 4096 8192 --gpu h100
      gpusim project memory quantize 4096 8192 --to nvfp4 --gpu b200
      gpusim project memory activation 64 28672 --cold --format json
    """
    for given, option, wanted in ((to, "--to", "quantize"), (no_residual, "--no-residual", "norm"), (no_gate, "--no-gate", "activation")):  # fmt: skip
        if given and kind != wanted:
            raise UsageError(f"{option} is for {wanted}, not {kind}")
