"""What is installed is what stands in the repository, and it runs in an empty environment of each Python that is found.

The second takes minutes and downloads what gpusim depends on: nightly, by ``tools/install_check.py``.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import install_check
import pytest

ROOT = Path(__file__).parents[1]
#: Folders at the top of the repository that are part of the package when installed.
PARTS = ("gpusim", "kernels", "traces", "workloads")


def tracked() -> set[str]:
    """The repository's files that belong to the package, by their name in it."""
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return {name if name.startswith("gpusim/") else f"gpusim/{name}" for name in names if name.split("/")[0] in PARTS}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone: what belongs to the package is not known")
    pytest.importorskip("build", reason="the package build is not installed: gpusim[test]")
    return install_check.build(tmp_path_factory.mktemp("built"))


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(built: dict[str, Path]) -> None:
    with zipfile.ZipFile(built["wheel"]) as wheel:
        held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert held == tracked()


def test_the_sdist_holds_what_its_wheel_is_built_from(built: dict[str, Path]) -> None:
    """The wheel of the fixture was built from it; here, that no test, tool or page went in."""
    with tarfile.open(built["sdist"]) as sdist:
        tops = {name.split("/")[1] for name in sdist.getnames() if name.count("/") >= 1}
    assert {"README.md", "LICENSE", "pyproject.toml"} <= tops
    assert tops <= {
        *PARTS,
        "README.md",
        "LICENSE",
        "pyproject.toml",
        "PKG-INFO",
        "setup.cfg",
        "gpusim.egg-info",
        "tests",
    }


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
@pytest.mark.parametrize("version", install_check.VERSIONS)
def test_it_installs_and_runs_in_an_empty_environment(
    built: dict[str, Path], version: str, kind: str, tmp_path: Path
) -> None:
    python = install_check.find_pythons().get(version)
    if python is None:
        pytest.skip(f"there is no Python {version} here")
    if kind == "sdist" and version != f"{sys.version_info[0]}.{sys.version_info[1]}":
        pytest.skip("one Python is enough for the sdist: its wheel is tried with the others")
    assert install_check.try_install(python, built[kind], tmp_path)[0] == "ok"
