"""Ready pipelines for GitHub Actions and GitLab CI: a night runs the plan, keeps the store, and shows its alerts.

Mental model: what a user gives (the plan's path and name, what pip is to install) is a variable of the pipeline, never
a part of a command, so that nothing in it is run. The store is the secret ``GPUSIM_STORE`` (a server's address) where
there is one, else a file that the service's cache keeps from night to night; one pipeline runs at a time, for the file
has one state.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from gpusim.errors import UsageError

#: Service -> the file that it reads, or that its own file includes.
FILES = {"github": ".github/workflows/gpusim-watch.yml", "gitlab": "gpusim-watch.gitlab-ci.yml"}

_GITHUB = """\
# Written by gpusim watch ci github. Secrets that it takes: GPUSIM_STORE (postgresql://...), GPUSIM_WEBHOOK_URL, GPUSIM_WEBHOOK_SECRET.
name: gpusim watch
on:
  schedule:
    - cron: "17 2 * * *"
  workflow_dispatch: {{}}
permissions:
  contents: read
  security-events: write
concurrency:
  group: gpusim-watch
  cancel-in-progress: false
jobs:
  watch:
    runs-on: ubuntu-latest
    timeout-minutes: 350
    env:
      PLAN: {plan}
      PLAN_NAME: {name}
      GPUSIM_PACKAGE: {package}
      GPUSIM_STORE: ${{{{ secrets.GPUSIM_STORE || format('{{0}}/gpusim-store.sqlite', github.workspace) }}}}
      GPUSIM_WEBHOOK_URL: ${{{{ secrets.GPUSIM_WEBHOOK_URL }}}}
      GPUSIM_WEBHOOK_SECRET: ${{{{ secrets.GPUSIM_WEBHOOK_SECRET }}}}
    steps:
      - uses: actions/checkout@v4
        with:
          fetch-depth: 0
          persist-credentials: false
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - uses: actions/cache@v4
        with:
          path: gpusim-store.sqlite
          key: gpusim-store-${{{{ github.run_id }}}}
          restore-keys: gpusim-store-
      - name: Install
        run: pip install "$GPUSIM_PACKAGE"
      - name: Run the plan
        run: {run}
      - name: Export
        if: always()
        run: |
          {sarif}
          {junit}
          {page}
      - name: Tell the webhook
        if: always()
        run: {send}
      - name: Show beside the code
        if: always()
        uses: github/codeql-action/upload-sarif@v3
        with:
          sarif_file: alerts.sarif
          category: gpusim
      - uses: actions/upload-artifact@v4
        if: always()
        with:
          name: gpusim-alerts
          path: alerts.*
      - name: Fail while an alert waits for somebody
        run: {check}
"""

_GITLAB = """\
# Written by gpusim watch ci gitlab; take it into .gitlab-ci.yml by include: {{local: gpusim-watch.gitlab-ci.yml}}, and give it a pipeline schedule.
# Variables that it takes, masked: GPUSIM_STORE (postgresql://...), GPUSIM_WEBHOOK_URL, GPUSIM_WEBHOOK_SECRET.
gpusim-watch:
  image: python:3.12
  stage: test
  timeout: 6 hours
  resource_group: gpusim-watch
  rules:
    - if: $CI_PIPELINE_SOURCE == "schedule"
    - if: $CI_PIPELINE_SOURCE == "web"
  variables:
    GIT_DEPTH: "0"
    PLAN: {plan}
    PLAN_NAME: {name}
    GPUSIM_PACKAGE: {package}
  cache:
    key: gpusim-store
    when: always
    paths:
      - gpusim-store.sqlite
  before_script:
    - pip install "$GPUSIM_PACKAGE"
    - export GPUSIM_STORE="${{GPUSIM_STORE:-$CI_PROJECT_DIR/gpusim-store.sqlite}}"
  script:
    - {run}
    - {sarif}
    - {junit}
    - {page}
    - {send}
    - {check}
  artifacts:
    when: always
    paths:
      - alerts.sarif
      - alerts.md
    reports:
      junit: alerts.xml
"""
#: A case without a value (exit code 1) is kept as such and breaks off no night.
_COMMANDS = {
    "run": 'gpusim watch run "$PLAN" || test $? -eq 1',
    "sarif": 'gpusim alerts export --plan "$PLAN_NAME" --format sarif -o alerts.sarif',
    "junit": 'gpusim alerts export --plan "$PLAN_NAME" --format junit -o alerts.xml',
    "page": 'gpusim alerts export --plan "$PLAN_NAME" --format md -o alerts.md',
    "send": 'test -z "$GPUSIM_WEBHOOK_URL" || gpusim alerts send --plan "$PLAN_NAME" || test $? -eq 3',
    "check": 'gpusim alerts list --plan "$PLAN_NAME" --check',
}


@dataclass(frozen=True)
class Pipeline:
    """``plan``: the plan's path in its repository; ``name``: its name; ``package``: what pip is to install."""

    plan: str
    name: str
    package: str


def pipeline_text(service: str, pipeline: Pipeline) -> str:
    """The file for ``service``, a key of :data:`FILES`. Raises UsageError for what can stand in no pipeline."""
    values = {}
    for name, value in vars(pipeline).items():
        # GitHub replaces ${{ }} anywhere; GitLab replaces $NAME in the values of variables.
        if not value or not value.isprintable() or "$" in value or "`" in value:
            raise UsageError(
                f"{name} {value!r:.100} can stand in no pipeline: it is empty, or holds $, ` or a line's end"
            )
        values[name] = json.dumps(value, ensure_ascii=False)
    template = _GITHUB if service == "github" else _GITLAB
    return template.format(**values, **_COMMANDS)


def relative_to_repository(plan: Path, repository: Path) -> str:
    """The plan's path as the pipeline's checkout has it. Raises UsageError where it lies elsewhere."""
    try:
        return plan.resolve().relative_to(repository.resolve()).as_posix()
    except ValueError:
        raise UsageError(f"{plan} does not lie in the repository {repository}, which the pipeline checks out") from None
