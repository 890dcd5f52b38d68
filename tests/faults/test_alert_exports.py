"""Alerts told elsewhere: issue texts, JUnit, SARIF and webhooks, whatever a kernel is called and whether anybody
listens."""

from __future__ import annotations

import hashlib
import hmac
import json
import shlex
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
from alert_histories import Nights, hash_of
from sarif_rules import SARIF_RULES

from gpusim.cli import run
from gpusim.errors import UsageError
from gpusim.store import open_store
from gpusim.watch.alerts import deliveries
from gpusim.watch.alerts.deliveries import claim_due, count_deliveries, queue_events
from gpusim.watch.alerts.detail import read_details
from gpusim.watch.alerts.exports import FORMS, export_alerts
from gpusim.watch.alerts.issue_text import issue_title, plain
from gpusim.watch.alerts.settings import AlertSettings
from gpusim.watch.alerts.webhook import refuse_address, send_events
from gpusim.watch.alerts.write import add_note, assign, set_state
from gpusim.watch.owners import OwnerRule

HOSTILE = "/close\033[31m <script>alert(1)</script> @everyone fixes #1 `x` [a](javascript:b) |"


SETTINGS = AlertSettings((OwnerRule(("@soft/team", "mail@example.org"), kernel="*"),))


@pytest.fixture(scope="module")
def three_alerts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of one open alert (1), one improvement (2) and one accepted slowdown (3), made once."""
    path = tmp_path_factory.mktemp("alerts") / "s.sqlite"
    with open_store(path) as store:
        made = Nights(store, settings=SETTINGS)
        made.commit(0, {"softmax": 1000, HOSTILE: 1000})
        made.commit(1, {"softmax": 1041, HOSTILE: 1041})
        made.commit(2, {"softmax": 900, HOSTILE: 1041})
        made.commit(3, {"softmax": 1100, HOSTILE: 1041})
        made.sync()
        set_state(store, 3, "triaged", verdict="accepted", reason="agreed", expiry="2999-01-01", who="ada")
        add_note(store, 1, f"{HOSTILE}\n/close", who="ada")
    return path


@pytest.fixture
def nights(three_alerts: Path, tmp_path: Path, monkeypatch) -> Iterator[Nights]:
    """A copy of it."""
    monkeypatch.setenv("GPUSIM_STORE", str(shutil.copy(three_alerts, tmp_path / "s.sqlite")))
    with open_store() as store:
        yield Nights(store, settings=SETTINGS)


def test_an_issue_s_text_is_data_whatever_a_kernel_is_called(nights) -> None:
    (detail,) = read_details(nights.store, [1])
    for form in ("github", "gitlab"):
        body = export_alerts([detail], form).decode()
        assert "<script>" not in body and "@everyone" not in body and "#1" not in body.replace("&#1", "")
        starts = [line for line in body.splitlines() if line.startswith("/")]
        assert starts == (["/assign @soft/team"] if form == "gitlab" else [])
        assert "Owner: @soft/team\n" in body and hash_of(1) in body and "short\\_scoreboard" in body
        for line in (line for line in body.splitlines() if "script" in line and line.startswith("|")):
            assert line.replace("\\|", "").count("|") == 6
    assert "\n" not in issue_title(detail.alert) and hash_of(1)[:10] in issue_title(detail.alert)
    assert plain("a\n/b") == "a /\u200bb" and "\033" not in detail.alert.sentence


def test_junit_fails_while_somebody_has_to_do_something(nights) -> None:
    details = read_details(nights.store, [1, 2, 3])
    root = ElementTree.fromstring(export_alerts(details, "junit"))
    assert root.attrib["failures"] == "1" and root.attrib["tests"] == "3"
    cases = list(root.iter("testcase"))
    assert [[child.tag for child in case] for case in cases] == [["failure"], ["system-out"], ["system-out"]]
    assert "script" in ElementTree.tostring(cases[0]).decode()


def test_sarif_keeps_the_rules_of_the_published_schema(nights) -> None:
    log = json.loads(export_alerts(read_details(nights.store, [1, 2, 3]), "sarif"))
    jsonschema.Draft7Validator.check_schema(SARIF_RULES)
    jsonschema.validate(log, SARIF_RULES)
    (run_,) = log["runs"]
    results = run_["results"]
    assert [each["ruleId"] for each in results] == ["slowdown", "improvement", "slowdown"]
    for each in results:
        assert run_["tool"]["driver"]["rules"][each["ruleIndex"]]["id"] == each["ruleId"]
    assert [each["level"] for each in results] == ["error", "note", "note"]
    assert results[2]["suppressions"][0]["justification"] == "agreed" and "suppressions" not in results[0]
    place = results[0]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "softmax.cu"}, "region": {"startLine": 41}}
    assert len({each["partialFingerprints"]["gpusimCause/v1"] for each in results}) == 3
    broken = json.loads(json.dumps(log))
    broken["runs"][0]["results"][0]["level"] = "fatal"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, SARIF_RULES)


def test_every_form_can_be_written_and_markdown_shows_every_event(nights, tmp_path, capsys) -> None:
    for form in FORMS:
        numbers = ["1"] if form in ("github", "gitlab") else []
        assert run(["alerts", "export", *numbers, "--format", form, "-o", str(tmp_path / form)]) == 0
    assert "1 alerts written" in capsys.readouterr().err
    (value,) = json.loads((tmp_path / "json").read_text())
    assert value["number"] == 1 and [event["kind"] for event in value["events"]] == ["opened", "note"]
    assert (tmp_path / "md").read_text().count("\n| ") >= 4
    assert run(["alerts", "export", "1", "--format", "github", "--title"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


@contextmanager
def receiver(statuses: list[int]) -> Iterator[tuple[str, list]]:
    """A server that answers with ``statuses``, one after another and then 200; what it was sent."""
    heard: list = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            heard.append((dict(self.headers), self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(statuses.pop(0) if statuses else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook?a=b", heard
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def events_of(heard: list) -> list[tuple[int, int]]:
    return [(json.loads(body)["alert"]["number"], json.loads(body)["event"]["sequence"]) for _, body in heard]


def test_a_receiver_hears_of_each_event_once_in_order_and_knows_the_sender(nights) -> None:
    with receiver([]) as (url, heard):
        done = send_events(nights.store, url, "secret", sleep=lambda _: None)
        assert (done.delivered, done.waiting) == (2, 0)
        assert events_of(heard) == [(1, 1), (1, 2)]  # what was settled before, and what got faster, is no news
        assert send_events(nights.store, url, "secret").delivered == 0
        assign(nights.store, 3, "@ada", who="ada")
        assert send_events(nights.store, url, "secret").delivered == 1 and events_of(heard)[-1] == (3, 4)
        assert send_events(nights.store, url, "secret", improvements=True).delivered == 1
    headers, body = heard[0]
    signed = headers["X-Gpusim-Timestamp"].encode() + b"." + body
    assert headers["X-Gpusim-Signature"] == "sha256=" + hmac.new(b"secret", signed, hashlib.sha256).hexdigest()
    keys = [headers["Idempotency-Key"] for headers, _ in heard]
    assert len(set(keys)) == len(keys) == 4 and json.loads(body)["key"] == keys[0]


def test_what_a_receiver_does_not_take_waits_for_it(nights) -> None:
    pauses: list[float] = []
    now = [1_000_000.0]
    with receiver([500, 429, 503, 302, 503, 503]) as (url, heard):

        def send(**options):
            return send_events(nights.store, url, "", sleep=pauses.append, clock=lambda: now[0], **options)

        first = send()
        assert (first.delivered, first.waiting, len(heard)) == (0, 2, 3) and "503" in first.said
        assert len(pauses) == 2 and pauses[1] > 0.9
        assert send().waiting == 2 and len(heard) == 3  # not due yet
        now[0] += 31
        assert send().waiting == 2 and len(heard) == 6
        now[0] += 31
        assert send().waiting == 2 and len(heard) == 6  # the second wait is longer
        now[0] += 31
        assert send().delivered == 2 and events_of(heard[6:]) == [(1, 1), (1, 2)]
        assert len({headers["Idempotency-Key"] for headers, _ in heard[:7]}) == 1


def test_an_event_that_is_refused_for_good_keeps_back_no_other_and_can_be_sent_again(nights) -> None:
    with receiver([422]) as (url, heard):
        done = send_events(nights.store, url, "")
        assert (done.delivered, done.refused, done.waiting) == (1, 1, 0)
        assert send_events(nights.store, url, "").refused == 0
        assert send_events(nights.store, url, "", again=True).delivered == 1
        assert events_of(heard) == [(1, 1), (1, 2), (1, 1)]


def test_a_receiver_that_is_not_there_loses_nothing(nights, monkeypatch, capsys) -> None:
    monkeypatch.setattr("gpusim.watch.alerts.webhook.FIRST_PAUSE_SECONDS", 0.0)
    monkeypatch.setenv("GPUSIM_WEBHOOK_URL", "http://127.0.0.1:9/x")
    assert run(["alerts", "send"]) == 3
    assert "127.0.0.1: Connection refused" in capsys.readouterr().out
    assert count_deliveries(nights.store, "http://127.0.0.1:9/x")["waiting"] == 2


def test_a_sender_that_is_killed_lets_go_of_what_it_had_claimed(nights) -> None:
    url = "http://127.0.0.1:9/"
    assert queue_events(nights.store, url, None) == 2
    assert len(claim_due(nights.store, url, 1000)) == 2
    assert claim_due(nights.store, url, 1000 + deliveries.CLAIM_SECONDS - 1) == []
    assert len(claim_due(nights.store, url, 1000 + deliveries.CLAIM_SECONDS)) == 2
    assert queue_events(nights.store, url, None) == 2


def test_a_body_has_an_end(nights, monkeypatch) -> None:
    monkeypatch.setattr(deliveries, "MOST_BYTES", 2500)
    queue_events(nights.store, "http://a/", None)
    first, _ = claim_due(nights.store, "http://a/", 0)
    assert json.loads(first.body)["alert"]["attribution"] == {}


@pytest.mark.parametrize(
    "url",
    [
        "ftp://a/b",
        "http://",
        "file:///etc/passwd",
        "http://a:99999/",
        "http://u:p@a/",
        "http://a/\nb",
        "a b",
        "http://a/ b",
    ],
)
def test_an_address_that_is_none_is_refused(url) -> None:
    with pytest.raises(UsageError, match="webhook's address"):
        refuse_address(url)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["show", "99"], 2, "holds no alert 99"),
        (["show", "0"], 2, "0 is not in the range"),
        (["note", "99", "x"], 2, "holds no alert 99"),
        (["state", "1", "gone"], 2, "'gone' is not one of"),
        (["state", "1", "verified"], 2, "runs say that it is verified"),
        (["state", "1", "triaged"], 2, "--verdict real|method"),
        (["close", "1", "accepted", "--reason", "x"], 2, "--until"),
        (["close", "1", "real", "--reason", "x"], 2, "'real' is not one of"),
        (["assign", "1", "@sotf"], 2, "no rule of plan night names '@sotf'"),
        (["list", "--plan", "nihgt"], 3, "did you mean night"),
        (["export", "--format", "github"], 2, "an issue is of one alert"),
        (["export", "1", "--format", "sarif", "--title"], 2, "--title is for github"),
        (["export", "1", "--all", "--format", "md"], 2, "not both"),
        (["send"], 2, "GPUSIM_WEBHOOK_URL"),
        (["send", "--url", "x"], 2, "https://HOST/PATH"),
    ],
)
def test_what_cannot_be_done_is_one_line(nights, monkeypatch, capsys, words, code, said) -> None:
    monkeypatch.delenv("GPUSIM_WEBHOOK_URL", raising=False)
    keep_rules(nights)
    assert run(["alerts", *words]) == code
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("error: ") and said in line


def keep_rules(nights: Nights, owner: str = "@soft") -> None:
    """What a run of the plan keeps of its settings."""
    with nights.store.new_run("night", command="watch run") as made:
        rules = [{"kernel": "*", "owners": [owner]}]
        made.add_document("watch alerts", {"owners": rules, "least_percent": 0.1, "expectations": []})


def test_every_command_does_what_it_says(nights, capsys) -> None:
    keep_rules(nights)
    assert run(["alerts", "list", "--check", "--format", "json"]) == 1
    assert [each["number"] for each in json.loads(capsys.readouterr().out)] == [1]
    assert (
        run(["alerts", "assign", "1", "@soft"]) == run(["alerts", "assign", "1", "@x", "--anyone", "--as", "bob"]) == 0
    )
    assert run(["alerts", "note", "1", "looked at"]) == 0
    assert run(["alerts", "state", "1", "triaged", "--verdict", "real"]) == 0
    assert run(["alerts", "show", "1"]) == 0
    shown = capsys.readouterr().out
    assert "softmax.cu" in shown and "looked at" in shown and "owner: @x" in shown
    assert run(["alerts", "close", "1", "noise", "--reason", "two clocks"]) == 0
    assert run(["alerts", "list", "--check"]) == 0 and "no alert" in capsys.readouterr().err
    assert run(["alerts", "list", "--all", "--improvements", "--format", "json"]) == 0
    assert [each["number"] for each in json.loads(capsys.readouterr().out)] == [3, 2, 1]
    assert run(["alerts", "show", "1", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["events"][-1]["after"] == "noise"


def test_a_store_of_another_version_is_one_line(nights, capsys) -> None:
    with nights.store.writing() as connection:
        connection.exec_driver_sql("UPDATE gpusim_store SET version=99")
    assert run(["alerts", "list"]) == 2
    assert "written by a newer gpusim" in capsys.readouterr().err


def test_the_page_s_commands_run(nights, tmp_path, monkeypatch, capsys) -> None:
    """Each ``gpusim alerts`` of docs/how-to/alerts.md, in its order, on alerts as it speaks of."""
    monkeypatch.chdir(tmp_path)
    keep_rules(nights, "@attention-team")
    page = (Path(__file__).parents[2] / "docs/how-to/alerts.md").read_text()
    assert read_details(nights.store, [1])[0].alert.sentence.partition(": all")[2][:30] in " ".join(page.split())
    lines = [line.partition("  #")[0] for line in page.splitlines() if line.startswith("gpusim alerts ")]
    assert len(lines) >= 16
    with receiver([]) as (url, _):
        for line in lines:
            words = [url if word.startswith("http") else word for word in shlex.split(line)[1:]]
            assert run(words) == 0, (line, capsys.readouterr().err)
    assert {path.name for path in tmp_path.glob("alerts.*")} == {"alerts.xml", "alerts.sarif", "alerts.md"}
