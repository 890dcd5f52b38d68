"""A link that serves packets one by one, messages in turn: brute force, for fabrics of fair flows."""

from __future__ import annotations

from collections import deque

import simpy


def arrivals_by_packets(
    capacity: list[float], messages: list[tuple[float, tuple[int, ...], float]], packet_bytes: float
) -> list[float]:
    """Times of arrival. ``messages``: (when it begins, links in order, bytes). Each link has a queue a message and
    serves one packet of each in turn."""
    environment = simpy.Environment()
    queues: list[dict[int, deque]] = [{} for _ in capacity]
    awake = [environment.event() for _ in capacity]
    ends = [0.0] * len(messages)
    left = [0] * len(messages)

    def put(link: int, message: int, packet: tuple[float, int]) -> None:
        queues[link].setdefault(message, deque()).append(packet)
        if not awake[link].triggered:
            awake[link].succeed()

    def serve(link: int):
        turn: deque[int] = deque()
        while True:
            for message in queues[link]:
                if queues[link][message] and message not in turn:
                    turn.append(message)
            if not turn:
                awake[link] = environment.event()
                yield awake[link]
                continue
            message = turn.popleft()
            size, hop = queues[link][message].popleft()
            yield environment.timeout(size / capacity[link])
            path = messages[message][1]
            if hop + 1 < len(path):
                put(path[hop + 1], message, (size, hop + 1))
            else:
                left[message] -= 1
                ends[message] = environment.now
            if queues[link][message] and message not in turn:
                turn.append(message)

    def begin(message: int):
        start, path, size = messages[message]
        yield environment.timeout(start)
        count = max(1, round(size / packet_bytes))
        left[message] = count
        for _ in range(count):
            put(path[0], message, (size / count, 0))

    for link in range(len(capacity)):
        environment.process(serve(link))
    for message in range(len(messages)):
        environment.process(begin(message))
    environment.run()
    assert not any(left)
    return ends
