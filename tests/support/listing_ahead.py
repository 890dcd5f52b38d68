"""List the machine code of a test module's kernels with one start of the disassembler an architecture, before the tests run.

Mental model: each test is called once with a ``capture`` (and a ``launch``) that compiles its kernel and does no more. What such a
rehearsal says, and whatever it raises, is nothing; the kernels that it has compiled are listed together
(:func:`gpusim.isa.binary.listing_together.list_together`). The test itself then finds them compiled and listed. A test that
takes other fixtures is not rehearsed: its kernels are listed one by one, as every user's are.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from types import CodeType
from typing import Any
from unittest import mock

import pytest

import gpusim
from gpusim.frontend.registry import front_end_of
from gpusim.isa.binary.cubin import KernelImage
from gpusim.isa.binary.listing_together import list_together
from gpusim.isa.target import make_target

#: Launches of one test that are looked at: there are loops that end by what kernels compute.
MOST_LAUNCHES = 8


class _Enough(BaseException):
    """No handler of a test's own catches it."""


def list_ahead(module: Any, items: list[pytest.Item]) -> int:
    """Rehearse those of ``items`` that are tests of ``module``; the number of kernels that were listed together.

    A test may take its parameters and ``launch``; the latter's ``gpu`` is its parameter. Other tests capture if
    they, or a function of their module that they call, speak of ``capture``.
    """
    images: list[KernelImage] = []
    own = [item for item in items if isinstance(item, pytest.Function) and item.module is module]
    if len(own) > 1:
        for item in own:
            _rehearse(item, images)
    return list_together(images)


def _rehearse(item: pytest.Function, images: list[KernelImage]) -> None:
    given = getattr(item, "callspec", None)
    values = dict(given.params) if given else {}
    launches = 0

    def capture(kernel: Any, grid: Any, block: Any, args: Any, *, gpu: Any, **options: Any) -> None:
        nonlocal launches
        launches += 1
        if launches > MOST_LAUNCHES:
            raise _Enough
        images.append(front_end_of(kernel).compile(kernel, args, make_target(gpu).capability).image)

    if "launch" in values:
        gpu = values["launch"]
        values["launch"] = lambda kernel, grid, block, *args, **options: capture(kernel, grid, block, args, gpu=gpu)
    names = inspect.signature(item.function).parameters
    if not set(names) <= set(values) or not ("launch" in names or _captures(item.function, item.module)):
        return

    def capture_case(case: Any, gpu: Any) -> None:
        for each in case.launches:
            capture(each.kernel, each.grid, each.block, each.args, gpu=gpu)

    stand_ins = {each.__name__: each for each in (capture, capture_case) if hasattr(item.module, each.__name__)}
    with (
        mock.patch.multiple(item.module, **stand_ins) if stand_ins else contextlib.nullcontext(),
        mock.patch.object(gpusim, "capture", capture),
        contextlib.suppress(Exception, _Enough, pytest.skip.Exception, pytest.fail.Exception),
    ):
        item.function(**{name: values[name] for name in names})


def _captures(function: Any, module: Any, calls: int = 2) -> bool:
    """Whether ``function``, or a function of ``module`` that it calls, captures."""
    names = set(_names(function.__code__))
    if not names.isdisjoint({"capture", "capture_case"}):
        return True
    called = (inspect.unwrap(getattr(module, name, None)) for name in names)
    return calls > 0 and any(_captures(each, module, calls - 1) for each in called if inspect.isfunction(each))


def _names(code: CodeType) -> Iterator[str]:
    """The global names and attributes that some code speaks of, its comprehensions and inner functions included."""
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _names(each)
