"""Alerts in the forms that other services take."""

from __future__ import annotations

import json
from collections.abc import Sequence

from gpusim.report.junit import JunitCase, junit_xml
from gpusim.watch.alerts.detail import AlertDetail, detail_record
from gpusim.watch.alerts.issue_text import issue_text, markdown_page
from gpusim.watch.alerts.record import FASTER
from gpusim.watch.alerts.sarif import sarif_log

GITHUB, GITLAB = "github", "gitlab"
FORMS = (GITHUB, GITLAB, "junit", "md", "sarif", "json")


def export_alerts(details: Sequence[AlertDetail], form: str) -> bytes:
    """``details`` in one of :data:`FORMS`; an issue's text takes one alert."""
    if form in (GITHUB, GITLAB):
        (detail,) = details
        return issue_text(detail, form).encode()
    if form == "junit":
        return junit_xml("gpusim alerts", [_case(detail) for detail in details])
    if form == "md":
        return markdown_page(details).encode()
    if form == "sarif":
        return (sarif_log(details) + "\n").encode()
    return (json.dumps([detail_record(detail) for detail in details], indent=2, allow_nan=False) + "\n").encode()


def _case(detail: AlertDetail) -> JunitCase:
    """A test case an alert: it fails while somebody has to do something."""
    alert = detail.alert
    state = " ".join(filter(None, (alert.state, alert.verdict, f"until {alert.expiry}" if alert.expiry else "")))
    lines = [f"{each.name}: {each.before:g} to {each.after:g} {each.unit}" for each in detail.series]
    lines += [f"state: {state}", f"owner: {alert.owner or 'nobody'}"]
    return JunitCase(
        name=f"alert {alert.number} ({alert.cause} {alert.who[:80]})",
        classname=f"gpusim.{alert.plan}",
        verdict="FASTER" if alert.direction == FASTER else "SLOWER",
        message=alert.sentence,
        detail="\n".join(lines),
        known=alert.settled,
    )
