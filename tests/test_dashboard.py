"""The dashboard in a real browser: clicks, keys, both colour schemes, a phone's width, accessibility, nothing from
outside."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from board_examples import HOSTILE, board_store

from gpusim.serve.export import export_pages
from gpusim.serve.tokens import add_token

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine (Debian: apt install chromium)")
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip
PAGES = (
    "/", "/alerts", "/alert/1", "/kernels/nightly", "/series/1", "/series/1/change/25", "/series/10", "/gpus/nightly",
    "/gpus/nightly/h200/b200", "/coverage/nightly", "/accuracy", "/account",
)  # fmt: skip
DESK, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
LOOKS = {"light on a desk": ("light", DESK), "dark on a phone": ("dark", PHONE)}


class Visit:
    """A page of a browser that keeps what goes wrong: console errors, and requests to elsewhere than ``origin``."""

    def __init__(self, browser, origin: str, **options) -> None:
        self.origin, self.wrong = origin, []
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.page.on("console", lambda m: self.wrong.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", lambda r: None if r.url.startswith(origin) else self.wrong.append(r.url))

    def to(self, address: str):
        return self.page.goto(self.origin + address)

    def click(self, what) -> None:
        """Press ``what`` and wait for the page that it leads to, which may have the same address (a form's answer)."""
        with self.page.expect_navigation():
            what.click()

    def fits(self) -> bool:
        """Whether the page is no wider than the window."""
        self.page.wait_for_load_state("load")  # its style may still be under way
        return self.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator:
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright's package is not installed")
    # What a browser keeps goes into a folder that goes with the tests.
    home = tmp_path_factory.mktemp("browser")
    with playwright.sync_playwright() as api:
        environment = {**os.environ, "HOME": str(home), "TMPDIR": str(home)}
        opened = api.chromium.launch(executable_path=CHROMIUM, headless=True, args=list(FLAGS), env=environment)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Iterator[tuple[str, str, Path]]:
    """The address of a server, an editor's token, and the folder of the same pages as files."""
    folder = tmp_path_factory.mktemp("board")
    token = add_token(folder / "tokens.json", "ada", "editor")
    with board_store(
        folder / "store.sqlite", kernels=("softmax", "layer_norm", "<img src=x onerror=alert(1)>")
    ) as store:
        export_pages(store, folder / "site")
    command = [sys.executable, "-m", "gpusim.cli", "serve", "--port", "0", "--tokens", str(folder / "tokens.json")]
    server = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, "GPUSIM_STORE": str(folder / "store.sqlite")}
    )
    try:
        assert server.stderr is not None
        said = server.stderr.readline()
        assert "serving at http://127.0.0.1:" in said
        yield said.split()[2].rstrip("/"), token, folder / "site"
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(30)


