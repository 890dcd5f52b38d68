#!/usr/bin/env python3
"""Kill collectors at random while processes send, and count what arrives: ``tools/collect_kills.py --kills 200``.

Two collectors, one forwarding to the other, and sending processes whose sums are known. At random times one of the two
is killed (SIGKILL), before that perhaps stopped for a while (a partition: the other sees a peer that does not answer),
or given a full disk for a while (no file may grow: RLIMIT_FSIZE), and started again. At the end every acknowledged
batch must be in both, once. Prints what happened; exit code 1 if a launch is missing or counted twice.
"""

from __future__ import annotations

import argparse
import random
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from collect_sender import Sender

from gpusim.collect.ledger import Ledger

ROWS, LAUNCHES = 5, 3
#: For a batch's acknowledgement, and for what is to arrive at last: a busy machine starts a collector in seconds.
PATIENCE_S = 600.0


class Node:
    """A collector that can be killed and started again."""

    def __init__(self, folder: Path, *options: str):
        self.folder, self.socket = folder, folder / "s"
        self.options = [*options, "--data", str(folder), "--socket", str(self.socket), "--period", "0.05"]
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-c", "from gpusim.cli import main; main()", "collect", "serve", *self.options]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=ROOT)

    def listens(self, patience_s: float = 60.0) -> None:
        """Returns when the collector takes connections. Raises TimeoutError."""
        end = time.monotonic() + patience_s
        while time.monotonic() < end:
            with socket.socket(socket.AF_UNIX) as one:
                try:
                    return one.connect(str(self.socket))
                except OSError:
                    time.sleep(0.01)
        raise TimeoutError(f"the collector of {self.folder} did not start within {patience_s:g} s")

    def full(self, seconds: float) -> None:
        """No file of the collector's grows for a while."""
        endless = resource.RLIM_INFINITY
        for least in (0, endless):
            resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (least, endless))
            if not least:
                time.sleep(seconds)

    def end(self, number: int = signal.SIGKILL) -> None:
        self.process.send_signal(number)
        self.process.wait()


def launches_of(folder: Path) -> int:
    """What a collector that is not running has."""
    ledger = Ledger(folder)
    count = sum(total.launches for total in ledger.totals())
    ledger.close()
    return count


def run(kills: int, processes: int, seed: int) -> tuple[int, int, int, int]:
    """(launches acknowledged, in the first collector, in the second, connections made)."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="k") as name:
        for node in ("a", "b"):
            (Path(name) / node).mkdir()
        head = Node(Path(name) / "b")
        leaf = Node(Path(name) / "a", "--forward", str(head.socket))
        senders = [Sender(leaf.socket, bytes([i]) * 16) for i in range(processes)]
        done = threading.Event()

        def send(sender: Sender) -> None:
            while not done.is_set():
                sender.send(ROWS, LAUNCHES, int(time.time() // 60), PATIENCE_S)
                time.sleep(0.005)

        threads = [threading.Thread(target=send, args=(sender,)) for sender in senders]
        for thread in threads:
            thread.start()
        for _ in range(kills):
            node = draw.choice((leaf, head))
            if draw.random() < 0.7:
                node.listens()
            time.sleep(draw.uniform(0.0, 0.9))  # else also while it starts
            what = draw.random()
            if what < 0.2:
                node.full(draw.uniform(0.0, 0.5))
            elif what < 0.4:
                node.process.send_signal(signal.SIGSTOP)
                time.sleep(draw.uniform(0.0, 0.3))
            node.end()
            node.start()
        done.set()
        for thread in threads:
            thread.join()
        acknowledged = sum(sender.number for sender in senders) * ROWS * LAUNCHES
        for sender in senders:
            sender.close()
        deadline = time.monotonic() + PATIENCE_S
        leaf_count = head_count = 0
        while time.monotonic() < deadline and head_count < acknowledged:
            time.sleep(0.3)
            head_count = launches_of(head.folder)
        for node in (leaf, head):
            node.end(signal.SIGTERM)
        leaf_count, head_count = launches_of(leaf.folder), launches_of(head.folder)
        return acknowledged, leaf_count, head_count, sum(sender.connections for sender in senders)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    acknowledged, leaf, head, connections = run(options.kills, options.processes, options.seed)
    print(
        f"{options.kills} kills, {options.processes} processes, {connections} connections: {acknowledged} launches acknowledged,"
        f" {leaf} in the first collector, {head} in the second"
    )
    return 0 if acknowledged == leaf == head else 1


if __name__ == "__main__":
    sys.exit(main())
