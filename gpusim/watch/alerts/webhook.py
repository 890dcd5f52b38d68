"""Telling a receiver of events, by JSON over HTTP, in order, until it has taken them.

Mental model: a POST an event, with a key by which the receiver knows it again and a signature by which it knows the
sender. A receiver that is not there, overloaded or at fault is tried again, in this call a few times after growing
pauses, by later calls after longer ones; one that finds fault with an event itself (400, 413, 422) is not asked again
until somebody wants it. Redirects are not followed: the signature is for one receiver.

``X-Gpusim-Signature: sha256=HEX`` is the HMAC-SHA256, by the secret, of the timestamp in ``X-Gpusim-Timestamp``, a dot,
and the body.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import random
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from gpusim import __version__
from gpusim.errors import UsageError
from gpusim.store.store import Store
from gpusim.watch.alerts.deliveries import (
    DELIVERED,
    REFUSED,
    WAITING,
    Delivery,
    claim_due,
    count_deliveries,
    keep_outcome,
    queue_again,
    queue_events,
    release,
)

TIMEOUT_SECONDS = 10.0
#: Attempts at one event in one call, and the first pause between two; each later one is twice as long.
MOST_ATTEMPTS = 3
FIRST_PAUSE_SECONDS = 1.0
#: Before a later call tries again: so long after the first failure, twice as long after each, at most so long.
FIRST_WAIT_SECONDS, MOST_WAIT_SECONDS = 30, 6 * 3600
#: A receiver may ask for a pause (Retry-After); for so long it is kept within the call.
MOST_ASKED_SECONDS = 10.0
#: Answers that speak of the event, not of the receiver or its address.
_FOR_GOOD = (400, 413, 422)


@dataclass
class SendSummary:
    """Events that were ``delivered`` and ``refused`` for good in this call, and that are ``waiting`` after it;
    ``said``: why they are."""

    delivered: int = 0
    refused: int = 0
    waiting: int = 0
    said: str = ""


@dataclass(frozen=True)
class _Answer:
    status: int
    said: str
    pause_s: float = 0.0


def refuse_address(url: str) -> SplitResult:
    """The parts of a receiver's address. Raises UsageError for what is none."""
    try:
        parts = urlsplit(url)
        port_ok = parts.port is None or parts.port > 0
    except ValueError:
        raise UsageError("the webhook's address is none; give https://HOST/PATH") from None
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or not port_ok
        or not url.isprintable()
        or " " in url
    ):
        raise UsageError("the webhook's address is none; give https://HOST/PATH")
    if parts.username or parts.password:
        raise UsageError("the webhook's address holds a password; sign with GPUSIM_WEBHOOK_SECRET instead")
    return parts


def send_events(
    store: Store,
    url: str,
    secret: str,
    *,
    plan: str | None = None,
    improvements: bool = False,
    again: bool = False,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.time,
) -> SendSummary:
    """Tell the receiver at ``url`` of all events it has not been told of. Ends at the first event that it does not take
    now: later ones wait, so that it hears of them in order. ``again``: also what it refused and what is not due yet."""
    parts = refuse_address(url)
    done = SendSummary()
    queue_events(store, url, plan, improvements=improvements)
    if again:
        queue_again(store, url)
    while claimed := claim_due(store, url, int(clock())):
        for index, delivery in enumerate(claimed):
            answer = _attempts(parts, delivery, secret, sleep, clock)
            if 200 <= answer.status < 300:
                keep_outcome(store, delivery, DELIVERED, answer.said, 0)
                done.delivered += 1
            elif answer.status in _FOR_GOOD:
                keep_outcome(store, delivery, REFUSED, answer.said, 0)
                done.refused += 1
                done.said = answer.said
            else:
                wait = min(FIRST_WAIT_SECONDS << min(delivery.attempts, 20), MOST_WAIT_SECONDS)
                later = int(clock()) + wait
                keep_outcome(store, delivery, WAITING, answer.said, later)
                release(store, claimed[index + 1 :], later)
                done.said = answer.said
                done.waiting = count_deliveries(store, url)[WAITING]
                return done
    done.waiting = count_deliveries(store, url)[WAITING]
    return done


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """What ``X-Gpusim-Signature`` holds."""
    return "sha256=" + hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def _attempts(
    parts: SplitResult, delivery: Delivery, secret: str, sleep: Callable[[float], None], clock: Callable[[], float]
) -> _Answer:
    pause = FIRST_PAUSE_SECONDS
    answer = _post(parts, delivery, secret, clock)
    for _ in range(MOST_ATTEMPTS - 1):
        if 200 <= answer.status < 300 or answer.status in _FOR_GOOD:
            break
        sleep(max(min(answer.pause_s, MOST_ASKED_SECONDS), pause * random.uniform(0.5, 1.5)))
        pause *= 2
        answer = _post(parts, delivery, secret, clock)
    return answer


def _post(parts: SplitResult, delivery: Delivery, secret: str, clock: Callable[[], float]) -> _Answer:
    """One attempt; status 0 where no answer came."""
    timestamp = str(int(clock()))
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"gpusim/{__version__}",
        "Idempotency-Key": delivery.key,
        "X-Gpusim-Timestamp": timestamp,
    }
    if secret:
        headers["X-Gpusim-Signature"] = signature(secret, timestamp, delivery.body)
    assert parts.hostname is not None
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname, parts.port, timeout=TIMEOUT_SECONDS)
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", target, delivery.body, headers)
        response = connection.getresponse()
        asked = response.getheader("Retry-After", "")
        pause = float(asked) if asked.isdecimal() and len(asked) < 6 else 0.0
        return _Answer(response.status, f"{parts.hostname} answered {response.status}", pause)
    except ssl.SSLError as error:
        return _Answer(0, f"{parts.hostname}: {error.reason or 'no secure connection'}")
    except (TimeoutError, OSError, http.client.HTTPException) as error:
        said = getattr(error, "strerror", None) or type(error).__name__
        return _Answer(0, f"{parts.hostname}: {said}")
    finally:
        connection.close()
