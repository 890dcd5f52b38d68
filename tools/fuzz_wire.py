#!/usr/bin/env python3
"""Feed the collector's readers what nobody sends: ``tools/fuzz_wire.py --messages 1000000``.

Messages are drawn from valid ones (changed bytes, cut, grown, joined), from compressed ones that unpack to far more
than they may, and from noise. A reader must return or raise WireError, and must allocate no more than LIMIT_BYTES for
any message. Prints the counts; exit code 1 on anything else.
"""

from __future__ import annotations

import argparse
import random
import struct
import sys
import tracemalloc
from collections import Counter
from pathlib import Path

import msgspec
import zstandard

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from collect_sender import batch, hello

from gpusim.collect.message import MOST_BODY_BYTES, forwarded, mac, read_forwarded
from gpusim.collect.totals import Total, What, of_process, summed
from gpusim.errors import WireError
from gpusim.record import wire

TOKEN = b"sixteen bytes ok"
#: A message is 1 MiB at most, compressed or not; read, the smallest rows that fill one take twenty times that, which is
#: read first of all.
LIMIT_BYTES = 32 << 20
BOMB_BYTES = 32 << 20
#: Of how many messages the memory is followed: that costs ten times the reading.
TRACED = 50


def seeds() -> list[bytes]:
    """Valid frames of every type."""
    rows = wire.read_batch(batch(1, 3, 2, 9)[8:]).rows
    totals = [of_process(row, 0, "", -1) for row in rows]
    named = b"K" + struct.pack("<IQQHIH", 1, 7, 8, 32, 0, 6) + b"kernel"
    event = b"E" + struct.pack("<QIIHHHHHHIIIBBH4x", 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 0)
    event += b"T" + event[1:] + struct.pack("<Q", 5)
    return [
        hello(b"s" * 16), batch(1, 3, 2, 9), batch(2, 12, 1, 9), wire.frame(wire.EVENTS, named + event * 3),
        wire.numbered(wire.ACKNOWLEDGED, 4), wire.numbered(wire.CAPTURE, 10),
        forwarded(b"c" * 16, 1, msgspec.msgpack.encode(totals), TOKEN), signed(wire.FORWARD, msgspec.msgpack.encode(totals)), fullest(),
    ]  # fmt: skip


def refused() -> list[bytes]:
    """Frames that a collector without care would choke on: each under the right token."""
    writer = zstandard.ZstdCompressor(write_content_size=False)
    return [
        forwarded(b"c" * 16, 2, b"\x91" * 100_000, TOKEN),  # lists in lists
        forwarded(b"c" * 16, 2, b"\xdd\xff\xff\xff\xff", TOKEN), signed(wire.FORWARD, b"\xdd\xff\xff\xff\xff"),
        forwarded(b"c" * 16, 3, bytes(BOMB_BYTES), TOKEN),  # says what it unpacks to
        signed(wire.FORWARD_COMPRESSED, writer.compress(bytes(BOMB_BYTES))),  # does not say
        signed(wire.FORWARD_COMPRESSED, b"\x28\xb5\x2f\xfd\xe0" + b"\xff" * 8),  # says 2^64 bytes
    ]  # fmt: skip


def fullest() -> bytes:
    """The most rows that a message can hold."""
    row = msgspec.msgpack.encode([What(0, 1, 0, "", 0, "", "", "", "", (0, 0, 0), (0, 0, 0), 0, 0, 0, "", "")])
    count = (MOST_BODY_BYTES - 5) // len(row)
    return forwarded(b"c" * 16, 4, b"\xdd" + count.to_bytes(4, "big") + row * count, TOKEN)


def signed(kind: int, body: bytes) -> bytes:
    """A frame of a collector with any body, under the right token."""
    told = b"c" * 16 + struct.pack("<Q", 1) + body
    return wire.frame(kind, told + mac(kind, told, TOKEN))


def changed(draw: random.Random, seed: bytes) -> bytes:
    """A message like ``seed``, or none at all."""
    data = bytearray(seed)
    what = draw.random()
    if what < 0.05:
        return draw.randbytes(draw.randrange(200))
    for _ in range(draw.randrange(1, 6)):
        at = draw.randrange(len(data)) if data else 0
        match draw.randrange(4):
            case 0 if data:
                data[at] = draw.randrange(256)
            case 1 if data:
                data[at : at + 4] = struct.pack("<I", draw.choice((0, 1, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF)))
            case 2:
                del data[at : at + draw.randrange(1, 40)]
            case _:
                data[at:at] = draw.randbytes(draw.randrange(1, 20))
    if draw.random() < 0.8 and len(data) >= 8:  # the length is right, so that the payload is read
        data[:4] = struct.pack("<I", len(data) - 8)
        data[4:8] = seed[4:8]
    return bytes(data[:4096])


def read(message: bytes, draw: random.Random) -> str:
    """What the collector does with a message: "taken", or "refused"."""
    try:
        if len(message) < wire.HEADER_BYTES:
            return "refused"
        count, kind = wire.header(message[:8])
        payload = message[8:]
        if count != len(payload):
            return "refused"
        if kind == wire.HELLO:
            wire.read_hello(payload)
        elif kind == wire.BATCH:
            msgspec.msgpack.encode(
                list(summed(of_process(row, 0, "", -1) for row in wire.read_batch(payload).rows).values())
            )
        elif kind == wire.EVENTS:
            wire.read_events(payload)
        elif kind in wire.FORWARDS:
            if draw.random() < 0.5 and len(payload) > 56:  # one who has the token
                payload = signed(kind, payload[24:-32])[8:]
            totals = read_forwarded(kind, payload, TOKEN)[2]
            for total in totals[:100]:
                msgspec.msgpack.decode(msgspec.msgpack.encode(total), type=Total)
        else:
            wire.number_of(payload)
    except WireError:
        return "refused"
    return "taken"


def run(messages: int, seed: int) -> tuple[Counter[str], int]:
    """(outcomes, most bytes that a followed message has allocated)."""
    draw, valid, never, outcomes, most = random.Random(seed), seeds(), refused(), Counter[str](), 0
    for messages_of, outcome in ((valid, "taken"), (never, "refused")):
        for message in messages_of:
            tracemalloc.start()
            assert read(message, random.Random(0)) == outcome
            most = max(most, tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    for number in range(messages):
        message = changed(draw, draw.choice(valid + never))
        if number % TRACED == 0:
            tracemalloc.start()
            outcomes[read(message, draw)] += 1
            most = max(most, tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        else:
            outcomes[read(message, draw)] += 1
    return outcomes, most


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    outcomes, most = run(options.messages, options.seed)
    print(
        f"{options.messages} messages: {dict(outcomes)}; at most {most} bytes allocated for one (limit {LIMIT_BYTES})"
    )
    return 0 if most <= LIMIT_BYTES else 1


if __name__ == "__main__":
    sys.exit(main())
