"""The dashboard's server: who may what, and what of a request or a store must not do harm."""

from __future__ import annotations

import gzip
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from board_examples import HOSTILE, board_store
from sqlalchemy import select
from starlette.testclient import TestClient

from gpusim.errors import UsageError
from gpusim.serve import sessions
from gpusim.serve.app import ServeOptions, make_app
from gpusim.serve.board import Board
from gpusim.serve.failures import MOST_FAILURES, WINDOW_SECONDS, Failures
from gpusim.serve.guard import LONGEST_TARGET, MOST_BODY_BYTES
from gpusim.serve.newest import read_state
from gpusim.serve.tokens import TokenFile, add_token, revoke_token
from gpusim.store.schema import alert_events, alerts, points, series
from gpusim.store.store import Store
from gpusim.watch.alerts.read import alert_events as read_events
from gpusim.watch.alerts.read import read_alert

PAGES = (
    "/", "/?owner=@attention-team", "/alerts", "/alerts?state=open", "/alert/1", "/kernels/nightly", "/series/1", "/series/1/change/25",
    "/series/13", "/gpus/nightly", "/gpus/nightly/h200/b200", "/coverage/nightly", "/accuracy", "/account",
)  # fmt: skip
HERE = "http://testserver"


@pytest.fixture(scope="module")
def seed(tmp_path_factory) -> Path:
    """A store that nobody writes to; its log is folded in."""
    path = tmp_path_factory.mktemp("board") / "seed.sqlite"
    with board_store(path) as store:
        with store.writing() as connection:
            connection.execute(
                series.update().where(series.c.kernel == "layer_norm").values(kernel=HOSTILE, file=HOSTILE)
            )
            connection.execute(alerts.update().where(alerts.c.id == 1).values(sentence=HOSTILE))
        store.compact()
    return path


@pytest.fixture
def store(seed: Path, tmp_path: Path) -> Iterator[Store]:
    path = tmp_path / "store.sqlite"
    path.write_bytes(seed.read_bytes())
    with Store(path) as opened:
        yield opened


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    return tmp_path / "tokens.json"


def client(store: Store, tokens: Path | None = None, **options) -> TestClient:
    app = make_app(store, TokenFile(tokens) if tokens else None, ServeOptions(**options))
    return TestClient(app, base_url=HERE, follow_redirects=False)


def csrf_of(page: str) -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', page)
    assert found is not None
    return found[1]


def signed_in(store: Store, tokens: Path, role: str) -> TestClient:
    token = add_token(tokens, f"{role}'s name", role)
    asking = client(store, tokens)
    form = csrf_of(asking.get("/account").text)
    answer = asking.post("/account", data={"token": token, "csrf": form})
    assert answer.status_code == 303
    return asking


def state_of(store: Store) -> tuple:
    with store.reading() as connection:
        assert connection is not None
        return (connection.execute(select(alerts)).all(), connection.execute(select(alert_events)).all())


def test_every_page_answers_and_forbids_what_it_does_not_need(store: Store) -> None:
    asking = client(store)
    for page in PAGES:
        answer = asking.get(page)
        assert answer.status_code == 200, page
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "script-src" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff" and "frame-ancestors 'none'" in policy
        # Nothing that the policy would have to allow, and nothing from outside.
        assert "<script" not in answer.text and not re.search(r"\son\w+=|\sstyle=|https?://", answer.text), page


def test_a_name_that_is_a_script_is_a_text(store: Store) -> None:
    asking = client(store)
    for page in ("/", "/alert/1", "/kernels/nightly", "/series/4", "/gpus/nightly/h200/b200", "/alerts"):
        text = asking.get(page).text
        assert "<script" not in text and "alert(1)&lt;/script" in text, page
        assert "49" not in re.findall(r"'\{?\{?(\d+)\}?\}?", text)  # a template in a name is not rendered
    answer = asking.get("/kernels/nightly", params={"kernel": HOSTILE})
    assert 'value="&lt;script&gt;alert(1)&lt;/script&gt;&#34;&#39;{{7*7}}"' in answer.text


