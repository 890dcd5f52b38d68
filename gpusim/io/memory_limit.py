"""How much memory there is, and a limit that turns too large a shape into an error instead of a killed process.

Mental model: Linux hands out more memory than it has and kills who uses it; nobody is told why. Within
:func:`limited_memory` the process may not take more than is free on the machine, and in its control group, so that the
one allocation that goes too far raises MemoryError where it stands.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

try:
    import resource
except ImportError:  # Windows: it refuses by itself
    resource = None

#: Of the free memory, what one process may take: others live beside it. A guess.
USABLE_SHARE = 0.9
#: Files of a control group (of version 2, of version 1): its limit, and what it holds.
_CONTROL_GROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)

_lock = threading.Lock()
#: The limits that blocks have found, the process's own first: a limit is for all threads, and the last block to end
#: lifts it.
_limits: list[tuple[int, int]] = []


def machine_bytes() -> int:
    """Memory of this machine, or of the control group that the process runs in if that is less."""
    sizes = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for limit, _ in _CONTROL_GROUPS:
        try:
            sizes.append(int(Path(limit).read_text()))
        except (OSError, ValueError):  # no such group, or "max"
            continue
    return min(sizes)


def free_bytes() -> int | None:
    """Memory that could still be taken without anything being killed; None where the system (not Linux) does not
    say."""
    sizes = []
    with contextlib.suppress(OSError, ValueError, KeyError):
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        sizes.append(int(lines["MemAvailable"].split()[0]) * 1024)
    for limit, used in _CONTROL_GROUPS:
        with contextlib.suppress(OSError, ValueError):  # no such group, or "max"
            held = int(Path(used).read_text()) - _droppable_bytes(Path(limit).parent)
            sizes.append(max(0, int(Path(limit).read_text()) - held))
    return min(sizes) if sizes else None


def _droppable_bytes(group: Path) -> int:
    """What a control group holds of files that it would give up first."""
    words = (group / "memory.stat").read_text().split()
    found = dict(zip(words[::2], words[1::2], strict=False))
    return int(found.get("total_inactive_file", found.get("inactive_file", 0)))


@contextlib.contextmanager
def limited_memory() -> Iterator[None]:
    """Within the block, allocations of more than :func:`free_bytes` raise MemoryError, where the system can be told
    so."""
    free = free_bytes()
    if resource is None or free is None:
        yield
        return
    with _lock:
        _limits.append(resource.getrlimit(resource.RLIMIT_DATA))
        soft, hard = _limits[0]
        taken = int(Path("/proc/self/statm").read_text().split()[5]) * os.sysconf("SC_PAGE_SIZE")
        wanted = [
            taken + int(USABLE_SHARE * free),
            *(limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY),
        ]
        resource.setrlimit(resource.RLIMIT_DATA, (min(wanted), hard))
    try:
        yield
    finally:
        with _lock:
            _limits.pop()
            if not _limits:
                resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
