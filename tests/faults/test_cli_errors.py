"""What a shell sees: data on stdout, one line on stderr when it fails, and the promised exit code."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from trace_examples import example_trace

from gpusim import __version__, cli
from gpusim.cases.suite import complete_shape
from gpusim.errors import GpusimError, UnknownRunError, UsageError
from gpusim.gpus.load import load_gpu
from gpusim.io.real_path import real_path
from gpusim.store import open_store

GPU = load_gpu("h200")
ROOT = Path(__file__).parents[2]


def gpusim(capsys, *arguments: str) -> tuple[int, str, str]:
    code = cli.run(arguments)
    out = capsys.readouterr()
    return code, out.out, out.err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["gpus", "show", "h2000"], 5, "h2000"),
        (["nonsense"], 2, "nonsense"),
        (["gpus", "list", "--format", "xml"], 2, "xml"),
        (["gpus", "show"], 2, "NAME"),
        (["gpus", "diff", "h200", "h2000"], 5, "h2000"),
        (["simulate", "saxpy", "--set", "l2.hit_latency=1"], 2, "did you mean l2.hit_latency_ns"),
        (["compare", "l1_stride", "--set", "sm_count=0"], 2, "positive"),
        (["kernels", "show", "saxpi"], 2, "saxpy"),
        (["capture", "saxpi", "-o", "x.trace"], 2, "saxpy"),
        (["capture", "saxpy:colour=3", "-o", "x.trace"], 2, "colour"),
        (["capture", "saxpy:n", "-o", "x.trace"], 2, "axis=value"),
        (["capture", "saxpy:n=1,n=2", "-o", "x.trace"], 2, "twice"),
        (["capture", "saxpy:n=many", "-o", "x.trace"], 2, "n=many"),
        (["capture", "saxpy:n=-5", "-o", "x.trace"], 2, "n"),
        (["capture", "saxpy", "--gpu", "volta9", "-o", "x.trace"], 5, "volta9"),
        (["capture", "saxpy"], 2, "--output"),
        (["project", "llama3_8b", "--gpu", "h100:1", "--gpu", "l4:1"], 2, "--sweep gpu="),
        (["capture", "saxpy", "--gpu", "h100", "--gpu", "l4", "-o", "x.trace"], 2, "given 2 times (h100, l4)"),
        (["simulate", "nowhere.trace"], 2, "nowhere.trace"),
        (["simulate", "saxpi"], 2, "saxpy"),
        (["simulate"], 2, "SOURCE"),
        (["compare", "saxpi"], 2, "saxpi"),
        (["compare", "saxpi", "--gpu", "nope"], 2, "saxpi"),
        (["compare", "--gpu", "nope"], 5, "nope"),
        (["compare", "pointer_chase", "--gpu", "h100"], 3, "h100"),
        (["compare", "--against", "wishes"], 2, "wishes"),
        (["compare", "quick"], 3, "--against FILE"),
        (["compare", "pointer_chase:buffer_kib=16"], 2, "as a whole"),
        (["compare", "l1_stride", "--tolerance", "nan"], 2, "not a finite number"),
        (["regress", "saxpy", "saxpy", "--tolerance", "inf"], 2, "not a finite number"),
        (["simulate", "saxpy", "--set", "sm_count=5", "--set", "sm_count=6"], 2, "set twice"),
        (["simulate", "stream_triad", "saxpi"], 2, "saxpy"),
        (["simulate", "stream_triad", "saxpy:colour=3"], 2, "colour"),
        (["simulate", "saxpy", "--power-limit-watts", "much"], 2, "much"),
        (["simulate", "saxpy", "--power-limit-watts", "-5"], 2, "-5"),
        (
            ["simulate", "saxpy", "--power-limit-watts", "board", "--gpu", "h200", "--gpu", "gh200"],
            2,
            "one shape on one GPU",
        ),
        (["compare", "mine.suite.json"], 2, "mine.suite.json"),
        (["compare", "mine.suite.json", "--against", "rows.csv"], 2, "neither a file here"),
        (["simulat"], 2, "did you mean simulate"),
        (["simulate", "."], 2, "folder"),
        (
            ["simulate", "saxpy", "--cooperative"],
            2,
            "--cooperative says the launch of a kernel FILE:KERNEL, and saxpy is none",
        ),
        (["measure", "saxpi"], 2, "saxpy"),
        (["measure", "saxpy:colour=3"], 2, "colour"),
        (["regress", "saxpi", "now"], 2, "saxpy"),
        (["gpus", "show", "mine.toml"], 5, "no GPU file mine.toml"),
        (["workloads", "show", "lama3"], 2, "llama3_8b"),
        (["kernels", "show", "zzz"], 2, "gpusim kernels list"),
    ],
)
def test_a_mistake_is_one_line_with_its_exit_code(capsys, arguments, code, words, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    got, out, err = gpusim(capsys, *arguments)
    assert got == code
    assert out == ""
    assert err.startswith("error: ") and err.count("\n") == 1, err
    assert words in err
    assert not list(tmp_path.iterdir()), "nothing may be left behind"


def test_rows_in_the_place_of_a_kernel_are_told_where_they_go(capsys, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("kernel,cycles\nsaxpy,5\n")
    code, out, err = gpusim(capsys, "compare", str(path))
    assert (code, out) == (2, "") and f"--against {path}" in err


def test_what_threads_of_a_debug_kernel_raise_is_not_an_internal_error(capsys, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "import numpy as np\nfrom numba import cuda\n"
        "@cuda.jit(debug=True, opt=False)\ndef k(x):\n"
        "    if cuda.grid(1) == 3:\n        raise ValueError('bad luck')\n    x[cuda.grid(1)] = 1\n"
        "def case():\n    return k, 1, 32, (np.zeros(32, np.float32),)\n"
        "class Checked:\n    launches = [case()]\n    def check(self):\n        return 1 // 0\n"
        "def wrong_check():\n    c = Checked()\n    c.launches = [(cuda.jit(lambda x: None), 1, 32, (np.zeros(4, np.float32),))]\n    return c\n"
    )
    code, out, err = gpusim(capsys, "simulate", f"{path}:case")
    last = err.splitlines()[-1]  # on a busy machine behind a line of progress
    assert (code, out) == (3, "")
    assert last.startswith("error: ") and "ValueError" in last and "line 6" in last and "bad luck" in last
    code, out, err = gpusim(capsys, "capture", f"{path}:wrong_check", "-o", str(tmp_path / "x.trace"))
    last = err.splitlines()[-1]
    assert (code, out) == (2, "")
    assert last.startswith("error: ") and "check" in last and "ZeroDivisionError" in last
    assert not (tmp_path / "x.trace").exists()
    code, out, err = gpusim(capsys, "simulate", str(path))
    assert (code, out) == (2, "") and ":FUNCTION" in err


def test_a_damaged_trace_file_is_named(capsys, tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    example_trace().save(path)
    path.write_bytes(path.read_bytes()[:-40])
    code, out, err = gpusim(capsys, "simulate", str(path))
    assert (code, out) == (2, "")
    assert str(path) in err and err.count("\n") == 1


def test_damage_in_a_later_chunk_is_named_too(capsys, tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    example_trace(blocks=9).save(path)
    data = bytearray(path.read_bytes())
    place = data.index(b"chunk000003") + 80
    data[place] ^= 0xFF
    path.write_bytes(data)
    code, out, err = gpusim(capsys, "simulate", str(path))
    assert (code, out) == (2, "")
    assert str(path) in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (["simulate", "saxpy:n=32"], "--save"),
        (["simulate", "saxpy:n=32"], "-o"),
        (["simulate", "saxpy:n=32"], "--timeline"),
        (["capture", "saxpy:n=32"], "-o"),
        (["compare"], "--junit"),
        (["regress", "saxpy", "saxpy"], "--markdown"),
        (["cover", "run", "saxpy"], "-o"),
        (["measure", "saxpy"], "-o"),
    ],
)
def test_a_file_without_a_name_or_in_no_folder_is_found_before_the_work(
    capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], option: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert gpusim(capsys, *command, option, "") == (2, "", "error: . is a folder: name the file to write\n")
    code, out, err = gpusim(capsys, *command, option, "nowhere/file.xml")
    assert (code, out) == (2, "") and "there is no folder nowhere" in err and err.count("\n") == 1


def test_links_that_go_round_in_a_circle_are_the_systems_error(
    capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``Path.resolve`` raises RuntimeError for them before Python 3.13."""
    monkeypatch.chdir(tmp_path)
    for here, there in (("a.json", "b.json"), ("b.json", "a.json"), ("a.py", "b.py"), ("b.py", "a.py")):
        Path(here).symlink_to(there)
    for arguments in (["report", "a.json"], ["runs", "import", "a.json"], ["simulate", "a.py:k"], ["run", "a.py"]):
        code, out, err = gpusim(capsys, *arguments)
        assert code in (2, 3) and out == "" and err.startswith("error: ") and err.count("\n") == 1, (arguments, err)
    assert real_path("a.json").name == "a.json"


