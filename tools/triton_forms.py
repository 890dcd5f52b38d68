"""Which instruction forms Triton's kernels have that are not emulated: kernels of the kinds that its tutorials teach,
surveyed and run.

    python tools/triton_forms.py                          all kinds for sm_90, sm_100, sm_103 and sm_120
    python tools/triton_forms.py --arch 100 --kernel scaled_nvfp4
    python tools/triton_forms.py --run                    also run, beside NumPy

Mental model: each kind is compiled by the installed Triton for each architecture, without a GPU, and its cubin surveyed
as `gpusim sass survey` does. `forms`: different ones; `refused`: those among them that no declaration accepts;
`result`: of a small run (`tests/support/triton_cases.py`). The kernels are gpusim's own (`tools/triton_kinds.py`).
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools"), str(ROOT / "tests" / "support")]

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton_cases import CASES
from triton_kinds import KINDS, Kind

import gpusim
from gpusim.errors import GpusimError, LaunchError
from gpusim.isa.survey import survey_cubin
from gpusim.report.tables import FORMATS, format_records

#: By compute capability without the point, and what runs a kernel of it.
ARCHITECTURES = {90: "h200", 100: "b200", 103: "b300", 120: "rtx5090"}


def _result(name: str, arch: int) -> str:
    made = CASES[name]()
    try:
        gpusim.capture(
            made.kernel, made.grid, None, made.args, gpu=ARCHITECTURES[arch],
            **({} if made.memory is None else {"memory": made.memory}),
        )  # fmt: skip
        made.check()
    except LaunchError as error:  # three of the tiles are larger than the shared memory of sm_120; Triton's own launcher refuses them as well
        return "too large" if "shared memory a block" in str(error) else str(error)[:100]
    except GpusimError as error:
        return str(error)[:100]
    except AssertionError:
        return "wrong"
    return "right"


def _row(name: str, kind: Kind, arch: int, run: bool) -> dict[str, object]:
    source = ASTSource(fn=kind.kernel, signature=dict(kind.signature), constexprs=dict(kind.constants))
    row: dict[str, object] = {"kernel": name, "arch": f"sm_{arch}"}
    try:
        compiled = triton.compile(source, target=GPUTarget("cuda", arch, 32), options=dict(kind.options))
    except Exception as error:  # Triton's own passes raise what they like
        said = str(error).strip().splitlines()
        return row | {
            "forms": None,
            "refused": None,
            "which": f"Triton: {said[-1] if said else type(error).__name__}"[:100],
        }
    _, found = survey_cubin(compiled.asm["cubin"])
    forms = {form for each in found.values() for form in each.counts}
    refused = {form for form in forms if form.refused}
    which = "; ".join(sorted(form.text for form in refused))
    row |= {"forms": len(forms), "refused": len(refused), "which": which}
    return row | {"result": _result(name, arch)} if run else row


@click.command(help=__doc__)
@click.option(
    "--arch",
    "archs",
    multiple=True,
    type=click.Choice(tuple(ARCHITECTURES)),
    help="Compute capability without the point; repeats.",
)
@click.option("--kernel", "names", multiple=True, type=click.Choice(sorted(KINDS)), help="Only this kind; repeats.")
@click.option("--run", is_flag=True, help="Run each, and compare with NumPy.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
def main(archs: tuple[int, ...], names: tuple[str, ...], run: bool, form: str) -> None:
    rows = [_row(name, KINDS[name], arch, run) for arch in archs or ARCHITECTURES for name in names or KINDS]
    click.echo(format_records(rows, form))
    whole = sum(row["refused"] == 0 for row in rows)
    click.echo(
        f"{whole} of {sum(row['forms'] is not None for row in rows)} compiled kernels have all their forms", err=True
    )
    if run:
        right = sum(row.get("result") == "right" for row in rows)
        click.echo(f"{right} of {len(rows)} leave NumPy's results", err=True)


if __name__ == "__main__":
    main()
