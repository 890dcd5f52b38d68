"""The checks before a commit and in continuous integration run what is installed, with no network and nothing left
out."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zlib
from pathlib import Path
from types import SimpleNamespace

import cost_of_tests
import day_share
import night_share
import pytest
import yaml

ROOT = Path(__file__).parents[1]
HOOKS = [
    (repository["repo"], hook)
    for repository in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    for hook in repository["hooks"]
]


@pytest.mark.parametrize(("repository", "hook"), HOOKS, ids=[hook["id"] for _, hook in HOOKS])
def test_a_hook_is_local_and_its_program_is_installed(repository: str, hook: dict) -> None:
    assert repository == "local" and hook["language"] == "system"
    programs = re.findall(r"\.venv/bin/([\w-]+)", hook["entry"])
    assert programs
    for program in programs:
        assert Path(sys.executable).with_name(program).exists(), f"{program} is missing: make setup"


def test_continuous_integration_runs_what_everybody_runs() -> None:
    assert (ROOT / ".ci" / "run").read_text().endswith("\nmake check\nexec make test\n")


@pytest.mark.parametrize("fails", ["", "ruff check", "ruff format", "pyright", "-m pytest"])
@pytest.mark.parametrize("target", ["test", "check"])
def test_make_fails_with_each_of_its_checks_and_shows_what_they_say(target: str, fails: str, tmp_path: Path) -> None:
    """Programs that note their arguments stand for those of the virtual environment."""
    (tmp_path / "bin").mkdir()
    for name in ("ruff", "pyright", "python"):
        program = tmp_path / "bin" / name
        program.write_text(
            f'#!/bin/sh\nsaid="{name} $*"\necho "ran $said${{PYTHONDONTWRITEBYTECODE:-, keeps byte code}}"\n'
            f'case "{fails}:$said" in :*) ;; "{fails}":*"{fails}"*) echo "found by $said"; exit 9;; esac\n'
        )
        program.chmod(0o755)
    (tmp_path / ".gpusim-ready").touch()
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    command = ["make", target, f"VENV={tmp_path}"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if fails == "pyright" and target == "test":
        assert done.returncode == 0 and fails not in done.stdout
    elif fails:
        assert done.returncode != 0 and fails in done.stdout.partition("found by ")[2]
    else:
        assert done.returncode == 0
        ran = ("ran ruff check", "ran ruff format --quiet --check", "ran pyright", "ran python -m pytest")
        assert [what in done.stdout for what in ran] == [True, True, target == "check", True]
        assert ("--no-loadscope-reorder, keeps byte code" in done.stdout) == (target == "test")


@pytest.mark.parametrize(
    ("settings", "fails", "installs"),
    [
        ("global.extra-index-url='file:///wheels'", "", ["-m uv pip install"]),
        ("", "install --quiet uv", ["-m pip --disable-pip-version-check install --quiet --editable"]),
        ("", "-m uv", ["-m uv pip install", "-m pip --disable-pip-version-check install --quiet --editable"]),
        ("global.index-url='https://mirror/simple'", "", ["-m pip --disable-pip-version-check install --quiet --editable"]),
        (":env:.no-index='1'", "", ["-m pip --disable-pip-version-check install --quiet --editable"]),
    ],
    ids=["uv", "no uv", "uv fails", "a mirror", "no index"],
)  # fmt: skip
def test_setup_installs_with_uv_or_else_with_pip(
    settings: str, fails: str, installs: list[str], tmp_path: Path
) -> None:
    """A program that notes its arguments stands for the virtual environment's Python."""
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(
        f'#!/bin/sh\necho "ran $*"\ncase "$*" in *"config list") echo "{settings}";; esac\n'
        f'case "{fails}:$*" in :*) ;; "{fails}":*"{fails}"*) exit 9;; esac\n'
    )
    python.chmod(0o755)
    command = ["make", "setup", f"VENV={tmp_path}", f"PYTHON={sys.executable}"]  # the search for one is no part of this
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    ran = [line for line in done.stdout.splitlines() if "--editable" in line and line.startswith("ran ")]
    assert [next(each for each in installs if each in line) for line in ran] == installs


def test_the_cost_of_tests_adds_up(tmp_path: Path) -> None:
    """Two workers' files, as ``support/cpu_counter.py`` leaves them."""
    (tmp_path / "1.tsv").write_text(
        'imports and collection\t2.0\t0.5\t2.5\ntests/a/test_b.py::test_c["d"]\t1.0\t0.0\t4.0\n'
    )
    (tmp_path / "2.tsv").write_text("tests/a/test_b.py::test_e\t0.5\t4.0\t3.0\n")
    tests = cost_of_tests.read(tmp_path)
    by_file = cost_of_tests.costs(tests, "file", 5)
    assert [(row["where"], row["tests"], row["cpu_s"]) for row in by_file] == [
        ("tests/a/test_b.py", 2, 5.5), ("imports and collection", 1, 2.5), ("all", 3, 8.0)
    ]  # fmt: skip
    assert cost_of_tests.costs(tests, "test", 1)[0]["where"] == "tests/a/test_b.py::test_e"
    waits = cost_of_tests.costs(tests, "test", 1, "waits_s")[0]
    assert (waits["where"], waits["waits_s"], waits["share"]) == ('tests/a/test_b.py::test_c["d"]', 3.0, "100.0%")
    with pytest.raises(SystemExit, match="GPUSIM_COUNT_CPU"):
        cost_of_tests.read(tmp_path / "nothing")


