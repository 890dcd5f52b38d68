"""Names of temporary files and folders that say which process they belong to, so that what a killed one left can be
swept.

Mental model: what becomes ``out.trace`` is first made beside it as ``.out.trace.HOST-SPACE-PID-START.RANDOM``. A
process that is killed with SIGKILL cannot remove it; whoever writes ``out.trace`` next does, if the owner is gone for
certain: nobody has its process number now, or somebody who began at another time. What belongs to another machine (a
network drive), to this one before it was last started, or to another space of process numbers (a container) stays:
nothing is known of its owner.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import secrets
import shutil
import uuid
from pathlib import Path

_MARK = re.compile(r"(?P<host>[0-9a-f]{8})-(?P<space>\d+)-(?P<pid>\d+)-(?P<start>\d+)\.[0-9a-f]{8}(\.part)?")
#: Letters of the target's own name that the temporary one bears: a file system takes 255 bytes.
_MOST_LETTERS = 40


def owned_path(target: Path, suffix: str = "") -> Path:
    """A new name beside ``target`` that bears this process; what processes that are gone left for ``target`` is removed
    first."""
    sweep(target)
    return target.with_name(f"{_prefix(target)}{_mark(os.getpid())}.{secrets.token_hex(4)}{suffix}")


def sweep(target: Path) -> None:
    """Remove what processes that are gone have left beside ``target`` under names of :func:`owned_path`."""
    prefix = _prefix(target)
    with contextlib.suppress(OSError):  # no such folder, or not ours to read: whoever writes there says so
        for entry in list(os.scandir(target.parent)):
            if entry.name.startswith(prefix) and _is_orphan(entry.name[len(prefix) :]):
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
                else:
                    with contextlib.suppress(OSError):
                        os.unlink(entry.path)


def _prefix(target: Path) -> str:
    name = target.name
    if len(name) > _MOST_LETTERS:
        name = f"{name[: _MOST_LETTERS - 9]}~{hashlib.sha256(os.fsencode(name)).hexdigest()[:8]}"
    return f".{name}."


def _mark(pid: int) -> str:
    return f"{_host()}-{_space()}-{pid}-{_start(pid) or 0}"


def _is_orphan(rest: str) -> bool:
    """Whether the owner named by what stands behind the prefix is gone for certain."""
    found = _MARK.fullmatch(rest)
    if found is None or found["host"] != _host() or int(found["space"]) != _space():
        return False
    pid, start = int(found["pid"]), int(found["start"])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # somebody else's: there is such a process
        return False
    now = _start(pid)
    return bool(start) and now is not None and now != start


@functools.lru_cache(maxsize=1)
def _host() -> str:
    """This machine since it was last started (Linux), else its network address."""
    name = _text("/proc/sys/kernel/random/boot_id") or str(uuid.getnode())
    return hashlib.sha256(name.encode()).hexdigest()[:8]


@functools.lru_cache(maxsize=1)
def _space() -> int:
    """The space of process numbers that this process lives in (Linux), else 0."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def _start(pid: int) -> int | None:
    """When the process began, in clock ticks since the machine was started; None where the system (not Linux) does not
    say."""
    fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()  # its name may hold spaces and brackets
    return int(fields[19]) if len(fields) > 19 else None


def _text(path: str) -> str:
    try:
        return Path(path).read_text("utf-8", "replace").strip()
    except OSError:
        return ""
