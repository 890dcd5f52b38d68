"""Commits of the repository that a plan watches: their order, what each is, and a checkout of one.

Mental model: the history is the first-parent line of a branch, as a team sees its merges; a commit's position is how
many lie before it on that line, so that it never changes. A checkout is a worktree of its own in a temporary folder,
apart from what the user has open. git does the work; no repository is written but for the worktree's entry, which goes
with it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpusim.errors import HistoryError
from gpusim.io.temporary_folder import temporary_folder

#: Between two fields, which no subject holds.
_BETWEEN = "\x1f"
_FORMAT = _BETWEEN.join(("%H", "%ct", "%an", "%s"))


@dataclass(frozen=True)
class Commit:
    """``position``: how many commits lie before it on its first-parent line; ``time``: the committer's, seconds since
    1970."""

    hash: str
    position: int
    time: int
    author: str
    subject: str


def find_commit(repository: Path, revision: str = "HEAD") -> Commit:
    """The commit that ``revision`` names. Raises HistoryError for none."""
    return commits(repository, _resolve(repository, revision), most=1)[0]


def commits(repository: Path, until: str = "HEAD", since: str | None = None, most: int | None = None) -> list[Commit]:
    """The commits of the first-parent line up to ``until``, after ``since`` where that is given, oldest first, the
    newest ``most`` of them. Raises HistoryError."""
    last = _resolve(repository, until)
    wanted = last if since is None else f"{_resolve(repository, since)}..{last}"
    limit = [] if most is None else [f"--max-count={most}"]
    lines = _git(repository, "log", "--first-parent", f"--format={_FORMAT}", *limit, wanted, "--").splitlines()
    count = int(_git(repository, "rev-list", "--count", "--first-parent", last, "--"))
    found = []
    for back, line in enumerate(lines):
        hash_, time, author, subject = line.split(_BETWEEN, 3)
        found.append(Commit(hash_, count - 1 - back, int(time), author, subject))
    return found[::-1]


@contextlib.contextmanager
def checkout(repository: Path, commit: str) -> Iterator[Path]:
    """A folder that holds ``commit``, gone when the block ends."""
    try:
        with temporary_folder("watch") as folder:  # what killed runs left there goes
            _prune(repository)
            tree = folder / "tree"
            _git(repository, "worktree", "add", "--quiet", "--detach", str(tree), commit)
            try:
                yield tree
            finally:
                with contextlib.suppress(HistoryError):
                    _git(repository, "worktree", "remove", "--force", str(tree))
    finally:
        _prune(repository)


def _prune(repository: Path) -> None:
    """Let git forget checkouts whose folders are gone."""
    with contextlib.suppress(HistoryError):
        _git(repository, "worktree", "prune")


def _resolve(repository: Path, revision: str) -> str:
    if revision.startswith("-"):
        raise HistoryError(f"{revision!r:.80} is no revision")
    try:
        return _git(
            repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"
        ).split()[-1]
    except HistoryError:
        if not (repository / ".git").exists():
            _git(repository, "rev-parse", "--git-dir")
        raise HistoryError(f"{repository}: it has no commit {revision!r:.80}; see git log") from None


def _git(repository: Path, *arguments: str) -> str:
    """What git prints. Raises HistoryError with git's own first line."""
    # Neither a hook's variables nor a user's pager or colours reach it.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = _run(["git", "-C", str(repository), *arguments], {**clean, "LC_ALL": "C"})
    except OSError as error:
        raise HistoryError(f"git cannot be run ({error.strerror}); a history needs it installed") from None
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise HistoryError(f"{repository}: {said[-1] if said else 'git ' + arguments[0] + ' failed'}")
    return done.stdout


def _run(command: Sequence[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        env=environment,
        stdin=subprocess.DEVNULL,
        check=False,
    )
