"""What is to be done with which launches of a program.

Mental model: every launch is emulated, for its results. Those that the filters choose, as ncu's do, are also simulated,
recorded, checked or explained; a filter counts the launches whose kernel it matches.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gpusim.errors import UsageError
from gpusim.launch.instruction_limit import DEFAULT_INSTRUCTION_LIMIT


@dataclass
class Wanted:
    """``simulate``: predict cycles, in full or, with ``sample``, without the middle of large launches; ``cold``: sweep
    L2 before each. ``explain``: keep what explains each kernel and shape. ``checks`` of
    :mod:`gpusim.sanitizer.findings`.
    ``kernel``: a regular expression that is looked for in kernels' names; of the launches that match, ``skip`` are left
    out and then ``count`` (None: all) taken. ``instruction_limit``: warp instructions after which a launch counts as
    endless."""

    simulate: bool = False
    sample: bool = False
    cold: bool = False
    explain: bool = False
    checks: frozenset[str] = frozenset()
    kernel: str = ""
    skip: int = 0
    count: int | None = None
    instruction_limit: int = DEFAULT_INSTRUCTION_LIMIT
    _pattern: re.Pattern = field(init=False, repr=False)
    _matched: int = field(init=False, default=0, repr=False)

    def __post_init__(self) -> None:
        try:
            self._pattern = re.compile(self.kernel)
        except re.error as error:
            raise UsageError(f"--kernel {self.kernel}: not a regular expression: {error}") from None

    def matches(self, kernel: str) -> bool:
        """Whether the pattern is in ``kernel``'s name."""
        return self._pattern.search(kernel) is not None

    def takes(self, kernel: str) -> bool:
        """Whether the next launch, of ``kernel``, is one of those that are asked for; counts it."""
        if not self.matches(kernel):
            return False
        self._matched += 1
        number = self._matched - self.skip
        return number >= 1 and (self.count is None or number <= self.count)