def test_a_name_that_is_no_text_is_refused_by_name(tmp_path: Path) -> None:
    """Linux takes any bytes for a name; machine code, traces and stores take text."""
    for name in ("m\udcff.py", "m\udcff.cu"):
        path = tmp_path / name
        path.write_text("def case():\n    return None\n")
        with pytest.raises(UsageError, match="its name is not text in UTF-8.*rename it"):
            complete_shape(f"{path}:case", {"grid": "1", "block": "1"} if name.endswith("cu") else {}, GPU)
    with open_store(tmp_path / "store.sqlite") as store:
        with store.new_run("kept", command="test"):
            pass
        with pytest.raises(UnknownRunError, match="holds no run"):
            store.load_run("m\udcff")


def test_a_missing_output_folder_is_found_before_the_work(capsys, tmp_path: Path) -> None:
    code, out, err = gpusim(capsys, "capture", "saxpy", "-o", str(tmp_path / "no" / "x.trace"))
    assert (code, out) == (2, "")
    assert str(tmp_path / "no") in err and err.count("\n") == 1


def test_an_unexpected_exception_is_one_line_unless_debugging(capsys, monkeypatch) -> None:
    def surprise(**_):
        raise ZeroDivisionError("surprise")

    monkeypatch.setattr(cli.gpusim, "main", surprise)
    code, out, err = gpusim(capsys, "gpus", "list")
    assert (code, out) == (70, "")
    assert "internal error" in err and cli.DEBUG_VARIABLE in err and err.count("\n") == 1
    monkeypatch.setenv(cli.DEBUG_VARIABLE, "1")
    with pytest.raises(ZeroDivisionError):
        cli.run(["gpus", "list"])