def test_a_mark_has_the_shape_that_the_legend_shows(store: Store) -> None:
    with store.writing() as connection:  # and faster again, by other machine code
        gain = points.update().where(points.c.series_id == 1, points.c.position >= 33)
        connection.execute(gain.values(value=1000.0, low=1000.0, high=1000.0, cubin_hash="f" * 64))
    # In a drawing y goes down: of ▲ one corner lies above the two others.
    shapes = {"▲": [2, 2, 1], "▼": [2, 1, 1], "◆": [3, 2, 2, 1]}
    seen = set()
    for page in ("/series/1", "/series/4"):
        text = client(store).get(page).text
        legend = dict(re.findall(r'<span class="key (\w+)">(\S)', text))
        marks = re.findall(r'class="mark".*?<path([^>]*)>', text)
        for mark in marks:
            look, outline = (re.findall(rf'\b{name}="([^"]*)"', mark)[0] for name in ("class", "d"))
            assert "C" not in outline, outline  # straight sides
            heights = [
                float(y) for _, y in sorted({(x, y) for x, y in re.findall(r"[ML] ?([\d.]+) ([\d.]+)", outline)})
            ]
            rank = {y: place for place, y in enumerate(sorted(set(heights)), 1)}
            assert sorted((rank[y] for y in heights), reverse=True) == shapes[legend[look]], (look, outline)
            seen.add(look)
    assert seen == {"slower", "faster", "method"}


def test_an_editor_assigns_judges_notes_and_closes(store: Store, tokens: Path) -> None:
    asking = signed_in(store, tokens, "editor")
    csrf = csrf_of(asking.get("/alert/1").text)
    for action, fields in (
        ("assign", {"owner": "@kernel-team"}),
        ("note", {"text": "seen <b>it</b>"}),
        ("state", {"state": "triaged", "verdict": "real", "reason": "the commit did it"}),
        ("close", {}),
    ):
        answer = asking.post(f"/alert/1/{action}", data={"csrf": csrf, **fields})
        assert (answer.status_code, answer.headers["location"]) == (303, "/alert/1"), answer.text
    after = read_alert(store, 1)
    assert (after.owner, after.state) == ("@kernel-team", "fixed")
    last = read_events(store, 1)[3:]
    assert {event.who for event in last} == {"editor's name"} and "seen <b>it</b>" in [event.text for event in last]
    page = asking.get("/alert/1")
    assert "seen &lt;b&gt;it&lt;/b&gt;" in page.text and page.headers["cache-control"] == "no-store"
    refused = asking.post("/alert/1/state", data={"csrf": csrf, "state": "verified"})
    assert refused.status_code == 422 and "runs say that it is verified" in refused.text


def test_what_others_see_is_new_when_an_editor_has_changed_it(store: Store, tokens: Path) -> None:
    token = add_token(tokens, "ada", "editor")
    asking = client(store, tokens)
    assert "@attention-team" in asking.get("/").text
    answer = asking.post("/alert/1/assign", headers={"authorization": f"Bearer {token}"}, data={"owner": "@others"})
    assert answer.status_code == 303
    page = asking.get("/").text
    assert "owner=%40others" in page and "owner=%40attention-team" not in page


@pytest.mark.parametrize("forged", ["", "wrong", "é" * 43])
def test_a_form_from_elsewhere_changes_nothing(store: Store, tokens: Path, forged: str) -> None:
    asking = signed_in(store, tokens, "editor")
    csrf, before = csrf_of(asking.get("/alert/1").text), state_of(store)
    assert asking.post("/alert/1/assign", data={"owner": "@me", "csrf": forged}).status_code == 403
    for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}, {"origin": "null"}):
        answer = asking.post("/alert/1/assign", data={"owner": "@me", "csrf": csrf}, headers=headers)
        assert answer.status_code == 403, headers
    wrong_kind = asking.post(
        "/alert/1/assign", content=f"owner=@me&csrf={csrf}", headers={"content-type": "text/plain"}
    )
    assert wrong_kind.status_code == 415
    assert asking.get("/alert/1/assign").status_code == 405
    assert state_of(store) == before


