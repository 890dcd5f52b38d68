"""What one collector sends to the next: totals as MessagePack, compressed, under an HMAC.

Mental model: rows repeat names of kernels that are hundreds of bytes long, so that Zstandard makes a ninth of a message
of rows like those of training (``tools/fleet_plan.py`` measures it). Nothing is unpacked before the HMAC has been
checked, and nothing whose own header does not say that it unpacks to MOST_BODY_BYTES at most: one buffer of that size
is all that a message can make a collector allocate before its rows are looked at. Messages that are not compressed, as
collectors once sent them, are read as before.

Raises WireError for whatever is no such message.
"""

from __future__ import annotations

import hmac
import struct

import msgspec
import zstandard

from gpusim.collect.totals import Total
from gpusim.errors import WireError
from gpusim.record import wire

SOURCE_BYTES, MAC_BYTES = 16, 32
#: Of totals as MessagePack, before compression.
MOST_BODY_BYTES = wire.MOST_FRAME_BYTES
#: Level 9 takes five times as long for 5 % less.
LEVEL = 3
_PREFIX = struct.Struct(f"<{SOURCE_BYTES}sQ")
_totals = msgspec.msgpack.Decoder(list[Total])


def forwarded(source: bytes, number: int, body: bytes, token: bytes | None) -> bytes:
    """A frame: ``body`` a MessagePack list of totals of MOST_BODY_BYTES at most."""
    told = _PREFIX.pack(source, number) + zstandard.ZstdCompressor(level=LEVEL).compress(body)
    return wire.frame(wire.FORWARD_COMPRESSED, told + mac(wire.FORWARD_COMPRESSED, told, token))


def read_forwarded(kind: int, payload: bytes, token: bytes | None) -> tuple[bytes, int, list[Total]]:
    """(source, number, totals) of a message of this type that bears the right HMAC."""
    if len(payload) < _PREFIX.size + MAC_BYTES:
        raise WireError(f"a forwarded message of {len(payload)} bytes")
    told, given = payload[:-MAC_BYTES], payload[-MAC_BYTES:]
    if not hmac.compare_digest(mac(kind, told, token), given):
        raise WireError("a forwarded message under another token")
    source, number = _PREFIX.unpack_from(told)
    body = told[_PREFIX.size :]
    try:
        totals = _totals.decode(_unpacked(body) if kind == wire.FORWARD_COMPRESSED else body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(f"a forwarded message that is none: {error}") from error
    if not all(total.is_sound() for total in totals):
        raise WireError("a forwarded message whose counts contradict each other")
    return source, number, totals


def mac(kind: int, told: bytes, token: bytes | None) -> bytes:
    """What a message ends with. The type is signed with what is compressed, so that one cannot be taken for the
    other."""
    signed = told if kind == wire.FORWARD else bytes([kind]) + told
    return hmac.digest(token or b"", signed, "sha256")


def _unpacked(body: bytes) -> bytes:
    try:
        size = zstandard.get_frame_parameters(body).content_size
        if size > MOST_BODY_BYTES:  # also where it is not told, which is the largest number
            raise WireError(f"a forwarded message of more than {MOST_BODY_BYTES} bytes when unpacked")
        reader = zstandard.ZstdDecompressor(max_window_size=MOST_BODY_BYTES)
        return reader.decompress(body, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise WireError(f"a forwarded message that is not compressed as it says: {error}") from error