def _check_pages(browser, origin: str, addresses, scheme: str, window: dict[str, int]) -> None:
    """Every page answers, fits the window, breaks no rule of axe-core's, says nothing and asks nobody else."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe-core's package is not installed"
    ).Axe()
    visit = Visit(browser, origin, color_scheme=scheme, viewport=window)
    for address in addresses:
        answer = visit.to(address)
        assert answer.status == 200, address
        assert visit.page.title() and visit.page.locator("h1").count() == 1, address
        assert visit.fits(), (address, window)
        found = axe.run(visit.page, options={"resultTypes": ["violations"]}).response
        assert [(each["id"], each["nodes"][0]["html"]) for each in found["violations"]] == [], (address, scheme)
        assert len(found["passes"]) > 5
    assert visit.wrong == []
    visit.context.close()


@pytest.mark.parametrize("look", LOOKS)
def test_every_page_is_accessible_and_quiet(browser, site, look) -> None:
    # A page in one look, in turn: what has a colour stands on several pages. Every page in every look: the night.
    _check_pages(browser, site[0], PAGES[list(LOOKS).index(look) :: len(LOOKS)], *LOOKS[look])


@pytest.mark.nightly
@pytest.mark.parametrize("window", (DESK, PHONE), ids=("desk", "phone"))
@pytest.mark.parametrize("scheme", ("light", "dark"))
def test_every_page_in_every_look(browser, site, scheme, window) -> None:
    _check_pages(browser, site[0], PAGES, scheme, window)


def test_a_mark_leads_to_what_a_change_is_made_of(browser, site) -> None:
    visit = Visit(browser, site[0], viewport=DESK)
    visit.to("/")
    visit.click(visit.page.get_by_role("link", name="softmax on three GPUs").first)
    assert visit.page.url.endswith("/alert/1")
    visit.click(visit.page.get_by_role("link", name="softmax:rows=4096,columns=1024 on h200").first)
    mark = visit.page.locator("svg.chart a.mark")
    assert mark.count() == 1 and "+4.0 %" in (mark.get_attribute("aria-label") or "")
    visit.click(mark)
    assert visit.page.url.endswith("/change/25")
    text = visit.page.inner_text("main")
    assert "long_scoreboard" in text and "FADD R2, R2, R3" in text and "kernels/a.py:7" in text
    visit.page.go_back()
    assert "/series/" in visit.page.url and visit.wrong == []
    visit.context.close()


def test_keys_alone_reach_a_change(browser, site) -> None:
    visit = Visit(browser, site[0], viewport=DESK)
    visit.to("/series/1")
    visit.page.keyboard.press("Tab")
    assert visit.page.evaluate("document.activeElement.textContent") == "Skip to content"
    visit.page.keyboard.press("Enter")
    for _ in range(12):
        visit.page.keyboard.press("Tab")
        if visit.page.evaluate("document.activeElement.getAttribute('class')") == "mark":
            break
    # What has the focus can be seen to have it.
    assert visit.page.evaluate("getComputedStyle(document.querySelector('a.mark path')).strokeWidth") == "4px"
    with visit.page.expect_navigation(url="**/change/25"):
        visit.page.keyboard.press("Enter")
    assert visit.wrong == []
    visit.context.close()


def test_an_editor_signs_in_and_changes_an_alert(browser, site) -> None:
    visit = Visit(browser, site[0], viewport=PHONE, color_scheme="dark")
    visit.to("/account")
    visit.page.get_by_label("Token").fill(site[1])
    visit.click(visit.page.get_by_role("button", name="Sign in"))
    visit.page.wait_for_url("**/")
    visit.to("/alert/1")
    visit.page.get_by_label("Owner").fill("@phone-team")
    visit.click(visit.page.get_by_role("button", name="Assign"))
    visit.page.get_by_label("Note").fill(f"from a phone {HOSTILE}")
    visit.click(visit.page.get_by_role("button", name="Keep the note"))
    text = visit.page.inner_text("main")
    assert "of @phone-team" in text and f"from a phone {HOSTILE}" in text and "by ada" in text
    assert visit.fits()
    visit.page.get_by_label("State").select_option("triaged")
    visit.click(visit.page.get_by_role("button", name="Set the state"))
    assert "what was it found to be" in visit.page.get_by_role("alert").inner_text()
    visit.to("/account")
    visit.click(visit.page.get_by_role("button", name="Sign out"))
    visit.to("/alert/1")
    assert visit.page.get_by_label("Owner").count() == 0
    # The refused form is an answer with an error's code, which a browser notes.
    assert [each for each in visit.wrong if "422" not in each] == []
    visit.context.close()


def test_a_filter_is_a_link_that_others_can_open(browser, site) -> None:
    visit = Visit(browser, site[0], viewport=DESK)
    visit.to("/kernels/nightly")
    visit.page.get_by_label("Kernel or shape").fill("<img")
    visit.page.get_by_label("GPU").select_option("b200")
    visit.click(visit.page.get_by_role("button", name="Show"))
    assert visit.page.url.endswith("gpu=b200") and visit.page.locator("table.rows tbody tr").count() == 1
    assert visit.page.locator("img").count() == 0 and "<img src=x" in visit.page.inner_text("main")
    visit.context.close()


def test_the_files_need_no_server(browser, site) -> None:
    visit = Visit(browser, "file://", viewport=DESK)
    visit.to(str(site[2] / "index.html"))
    assert visit.page.evaluate("getComputedStyle(document.querySelector('.tile')).borderTopWidth") == "3px"
    visit.click(visit.page.get_by_role("link", name="Kernels"))
    visit.click(visit.page.get_by_role("link", name="softmax", exact=True).first)
    visit.click(visit.page.locator("svg.chart a.mark"))
    assert visit.page.url.endswith("/change/25.html") and "long_scoreboard" in visit.page.inner_text("main")
    visit.click(visit.page.get_by_role("link", name="Accuracy"))
    assert "h200" in visit.page.inner_text("main") and visit.wrong == []
    visit.context.close()
