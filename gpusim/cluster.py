"""A Dask cluster that work is given to: how it is reached, and how often work whose worker has died is given to
another.

Needs ``gpusim[dask]`` here, and gpusim of the same version on the workers.
"""

from __future__ import annotations

import importlib
from typing import Any

from gpusim.errors import ToolchainError, UsageError

#: How often a piece of work is given to another worker when the one that had it has died.
RETRIES = 5
CONNECT_SECONDS = 20


def connect(address: str) -> Any:
    """A client of the cluster at ``address``. Raises ToolchainError without Dask, UsageError where nobody answers
    there."""
    try:
        client = importlib.import_module("dask.distributed").Client
    except ImportError:
        raise ToolchainError("--dask needs Dask: pip install 'gpusim[dask]'") from None
    try:
        return client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise UsageError(f"--dask {address}: no scheduler answers there ({type(error).__name__})") from None
