"""Which instruction forms Gluon's kernels have that are not emulated, and whether they leave the right results.

    python tools/gluon_forms.py                          all cases on all their architectures, compiled and surveyed
    python tools/gluon_forms.py --run --case pairs       also run, beside NumPy
    python tools/gluon_forms.py --run --check            and under all checks: findings on them are false ones, or show a mistake of the compiler

Mental model: as `tools/triton_forms.py`, for kernels of the kinds that Triton's Gluon tutorials teach
(`tests/support/gluon_cases.py`). `forms`: different ones; `refused`: those among them that no declaration accepts;
`result`: of a run; `found`: what the checks say.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from gluon_cases import CASES

import gpusim
from gpusim.errors import GpusimError
from gpusim.frontend.triton.front_end import TRITON
from gpusim.isa.survey import survey_cubin
from gpusim.report.tables import FORMATS, format_records
from gpusim.sanitizer.checks import CHECKS


def _row(name: str, gpu: str, run: bool, checks: tuple[str, ...] | None) -> dict[str, object]:
    made = CASES[name][0]()
    row: dict[str, object] = {
        "case": name,
        "gpu": gpu,
        "forms": None,
        "refused": None,
        "which": "",
        "result": "",
        "found": "",
    }
    try:
        binary = TRITON.compile(made.kernel, made.args, gpusim.load_gpu(gpu).capability)
        _, found = survey_cubin(binary.cubin)
        forms = {form for each in found.values() for form in each.counts}
        refused = {form for form in forms if form.refused}
        row |= {"forms": len(forms), "refused": len(refused), "which": "; ".join(sorted(form.text for form in refused))}
        if run and not refused:
            trace = gpusim.capture(made.kernel, made.grid, None, made.args, gpu=gpu, check=checks)
            made.check()
            row |= {"result": "right", "found": "; ".join(f"{each.what} at {each.where}" for each in trace.findings)}
    except GpusimError as error:
        row["which"] = str(error)[:100]
    except AssertionError:
        row["result"] = "wrong"
    return row


@click.command(help=__doc__)
@click.option("--gpu", "gpus", multiple=True, help="Only on this GPU; repeats.")
@click.option("--case", "names", multiple=True, type=click.Choice(sorted(CASES)), help="Only this case; repeats.")
@click.option("--run", is_flag=True, help="Run each, and compare with NumPy.")
@click.option("--check", "checked", is_flag=True, help="Run each under all checks.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
def main(gpus: tuple[str, ...], names: tuple[str, ...], run: bool, checked: bool, form: str) -> None:
    checks = CHECKS if checked else None
    rows = [
        _row(name, gpu, run, checks) for name in names or CASES for gpu in CASES[name][1] if not gpus or gpu in gpus
    ]
    click.echo(format_records(rows, form))
    click.echo(f"{sum(row['refused'] == 0 for row in rows)} of {len(rows)} have all their forms", err=True)
    sys.exit(0 if all(row["refused"] == 0 and row["result"] != "wrong" and not row["found"] for row in rows) else 5)


if __name__ == "__main__":
    main()
