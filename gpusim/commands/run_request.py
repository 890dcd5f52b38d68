"""What ``gpusim run`` was asked for: its options as one value, for who declares the command and for who does the work.

Mental model: click hands them over by name; each stands here once, with what it means for the launches and for the
processes of the program.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpusim.driver.session import Options
from gpusim.driver.wanted import Wanted
from gpusim.sanitizer.checks import checks_of


@dataclass(frozen=True)
class RunRequest:
    """The options of ``gpusim run``, under the names of their parameters; ``checks`` as written, separated by
    commas."""

    gpu: str
    as_module: bool
    simulate: bool
    sample: bool
    cold: bool
    why: bool
    checks: str | None
    kernel: str
    launch_skip: int
    launch_count: int | None
    instruction_limit: int
    record: Path | None
    force: bool
    leak_check: str
    pageable_memory: bool
    devices: int | None
    library_path: bool
    output: Path | None
    form: str
    all_launches: bool
    program: str
    arguments: tuple[str, ...]

    @property
    def simulates(self) -> bool:
        """Whether launches are simulated: what explains them simulates them."""
        return self.simulate or self.why

    @property
    def misplaced(self) -> str:
        """What to tell whoever wrote --simulate behind the program, which got it; else empty."""
        if self.simulates or "--simulate" not in self.arguments:
            return ""
        return (
            f"note: --simulate went to {self.program}, and nothing was simulated: options of gpusim run stand before it"
        )

    @property
    def finds_leaks(self) -> bool:
        """Whether device memory that is left at the end is listed."""
        return self.leak_check == "full"

    def wanted(self) -> Wanted:
        """What is to be done with which launches. Raises UsageError for a check or a pattern that is none."""
        return Wanted(
            self.simulates, self.sample, self.cold, self.why, checks_of(self.checks), self.kernel, self.launch_skip,
            self.launch_count, self.instruction_limit,
        )  # fmt: skip

    def options(self) -> Options:
        """For the processes that the program consists of."""
        gpu = str(Path(self.gpu).resolve()) if Path(self.gpu).is_file() else self.gpu
        return Options(
            gpu, self.simulates, self.sample, self.cold, self.why, tuple(sorted(checks_of(self.checks))), self.kernel,
            self.launch_skip, self.launch_count, self.instruction_limit, str(self.record or ""), self.finds_leaks,
            self.pageable_memory, devices=self.devices or 1,
        )  # fmt: skip