def test_nights_in_a_row_run_each_nightly_test_once_and_fuzzing_every_time() -> None:
    names = [f"tests/kernels/test_suite.py::test_more[{number}]" for number in range(500)]
    fuzzing = f"{night_share.EVERY_NIGHT[0]}[trace]"
    first = night_share.today()
    nights = [
        {name for name in (*names, fuzzing) if night_share.runs_tonight(name, 7, night)}
        for night in range(first, first + 7)
    ]
    assert all(fuzzing in night and 40 < len(night) < 110 for night in nights)
    assert sorted(name for night in nights for name in night - {fuzzing}) == sorted(names)


def test_a_night_leaves_out_what_is_another_nights_and_nothing_of_the_day(tmp_path: Path) -> None:
    """By the hook of tests/conftest.py, on tests of its own."""
    every = "def test_day(): pass\n@pytest.mark.nightly\n@pytest.mark.parametrize('i', range(40))\ndef test_night(i): pass\n"
    dealt = "@pytest.mark.by_day(3)\n@pytest.mark.parametrize('i', range(40))\ndef test_share(i): pass\n"
    (tmp_path / "test_it.py").write_text(f"import pytest\n{every}{dealt}")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:xdist",
        "-q",
        "--collect-only",
        "--rootdir",
        str(ROOT),
        "-c",
        str(ROOT / "pyproject.toml"),
    ]
    command += ["-p", "conftest", "-m", "nightly or not nightly", "--nights", "4", "--night"]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "tests", ROOT / "tests" / "support", ROOT))),
    }
    seen = [
        subprocess.run([*command, str(night), str(tmp_path)], capture_output=True, text=True, env=environment).stdout
        for night in (0, 1)
    ]
    nightly = [{line for line in text.splitlines() if "test_night" in line} for text in seen]
    assert all("test_day" in text for text in seen), seen
    assert nightly[0] and nightly[1] and not nightly[0] & nightly[1] and len(nightly[0] | nightly[1]) < 40
    shares = [{line for line in text.splitlines() if "test_share" in line} for text in seen]
    by_day = shares[0] & shares[1]  # what runs by day is in every run; of the others each night has its own
    assert len(by_day) == 3 and shares[0] - by_day and shares[1] - by_day and len(shares[0] | shares[1]) < 40


def test_by_day_no_items_are_made_of_nightly_cases(request: pytest.FixtureRequest) -> None:
    conftest = request.config.pluginmanager.get_plugin(str(ROOT / "tests" / "conftest.py"))
    assert conftest is not None
    names = [f"tests/test_it.py::test_it[{i}]" for i in range(9)]
    night = SimpleNamespace(id="night", marks=[pytest.mark.nightly.mark])
    day = [SimpleNamespace(id=str(i), marks=[]) for i in range(9)]

    def left(calls: list, mark: pytest.MarkDecorator | None = None, words: tuple[str, ...] = (), **asked: str) -> list:
        config = SimpleNamespace(getoption=lambda name: {"markexpr": "not nightly", **asked}.get(name, ""), args=words)
        marks = {mark.name: mark.mark} if mark else {}
        definition = SimpleNamespace(nodeid="tests/test_it.py::test_it", get_closest_marker=marks.get)
        metafunc = SimpleNamespace(config=config, definition=definition, _calls=calls)
        conftest.pytest_generate_tests(metafunc)
        return metafunc._calls

    assert left([*day, night]) == day and left([]) == [] and left([night, night]) == [night]
    assert left(day, pytest.mark.nightly) == day[:1]
    # The same as are dealt to the day when all have been made.
    first = sorted(names, key=lambda name: zlib.crc32(name.encode()))[:3]
    assert [f"tests/test_it.py::test_it[{call.id}]" for call in left(day, pytest.mark.by_day(3))] == sorted(first)
    every = [*day, night]
    assert left(every, markexpr="nightly") == left(every, keyword="night") == every
    assert left(every, words=("tests/test_it.py::test_it[night]",)) == every


def test_a_mark_without_a_number_of_cases_is_refused() -> None:
    class Case:
        nodeid = "tests/test_it.py::test_share[1]"

        def get_closest_marker(self, name: str) -> pytest.Mark | None:
            return pytest.mark.by_day("all").mark if name == "by_day" else None

    with pytest.raises(pytest.UsageError, match="test_share: by_day takes the number of cases"):
        day_share.nightly_by_day([Case()])  # pyright: ignore[reportArgumentType]


def test_nothing_that_an_example_writes_is_committed() -> None:
    """Examples of the pages run in a folder of their own; whoever tries one at the top leaves files there."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("this is no checkout")
    top = {name.split("/")[0] for name in listed.stdout.split("\0") if name}
    folders = {"docs", "gpusim", "kernels", "tests", "tools", "traces", "workloads"}
    files = {"CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "mkdocs.yml", "pyproject.toml"}
    assert {name for name in top if not name.startswith(".")} == folders | files
