"""What every request has to pass and every response has to say, whatever page it is of.

Mental model: an ASGI layer around the application. A request that is too long, or for a host that this server is not (a
page elsewhere whose name was pointed at this machine), never reaches a page; every response forbids scripts, frames and
whatever lies outside. The pages need no script, so that none may run: a name in the store that looks like one is a
text.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpusim.serve.refused import RefusedError

#: Of path and query together.
LONGEST_TARGET = 4096
MOST_BODY_BYTES = 64 << 10
POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # a form of this server says where it stands
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class Guard:
    """Around ``app``. ``hosts``: names that the server answers to, without ports; all where there are none."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str] = ()) -> None:
        self._app, self._hosts = app, frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        received = 0

        async def guarded_receive() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > MOST_BODY_BYTES:
                raise RefusedError(413, "this request is too large")
            return message

        refused = self._refused(scope)
        if refused is not None:
            await refused(scope, receive, guarded_send)
            return
        await self._app(scope, guarded_receive, guarded_send)

    def _refused(self, scope: Scope) -> PlainTextResponse | None:
        headers = Headers(scope=scope)
        target = len(scope.get("raw_path") or scope["path"].encode()) + len(scope["query_string"])
        if target > LONGEST_TARGET:
            return PlainTextResponse("this address is too long\n", 414)
        length = headers.get("content-length", "0")
        if not length.isdecimal() or len(length) > 12 or int(length) > MOST_BODY_BYTES:
            return _too_large()
        if self._hosts and _host(headers.get("host", "")) not in self._hosts:
            return PlainTextResponse("this server is not called so; gpusim serve --allow-host NAME\n", 421)
        return None


def _too_large() -> PlainTextResponse:
    return PlainTextResponse("this request is too large\n", 413, {"connection": "close"})


def _host(header: str) -> str:
    """The name or address in a Host header, without its port."""
    if header.startswith("["):
        return header.partition("]")[0].lower() + "]"
    return header.partition(":")[0].lower()
