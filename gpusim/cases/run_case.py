"""A case run as whole: its launches are captured, and then its own check says whether the arrays hold the right result.

Mental model: a time of a kernel that computed nonsense is worth nothing, so whoever captures a case for its figures
captures it here: the check always runs, on the arrays that the emulator wrote, and a wrong result is an error. A case
without a check is said to be not checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpusim.cases.case_forms import GeneratedLaunches, assertion_text
from gpusim.cases.names import is_reference
from gpusim.cases.suite import CaseTrace, capture_case, make_case
from gpusim.errors import UsageError, WrongResultError
from gpusim.gpus.spec import GpuSpec
from gpusim.io.memory_limit import limited_memory
from gpusim.launch.memory import DeviceMemory

NO_CHECK = "the case has no check"
SAMPLED = "sampled: only a few of its blocks were run, or without data"
GIVE_A_CHECK = "return one behind its arguments, (kernel, grid, block, args, check), or as an object's check()"


@dataclass(frozen=True)
class RanCase:
    """``launches`` as :func:`gpusim.cases.suite.capture_case` gives them; ``checked``: whether a check has found their
    result right (a wrong one raises), False where the case has none; ``work`` as the case counts what it does."""

    launches: list[CaseTrace]
    checked: bool
    work: dict[str, float]

    @property
    def why_unchecked(self) -> str:
        """Why nobody knows whether the result is right; empty where the check has said so."""
        if self.checked:
            return ""
        return SAMPLED if not all(launch.trace.has_results for launch in self.launches) else NO_CHECK


def run_case(
    name: str,
    shape: dict[str, Any],
    gpu: GpuSpec,
    *,
    small: bool = False,
    memory: DeviceMemory | None = None,
    folder: Path | None = None,
    instruction_limit: int | None = None,
    sample: bool = False,
) -> RanCase:
    """Make the case of entry ``name`` at ``shape``, capture it and check it; arguments as
    :func:`gpusim.cases.suite.make_case` and :func:`gpusim.cases.suite.capture_case` have them; a case that was captured
    by ``sample`` is not checked. Raises what these do, and WrongResultError."""
    case = make_case(name, shape, gpu, small=small)
    return run_made(case, name, gpu, memory=memory, folder=folder, instruction_limit=instruction_limit, sample=sample)


def run_made(
    case: Any,
    name: str,
    gpu: GpuSpec,
    *,
    memory: DeviceMemory | None = None,
    folder: Path | None = None,
    instruction_limit: int | None = None,
    sample: bool = False,
) -> RanCase:
    """The same for a case that has been made, known as ``name``."""
    launches = capture_case(case, gpu, memory, folder, instruction_limit=instruction_limit, sample=sample)
    computed = all(launch.trace.has_results for launch in launches)
    return RanCase(launches, computed and check_result(case, name, gpu), dict(getattr(case, "work", None) or {}))


def check_result(case: Any, name: str, gpu: GpuSpec) -> bool:
    """Whether the case, all of whose launches have just been captured, has a check. Raises WrongResultError where that
    finds the result wrong."""
    check = getattr(case, "check", None)
    if check is None:
        return False
    try:
        with limited_memory():
            check()
    except AssertionError as error:
        detail = assertion_text(error)
        raise WrongResultError(
            f"{name} on {gpu.name}: the result differs from what its check expects: {detail}"
        ) from error
    except MemoryError:
        raise UsageError(f"{name}: what its check computes does not fit in the memory of this machine") from None
    return True


def unchecked_kernels(names: Iterable[str], gpu: GpuSpec) -> dict[str, str]:
    """Those of ``names`` that have no check, with the reason; those of the suite have one each. Makes the small case of
    the others."""
    return {
        name: NO_CHECK for name in names if is_reference(name) and not may_check(make_case(name, {}, gpu, small=True))
    }


def may_check(case: Any) -> bool:
    """Whether ``case``, which has not run, has a check; of a generator that is known once it has ended."""
    return getattr(case, "check", None) is not None or isinstance(case.launches, GeneratedLaunches)
