"""The dashboard as files: whole or not at all, within their folder, and without a server."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest
from board_examples import HOSTILE, board_store
from store_examples import postgres_server

from gpusim.cli import run
from gpusim.errors import UsageError
from gpusim.serve import export, pages
from gpusim.serve.address import FileLinks, ServerLinks, file_of, part
from gpusim.serve.board import Board
from gpusim.serve.export import all_pages, export_pages
from gpusim.store.schema import alerts, cells, commits, refusals, series
from gpusim.store.store import Store

TABLES = (commits, series, alerts, refusals)


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    """Whose plan and one GPU have names that would leave the folder."""
    made = board_store(tmp_path_factory.mktemp("board") / "store.sqlite", kernels=("softmax", "spmv_csr"))
    with made.writing() as connection:
        for table in TABLES:
            connection.execute(table.update().values(plan="../../etc"))
        for table in (series, cells, refusals):
            connection.execute(table.update().where(table.c.gpu == "b200").values(gpu=f"..\\/{HOSTILE}"))
    return made


def test_an_export_is_whole_links_within_itself_and_nowhere_else(store: Store, tmp_path: Path) -> None:
    site = tmp_path / "site"
    count = export_pages(store, site)
    files = sorted(path for path in site.rglob("*.html"))
    assert len(files) == count > 20 and {path.name for path in tmp_path.iterdir()} == {"site"}
    for path in files:
        text = path.read_text()
        assert "<script" not in text and "<form" not in text, path
        links = [unquote(unescape(each)) for each in re.findall(r'(?:href|src)="([^"]*)"', text)]
        assert len(links) > 5
        for link in links:
            there = (path.parent / link.partition("#")[0]).resolve()
            assert link.startswith("#") or there.is_file() and there.is_relative_to(site.resolve()), (path, link)
    assert (site / "index.html").is_file() and (site / "assets" / "board.css").is_file()
    assert site.stat().st_mode & 0o700 == 0o700


def test_an_export_says_what_the_server_says(store: Store) -> None:
    board = Board(store)
    served = pages.series(board, ServerLinks(), 1)
    filed = pages.series(board, FileLinks("/series/1"), 1)
    assert served is not None and filed is not None
    words = [re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", each)).replace("Account ", "") for each in (served, filed)]
    assert words[0] == words[1]


def test_an_export_that_breaks_off_leaves_the_old_one(store: Store, tmp_path: Path, monkeypatch) -> None:
    site = tmp_path / "site"
    export_pages(store, site)
    before = {path: path.read_bytes() for path in site.rglob("*") if path.is_file()}
    made = pages.series

    def broken(board, links, number):
        if number == 3:
            raise OSError(28, "No space left on device")
        return made(board, links, number)

    monkeypatch.setattr(export.pages, "series", broken)
    with pytest.raises(OSError, match="No space"):
        export_pages(store, site)
    assert {path: path.read_bytes() for path in site.rglob("*") if path.is_file()} == before
    assert {path.name for path in tmp_path.iterdir()} == {"site"}


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_new_export_takes_the_place_of_the_old(store: Store, tmp_path: Path, monkeypatch, exchanges: bool) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / export.MARK).touch()
    (site / "gone.html").touch()
    monkeypatch.setattr(export, "all_pages", lambda board: list(all_pages(board))[:3])
    if not exchanges:
        monkeypatch.setattr(export, "_exchanged", lambda first, second: False)
    assert export_pages(store, site) == 3
    assert (site / "index.html").is_file() and not (site / "gone.html").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"site"}


def test_what_is_no_export_is_not_replaced(store: Store, tmp_path: Path, monkeypatch, capsys) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    for name in ("mine", "file", "link"):
        with pytest.raises(UsageError, match=name):
            export_pages(store, tmp_path / name)
    assert (tmp_path / "mine" / "thesis.tex").is_file()
    monkeypatch.setenv("GPUSIM_STORE", str(store.url.database))
    assert run(["watch", "export", str(tmp_path / "mine")]) == 2
    assert "holds something else than an export" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["..", "../a", "a/b", "", ".", "a\0b", "é", "~a", "a" * 70, HOSTILE, "\ud800"])
def test_no_name_leaves_its_folder(name: str) -> None:
    path = file_of(f"/kernels/{part(name)}")
    assert re.fullmatch(r"kernels/~[0-9a-f]{16}\.html", path)


def test_a_server_of_postgresql_shows_the_same(store: Store) -> None:
    with postgres_server() as url:
        board_store(url).close()
        with Store(url) as there:
            served = [(where, page(ServerLinks())) for where, page in all_pages(Board(there))]
    plain = board_store(Path(str(store.url.database)).with_name("plain.sqlite"))
    here = [(where, page(ServerLinks())) for where, page in all_pages(Board(plain))]
    told = [[(where, re.sub(r"store [\w.]+", "", str(text))) for where, text in each] for each in (served, here)]
    assert len(told[0]) > 20 and told[0] == told[1]
