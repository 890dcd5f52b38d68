"""The property ``versions``: this gpusim against another one, on shapes that are drawn and not recorded beforehand.

Mental model: what a new gpusim, model or GPU file changes is found by asking an old one the same question. The other
installation (a checkout, or the Python of another environment) runs as a process of its own, is asked on stdin by
the command line that all versions have in common, ``gpusim simulate ... --format json``, and stays warm between
questions. The same cycles with another counter are a divergence too.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpusim.cases.suite import shape_text
from gpusim.errors import NoDataError, UsageError
from gpusim.explore.cover import cover
from gpusim.explore.own_properties import VERSIONS
from gpusim.explore.property import Outcome, Property
from gpusim.gpus.spec import GpuSpec
from gpusim.io.real_path import real_path

#: What the other Python runs: a JSON list of arguments a line in; exit code, stdout and stderr a JSON line out.
_ANSWER = """
import contextlib, io, json, sys
from gpusim.cli import run
answers = sys.stdout
for line in sys.stdin:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(json.loads(line))
    answers.write(json.dumps({"code": code, "out": out.getvalue(), "err": err.getvalue()}) + "\\n")
    answers.flush()
"""


class OtherGpusim:
    """Another installation: a folder that holds the package ``gpusim``, or a Python interpreter that can import it.

    Starts with the first question and ends with the object. Raises UsageError for a path that is neither.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        holds_it = (self.path / "gpusim" / "__init__.py").is_file()
        if not holds_it and (self.path.is_dir() or not os.access(self.path, os.X_OK)):
            raise UsageError(f"{path} is no other gpusim: give a folder that holds the package gpusim, or a Python")
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - lives as long as the object; a pipe that nobody reads would fill
        self._process: subprocess.Popen[str] | None = None

    def ask(self, arguments: Sequence[str]) -> dict[str, Any]:
        """``code``, ``out`` and ``err`` of one command line. NoDataError when the other Python dies."""
        if self._process is None:
            self._process = self._start()
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(list(arguments)) + "\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())
        except (OSError, ValueError):
            said = self._end()
            raise NoDataError(
                f"{self.path}: the other gpusim died at `gpusim {' '.join(arguments)}`: {said}; try that there"
            ) from None

    def _start(self) -> subprocess.Popen[str]:
        is_folder = self.path.is_dir()
        environment = dict(os.environ)
        environment.pop("PYTHONPATH", None)
        if is_folder:
            environment["PYTHONPATH"] = str(real_path(self.path))
        return subprocess.Popen(
            # -P: nothing is imported from the folder that this one happens to run in.
            [sys.executable if is_folder else str(self.path), "-P", "-c", _ANSWER],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, text=True, env=environment,
        )  # fmt: skip

    def _end(self) -> str:
        """End the process; the last line of what it said on stderr."""
        process, self._process = self._process, None
        if process is None:
            return ""
        process.kill()
        process.communicate()
        self._said.seek(0)
        said = self._said.read().strip().splitlines()
        return said[-1] if said else "it said nothing"

    def __del__(self) -> None:
        if getattr(self, "_process", None) is not None:
            self._end()


#: One process a path, whatever is asked of it: it has compiled its kernels.
_other_gpusim = functools.cache(OtherGpusim)


class Versions(Property):
    """Cycles here against cycles of another gpusim; where they agree, the counter that is furthest off.

    ``gpu`` is the description with its ``settings`` here; the other gpusim is given the same name (or file) and
    settings, and reads its own description of it.
    """

    name = "versions"
    asks = VERSIONS.asks
    threshold = 0.01
    options = VERSIONS.options

    def __init__(self, gpu: GpuSpec, gpu_text: str, settings: Sequence[str], other: OtherGpusim) -> None:
        self.gpu, self.other = gpu, other
        self._arguments = ["--gpu", gpu_text, *(f"--set={text}" for text in settings), "--format", "json"]

    @classmethod
    def make(cls, gpu: GpuSpec, options: Mapping[str, Any]) -> Versions:
        """As the base's; ``gpu`` and ``settings`` (a line each) are this one's as the command line has them."""
        other = options.get("other_gpusim")
        if not other:
            raise UsageError("property versions compares with another gpusim: give --other-gpusim FOLDER or PYTHON")
        settings = [text for text in str(options.get("settings", "")).split("\n") if text]
        return cls(gpu, str(options.get("gpu", gpu.name)), settings, _other_gpusim(str(other)))

    @classmethod
    def complete(cls, options: Mapping[str, Any], gpu: str, settings: Sequence[str]) -> dict[str, Any]:
        known = {**options, "gpu": gpu}
        return {**known, "settings": "\n".join(settings)} if settings else known

    def measure(self, kernel: str, shape: Mapping[str, Any]) -> Outcome:
        covered = cover(kernel, shape, self.gpu)
        answer = self.other.ask(["simulate", f"{kernel}:{shape_text(dict(shape))}", *self._arguments])
        if answer["code"] == UsageError.exit_code:
            raise UsageError(f"{kernel}: the other gpusim refuses it: {' '.join(answer['err'].split())[-160:]}")
        if answer["code"]:
            # What this gpusim runs and the other tries and cannot is as much a difference as another time.
            return Outcome(1.0, f"the other says: {' '.join(answer['err'].split())[-160:]}", covered.coverage)
        said = json.loads(answer["out"])
        cycles, before = covered.result.cycles, said["cycles"]
        worst, detail = cycles / before - 1.0, f"{cycles} cycles, {before} the other gpusim"
        if not abs(worst) > self.threshold:
            for name, counted in covered.result.counters.items():
                there = said["counters"].get(name)
                if there is None:
                    continue
                off = counted / there - 1.0 if there else float(counted != 0)
                if abs(off) > abs(worst):
                    worst, detail = off, f"{name} is {counted:.6g}, {there:.6g} in the other gpusim ({cycles} cycles)"
        return Outcome(worst, detail, covered.coverage)
