"""The collector's parts together, until a signal ends it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gpusim.collect.ageing import Ages
from gpusim.collect.capture import QUIET_S, Captures
from gpusim.collect.exposition import send_opentelemetry, serve_prometheus
from gpusim.collect.forward import Forwarder
from gpusim.collect.ledger import Ledger
from gpusim.collect.server import Connections, listening_socket
from gpusim.collect.writer import Writer
from gpusim.errors import CollectError
from gpusim.record.wire import MOST_FRAME_BYTES


@dataclass(frozen=True)
class Settings:
    """``listen``: "HOST:PORT" for other collectors, which needs a token. ``forward``: the next one.
    ``metrics``: "HOST:PORT" that Prometheus asks. ``otlp``: URL that OpenTelemetry's metrics are sent to.
    ``coarse``: forward what was launched, not on which GPU."""

    folder: Path
    socket: Path
    listen: str | None = None
    forward: str | None = None
    token: bytes | None = None
    all_users: bool = False
    period_s: float = 10.0
    most_pages: int | None = None
    ages: Ages = field(default_factory=Ages)
    metrics: str | None = None
    otlp: str | None = None
    coarse: bool = False


async def serve(settings: Settings, say: Callable[[str], None]) -> None:
    """Run until SIGINT or SIGTERM. Raises CollectError."""
    ledger = Ledger(settings.folder, settings.forward is not None, settings.most_pages, settings.coarse)
    writer = Writer(ledger, settings.ages, say)
    captures = Captures(settings.folder)
    connections = Connections(writer, settings.token, captures)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    unix = listening_socket(settings.socket, settings.all_users)
    servers = [await asyncio.start_unix_server(connections.process, sock=unix, limit=MOST_FRAME_BYTES // 4)]
    if settings.listen is not None:
        if not settings.token:
            raise CollectError("--listen takes what others say over the network: give both the same --token FILE")
        host, _, port = settings.listen.rpartition(":")
        try:
            servers.append(await asyncio.start_server(connections.collector, host.strip("[]") or None, int(port)))
        except (OSError, OverflowError) as error:
            raise CollectError(f"{settings.listen} cannot be listened at: {error}") from error
    tasks = [asyncio.create_task(writer.run()), asyncio.create_task(_complete(captures, writer))]
    forwarder = None
    if settings.forward is not None:
        forwarder = Forwarder(writer, settings.forward, settings.token, settings.period_s)
        tasks.append(asyncio.create_task(forwarder.run()))
    ends = _expose(settings, writer, connections, captures, forwarder)
    for server in servers[1:]:
        say(f"takes other collectors at {server.sockets[0].getsockname()[:2]}")
    say(f"collects at {settings.socket} (Ctrl-C ends it)")
    ended = await _first(stop, tasks)
    for server in servers:
        server.close()
    for end in ends:
        await asyncio.to_thread(end)
    for task in tasks:
        task.cancel()
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await task
    settings.socket.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        captures.end_quiet(0)
    ledger.close()
    say(
        f"{writer.batches} batches, {writer.repeated} of them again, {writer.failed} not written, {connections.refused} refused, {captures.events} launches captured"
    )
    if ended is not None:
        raise CollectError(f"the collector has ended, as a part of it failed: {ended!r}")


async def _first(stop: asyncio.Event, tasks: list[asyncio.Task[None]]) -> BaseException | None:
    """What ended a task before somebody asked to stop: a daemon that listens and writes nothing would look well."""
    stopping = asyncio.create_task(stop.wait())
    done, _ = await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    return next((task.exception() for task in tasks if task in done), None)


async def _complete(captures: Captures, writer: Writer) -> None:
    while True:
        await asyncio.sleep(QUIET_S / 3)
        try:
            await writer.ask(captures.end_quiet)
        except OSError as error:
            writer.on_error(f"a capture cannot be completed: {error.strerror}")


def _expose(
    settings: Settings, writer: Writer, connections: Connections, captures: Captures, forwarder: Forwarder | None
) -> list[Callable[[], None]]:
    """Begin what monitoring was asked for; how each is ended."""
    meter = writer.meter
    meter.gauges = [
        ("gpusim_processes", "Processes that are connected", False, lambda: len(connections.processes)),
        ("gpusim_batches", "Batches written", True, lambda: writer.batches),
        ("gpusim_repeated_batches", "Batches that came again", True, lambda: writer.repeated),
        ("gpusim_failed_batches", "Batches that the disk did not take", True, lambda: writer.failed),
        ("gpusim_refused_connections", "Connections ended for what they said", True, lambda: connections.refused),
        ("gpusim_captured_events", "Events of full captures written", True, lambda: captures.events),
        (
            "gpusim_forwarded_bytes",
            "Bytes sent to the next collector",
            True,
            lambda: forwarder.sent_bytes if forwarder else 0,
        ),
        (
            "gpusim_waiting_messages",
            "Messages for the next collector",
            False,
            lambda: forwarder.waiting if forwarder else 0,
        ),
    ]
    ends: list[Callable[[], None]] = []
    if settings.metrics is not None:
        ends.append(serve_prometheus(meter, settings.metrics))
    if settings.otlp is not None:
        ends.append(send_opentelemetry(meter, settings.otlp))
    return ends
