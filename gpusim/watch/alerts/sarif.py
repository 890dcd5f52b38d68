"""Alerts as a SARIF 2.1.0 log, which code-scanning services show beside the code.

Mental model: an alert is a result of one of three rules; its place is the source line that most of the cycles went to,
or the kernel's file. Its fingerprint is its cause, so that a service knows it again whatever line it has moved to. What
was settled is suppressed, with the reason.

SARIF 2.1.0: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from gpusim import __version__
from gpusim.watch.alerts.detail import AlertDetail
from gpusim.watch.alerts.record import FASTER, VERIFIED
from gpusim.watch.change import COMMIT

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_RULES = (
    ("slowdown", "Slowdown", "A commit made a kernel slower.", "error"),
    ("method", "MethodChange", "A compiler, a description or a model moved a kernel's time.", "warning"),
    ("improvement", "Improvement", "A kernel got faster.", "note"),
)


def sarif_log(details: Sequence[AlertDetail]) -> str:
    """The log as JSON text."""
    rules = [
        {"id": name, "name": title, "shortDescription": {"text": text}, "defaultConfiguration": {"level": level}}
        for name, title, text, level in _RULES
    ]
    driver = {"name": "gpusim", "version": __version__, "rules": rules}
    run = {
        "tool": {"driver": driver},
        "columnKind": "utf16CodeUnits",
        "results": [_result(detail) for detail in details],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, allow_nan=False)


def _result(detail: AlertDetail) -> dict[str, Any]:
    alert = detail.alert
    index = 2 if alert.direction == FASTER else 0 if alert.cause == COMMIT else 1
    name, _, _, level = _RULES[index]
    fingerprint = hashlib.sha256(f"{alert.plan}\0{alert.cause}\0{alert.who}".encode()).hexdigest()
    result: dict[str, Any] = {
        "ruleId": name,
        "ruleIndex": index,
        "level": "note" if alert.settled else level,
        "message": {"text": alert.sentence or f"alert {alert.number}"},
        "partialFingerprints": {"gpusimCause/v1": fingerprint},
        "properties": {
            "alert": alert.number, "plan": alert.plan, "state": alert.state, "verdict": alert.verdict, "owner": alert.owner,
            "commit": alert.commit, "percent": alert.size_percent,
        },
    }  # fmt: skip
    locations = _locations(detail)
    if locations:
        result["locations"] = locations
    if alert.state == VERIFIED:
        result["baselineState"] = "absent"
    if alert.settled:
        said = alert.reason or f"{alert.state} {alert.verdict}".strip()
        result["suppressions"] = [{"kind": "external", "status": "accepted", "justification": said}]
    return result


def _locations(detail: AlertDetail) -> list[dict[str, Any]]:
    """The file in which the most-moved series' case stands, with the line where its cycles went if that is in it."""
    most = detail.series[0] if detail.series else None
    lines = detail.alert.attribution.get("by_line") or []
    line = next((each for each in lines if isinstance(each, dict) and each.get("line")), None)
    if most is None or not (most.file or line):
        return []
    file = most.file or str(line["file"] if line else "").rsplit("/", 1)[-1]
    place: dict[str, Any] = {"artifactLocation": {"uri": quote(file.lstrip("/"))}}
    if line and str(line.get("file", "")).endswith(file) and isinstance(line["line"], int) and line["line"] > 0:
        place["region"] = {"startLine": line["line"]}
    logical = [{"name": most.kernel, "fullyQualifiedName": most.name, "kind": "function"}]
    return [{"physicalLocation": place, "logicalLocations": logical}]
