"""Who a request is of: a session's cookie or a bearer token; and the values that a form must bring back.

Mental model: a session is a signed cookie that names a token, so that any process of the server knows it; it ends after
:data:`SESSION_SECONDS`, and with its token. A form carries a value that only this server can make for this session
(CSRF); a request that a browser says comes from another site is refused before that. Comparisons take the same time
whatever differs.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass

from starlette.requests import Request

from gpusim.serve.failures import Failures
from gpusim.serve.refused import RefusedError
from gpusim.serve.tokens import EDITOR, Token, TokenFile

COOKIE, FORM_COOKIE = "gpusim_session", "gpusim_form"
SESSION_SECONDS = 12 * 3600
_LONGEST = 500


@dataclass(frozen=True)
class Visitor:
    """``token``: whose request it is, None for nobody's; ``session``: its cookie, empty for a bearer token."""

    token: Token | None = None
    session: str = ""

    @property
    def edits(self) -> bool:
        """Whether alerts may be changed."""
        return self.token is not None and self.token.role == EDITOR


class Sessions:
    """Sessions by the tokens of ``file``; without one nobody is anybody."""

    def __init__(self, file: TokenFile | None, failures: Failures) -> None:
        self.file, self._failures = file, failures

    def visitor(self, request: Request) -> Visitor:
        """Who asks. Raises RefusedError for a bearer token that is none."""
        if self.file is None:
            return Visitor()
        scheme, _, value = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return Visitor(self.check(request, value.strip()))
        cookie = request.cookies.get(COOKIE, "")
        return Visitor(self._of_cookie(cookie), cookie) if cookie else Visitor()

    def check(self, request: Request, token: str) -> Token:
        """Whose ``token`` it is. Raises RefusedError for nobody's, and after too many of these whatever is given."""
        assert self.file is not None
        client = request.client.host if request.client else ""
        wait_seconds = self._failures.wait_seconds(client)
        if wait_seconds:
            raise RefusedError(429, f"too many wrong tokens; try again in {wait_seconds} s")
        found = self.file.find(token) if len(token) <= _LONGEST else None
        if found is None:
            self._failures.add(client)
            raise RefusedError(401, "this is no token of this server")
        return found

    def begin(self, token: Token) -> str:
        """The cookie of a new session."""
        body = f"{token.digest[:32]}.{int(time.time())}.{secrets.token_hex(8)}"
        return f"{body}.{self._sign('session', body)}"

    def form_value(self, of: str) -> str:
        """What a form must bring back that was given to the session, or to the visitor with the form's cookie,
        ``of``."""
        return self._sign("form", of)

    def refuse_forged(self, request: Request, of: str, value: str) -> None:
        """Raise RefusedError unless a form comes from a page of this server that was given to ``of``."""
        refuse_other_site(request)
        if not of or not hmac.compare_digest(self.form_value(of).encode(), value.encode("utf-8", "replace")):
            raise RefusedError(403, "this form is not of this session; load the page again")

    def _of_cookie(self, cookie: str) -> Token | None:
        body, _, signature = cookie[:_LONGEST].rpartition(".")
        if not hmac.compare_digest(self._sign("session", body).encode(), signature.encode("utf-8", "replace")):
            return None
        digest, begun, _ = body.split(".")
        if not 0 <= time.time() - int(begun) <= SESSION_SECONDS:
            return None
        assert self.file is not None
        return next((token for token in self.file.tokens() if token.digest[:32] == digest), None)

    def _sign(self, purpose: str, text: str) -> str:
        secret = self.file.secret if self.file is not None else b""
        made = hmac.new(secret, f"{purpose}\0{text}".encode("utf-8", "replace"), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(made).decode().rstrip("=")


def refuse_other_site(request: Request) -> None:
    """Raise RefusedError for a request that the browser says another site has made."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    host = request.headers.get("host", "")
    if site not in (None, "same-origin", "none") or origin is not None and origin.partition("://")[2] != host:
        raise RefusedError(403, "this request was made by another site")
