"""The shares of a search, run by the workers of a Dask cluster.

Mental model: a share is a search of its own seed that writes its runs into a folder. On the cluster that is a temporary
one, which holds what was run before; its files come back whole when the share has ended, and are put into the search's
folder once. A worker that dies takes its share with it, and Dask gives that to another one, where the same seed gives
the same runs: none is lost and none counted twice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import as_completed
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from gpusim.cluster import RETRIES
from gpusim.errors import ExecutionError
from gpusim.io.progress import task
from gpusim.io.whole_file import write_whole

RUNS = "runs-*.jsonl"
#: Hypothesis and the emulator keep state of the process, and a Dask worker may have several threads.
_one_at_a_time = threading.Lock()


class Share(NamedTuple):
    """What a share came to: shapes refused, why the last one was, the files with its runs, and the question that they
    answer."""

    refused: int
    refusal: str
    files: Mapping[str, bytes]
    question: str


def run_shares(
    client: Any,
    run: Callable[..., tuple[int, str]],
    ask: Callable[[Any], str],
    plan: Any,
    folder: Path,
    session: str,
    shares: Sequence[int],
    resume: bool,
) -> list[tuple[int, str]]:
    """Run each of ``shares`` (how many examples) of ``plan`` on the cluster of ``client`` by ``run``, and put their
    files into ``folder``; ``ask`` says which question a plan's runs answer. Returns how many shapes each refused, and
    why the last one was. Raises ExecutionError where a worker has another gpusim, or died again and again."""
    # As an argument, not scattered: what lies on a worker alone is gone when it dies.
    earlier = {path.name: path.read_bytes() for path in folder.glob(RUNS)}
    executor = client.get_executor(pure=False, retries=RETRIES)
    futures = {
        executor.submit(_run_share, run, ask, plan, session, (number, len(shares)), share, resume, earlier): number
        for number, share in enumerate(shares)
    }
    refusals: dict[int, tuple[int, str]] = {}
    mine = ask(plan)
    try:
        with task(f"exploring in {len(shares)} shares on the cluster", len(shares), "shares") as shown:
            for future in as_completed(futures):
                error = future.exception()
                if type(error).__name__ == "KilledWorker":  # Dask's, which need not be there
                    raise ExecutionError(
                        f"workers of the cluster died {RETRIES + 1} times with one share of the search: go on with --resume, "
                        "with more --jobs, so that shares are smaller"
                    ) from None
                share = future.result()
                if share.question != mine:
                    raise ExecutionError(
                        "a worker of the cluster has other sources of gpusim, or of the kernels, than this process: "
                        "install the same version there"
                    )
                for name, data in share.files.items():
                    write_whole(folder / name, data)
                refusals[futures[future]] = share.refused, share.refusal
                shown.to(len(refusals))
    finally:
        executor.shutdown(wait=False)  # which cancels what waits
    return [refusals[number] for number in range(len(shares))]


def _run_share(
    run: Callable[..., tuple[int, str]],
    ask: Callable[[Any], str],
    plan: Any,
    session: str,
    worker: tuple[int, int],
    share: int,
    resume: bool,
    earlier: Mapping[str, bytes],
) -> Share:
    """On the cluster: one share, in a folder of its own."""
    with _one_at_a_time, TemporaryDirectory(prefix="gpusim-explore-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        for file, data in earlier.items():
            (folder / file).write_bytes(data)
        refused, refusal = run(plan, folder, session, worker, share, resume)
        files = {path.name: path.read_bytes() for path in folder.glob(RUNS) if path.name not in earlier}
        return Share(refused, refusal, files, ask(plan))
