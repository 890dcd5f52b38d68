"""Pipelines that `gpusim watch ci` writes: do GitHub's and GitLab's schemas take them, and do their commands run?"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import check_jsonschema
import jsonschema
import pytest
import yaml
from alert_histories import Nights

from gpusim.cli import run
from gpusim.io.records import read_json
from gpusim.store import open_store

SCHEMAS = Path(check_jsonschema.__file__).parent / "builtin_schemas" / "vendor"
PLAN = '[plan]\nname = "night"\ncases = ["saxpy:n=64"]\ngpus = ["h200"]\n'
WHERE = {"github": ".github/workflows/gpusim-watch.yml", "gitlab": "gpusim-watch.gitlab-ci.yml"}


@pytest.fixture
def repository(tmp_path: Path, monkeypatch) -> Path:
    for words in (
        ["init", "-q"],
        ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-q", "--allow-empty", "-m", "x"],
    ):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    (tmp_path / "plan.toml").write_text(PLAN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(service: str) -> dict:
    assert run(["watch", "ci", service, "plan.toml", "--install", "gpusim @ git+https://example.org/g.git#x"]) == 0
    return yaml.load(Path(WHERE[service]).read_text(), yaml.BaseLoader)


def commands(service: str, pipeline: dict) -> list[str]:
    if service == "gitlab":
        return pipeline["gpusim-watch"]["before_script"][1:] + pipeline["gpusim-watch"]["script"]
    return [
        step["run"] for step in pipeline["jobs"]["watch"]["steps"] if "run" in step and step.get("name") != "Install"
    ]


@pytest.mark.parametrize(("service", "schema"), [("github", "github-workflows"), ("gitlab", "gitlab-ci")])
def test_the_service_s_schema_takes_the_pipeline(repository, service, schema) -> None:
    rules = read_json((SCHEMAS / f"{schema}.json").read_bytes())
    written(service)
    pipeline = yaml.safe_load(Path(WHERE[service]).read_text())
    pipeline = {"on" if key is True else key: value for key, value in pipeline.items()}  # YAML 1.1 reads on as true
    check = jsonschema.validators.validator_for(rules)(rules)
    assert [error.message for error in check.iter_errors(pipeline)] == []
    job = pipeline["jobs"]["watch"] if service == "github" else pipeline["gpusim-watch"]
    job["timeout-minutes" if service == "github" else "timeout"] = ["long"]
    assert list(check.iter_errors(pipeline))


@pytest.mark.parametrize("service", ["github", "gitlab"])
def test_its_commands_run_and_the_last_fails_while_an_alert_waits(repository, tmp_path, monkeypatch, service) -> None:
    """The commands of gpusim in the scripts, each in this process."""
    found = "\n".join(commands(service, written(service)))
    assert subprocess.run(["bash", "-n"], input=found, text=True, check=False).returncode == 0
    for name, value in {"PLAN": "plan.toml", "PLAN_NAME": "night", "GPUSIM_STORE": str(tmp_path / "s.sqlite")}.items():
        monkeypatch.setenv(name, value)
    with open_store() as store:
        nights = Nights(store)
        nights.commit(0, {"softmax": 1000})
        nights.commit(1, {"softmax": 1100})
        nights.sync()
    asked = [shlex.split(os.path.expandvars(words)) for words in re.findall(r"\bgpusim ([^|&\n]+)", found)]
    codes = {" ".join(words[:2]): run(words) for words in asked if words[:2] != ["watch", "run"]}
    assert codes == {"alerts export": 0, "alerts send": 2, "alerts list": 1}  # without an address nothing is sent
    assert [words[2:] for words in asked if words[:2] == ["watch", "run"]] == [["plan.toml"]]
    assert {path.name for path in tmp_path.glob("alerts.*")} == {"alerts.sarif", "alerts.xml", "alerts.md"}


@pytest.mark.nightly
def test_its_scripts_run_in_a_shell(repository, tmp_path) -> None:
    environment = {
        **os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PLAN": "plan.toml", "PLAN_NAME": "night",
        "GPUSIM_STORE": str(tmp_path / "s.sqlite"), "GPUSIM_WEBHOOK_URL": "",
    }  # fmt: skip
    for command in commands("gitlab", written("gitlab")):
        done = subprocess.run(["bash", "-ec", command], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (command, done.stderr)


def test_what_can_stand_in_no_pipeline_is_refused_and_no_file_is_overwritten(repository, capsys) -> None:
    for package in ("", "a\nb", "${{ secrets.X }}", "a`b`"):
        assert run(["watch", "ci", "github", "plan.toml", "--install", package]) == 2
    assert run(["watch", "ci", "github", "none.toml", "--install", "x"]) == 2
    assert run(["watch", "ci", "jenkins", "plan.toml", "--install", "x"]) == 2
    assert not Path(".github").exists()
    written("github")
    before = Path(WHERE["github"]).read_bytes()
    capsys.readouterr()
    assert run(["watch", "ci", "github", "plan.toml", "--install", "x"]) == 2
    assert "is there already" in capsys.readouterr().err and Path(WHERE["github"]).read_bytes() == before