def test_neither_a_reader_nor_nobody_changes_anything(store: Store, tokens: Path) -> None:
    before = state_of(store)
    reader = signed_in(store, tokens, "reader")
    page = reader.get("/alert/1").text
    assert "<form" not in page
    csrf = csrf_of(reader.get("/account").text)
    assert reader.post("/alert/1/note", data={"text": "x", "csrf": csrf}).status_code == 403
    assert client(store, tokens).post("/alert/1/note", data={"text": "x"}).status_code == 401
    assert client(store).post("/alert/1/note", data={"text": "x"}).status_code == 401
    wrong = client(store, tokens).post(
        "/alert/1/note", data={"text": "x"}, headers={"authorization": "Bearer gpusim_x"}
    )
    assert wrong.status_code == 401
    assert state_of(store) == before


def test_signing_out_ends_a_session_and_a_forged_cookie_begins_none(store: Store, tokens: Path) -> None:
    asking = signed_in(store, tokens, "editor")
    cookie = asking.cookies["gpusim_session"]
    assert asking.post("/account/out", data={"csrf": csrf_of(asking.get("/account").text)}).status_code == 303
    assert "gpusim_session" not in asking.cookies
    body, _, signature = cookie.rpartition(".")
    digest, begun, nonce = body.split(".")
    for forged in (
        f"{digest}.{int(begun) + 9}.{nonce}.{signature}",
        body,
        "",
        ".",
        "a.b.c.d",
        "\u0100" * 9,
        "x" * 5000,
    ):
        answer = client(store, tokens).get("/account", headers={"cookie": f"gpusim_session={forged}".encode()})
        assert answer.status_code == 200 and "Signed in" not in answer.text, forged


def test_a_session_ends_with_time_and_with_its_token(store: Store, tokens: Path, monkeypatch) -> None:
    asking = signed_in(store, tokens, "editor")
    assert "Signed in as" in asking.get("/account").text
    now = sessions.time.time()
    monkeypatch.setattr(sessions.time, "time", lambda: now + sessions.SESSION_SECONDS + 1)
    assert "Signed in as" not in asking.get("/account").text
    monkeypatch.undo()
    revoke_token(tokens, "editor's name")
    assert "Signed in as" not in asking.get("/account").text


def test_tokens_are_kept_as_hashes_in_a_file_of_one_owner(tokens: Path) -> None:
    token = add_token(tokens, "ada", "editor")
    assert token not in tokens.read_text() and token.removeprefix("gpusim_") not in tokens.read_text()
    assert stat.S_IMODE(tokens.stat().st_mode) == 0o600
    file = TokenFile(tokens)
    found = file.find(token)
    assert found is not None and (found.name, found.role) == ("ada", "editor")
    assert file.find(token[:-1]) is None and file.find("") is None
    with pytest.raises(UsageError, match="already"):
        add_token(tokens, "ada", "reader")
    with pytest.raises(UsageError, match="no token of 'eve'"):
        revoke_token(tokens, "eve")
    tokens.chmod(0o644)
    with pytest.raises(UsageError, match="chmod 600"):
        TokenFile(tokens)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"gpusim_tokens": 1, "secret": "zz", "tokens": []}',
                                  '{"gpusim_tokens": 1, "secret": "ab", "tokens": []}',
                                  '{"gpusim_tokens": 2, "secret": "' + "ab" * 32 + '", "tokens": []}',
                                  '{"gpusim_tokens": 1, "secret": "' + "ab" * 32 + '", "tokens": [{"name": "a", "role": "root", "sha256": "", "made": ""}]}'])  # fmt: skip
def test_a_file_that_holds_no_tokens_is_refused(tokens: Path, text: str) -> None:
    tokens.touch(0o600)
    tokens.write_text(text)
    with pytest.raises(UsageError, match=re.escape(str(tokens))):
        TokenFile(tokens)


