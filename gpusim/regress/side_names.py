"""What the command line may call BASE and HEAD, and whether a text can be that, before anything is opened.

Raises UsageError for what is none of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from gpusim.cases.names import kernel_names, refuse_unknown_request
from gpusim.errors import UsageError
from gpusim.io.nearest import hint
from gpusim.store.known_runs import known_runs

#: The other side's run, simulated again.
NOW = "now"
#: Say which is meant where both a run and a kernel are called so.
RUN, KERNEL = "run:", "kernel:"


def refuse_unknown_sides(texts: Iterable[str]) -> None:
    """Raise for the first of ``texts`` that names nothing, as far as is known without the store's own library: where
    the store takes more than a look at a file, none."""
    known = None
    for text in texts:
        if text == NOW or text.startswith(KERNEL) or Path(text).exists():
            continue
        named = text.removeprefix(RUN)
        if text == named and (":" in text or text in kernel_names()):
            refuse_unknown_request(text)
            continue
        known = known or known_runs()
        if known is None:
            return
        if text != named or text.isdecimal():
            known.refuse_unknown(named)
        elif text not in known.names():
            raise names_nothing(text, known.path, known.names())


def names_nothing(text: str, store: str, runs: Sequence[str]) -> UsageError:
    """What is said of a text that is neither here nor one of the ``runs`` of ``store`` nor a kernel."""
    return UsageError(
        f"{text} is no file, no folder of traces, no run in {store} and no kernel of the suite; "
        + hint(text, [*runs, *kernel_names()], "see gpusim runs list, gpusim kernels list")
    )