def test_every_error_class_has_an_exit_code_of_the_contract() -> None:
    def family(root: type) -> set[type]:
        return {root}.union(*(family(c) for c in root.__subclasses__()))

    assert {c.exit_code for c in family(GpusimError)} <= {2, 3, 5, 6, 70}


def test_the_package_is_run_as_the_command_is() -> None:
    said = subprocess.run([sys.executable, "-m", "gpusim", "--version"], capture_output=True, text=True, check=True)
    assert said.stdout == f"gpusim, version {__version__}\n"


def test_help_and_mistakes_load_no_heavy_package() -> None:
    """Of every command, in one process: what each of them takes to load is paid by whoever only wants to know."""
    script = """
import sys
import click
from gpusim import __version__, cli

def every(path, command):
    yield path
    for name in command.list_commands(click.Context(command)) if isinstance(command, click.Group) else ():
        yield from every([*path, name], command.get_command(click.Context(command), name))

HEAVY = {"numpy", "numba", "scipy", "pandas", "simpy", "hypothesis", "sqlalchemy", "matplotlib", "cuda"}
MISTAKES = (
    "simulate saxpi", "capture saxpi -o x", "capture saxpy --check speed", "measure saxpi", "cover run saxpi -o x",
    "compare saxpi --against recorded", "compare --all-points --against recorded", "run --sample x.py",
    "run --check speed x.py", "kernels show saxpi", "sass saxpi", "sass survey saxpi", "explore saxpi",
    "explore --property speed", "regress a b --junit no/x.xml", "runs export a --format parquet", "runs import nowhere",
    "report cli.py", "trace info nowhere", "suite make nowhere -o x", "doctor --fast", "workloads show", "workloads show lama", "replay nowhere",
    "compare saxpi", "compare l1_stride --set sm_count=0", "run nowhere.py", "run --simulate --kernel ( cli.py", "suite show nowhere",
    "simulate nowhere.py:case", "capture nowhere.py:case -o x", "sass nowhere.py:case",
    "simulate saxpy:q=1", "capture saxpy:q=1 -o x", "sass saxpy:q=1", "measure saxpy:q=1", "compare saxpy:q=1 --against recorded",
    "compare --against nofile", "compare --against no/file.csv", "compare l1_stride --baseline nosuch", "run -m no_such_module",
    "simulate stream_triad:q=1", "simulate stencil3:q=1", "simulate maxpool2d:q=1", "simulate triton_softmax:q=1", "simulate saxpy:n=abc",
    "simulate saxpy:n=1.5", "capture saxpy:n=0 -o x", "simulate saxpy:block_threads=2048", "measure saxpy:n=abc", "sass saxpy:n=x",
    "cover run saxpy:n=abc -o x", "regress saxpy:n=abc saxpy", "simulate hgemm_tensor:depth=3", "simulate saxpy:n=1,abc", "simulate .",
    "simulate tests/faults/test_cli_errors.py", "simulate pyproject.toml", "simulate tests/support/small_memory.py:nothing",
    "simulate saxpy:n=1,2 --why", "simulate saxpy --save-run now", "workloads show llama3_8b --phase now", "sass nowhere.cubin",
    "sass survey nowhere.cubin", "capture saxpy --check memory --sample",
    "runs show nosuch", "runs show 7", "runs export nosuch", "runs delete nosuch", "regress nosuch saxpy", "regress saxpy run:nosuch",
)
for words in [[*path, "--help"] for path in every([], cli.gpusim)] + [text.split() for text in MISTAKES]:
    code = cli.run(words)
    if code != (0 if words[-1] == "--help" else 2) or HEAVY & set(sys.modules):
        sys.exit(f"{words}: exit code {code}, loaded {HEAVY & set(sys.modules)}")
OTHERS = {"capture saxpy --gpu volta9 -o x": 5, "compare pointer_chase --gpu h100": 3}
SLIPS = ("", " --grid x --block 32", " --grid 1 --block 32 --arg foo:3")  # NumPy names the types of arguments
for text, code in OTHERS.items() | {(f"simulate tests/support/program.cu:saxpy{slip}", 2) for slip in SLIPS}:
    if cli.run(text.split()) != code or (HEAVY - {"numpy"}) & set(sys.modules):
        sys.exit(f"{text}: not {code}, or loaded {HEAVY & set(sys.modules)}")
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stderr.splitlines()[-1]
    assert "compare" in run.stdout


@pytest.mark.parametrize(
    ("declared", "known"),
    [
        ("commands.simulate:BY", "commands.simulating:ATTRIBUTIONS"),
        ("commands.measure:CACHES", "commands.measuring:STATES"),
        ("commands.runs:ROWS", "store.flat:TABLES"),
    ],
)
def test_what_an_option_may_say_is_what_the_work_knows(declared: str, known: str) -> None:
    names = [
        getattr(importlib.import_module(f"gpusim.{m}"), name) for m, name in (p.split(":") for p in (declared, known))
    ]
    assert tuple(names[0]) == tuple(names[1])


@pytest.mark.parametrize("command", ["", *cli.COMMANDS, "gpus list", "gpus show", "kernels list", "kernels show"])
def test_every_command_explains_itself_with_an_example(capsys, command: str) -> None:
    code, out, err = gpusim(capsys, *command.split(), "--help")
    assert (code, err) == (0, "")
    assert "Example" in out


@pytest.mark.parametrize("command", ["simulate", "compare", "measure", "cover run"])
def test_a_run_is_kept_by_the_same_option_everywhere(capsys, command: str) -> None:
    assert "--save-run NAME" in gpusim(capsys, *command.split(), "--help")[1]


@pytest.mark.parametrize("words", ["simulate saxpy", "simulate saxpy:n=1000,2000", "capture saxpy -o x.trace"])
def test_a_launch_beyond_the_instruction_limit_fails(capsys, words: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = gpusim(capsys, *words.split(), "--small", "--instruction-limit", "10")
    assert code == 3 and "executed 10 warp instructions" in out + err
    assert not list(tmp_path.iterdir())


def test_lists_are_data_in_every_format(capsys) -> None:
    code, out, _ = gpusim(capsys, "gpus", "list", "--format", "json")
    assert code == 0
    names = {row["gpu"] for row in json.loads(out)}
    assert {"a100_80gb", "gh200", "h100", "h200"} <= names
    for form in ("csv", "md", "table"):
        code, out, err = gpusim(capsys, "gpus", "list", "--format", form)
        assert (code, err) == (0, "")
        assert all(name in out for name in names)


def test_every_value_of_a_gpu_is_shown_with_its_source(capsys) -> None:
    code, out, _ = gpusim(capsys, "gpus", "show", "h200", "--format", "json")
    assert code == 0
    rows = json.loads(out)
    assert {"key", "value", "kind", "source", "stated_by"} == set(rows[0])
    assert all(row["source"] for row in rows)
    assert any(row["key"] == "l2.total_bytes" for row in rows)
    code, out, _ = gpusim(capsys, "gpus", "show", "h200", "l2.slices", "dram", "--format", "json")
    assert [row for row in rows if row["key"] == "l2.slices" or row["key"].startswith("dram.")] == json.loads(out)
    code, _, err = gpusim(capsys, "gpus", "show", "h200", "l2.hit")
    assert code == 2 and "did you mean l2.hit_latency_ns?" in err


def test_what_a_search_and_a_trace_take_is_said_where_something_else_is_given(capsys, tmp_path: Path) -> None:
    for request in ("saxpy:n=1..1Ki", "saxpy:n=1,2", "saxpy:n=4"):
        code, _, err = gpusim(capsys, "explore", request, "-o", str(tmp_path / "found"))
        assert code == 2 and f"{request}: a search draws the shapes itself" in err and "name saxpy alone" in err
    code, _, err = gpusim(capsys, "trace", "nothing.trace")
    assert code == 2 and err.startswith("error: there is no trace file 'nothing.trace'")
    recorded = str(ROOT / "traces" / "recorded" / "softmax-h200.trace")
    code, out, _ = gpusim(capsys, "trace", recorded, "--format", "json")
    assert code == 0 and out == gpusim(capsys, "trace", "info", recorded, "--format", "json")[1]
