#!/usr/bin/env python
"""Feeds a reader of gpusim with damaged files and says what it did that it must not: a traceback, a hang, too much
memory.

    tools/fuzz.py TARGET... [--seconds N | --inputs N] [--seed S] [--plain] [--out FOLDER]
    tools/fuzz.py --list

Mental model: for each target a process of its own makes inputs from sound files (structure and all: a trace's hashes
are mended) and has each read; before it reads one it notes it in shared memory, so that one that ends the process is
known too. With atheris (``pip install 'gpusim[fuzz]'``) the search is led by the code that is reached, else by the
outcomes. Each fault is kept once, as the smallest input that shows it, in FOLDER/TARGET; kept in
tests/faults/examples/TARGET it is read by every test run.

Exit code 0 without a fault, 1 with one. Examples:

    tools/fuzz.py cubin --seconds 60
    tools/fuzz.py all --inputs 10000 --seed 7 --plain
"""

from __future__ import annotations

import argparse
import hashlib
import json
import mmap
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support"), str(ROOT / "tools")]

from fuzzing import guided

FAULT = 1
#: Shared with the process that reads: inputs so far, bytes of the present one, and these.
_NOTE = struct.Struct("<QQ")
_NOTE_BYTES = 1 << 19
_TELL_SECONDS = 5.0
#: Address space of a process that reads, beyond which the system refuses memory; its own arrays and libraries are in
#: it.
MOST_ADDRESS_BYTES = 8 << 30


def main() -> int:
    asked = _asked()
    if asked.note is not None:
        return _read(asked)
    from fuzzing.targets import TARGETS

    if asked.list or not asked.targets:
        for target in TARGETS.values():
            print(f"{target.name:12} {target.about}{' (slow)' if target.slow else ''}")
        return 0
    names = list(TARGETS) if asked.targets == ["all"] else asked.targets
    if unknown := [name for name in names if name not in TARGETS]:
        print(f"error: there is no target {unknown[0]!r}; --list names them", file=sys.stderr)
        return 2
    total = faults = 0
    for name in names:
        inputs, found, seconds = _search(name, asked)
        print(f"{name:12} {inputs:9,} inputs {inputs / max(seconds, 1e-9):7,.0f}/s {found} faults", flush=True)
        total, faults = total + inputs, faults + found
    if len(names) > 1:
        print(f"{'all':12} {total:9,} inputs, {faults} faults")
    return FAULT if faults else 0


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="what to read; all for each in turn")
    parser.add_argument("--seconds", type=float, help="for each target (default 60 where --inputs is not given)")
    parser.add_argument("--inputs", type=int, help="for each target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--plain", action="store_true", help="without atheris: the same seed gives the same inputs everywhere"
    )
    parser.add_argument("--out", type=Path, default=Path("fuzz"), help="folder for what is found (default: fuzz)")
    parser.add_argument("--list", action="store_true", help="name the targets")
    parser.add_argument("--note", type=Path, help=argparse.SUPPRESS)  # the process that reads
    asked = parser.parse_args()
    if asked.seconds is None and asked.inputs is None:
        asked.seconds = 60.0
    return asked


def _search(name: str, asked: argparse.Namespace) -> tuple[int, int, float]:
    """Inputs, faults and seconds of a target; a process that an input ends is followed by another."""
    folder = asked.out / name
    begun, total, attempt = time.monotonic(), 0, 0
    left = asked.seconds or float("inf")
    with tempfile.NamedTemporaryFile(prefix="gpusim-fuzz-") as file:
        file.truncate(_NOTE_BYTES)
        note = mmap.mmap(file.fileno(), _NOTE_BYTES)
        while left > 0 and (asked.inputs is None or total < asked.inputs):
            note[: _NOTE.size] = _NOTE.pack(0, 0)
            command = [
                sys.executable,
                __file__,
                name,
                "--note",
                file.name,
                "--seed",
                str(asked.seed + 1000 * attempt),
                "--out",
                str(folder),
            ]
            command += ["--plain"] * asked.plain
            command += ["--seconds", str(left)] if asked.seconds else []
            command += ["--inputs", str(asked.inputs - total)] if asked.inputs else []
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace"
            )
            errors = _wait(process, name, note, begun)
            inputs, size = _NOTE.unpack(note[: _NOTE.size])
            total += inputs
            if process.returncode == 0:
                break
            data = note[_NOTE.size : _NOTE.size + size]
            _keep(folder, f"ends the process: {_death(process.returncode)}", data, errors[-3000:])
            attempt += 1
            left = (asked.seconds or float("inf")) - (time.monotonic() - begun)
    faults = len(list(folder.glob("*.json"))) if folder.is_dir() else 0
    return total, faults, time.monotonic() - begun


def _wait(process: subprocess.Popen[str], name: str, note: mmap.mmap, begun: float) -> str:
    while True:
        try:
            return process.communicate(timeout=_TELL_SECONDS)[1]
        except subprocess.TimeoutExpired:
            inputs, _ = _NOTE.unpack(note[: _NOTE.size])
            print(f"{name}: {inputs:,} inputs in {time.monotonic() - begun:.0f} s", file=sys.stderr)
        except KeyboardInterrupt:
            process.kill()
            raise


def _death(code: int) -> str:
    if code == -signal.SIGPROF:
        return "it did not come back (hang)"
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def _read(asked: argparse.Namespace) -> int:
    """The process that reads, for one target."""
    import resource

    led = not asked.plain and guided.instrument()
    from fuzzing.engine import reader, run
    from fuzzing.minimise import minimised
    from fuzzing.targets import TARGETS

    target = TARGETS[asked.targets[0]]
    resource.setrlimit(resource.RLIMIT_AS, (MOST_ADDRESS_BYTES, MOST_ADDRESS_BYTES))
    asked.out = asked.out.resolve()
    with asked.note.open("r+b") as file:
        note = mmap.mmap(file.fileno(), _NOTE_BYTES)

    def watch(data: bytes, count: int) -> None:
        kept = data[: _NOTE_BYTES - _NOTE.size]
        note[: _NOTE.size + len(kept)] = _NOTE.pack(count + 1, len(kept)) + kept

    def found(fault: str, data: bytes, outcome: Any) -> None:
        _keep(asked.out, fault, data, outcome.detail)

    most_inputs = float("inf") if asked.inputs is None else asked.inputs
    most_seconds = float("inf") if asked.seconds is None else asked.seconds
    if led:
        guided.run_guided(target, asked.seed, most_inputs, most_seconds, watch, found)
    report = run(target, asked.seed, most_inputs, most_seconds, alarm=True, watch=watch, found=found)
    with reader(target) as read:
        for fault, (data, outcome) in report.faults.items():
            small = minimised(data, lambda each, fault=fault: read(each).fault == fault)
            _keep(asked.out, fault, small, outcome.detail)
    return 0


def _keep(folder: Path, fault: str, data: bytes, detail: str) -> None:
    """One input a fault, under the fault's name; what is said of it beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(fault.encode()).hexdigest()[:12]
    (folder / name).write_bytes(data)
    (folder / f"{name}.json").write_text(
        json.dumps({"fault": fault, "bytes": len(data), "detail": detail}, indent=1) + "\n"
    )


if __name__ == "__main__":
    sys.exit(main())
