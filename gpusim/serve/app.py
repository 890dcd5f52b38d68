"""The dashboard as an ASGI application: which page an address is of, and what an editor may do.

Mental model: reading is asking for a page, which is kept for as long as the store has not changed; it is the same for
everybody but an editor, whose alerts have forms. Writing is a form of an alert, sent by an editor with the value of
their session. Whatever a store's names or an address hold is a text: numbers are parsed by the routes, names are
compared, never put into a statement or a path of a file.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from urllib.parse import parse_qsl

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from gpusim.errors import GpusimError, StoreError, UnknownAlertError
from gpusim.serve import address, alert_forms, pages
from gpusim.serve.address import ServerLinks
from gpusim.serve.board import Board, Stamp, asset
from gpusim.serve.failures import Failures
from gpusim.serve.guard import Guard
from gpusim.serve.page_cache import Kept, PageCache, as_kept
from gpusim.serve.refused import RefusedError
from gpusim.serve.sessions import COOKIE, FORM_COOKIE, SESSION_SECONDS, Sessions, Visitor
from gpusim.serve.tokens import TokenFile
from gpusim.store.store import Store

#: Pages that are made at once: drawing and rendering share an interpreter, and SQLite's connections are five.
MOST_AT_ONCE = 4
MOST_FIELDS = 20
ASSETS = {"board.css": "text/css; charset=utf-8", "icon.svg": "image/svg+xml"}
_LINKS = ServerLinks()
_LOG = logging.getLogger("uvicorn.error")
_HTML = "text/html; charset=utf-8"
#: Path -> its page, and the filters that it knows.
_PAGES: Sequence[tuple[str, Callable[..., str | None], Sequence[str]]] = (
    ("/", pages.today, ("owner",)),
    ("/alerts", pages.alerts, ("state", "plan")),
    ("/alerts/page/{number:int}", pages.alerts, ("state", "plan")),
    ("/kernels/{plan_part}", pages.kernels, ("kernel", "gpu", "toolchain")),
    ("/kernels/{plan_part}/{number:int}", pages.kernels, ("kernel", "gpu", "toolchain")),
    ("/series/{number:int}", pages.series, ()),
    ("/series/{number:int}/change/{position:int}", pages.change, ()),
    ("/gpus/{plan_part}", pages.gpus, ()),
    ("/gpus/{plan_part}/{first_part}/{second_part}", pages.gpu_pair, ()),
    ("/coverage/{plan_part}", pages.coverage, ()),
    ("/accuracy", pages.accuracy, ()),
)


@dataclass(frozen=True)
class ServeOptions:
    """``hosts``: names that the server answers to, all where there are none; ``private``: reading takes a token too;
    ``secure``: the browser reaches it by HTTPS alone."""

    hosts: tuple[str, ...] = ()
    private: bool = False
    secure: bool = False


def make_app(store: Store, tokens: TokenFile | None = None, options: ServeOptions = ServeOptions()) -> Guard:
    """The application for ``store``."""
    return Guard(_Dashboard(store, tokens, options).app, options.hosts)


class _Dashboard:
    def __init__(self, store: Store, tokens: TokenFile | None, options: ServeOptions) -> None:
        self._board, self._options = Board(store), options
        self._sessions = Sessions(tokens, Failures())
        self._cache = PageCache()
        self._limiter: anyio.CapacityLimiter | None = None
        reading = [Route(path, partial(self._page, page, names)) for path, page, names in _PAGES]
        own = [
            Route("/alert/{number:int}", self._alert),
            Route("/alert/{number:int}/{action}", self._act, methods=["POST"]),
            Route("/account", self._account),
            Route("/account", self._sign_in, methods=["POST"]),
            Route("/account/out", self._sign_out, methods=["POST"]),
            Route("/assets/{name}", self._asset),
        ]
        handlers = {HTTPException: self._http_error, RefusedError: self._refused, GpusimError: self._failed}
        self.app = Starlette(routes=[*reading, *own], exception_handlers=handlers)  # pyright: ignore[reportArgumentType]

    async def _page(self, page: Callable[..., str | None], names: Sequence[str], request: Request) -> Response:
        refused = self._closed(request)
        if refused is not None:
            return refused
        values = {name: value[: pages.LONGEST_FILTER] for name, value in request.query_params.items() if name in names}
        if any("\0" in value for value in values.values()):  # no text of a database has it
            raise HTTPException(400)
        places = _in_range(request.path_params)
        key = (page.__name__, *places.items(), *sorted(values.items()))
        stamp = self._board.fresh_stamp()
        if stamp is None:
            stamp = await self._in_thread(self._board.stamp)
        kept = self._cache.look(key, stamp)
        if kept is None:
            made = partial(page, self._board, _LINKS, **places, **values)
            kept = await self._cache.make(key, partial(self._in_thread, partial(self._kept, made, stamp)))
        return _sent(request, kept)

    async def _alert(self, request: Request, said: str = "", status: int = 200) -> Response:
        refused = self._closed(request)
        if refused is not None:
            return refused
        visitor = self._sessions.visitor(request)
        if not visitor.edits:
            return await self._page(pages.alert, (), request)
        assert visitor.token is not None
        # A bearer token's page has no session for a form to come back to.
        csrf = self._sessions.form_value(visitor.session) if visitor.session else ""
        editor = pages.Editor(visitor.token.name, csrf, said)
        number = _in_range({"number": request.path_params["number"]})
        make = partial(pages.alert, self._board, _LINKS, **number, editor=editor)
        text, found = await self._in_thread(partial(self._text, make))
        # A page with a secret in it is not compressed: what is said beside the secret would show in its size.
        return Response(
            text, status if found == 200 else found, media_type=_HTML, headers={"cache-control": "no-store"}
        )

    async def _act(self, request: Request) -> Response:
        action = alert_forms.ACTIONS.get(request.path_params["action"])
        if action is None:
            raise HTTPException(404)
        visitor = self._sessions.visitor(request)
        fields = await _form(request)
        if visitor.session:
            self._sessions.refuse_forged(request, visitor.session, fields.get("csrf", ""))
        if not visitor.edits:
            raise RefusedError(403 if visitor.token else 401, "only an editor may change an alert; see Account")
        assert visitor.token is not None
        number = request.path_params["number"]
        try:
            await self._in_thread(partial(action, self._board.store, number, visitor.token.name, fields))
        except UnknownAlertError:
            raise HTTPException(404) from None
        except StoreError:
            raise
        except GpusimError as error:
            return await self._alert(request, str(error), 422)
        await self._in_thread(partial(self._board.stamp, now=True))
        return RedirectResponse(_LINKS.page(address.alert(number)), 303)

    async def _account(self, request: Request) -> Response:
        return self._account_page(request, self._sessions.visitor(request))

    def _account_page(self, request: Request, visitor: Visitor, said: str = "", status: int = 200) -> Response:
        nonce = request.cookies.get(FORM_COOKIE) or secrets.token_urlsafe(16)
        csrf = self._sessions.form_value(visitor.session if visitor.token else nonce)
        text = self._board.render("account.html", _LINKS, {
            "who": visitor.token, "csrf": csrf, "tokens": self._sessions.file is not None, "said": said, "here": "account",
            "plan_here": "", "plans": [],
        })  # fmt: skip
        response = Response(text, status, media_type=_HTML, headers={"cache-control": "no-store"})
        self._set_cookie(response, FORM_COOKIE, nonce)
        return response

    async def _sign_in(self, request: Request) -> Response:
        if self._sessions.file is None:
            raise HTTPException(404)
        fields = await _form(request)
        self._sessions.refuse_forged(request, request.cookies.get(FORM_COOKIE, ""), fields.get("csrf", ""))
        try:
            token = self._sessions.check(request, fields.get("token", ""))
        except RefusedError as error:
            return self._account_page(request, Visitor(), error.text, error.status)
        response = RedirectResponse(address.TODAY, 303)
        self._set_cookie(response, COOKIE, self._sessions.begin(token))
        return response

    async def _sign_out(self, request: Request) -> Response:
        fields = await _form(request)
        self._sessions.refuse_forged(request, request.cookies.get(COOKIE, ""), fields.get("csrf", ""))
        response = RedirectResponse(address.TODAY, 303)
        response.delete_cookie(COOKIE)
        return response

    async def _asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in ASSETS:
            raise HTTPException(404)
        return Response(asset(name), media_type=ASSETS[name], headers={"cache-control": "no-cache"})

    def _closed(self, request: Request) -> Response | None:
        """Where reading takes a token, the way to give one."""
        if self._options.private and self._sessions.visitor(request).token is None:
            return RedirectResponse("/account", 303)
        return None

    async def _in_thread(self, work: Callable):
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(MOST_AT_ONCE)
        return await anyio.to_thread.run_sync(work, limiter=self._limiter)

    def _text(self, page: Callable[[], str | None]) -> tuple[str, int]:
        with self._board.store.one_reading():
            text = page()
        return (
            (text, 200)
            if text is not None
            else (self._message("There is no such page", "It may have been deleted."), 404)
        )

    def _kept(self, page: Callable[[], str | None], stamp: Stamp) -> Kept:
        # Compressed in the thread that made it: others are answered meanwhile.
        return as_kept(*self._text(page), stamp)

    def _message(self, title: str, text: str) -> str:
        values = {"title": title, "text": text, "here": "", "plan_here": "", "plans": []}
        return self._board.render("message.html", _LINKS, values)

    def _set_cookie(self, response: Response, name: str, value: str) -> None:
        response.set_cookie(name, value, SESSION_SECONDS, httponly=True, samesite="strict", secure=self._options.secure)

    async def _http_error(self, request: Request, error: HTTPException) -> Response:
        titles = {404: "There is no such page", 405: "This cannot be done here"}
        text = self._message(titles.get(error.status_code, "This is no request"), "")
        return Response(text, error.status_code, media_type=_HTML, headers=dict(error.headers or {}))

    async def _refused(self, request: Request, error: RefusedError) -> Response:
        headers = {401: {"www-authenticate": "Bearer"}, 429: {"retry-after": "60"}}.get(error.status, {})
        return Response(self._message("Refused", error.text), error.status, media_type=_HTML, headers=headers)

    async def _failed(self, request: Request, error: GpusimError) -> Response:
        # The log says where the store is; who reads a page need not know.
        _LOG.error("%s: %s", request.url.path, error)
        text = self._message("The store cannot be read", "Try again in a moment; the log of this server says why.")
        return Response(text, 503, media_type=_HTML, headers={"retry-after": "10"})


async def _form(request: Request) -> dict[str, str]:
    """The fields of a form. Raises RefusedError for what is none."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind != "application/x-www-form-urlencoded":
        raise RefusedError(415, "this is no form")
    body = await request.body()  # as long as the guard lets it be
    try:
        return dict(
            parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
        )
    except ValueError:  # UnicodeError is one
        raise RefusedError(400, "this is no form") from None


def _in_range(values: Mapping[str, int | str]) -> dict[str, int | str]:
    """The parameters of a path. Raises HTTPException (404) for a number that no database keeps."""
    for value in values.values():
        if isinstance(value, int) and not value < 1 << 31:
            raise HTTPException(404)
        if isinstance(value, int) and value == 0 and "position" not in values:
            raise HTTPException(404)
    return dict(values)


def _sent(request: Request, kept: Kept) -> Response:
    headers = {
        "etag": kept.etag,
        "cache-control": "private, no-cache",
        "vary": "accept-encoding, cookie, authorization",
    }
    if kept.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if kept.compressed and "gzip" in request.headers.get("accept-encoding", ""):
        headers["content-encoding"] = "gzip"
        return Response(kept.compressed, kept.status, media_type=_HTML, headers=headers)
    return Response(kept.plain, kept.status, media_type=_HTML, headers=headers)
