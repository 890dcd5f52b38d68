"""Runs numba-cuda's own installed test modules and writes each test's outcome: started by ``gpusim run``.

    gpusim run tests/support/numba_cuda_suite.py OUTCOMES.json MODULE... [without TEST...]

OUTCOMES.json: test id -> [outcome, reason], outcome one of passed, skipped, failed. Tests named behind ``without`` are
not run.
"""

from __future__ import annotations

import gc
import json
import sys
import time
import unittest
import warnings
from pathlib import Path

from numba import cuda


class Outcomes(unittest.TestResult):
    """Notes each test's outcome with the last line of what it says."""

    def __init__(self) -> None:
        super().__init__()
        self.of: dict[str, list] = {}
        self.started = 0.0

    def startTest(self, test):
        super().startTest(test)
        self.started = time.perf_counter()
        self.of[test.id()] = ["passed", ""]

    def stopTest(self, test):
        seconds = time.perf_counter() - self.started
        outcome = self.of[test.id()]
        if outcome[0] == "failed":
            cuda.close()  # a launch that failed breaks the context for the tests behind it
        print(f"{outcome[0]:8} {seconds:6.2f} s  {test.id()}  {outcome[1][:300]}", flush=True)

    def _failed(self, test, error):
        if error[0].__name__ == "Skipped":  # pytest.importorskip() outside pytest
            self.of[test.id()] = ["skipped", str(error[1])]
            return
        text = self._exc_info_to_string(error, test).strip()
        print(f"{test.id()}\n{text}\n", file=sys.stderr, flush=True)
        lines = text.splitlines()
        self.of[test.id()] = ["failed", lines[-1].strip()]

    def addFailure(self, test, error):
        self._failed(test, error)

    def addError(self, test, error):
        self._failed(test, error)

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self._failed(test, error)

    def addSkip(self, test, reason):
        self.of[test.id()] = ["skipped", reason]

    def addUnexpectedSuccess(self, test):
        self.of[test.id()] = ["failed", "unexpected success"]


def chosen(names: list[str], without: list[str]) -> unittest.TestSuite:
    """The tests of the modules ``names``, except those of the ids ``without``."""
    suite, todo = unittest.TestSuite(), [unittest.defaultTestLoader.loadTestsFromNames(names)]
    while todo:
        for item in todo.pop(0):
            if isinstance(item, unittest.TestSuite):
                todo.append(item)
            elif item.id() not in without:
                suite.addTest(item)
    return suite


def main() -> None:
    path, names, without = Path(sys.argv[1]), sys.argv[2:], []
    if "without" in names:
        without = names[names.index("without") + 1 :]
        names = names[: names.index("without")]
    warnings.simplefilter("ignore")
    gc.set_threshold(50_000, 20, 50)  # as in tests/conftest.py
    outcomes = Outcomes()
    chosen(names, without).run(outcomes)
    path.write_text(json.dumps(outcomes.of, indent=1))


if __name__ == "__main__":
    main()
