"""Who may read and who may edit: a file of tokens, of which it knows the hashes alone.

Mental model: a token is 256 random bits, shown once when it is made; so its plain SHA-256 gives nothing away, and no
slow hash is needed. The file also holds the secret that signs sessions: only its owner may read it. It is looked at
again when it has changed, so that a token that is taken away is worth nothing at once.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypedDict

from gpusim.errors import UsageError
from gpusim.io.records import as_record, read_json
from gpusim.io.whole_file import replacing

READER, EDITOR = "reader", "editor"
ROLES = (READER, EDITOR)
VERSION = 1
MOST_BYTES = 1 << 20
MOST_LETTERS = 60
_PREFIX = "gpusim_"


@dataclass(frozen=True)
class Token:
    """``digest``: SHA-256 of the token, hexadecimal; ``made``: a UTC date."""

    name: str
    role: str
    digest: str
    made: str


class _Token(TypedDict):
    name: str
    role: Literal["reader", "editor"]
    sha256: str
    made: str


class _Document(TypedDict):
    gpusim_tokens: int
    secret: str
    tokens: list[_Token]


class TokenFile:
    """The tokens of ``path``, read again whenever it has changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._state: tuple[int, int, int] | None = None
        self._secret, self._tokens = b"", ()
        self.tokens()

    def tokens(self) -> tuple[Token, ...]:
        """Those of now. Raises UsageError for a file that is none, or that others may read."""
        self._refresh()
        return self._tokens

    @property
    def secret(self) -> bytes:
        """What signs sessions."""
        self._refresh()
        return self._secret

    def find(self, token: str) -> Token | None:
        """Whose token it is. Takes as long for a wrong one as for a right one."""
        digest = hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
        found = None
        for each in self.tokens():
            if hmac.compare_digest(each.digest, digest):
                found = each
        return found

    def _refresh(self) -> None:
        try:
            facts = self.path.stat()
        except OSError as error:
            raise UsageError(
                f"{self.path}: tokens cannot be read ({error.strerror}); gpusim watch token makes one"
            ) from None
        state = (facts.st_mtime_ns, facts.st_size, facts.st_ino)
        if state != self._state:
            self._secret, self._tokens = _read(self.path)
            self._state = state


def add_token(path: Path, name: str, role: str) -> str:
    """Make a token of ``role`` for ``name`` in ``path``, which is made if need be; the token, which nobody can read
    there. Raises UsageError."""
    if not name.strip() or not name.isprintable() or len(name) > MOST_LETTERS:
        raise UsageError(f"a token's name is a text of at most {MOST_LETTERS} letters, not {name!r:.80}")
    if role not in ROLES:
        raise UsageError(f"{role!r:.40} is no role; a token is a {READER}'s or an {EDITOR}'s")
    secret, known = _read(path) if path.exists() else (secrets.token_bytes(32), ())
    if any(each.name == name for each in known):
        raise UsageError(f"{path}: there is a token of {name!r} already; take it away first: --revoke")
    token = _PREFIX + secrets.token_urlsafe(32)
    made = Token(name, role, hashlib.sha256(token.encode()).hexdigest(), datetime.now(UTC).date().isoformat())
    _write(path, secret, (*known, made))
    return token


def revoke_token(path: Path, name: str) -> None:
    """Take the token of ``name`` away. Raises UsageError where there is none."""
    secret, known = _read(path)
    left = tuple(each for each in known if each.name != name)
    if len(left) == len(known):
        raise UsageError(f"{path}: it has no token of {name!r:.80}")
    _write(path, secret, left)


def _read(path: Path) -> tuple[bytes, tuple[Token, ...]]:
    try:
        with path.open("rb") as stream:
            mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
            data = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path}: tokens cannot be read ({error.strerror})") from None
    if mode & 0o077:
        raise UsageError(f"{path}: others may read it; chmod 600 {path}")
    if len(data) > MOST_BYTES:
        raise UsageError(f"{path}: too large for a file of tokens")
    try:
        found = as_record(_Document, read_json(data), str(path), UsageError)
        secret = bytes.fromhex(found["secret"])
    except ValueError as error:
        raise UsageError(f"{path}: no file of tokens: {error}") from None
    if found["gpusim_tokens"] != VERSION or len(secret) < 32:
        raise UsageError(f"{path}: no file of tokens of version {VERSION}")
    return secret, tuple(Token(t["name"], t["role"], t["sha256"], t["made"]) for t in found["tokens"])


def _write(path: Path, secret: bytes, tokens: tuple[Token, ...]) -> None:
    rows = [{"name": t.name, "role": t.role, "sha256": t.digest, "made": t.made} for t in tokens]
    text = json.dumps({"gpusim_tokens": VERSION, "secret": secret.hex(), "tokens": rows}, indent=1)
    mask = os.umask(0o077)
    try:
        with replacing(path) as stream:
            stream.write(text.encode() + b"\n")
    except OSError as error:
        raise UsageError(f"{path}: tokens cannot be written ({error.strerror})") from None
    finally:
        os.umask(mask)
