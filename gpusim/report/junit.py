"""Verdicts as JUnit XML, the form that continuous-integration servers show.

Mental model: a test case a verdict. SLOWER fails; what could not be compared (NO-DATA, UNSUPPORTED) is an error;
AMBIGUOUS is skipped, with its reason; SAME and FASTER pass. The format is the one that Jenkins, GitLab and GitHub's
actions read: testsuites > testsuite > testcase > failure | error | skipped, and system-out; times are seconds of the
test, not of the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

#: Verdict -> the element that its test case holds.
OUTCOMES = {"SLOWER": "failure", "NO-DATA": "error", "UNSUPPORTED": "error", "AMBIGUOUS": "skipped"}
#: Characters that no XML document may hold, not even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class JunitCase:
    """One verdict: ``name`` within ``classname``, the ``verdict``'s word, its ``message`` in a line, and ``detail``.
    ``known``: a baseline has it already, so that it does not fail. ``seconds``: what it took to find out, None where
    nothing was run for it."""

    name: str
    classname: str
    verdict: str
    message: str
    detail: str = ""
    known: bool = False
    seconds: float | None = None


def junit_xml(suite: str, cases: Sequence[JunitCase], *, fail_on: frozenset[str] = frozenset()) -> bytes:
    """The XML of a test suite called ``suite``. ``fail_on``: verdicts that fail besides SLOWER."""
    outcomes = ["failure" if case.verdict in fail_on else OUTCOMES.get(case.verdict, "") for case in cases]
    outcomes = [
        "" if case.known and outcome == "failure" else outcome for case, outcome in zip(cases, outcomes, strict=True)
    ]
    counts = {
        "tests": len(cases),
        "failures": outcomes.count("failure"),
        "errors": outcomes.count("error"),
        "skipped": outcomes.count("skipped"),
    }
    numbers = {name: str(count) for name, count in counts.items()}
    numbers["time"] = f"{sum(case.seconds or 0.0 for case in cases):.3f}"
    root = ElementTree.Element("testsuites", numbers)
    parent = ElementTree.SubElement(root, "testsuite", {"name": _clean(suite), **numbers})
    for case, outcome in zip(cases, outcomes, strict=True):
        element = ElementTree.SubElement(
            parent,
            "testcase",
            {"name": _clean(case.name), "classname": _clean(case.classname), "time": f"{case.seconds or 0.0:.3f}"},
        )
        message = _clean(f"{case.verdict}: {case.message}")
        if outcome:
            inner = ElementTree.SubElement(element, outcome, {"message": message})
            if outcome != "skipped":
                inner.set("type", case.verdict)
            inner.text = _clean(case.detail) or None
        else:
            ElementTree.SubElement(element, "system-out").text = _clean(
                f"{case.verdict}: {case.message}\n{case.detail}"
            )
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
