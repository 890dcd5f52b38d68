"""One notion of a case: every form that a function may return works the same, and its check is never passed over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pytest

pytest.importorskip("numba.cuda", reason="needs the CUDA wheels")

from gpusim import cli, ptx
from gpusim.cases.case_forms import NotACaseError, as_case
from gpusim.cases.numbers import parse_integer
from gpusim.cases.user_entries import function_entry
from gpusim.errors import UsageError
from gpusim.explore.workload import workload
from gpusim.io import progress

HEAD = """
from typing import Annotated, Literal

import numpy as np
from numba import cuda


@cuda.jit
def double(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2


def ones(n):
    return np.ones(n, np.float32)
"""
#: The body of a case of n elements that are doubled once; ``wanted`` is what its check asks for.
FORMS = {
    "tuple": "x = ones(n); return double, -(-n // 64), 64, (x,), lambda: np.testing.assert_array_equal(x, wanted)",
    "tuple_shared": "x = ones(n); return double, 1, n, (x,), 1024, lambda: bool((x == wanted).all())",
    "list": "x = ones(n); return [(double, 1, n, (x,))], lambda: np.all(x == wanted)",
    "list_inner": "x = ones(n); return [(double, 1, n, (x,), lambda: (x == wanted).all())]",
    "generator": """x = ones(n)
    yield double, 1, n, (x,)
    assert x[0] == 2
    return lambda: np.testing.assert_array_equal(x, wanted)""",
    "generator_asserts": """x = ones(n)
    yield double, 1, n, (x,)
    assert (x == wanted).all()
    return lambda: None""",
    "object": """class Case:
        def __init__(self):
            self.x = ones(n)
            self.launches = ((double, 1, n, (self.x,)),)
        def check(self):
            assert (self.x == wanted).all(), "not doubled"
    return Case()""",
}
UNCHECKED = "def unchecked(n: Literal[64, 96] = 64):\n    return double, 1, n, (ones(n),)\n"


@pytest.fixture
def gpusim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run a command line in a folder that holds my.py; (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(progress, "SILENT_SECONDS", 1e9)
    monkeypatch.setenv("GPUSIM_STORE", str(tmp_path / "store.sqlite"))
    cases = [f"def {name}(n=64, wanted=2):\n    {body}\n" for name, body in FORMS.items()]
    (tmp_path / "my.py").write_text("\n\n".join([HEAD, *cases, UNCHECKED]))

    def run(*arguments: str) -> tuple[int, str, str]:
        code = cli.run(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.mark.parametrize("form", FORMS)
def test_a_right_result_is_silent_and_a_wrong_one_an_error(gpusim, form):
    code, out, err = gpusim("simulate", f"my.py:{form}", "--format", "json")
    assert (code, err) == (0, "") and json.loads(out)["cycles"] > 0
    for command in (["simulate"], ["capture", "-o", "x.trace"], ["cover", "run", "-o", "c.json"]):
        code, out, err = gpusim(*command, f"my.py:{form}:wanted=3")
        assert code == 6 and not out
        assert err.startswith(f"error: my.py:{form}") and err.count("\n") == 1 and "differs from what" in err
    assert not Path("x.trace").exists()


def test_what_a_case_and_its_kernel_print_is_not_the_answer(gpusim):
    Path("said.py").write_text("""
import numpy as np
import gpusim
print("of the file")
SAYS = 'extern "C" __global__ void says(float *x) { x[0] = 2; printf("of the kernel\\\\n"); }'

def case(n=1):
    print("of the case")
    x = np.ones(1, np.float32)
    return gpusim.cuda_cpp(SAYS, "says"), 1, 1, (x,), lambda: print("of the check") or x[0] == 2
""")
    code, out, err = gpusim("simulate", "said.py:case", "--format", "json")
    assert code == 0 and json.loads(out)["cycles"] > 0
    assert err == "of the file\nof the case\nof the kernel\nof the check\n"


def test_every_command_that_runs_a_case_runs_its_check(gpusim):
    wrong = "my.py:tuple:wanted=3"
    assert gpusim("regress", wrong, "my.py:tuple")[0] == 6
    assert gpusim("simulate", wrong, "--why")[0] == 6
    assert gpusim("simulate", wrong, "my.py:tuple", "--gpu", "h200,a100_80gb")[0] == 6
    code, out, _ = gpusim("explore", "my.py:tuple", "--max-examples", "2", "--jobs", "1", "--format", "json")
    assert code == 1 and "WrongResultError" in json.loads(out)[0]["detail"]  # where wanted is drawn as something else


def test_a_comparison_of_a_wrong_result_is_none(gpusim):
    rows = Path("rows.csv")
    rows.write_text("kernel,shape,gpu,time_us\nmy.py:tuple,n=64,h200,2\n")  # a row may leave axes out
    code, out, _ = gpusim("compare", "my.py:tuple", "--against", "rows.csv", "--format", "json")
    (document,) = json.loads(out)["comparisons"]
    assert code == 0 and [launch["shape"] for launch in document["launches"]] == ["n=64,wanted=2"]
    rows.write_text('kernel,shape,gpu,time_us\nmy.py:tuple,"n=64,wanted=3",h200,2\n')
    assert gpusim("compare", "my.py:tuple:wanted=3", "--against", "rows.csv")[0] == 6


def test_a_generator_is_looked_at_no_further_than_its_first_launch(gpusim):
    """What stands behind it would see what no launch has written."""
    assert gpusim("sass", "my.py:generator_asserts")[0] == 0
    code, _, err = gpusim(
        "explore", "my.py:generator_asserts", "--property", "numpy", "--max-examples", "2", "--jobs", "1"
    )
    assert code in (0, 1) and " workloads, " in err, err
    code, _, err = gpusim("explore", "my.py:tuple:n=4")
    assert code == 2 and "name my.py:tuple alone" in err


def test_what_nobody_checked_is_said_once(gpusim):
    assert (
        gpusim("capture", "my.py:unchecked", "-o", "x.trace")[2]
        == "not checked: my.py:unchecked (the case has no check)\n"
    )
    code, out, err = gpusim("simulate", "my.py:unchecked", "x.trace", "my.py:tuple", "--format", "json")
    assert code == 0 and json.loads(out)["cycles"] > 0
    assert err == "not checked: my.py:unchecked (the case has no check); x.trace (a trace carries no result)\n"
    assert gpusim("simulate", "my.py:unchecked:n=64,96")[2] == "not checked: my.py:unchecked (the case has no check)\n"
    assert "not checked: my.py:unchecked (" in gpusim("cover", "run", "my.py:unchecked", "-o", "c.json")[2]
    told = gpusim("regress", "my.py:unchecked", "x.trace")[2]
    assert "not checked: my.py:unchecked (" in told and "not checked: x.trace (a trace" in told


@pytest.mark.parametrize(("name", "options", "told"), [
    ("numpy", [], ["property numpy can check nothing on my.py:unchecked", "no check", "return one"]),
    ("gpus", ["--other-gpu", "H200"], ["property gpus", "h200 with itself", "--other-gpu"]),
    ("builds", ["--other-kernel", "my.py:unchecked"], ["property builds", "itself", "--other-kernel"]),
    ("builds", ["--other-kernel", "softmax"], ["property builds", "softmax has no axis n", "--other-kernel"]),
    ("silicon", ["--rows", "rows.csv"], ["property silicon", "my.py:unchecked", "gpusim measure"]),
])  # fmt: skip
def test_a_property_that_can_check_nothing_is_a_mistake_of_the_command_line(gpusim, name, options, told):
    Path("rows.csv").write_text("kernel,shape,gpu,time_us\nsaxpy,n=4,h200,2\n")
    code, out, err = gpusim("explore", "my.py:unchecked", "--property", name, *options)
    assert code == 2 and not out and err.count("\n") == 1
    for words in told:
        assert words in err


def test_kernels_that_nobody_named_are_left_out_of_what_cannot_be_checked_on_them(gpusim):
    arguments = ["--property", "builds", "--other-kernel", "saxpy", "--max-time", "0", "--jobs", "1"]
    code, _, err = gpusim("explore", *arguments)
    assert code == 3 and "kernels are left out: property builds can check nothing on" in err


@pytest.mark.parametrize(("body", "told"), [
    ("return ones, 1, 32, (1,)", "ones, which is no kernel: it lacks its decorator"),
    ("return double, 1, 32, (ones(32),), 'x'", "not 'x'"),
    ("return double, 1, 32, (ones(32),), 1, 2", "two sizes"),
    ("return []", "returned no launch"),
    ("return iter(())", "yielded no launch"),
    ("return 7", "it returned int"),
])  # fmt: skip
def test_what_is_no_case_is_told_what_one_is(gpusim, body, told):
    Path("odd.py").write_text(f"{HEAD}\n\ndef case():\n    {body}\n")
    code, _, err = gpusim("simulate", "odd.py:case")
    assert code == 2 and err.startswith("error: odd.py:case") and told in err


class Colour(Enum):
    RED = 1
    BLUE = 2


class AtMost:
    """As annotated-types and pydantic write a bound."""

    le = 100


def shaped(
    n=1 << 20,
    rows: Annotated[int, range(32, 4097, 32)] = 64,
    few: Annotated[int, (2, 5)] = 3,
    most: Annotated[int, AtMost()] = 7,
    kind: Literal["a", "b"] = "b",
    colour: Colour = Colour.BLUE,
    block=256,
    flag=False,
    *,
    tokens: Annotated[int, range(1, 9)],
):
    return None


def test_axes_defaults_and_small_sizes_follow_from_the_signature():
    entry = function_entry("shaped", shaped)
    assert list(entry.axes) == ["n", "rows", "few", "most", "kind", "colour", "block", "flag", "tokens"]
    assert entry.small == {"n": 1000, "rows": 64, "few": 3, "most": 7, "kind": "b", "colour": Colour.BLUE, "block": 256,
                           "flag": False, "tokens": 8}  # fmt: skip
    assert entry.bounds == {
        "rows": range(32, 4097, 32),
        "few": range(2, 6),
        "most": range(1, 101),
        "tokens": range(1, 9),
    }
    assert (
        entry.axes["rows"][0] == 32
        and entry.axes["rows"][-1] == 4096
        and set(entry.axes["rows"]) <= set(range(32, 4097, 32))
    )
    assert (
        entry.axes["kind"] == ("a", "b")
        and entry.axes["colour"] == tuple(Colour)
        and entry.axes["flag"] == (False, True)
    )
    only = function_entry("shaped", shaped, {"tokens": (1, 2)}, {"tokens": 1})
    assert only.axes == {"tokens": (1, 2)} and only.small == {"tokens": 1}
    with pytest.raises(UsageError, match="no parameter 'm'"):
        function_entry("shaped", shaped, {"m": (1,)})


WORKLOADS = (
    HEAD
    + """
import gpusim

seen = []


def scaled(n: Annotated[int, range(32, 129, 32)] = 64, kind: Literal["a", "b"] = "a"):
    seen.append((n, kind))
    x = ones(n)
    return double, 1, n, (x,), lambda: (x == 2).all()


@gpusim.workload(scaled, max_examples=8)
def test_the_form_of_the_readme(run):
    assert run.cycles > 0
    run.check()


def test_shapes_stay_within_the_annotation():
    assert {n for n, _ in seen} <= {32, 64, 96, 128} and {kind for _, kind in seen} == {"a", "b"} and len(seen) > 3


def wrong(n=64):
    x = ones(n)
    return double, 1, n, (x,), lambda: (x == 3).all()


@gpusim.workload(wrong, max_examples=2)
def test_a_figure_of_a_wrong_result_fails(run):
    assert run.cycles > 0


def malformed(n=64):
    return double, 1


@gpusim.workload(malformed, max_examples=2)
def test_what_is_no_case_is_no_refused_shape(run):
    assert run.cycles > 0


@gpusim.workload("test_own.py:scaled", max_examples=2)
def test_by_its_reference(run):
    assert run.cycles > 0


def unchecked(n=64):
    return double, 1, n, (ones(n),)


@gpusim.workload(unchecked, max_examples=2)
def test_nothing_to_check(run):
    run.check()
"""
)


@pytest.mark.nightly
def test_a_case_function_is_a_workload_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "test_own.py").write_text(WORKLOADS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "test_own.py"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": ""}, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert "3 failed, 3 passed" in done.stdout, done.stdout + done.stderr
    assert "WrongResultError: wrong:n=" in done.stdout and "malformed must return" in done.stdout
    assert "unchecked cannot be checked: the case has no check" in done.stdout


def test_a_kernel_is_no_workload() -> None:
    cuda = pytest.importorskip("numba.cuda")
    with pytest.raises(UsageError, match="is a kernel, whose arguments are not known"):
        workload(cuda.jit(lambda x: None))


@pytest.mark.parametrize(("text", "value"), [
    ("1e6", 10**6), ("1_000_000", 10**6), ("2**20", 1 << 20), ("1Mi", 1 << 20), ("64*1024+1", 65537), ("1<<20", 1 << 20),
    ("1.5Ki", 1536), ("-3", -3), ("0x10", 16), ("1e18", 10**18),
])  # fmt: skip
def test_sizes_as_people_write_them(text, value):
    assert parse_integer(text) == value


@pytest.mark.parametrize(("text", "told"), [
    ("1.5", "no whole number"), ("64K", "64Ki"), ("9**9**9", "no number"), ("10**30", "too large"), ("abc", "no number"),
    ("1e400", "no number"), ("True", "no number"), ("(2", "no number"), ("1" * 5000, "no number"), ("", "no number"),
    ("__import__('os')", "no number"),
])  # fmt: skip
def test_what_is_no_size_says_why(text, told):
    with pytest.raises(ValueError, match=told):
        parse_integer(text)


def test_sizes_are_understood_where_they_are_asked_for(gpusim):
    assert (
        gpusim("simulate", "my.py:tuple:n=64", "--format", "json")[1]
        == gpusim("simulate", "my.py:tuple:n=2**6", "--format", "json")[1]
    )
    for source in ("saxpy", "my.py:tuple"):
        code, _, err = gpusim("simulate", f"{source}:n=1.5")
        assert code == 2 and "n=1.5" in err and "no whole number" in err
    code, _, err = gpusim("simulate", "l1_read:footprint_kib=8.5,laps=1.5")
    assert code == 2 and "laps=1.5" in err  # a footprint may be a fraction, laps may not


HELP = """
import sys
for extra in ("matplotlib", "jinja2", "markupsafe", "pyarrow", "psycopg", "ncu_report"):
    sys.modules[extra] = None
from click.testing import CliRunner
from gpusim import cli
for name in cli.COMMANDS:
    told = CliRunner().invoke(cli.gpusim, [name, "--help"])
    assert told.exit_code == 0 and "Usage" in told.output, (name, told.exception)
"""


def test_help_needs_no_extra() -> None:
    subprocess.run([sys.executable, "-c", HELP], check=True)


def test_a_generator_s_verdict_counts_as_its_check() -> None:
    kernel = ptx(".version 8.0\n", "k")

    def case(end):
        yield kernel, 1, 32, ()
        return end

    from_generator = as_case("mine", case(np.bool_(False)))
    assert len(from_generator.launches) == 1 and from_generator.check is not None
    with pytest.raises(AssertionError, match="mine returned False"):
        from_generator.check()
    with pytest.raises(NotACaseError, match="returns its check at its end, or whether the result is right, not 3"):
        len(as_case("mine", case(3)).launches)
