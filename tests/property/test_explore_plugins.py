"""Properties of other distributions: found by their entry points, with options of their own, and in nobody's way if
broken."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from gpusim.cli import run
from gpusim.errors import UsageError
from gpusim.explore.property import Property
from gpusim.explore.property_registry import GROUP, OWN, find_property, property_names

ROOT = Path(__file__).parents[2]
PROPERTY = '''
from gpusim.explore.property import Option, Outcome, Property


def even(text):
    if int(text) % 2:
        raise ValueError(f"{text} is odd")
    return int(text)


class FewElements(Property):
    """A kernel with more elements than the option says is a finding: nothing is simulated."""

    name = "few_elements"
    asks = "has it few elements?"
    options = (
        Option("most_elements", "how many are few.", type=even, default=400, metavar="COUNT"),
        Option("strictly", "one too many is a finding as well.", type=bool),
        Option("besides", "axes to look at besides.", multiple=True),
    )

    def __init__(self, most, strictly, besides):
        self.most, self.strictly, self.besides = most, strictly, besides

    @classmethod
    def make(cls, gpu, options):
        besides = cls.options[2].texts(options)
        return cls(options["most_elements"], options.get("strictly", False), besides)

    def measure(self, kernel, shape):
        more = sum(shape[axis] for axis in ("n", *self.besides)) / self.most - 1.0
        return Outcome(max(0.0, more), f"most {self.most}, strictly {self.strictly}, besides {self.besides}")
'''
SEARCH = ["--max-examples", "12", "--jobs", "1", "--format", "json"]


def install(site: Path, distribution: str, entry_points: dict[str, str], **modules: str) -> None:
    """What an installed distribution leaves: its modules, and a dist-info folder that names its entry points."""
    site.mkdir(exist_ok=True)
    for name, text in modules.items():
        (site / f"{name}.py").write_text(text)
    folder = site / f"{distribution}-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    lines = [f"[{GROUP}]", *(f"{name} = {place}" for name, place in entry_points.items())]
    (folder / "entry_points.txt").write_text("\n".join(lines) + "\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages, on the path of modules."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    importlib.invalidate_caches()
    return folder


@pytest.fixture
def installed(site: Path) -> Path:
    install(site, "few-things", {"few_elements": "few_things_property:FewElements"}, few_things_property=PROPERTY)
    yield site
    sys.modules.pop("few_things_property", None)


def last_error(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err.splitlines()[-1]


def test_a_property_of_another_distribution_is_searched_for_and_replayed(
    installed: Path, tmp_path: Path, capsys, small_pool
):
    asked = ["--property", "few_elements", "--most-elements", "700", "--strictly", "--besides", "n", "--besides", "n"]
    assert run(["explore", "saxpy", *asked, *SEARCH, "-o", str(tmp_path / "found")]) == 1
    (finding,) = json.loads(capsys.readouterr().out)
    assert finding["detail"] == "most 700, strictly True, besides ['n', 'n']"
    options = json.loads(Path(finding["file"]).read_text())["options"]
    assert options == {"most_elements": 700, "strictly": True, "besides": "n\nn"}
    assert run(["replay", finding["file"], "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)[0]["same_digits"]


def test_its_options_have_defaults_are_checked_and_are_its_own(installed: Path, tmp_path: Path, capsys, small_pool):
    install(installed, "badly-made", {"broken": "no_such_module:Broken"})  # beside a broken one, too
    here = ["-o", str(tmp_path / "found")]
    assert run(["explore", "saxpy", "--property", "few_elements", *SEARCH, *here]) == 1
    assert "most 400, strictly False, besides []" in json.loads(capsys.readouterr().out)[0]["detail"]
    assert run(["explore", "saxpy", "--property", "few_elements", "--most-elements", "7", *here]) == 2
    assert "'--most-elements': 7 is odd" in last_error(capsys)
    for option in (["--most-elements", "8"], ["--strictly"]):
        assert run(["explore", "saxpy", "--property", "numpy", *option, *here]) == 2
        assert f"{option[0]} is for --property few_elements, not numpy" in last_error(capsys)
    assert run(["explore", "--help"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "--most-elements COUNT For --property few_elements: how many are few. [default: 400]" in told
    assert "few_elements has it few elements?" in told


@pytest.mark.nightly
def test_the_shell_command_finds_it_in_a_process_of_its_own(installed: Path, tmp_path: Path):
    command = [sys.executable, "-m", "gpusim.cli", "explore", "saxpy", "--property", "few_elements", "--jobs", "2"]
    done = subprocess.run(
        [*command, "--max-examples", "8", "-o", str(tmp_path / "found")],
        env={"PYTHONPATH": f"{installed}:{ROOT}", "PATH": "", "HOME": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and "most 400" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("place", "module", "why"),
    [
        (
            "broken_property:Broken",
            "import no_such_package_at_all",
            "ModuleNotFoundError: No module named 'no_such_package",
        ),
        ("broken_property:Broken", "raise SystemExit(0)", "SystemExit"),
        ("broken_property:Broken", "x = 1", "AttributeError"),
        ("broken_property:Broken", "class Broken: pass", "it is no gpusim.explore.property.Property"),
        (
            "broken_property:Broken",
            "from gpusim.explore.property import *\nclass Broken(Property):\n options = ('rows',)",
            "its options are no gpusim.explore.property.Option",
        ),
        (
            "broken_property:Broken",
            "from gpusim.explore.property import *\nclass Broken(Property):\n options = (Option('seed', ''),)",
            "gpusim explore has an option --seed already",
        ),
        (
            "broken_property:Broken",
            "from gpusim.explore.property import *\nclass Broken(Property):\n options = (Option('rows', ''),)",
            "property silicon has an option --rows already",
        ),
    ],
)
def test_a_broken_one_is_named_and_in_nobody_s_way(place, module, why, site: Path, tmp_path: Path, capsys):
    sys.modules.pop("broken_property", None)
    install(site, "badly-made", {"broken": place}, broken_property=module)
    asked = [
        ["--property", "broken"],
        ["--property", "broken", "--its-own", "3"],
        ["--its-own", "3", "--property=broken"],
    ]
    for arguments in asked:
        assert run(["explore", "saxpy", *arguments, "-o", str(tmp_path / "found")]) == 2
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 1 and lines[0].startswith("error: property broken cannot be ")
        assert f"entry point broken = {place} of distribution badly-made" in lines[0] and why in lines[0]
    assert run(["explore", "--help"]) == 0 and run(["gpus", "list"]) == 0
    assert "badly-made" in capsys.readouterr().out
    assert run(["explore", "saxpy", "--its-own", "3"]) == 2
    assert "No such option" in last_error(capsys)


@pytest.mark.parametrize(
    ("declared", "given", "why"),
    [
        ("options = (Option('folder', '', type=Path),)", ["--folder", "."], "its option --folder gives a PosixPath"),
        ("def __init__(self): pass", [], "cannot be made"),
    ],
)
def test_what_it_does_wrong_later_is_laid_at_its_door(declared, given, why, site: Path, tmp_path: Path, capsys):
    sys.modules.pop("later_property", None)
    lines = [
        "from pathlib import Path",
        "from gpusim.explore.property import *",
        "class Later(Property):",
        f" {declared}",
    ]
    install(
        site, "badly-made", {"later": "later_property:Later"}, later_property="\n".join([*lines, " measure = None"])
    )
    assert run(["explore", "saxpy", "--property", "later", *given, "-o", str(tmp_path / "found")]) == 2
    told = last_error(capsys)
    assert why in told and "entry point later = later_property:Later of distribution badly-made" in told


def test_one_name_is_one_property(site: Path):
    install(site, "one", {"twice": "one_property:P", "bounds": "one_property:P"}, one_property="")
    install(site, "other", {"twice": "other_property:P"}, other_property="")
    with pytest.raises(UsageError, match=r"declared twice, .* distribution one and .* distribution other"):
        find_property("twice")
    assert find_property("bounds").__module__ == "gpusim.explore.properties"


def test_gpusim_s_own_are_declared_as_anybody_s_are():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][GROUP]
    assert declared == OWN and property_names()[: len(OWN)] == list(OWN)
    for name in OWN:
        found = find_property(name)
        assert issubclass(found, Property) and found.name == name and found.asks.endswith("?")
