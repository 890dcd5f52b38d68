"""The environment under which a program is recorded: what is preloaded, and where it sends to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

SOCKET, SALT, CUPTI = "GPUSIM_RECORD_SOCKET", "GPUSIM_RECORD_SALT", "GPUSIM_RECORD_CUPTI"
PRELOAD, NVTX = "LD_PRELOAD", "NVTX_INJECTION64_PATH"


def recording_environment(
    before: Mapping[str, str], library: Path, socket: Path, salt: str | None = None, cupti: bool = True
) -> dict[str, str]:
    """``before`` with what a recorded program needs; what it preloads already stays, behind the recorder."""
    after = dict(before)
    after[PRELOAD] = " ".join(filter(None, (str(library), before.get(PRELOAD))))
    after.setdefault(NVTX, str(library))
    after[SOCKET] = str(socket)
    if salt:
        after[SALT] = salt
    if not cupti:
        after[CUPTI] = "0"
    return after
