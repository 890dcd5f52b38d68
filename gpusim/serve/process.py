"""A process of the server, and the server of one or several of them.

Mental model: the address is bound before any process begins, so that a port that is taken is an error of one line. A
process gets its settings by a variable of the environment, for it is started anew, not forked.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gpusim.errors import ToolchainError, UsageError
from gpusim.io.records import as_record, read_json
from gpusim.store.store import Store, open_store

try:
    import uvicorn

    from gpusim.serve.app import ServeOptions, make_app
    from gpusim.serve.guard import Guard
    from gpusim.serve.tokens import EDITOR, TokenFile
except ImportError as error:  # an extra: say how to get it
    raise ToolchainError(f"the dashboard needs its packages: pip install 'gpusim[serve]' ({error})") from error

VARIABLE = "GPUSIM_SERVE"
#: Headers that are longer are none of a browser's.
MOST_HEADER_BYTES = 32 << 10
#: Connections at a time, of a process; more are told to come again.
MOST_CONNECTIONS = 1000
_BACKLOG = 2048
_APPLICATION = "gpusim.serve.process:application"
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "::1")


@dataclass(frozen=True)
class ServerSettings:
    """``store``: as ``GPUSIM_STORE`` has it, empty for what that says; ``tokens``: a file, empty for none; ``hosts``:
    names beside the machine's own that it answers to."""

    host: str = "127.0.0.1"
    port: int = 8765
    processes: int = 1
    store: str = ""
    tokens: str = ""
    private: bool = False
    behind_proxy: bool = False
    hosts: tuple[str, ...] = ()


def serve(settings: ServerSettings, ready: Callable[[str], object]) -> None:
    """Serve until a signal ends it; ``ready`` is called with the address once it can be reached. Raises UsageError, and
    what the store raises."""
    tokens = _tokens(settings)
    if settings.private and tokens is None:
        raise UsageError("--private needs --tokens FILE: nobody could read")
    with _store(settings) as store:
        if tokens is not None and any(token.role == EDITOR for token in tokens.tokens()):
            store.prepare()  # what an editor could not write fails now
        else:
            with store.reading():
                pass
    os.environ[VARIABLE] = json.dumps(asdict(settings))
    bound = _bound(settings)
    host, port = bound.getsockname()[:2]
    options: dict[str, Any] = {
        "factory": True, "log_level": "warning", "access_log": False, "server_header": False, "lifespan": "off",
        "proxy_headers": settings.behind_proxy, "timeout_keep_alive": 15, "timeout_graceful_shutdown": 5,
        "limit_concurrency": MOST_CONNECTIONS, "backlog": _BACKLOG, "h11_max_incomplete_event_size": MOST_HEADER_BYTES,
        "http": "h11", "ws": "none",
    }  # fmt: skip
    ready(f"http://{f'[{host}]' if ':' in host else host}:{port}/")
    if settings.processes > 1:
        bound.close()  # several processes: uvicorn's own supervisor binds it again, at once
        uvicorn.run(_APPLICATION, host=settings.host, port=port, workers=settings.processes, **options)
    else:
        uvicorn.Server(uvicorn.Config(_APPLICATION, **options)).run(sockets=[bound])


def application() -> Guard:
    """The application of this process, by :data:`VARIABLE`."""
    settings = as_record(ServerSettings, read_json(os.environ.get(VARIABLE, "{}")), VARIABLE, UsageError)
    names = _LOOPBACK if settings.host in _LOOPBACK else ()
    hosts = (*names, settings.host, *settings.hosts) if names or settings.hosts else ()
    return make_app(_store(settings), _tokens(settings), ServeOptions(hosts, settings.private, settings.behind_proxy))


def _store(settings: ServerSettings) -> Store:
    return open_store(settings.store or None)


def _tokens(settings: ServerSettings) -> TokenFile | None:
    return TokenFile(Path(settings.tokens)) if settings.tokens else None


def _bound(settings: ServerSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        bound = socket.create_server((settings.host, settings.port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"{settings.host}:{settings.port}: nothing can be served there ({reason}); give another --port"
        ) from None
    bound.set_inheritable(True)
    return bound
