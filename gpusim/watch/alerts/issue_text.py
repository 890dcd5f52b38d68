"""An alert as the text of an issue on GitHub or GitLab, or as a page of Markdown.

Mental model: what comes from outside (a kernel's name, a commit's subject, a note) is data, never markup: no letter of
it means anything to Markdown, mentions nobody, closes no issue and is no quick action of GitLab's (those begin a line).
Whom the plan's rules name is mentioned, once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpusim.watch.alerts.detail import AlertDetail
from gpusim.watch.alerts.record import SLOWER, Alert
from gpusim.watch.alerts.sentence import shown_percent

#: A letter that is not seen and ends a mention or a reference.
_NOTHING = "\u200b"
_MARKUP = re.compile(r"([\\`*_{}\[\]()<>!|~$&])")
#: An owner as GitHub and GitLab write one; an address is none.
_HANDLE = re.compile(r"@[A-Za-z0-9][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_.-]+)*")
MOST_SERIES, MOST_TERMS, MOST_TITLE = 20, 8, 200


def plain(text: object) -> str:
    """``text`` as one line of Markdown that shows it letter by letter."""
    line = _MARKUP.sub(r"\\\1", " ".join(str(text).split()))
    line = re.sub(r"([@#!%/])(?=\S)", rf"\1{_NOTHING}", line)
    return _NOTHING + line if line.startswith("/") else line


def issue_title(alert: Alert) -> str:
    """One line, without markup."""
    named = alert.sentence.partition(" since ")[0] or f"{alert.plan}: alert {alert.number}"
    return " ".join(f"{named} since {alert.commit[:10]}".split())[:MOST_TITLE]


def issue_text(detail: AlertDetail, form: str) -> str:
    """The body of an issue; ``form``: github or gitlab."""
    owners = [each for each in detail.alert.owner.split() if _HANDLE.fullmatch(each)]
    lines = [*_body(detail), ""]
    if owners:
        lines.append(f"Owner: {' '.join(owners)}")
    lines.append(
        f"<!-- gpusim alert {detail.alert.number} of plan {re.sub('[^A-Za-z0-9_.+]', '_', detail.alert.plan)} -->"
    )
    if form == "gitlab" and owners:
        lines += ["", f"/assign {' '.join(owners)}"]
    return "\n".join(lines) + "\n"


def markdown_page(details: Sequence[AlertDetail]) -> str:
    """All of them, a section each."""
    parts = ["# Alerts\n"]
    if not details:
        parts.append("None.\n")
    for detail in details:
        events = [
            f"| {e.sequence} | {e.time} | {plain(e.who)} | {plain(e.kind)} | {plain(e.before)} | {plain(e.after)} | {plain(e.text)} |"
            for e in detail.events
        ]
        history = ["", "| | time | who | what | before | after | text |", "|---|---|---|---|---|---|---|", *events]
        title = f"## Alert {detail.alert.number}: {plain(issue_title(detail.alert))}"
        parts.append("\n".join([title, "", *_body(detail), *history]) + "\n")
    return "\n".join(parts)


def _body(detail: AlertDetail) -> list[str]:
    alert = detail.alert
    state = alert.state + (f", {alert.verdict}" if alert.verdict else "")
    state += f" until {alert.expiry}" if alert.expiry else ""
    state += f" ({plain(alert.reason)})" if alert.reason else ""
    lines = [plain(alert.sentence), "", f"- Plan {plain(alert.plan)}, alert {alert.number}: {state}"]
    lines.append(f"- First seen at {alert.commit} ({plain(alert.author)}: {plain(alert.subject)})")
    if alert.unseen:
        lines.append(f"- Commits without a value that may be the first: {', '.join(alert.unseen[:MOST_SERIES])}")
    if alert.found:
        lines.append(f"- Found by bisection: {plain(alert.found)}")
    word = "slower" if alert.direction == SLOWER else "faster"
    lines += ["", f"| series | before | after | unit | percent {word} |", "|---|---:|---:|---|---:|"]
    sign = 1 if alert.direction == SLOWER else -1
    for each in detail.series[:MOST_SERIES]:
        percent = ("-" if sign * each.percent < 0 else "") + shown_percent(each.percent)
        lines.append(f"| {plain(each.name)} | {each.before:.6g} | {each.after:.6g} | {each.unit} | {percent} |")
    if len(detail.series) > MOST_SERIES:
        lines += ["", f"And {len(detail.series) - MOST_SERIES} more."]
    return lines + _attribution(alert)


def _attribution(alert: Alert) -> list[str]:
    """Where the cycles went, by line and reason."""
    lines: list[str] = []
    tables = (
        ("by_stall", "Cycles by reason", ("stall", "unit")),
        ("by_line", "Cycles by line", ("file", "line", "code")),
        ("gpu_figures", "Figures of the GPU", ("changed", "from", "to")),
    )
    for key, title, names in tables:
        terms = [term for term in alert.attribution.get(key, []) if isinstance(term, dict) and term.get("cycles") != 0]
        if terms:
            lines += ["", f"**{title}**", "", f"| cycles | {' | '.join(names)} |", "|---:|" + "---|" * len(names)]
            for term in terms[:MOST_TERMS]:
                lines.append(
                    f"| {plain(term.get('cycles', ''))} | {' | '.join(plain(term.get(n, '')) for n in names)} |"
                )
    return lines