def test_who_guesses_waits(store: Store, tokens: Path) -> None:
    token = add_token(tokens, "ada", "reader")
    asking = client(store, tokens)
    codes = [
        asking.get("/alert/1", headers={"authorization": f"Bearer guess{n}"}).status_code
        for n in range(MOST_FAILURES + 1)
    ]
    assert codes == [401] * MOST_FAILURES + [429]
    late = asking.get("/alert/1", headers={"authorization": f"Bearer {token}"})
    assert late.status_code == 429 and int(late.headers["retry-after"]) > 0
    assert asking.get("/").status_code == 200  # who reads is not hindered


def test_failures_slide_out_of_their_window() -> None:
    now = [0.0]
    failures = Failures(lambda: now[0])
    for _ in range(MOST_FAILURES):
        failures.add("a")
        now[0] += 1
    assert failures.wait_seconds("a") == WINDOW_SECONDS - MOST_FAILURES and failures.wait_seconds("b") == 0
    now[0] = WINDOW_SECONDS + 0.5
    assert failures.wait_seconds("a") == 0
    failures.add("a")
    assert failures.wait_seconds("a") > 0


@pytest.mark.parametrize("path", [
    "/assets/../app.py", "/assets/%2e%2e/app.py", "/assets/..%2f..%2f..%2fetc/passwd", "/assets/board.css/..", "/assets/",
    "/kernels/..%2f..%2fetc%2fpasswd", "/gpus/nightly/h200/..%2fb200", "/coverage/%00", "/series/%2e", "/series/-1", "/series/1.5",
    "/series/99999999999999999999", "/series/0", "/alert/4", "/series/1/change/3", "/alerts/page/9", "/kernels/nightly/99", "/kernels/other",
])  # fmt: skip
def test_what_is_no_page_is_not_found(store: Store, path: str) -> None:
    assert client(store).get(path).status_code == 404


@pytest.mark.parametrize(
    "text",
    ["' OR '1'='1", "nightly'; DROP TABLE alerts; --", "%", "_", "\\", "1) UNION SELECT 1 --", "\U0001f600" * 90],
)
def test_a_filter_is_a_value_and_never_a_part_of_a_statement(store: Store, text: str) -> None:
    before, asking = state_of(store), client(store)
    answer = asking.get("/alerts", params={"plan": text})
    assert answer.status_code == 200 and "There is none." in answer.text
    assert "2 in all" in asking.get("/alerts", params={"state": text}).text  # no state: not a filter
    assert "Nothing is open." in asking.get("/", params={"owner": text}).text
    for name in ("kernel", "gpu", "toolchain"):
        if (name, text) != ("kernel", "_"):  # which stands in a name
            answer = asking.get("/kernels/nightly", params={name: text})
            assert answer.status_code == 200 and "No series is like that." in answer.text, name
    assert asking.get("/alerts", params={"plan": "a\0b"}).status_code == 400
    assert state_of(store) == before


