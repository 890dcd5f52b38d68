"""A collector whose file or parts fail says so in one line, and never looks well while it takes nothing."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from pathlib import Path

import msgspec
import pytest
from collect_sender import batch

from gpusim.collect.daemon import Settings, serve
from gpusim.collect.ledger import NAME, Incoming, Ledger
from gpusim.collect.message import forwarded, read_forwarded
from gpusim.collect.totals import of_process
from gpusim.collect.writer import Writer
from gpusim.errors import CollectError, WireError
from gpusim.record import wire


def totals(rows: int) -> list:
    return [of_process(row, 1, "", -1) for row in wire.read_batch(batch(1, rows, 1, 7)[8:]).rows]


def test_a_damaged_file_is_told_whoever_reads_it(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.add([Incoming(b"s", 1, totals(400))])
    ledger.close()
    data = bytearray((tmp_path / NAME).read_bytes())
    data[len(data) // 3 : len(data) * 2 // 3] = b"\x55" * (len(data) * 2 // 3 - len(data) // 3)
    (tmp_path / NAME).write_bytes(data)
    damaged = Ledger(tmp_path)
    for read in (lambda: list(damaged.totals()), lambda: damaged.span(1, 0, 9)):
        with pytest.raises(CollectError, match="cannot be read"):
            read()
    with pytest.raises(CollectError, match="nothing was acknowledged"):
        damaged.add([Incoming(b"s", 2, totals(400))])
    damaged.close()


def test_a_row_is_small_enough_for_every_message() -> None:
    (total,) = totals(1)
    what = msgspec.structs.replace(total.what, kernel="k" * 5000)
    body = msgspec.msgpack.encode([msgspec.structs.replace(total, what=what)])
    with pytest.raises(WireError):
        read_forwarded(wire.FORWARD_COMPRESSED, forwarded(b"c" * 16, 1, body, None)[8:], None)


def test_a_collector_whose_writer_fails_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(self: Writer) -> None:
        raise RuntimeError("of the writer")

    monkeypatch.setattr(Writer, "run", fails)
    folder = Path(tempfile.mkdtemp(prefix="r"))
    with pytest.raises(CollectError, match="of the writer"):
        asyncio.run(asyncio.wait_for(serve(Settings(folder, folder / "s"), lambda line: None), 20))
    assert not (folder / "s").exists()


def test_a_place_that_is_taken_is_told() -> None:
    folder = Path(tempfile.mkdtemp(prefix="r"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        settings = Settings(folder, folder / "s", listen=place, token=b"sixteen bytes ok")
        with pytest.raises(CollectError, match="cannot be listened at"):
            asyncio.run(asyncio.wait_for(serve(settings, lambda line: None), 20))