def test_requests_that_are_too_large_are_refused(store: Store, tokens: Path) -> None:
    asking = signed_in(store, tokens, "editor")
    csrf, before = csrf_of(asking.get("/alert/1").text), state_of(store)
    assert asking.get("/?owner=" + "a" * LONGEST_TARGET).status_code == 414
    assert asking.get("/" + "a" * LONGEST_TARGET).status_code == 414
    large = "a" * (MOST_BODY_BYTES + 1)
    assert asking.post("/alert/1/note", data={"csrf": csrf, "text": large}).status_code == 413
    parts = (b"a" * 1024 for _ in range(MOST_BODY_BYTES // 1024 + 1))  # no length is said
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert asking.post("/alert/1/note", content=parts, headers=form).status_code == 413
    many = "&".join(f"a{n}=" for n in range(50))
    assert asking.post("/alert/1/note", content=many, headers=form).status_code == 400
    assert asking.post("/alert/1/note", content=b"text=%ff&csrf=x", headers=form).status_code == 400
    assert asking.post("/alert/1/note", data={"csrf": csrf, "text": "a" * 20_000}).status_code == 422
    assert state_of(store) == before


def test_a_name_that_is_not_the_servers_is_not_answered(store: Store) -> None:
    asking = client(store, hosts=("127.0.0.1", "localhost", "[::1]"))
    for host, code in (
        ("localhost:8765", 200),
        ("127.0.0.1", 200),
        ("[::1]:8765", 200),
        ("evil.example", 421),
        ("", 421),
        ("localhost.evil.example", 421),
    ):
        assert asking.get("/accuracy", headers={"host": host}).status_code == code, host


def test_a_private_server_is_read_with_a_token_alone(store: Store, tokens: Path) -> None:
    token = add_token(tokens, "ada", "reader")
    asking = client(store, tokens, private=True)
    for page in PAGES[:-1]:
        answer = asking.get(page)
        assert (answer.status_code, answer.headers.get("location")) == (303, "/account"), page
    assert asking.get("/", headers={"authorization": f"Bearer {token}"}).status_code == 200
    assert asking.get("/").status_code == 303  # what was kept is not given to others
    assert asking.get("/assets/board.css").status_code == 200


def test_a_store_that_goes_away_is_said_without_its_place(store: Store) -> None:
    asking = client(store)
    assert asking.get("/").status_code == 200
    path = Path(str(store.url.database))
    store.close()
    path.write_bytes(b"no database" * 100)
    answer = asking.get("/alerts")
    assert answer.status_code == 503 and str(path) not in answer.text and int(answer.headers["retry-after"]) > 0


def test_a_page_that_has_not_changed_is_not_sent_again(store: Store) -> None:
    asking = client(store)
    first = asking.get("/kernels/nightly", headers={"accept-encoding": "identity"})
    again = asking.get("/kernels/nightly", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    with asking.stream("GET", "/kernels/nightly", headers={"accept-encoding": "gzip"}) as packed:
        assert packed.headers["content-encoding"] == "gzip"
        assert gzip.decompress(b"".join(packed.iter_raw())) == first.content


def test_an_empty_store_has_pages_too(tmp_path: Path) -> None:
    asking = client(Store(tmp_path / "none.sqlite"))
    for page in ("/", "/alerts", "/accuracy"):
        assert asking.get(page).status_code == 200
    assert asking.get("/kernels/nightly").status_code == 404 and not (tmp_path / "none.sqlite").exists()


def test_what_a_plan_stands_at_is_as_new_as_its_points(store: Store) -> None:
    board = Board(store)
    before = {each.key.id: each.value for each in board.state("nightly").newest}
    with store.writing() as connection:  # of one series at a new commit, of another one again at its newest
        rows = connection.execute(points.select().where(points.c.series_id.in_((2, 5)), points.c.position == 39))
        first, second = (dict(row) for row in rows.mappings())
        for row, position, value in ((first, 40, 7.0), (second, 39, 9.0)):
            del row["id"]
            connection.execute(points.insert().values({**row, "position": position, "repetition": 1, "value": value}))
    board.stamp(now=True)
    after = board.state("nightly")
    assert after == read_state(store, "nightly") and len(after.newest) == len(before)
    moved = {each.key.id: each.value for each in after.newest if each.value != before[each.key.id]}
    assert moved == {2: 7.0, 5: (before[5] + 9.0) / 2}


def test_a_series_error_is_a_mean_and_a_launch_s_has_a_sign(store: Store) -> None:
    with store.new_run("launches", command="compare") as run:
        line = {"key": "b200 saxpy n=64", "verdict": "FASTER", "error_percent": -12.5, "simulated": 900.0}
        run.add_document("comparison", {"lines": [line]})
    page = client(store).get("/accuracy").text
    assert (
        ">3.8 % in the mean<" in page
        and "-12.5 %" in page.replace("\N{MINUS SIGN}", "-")
        and "1 line of run launches" in page
    )
