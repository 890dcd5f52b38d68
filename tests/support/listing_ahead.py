"""List the machine code of a test module's kernels with one start of the disassembler an architecture, before the tests run.

Mental model: each test is called once with a ``capture`` (and a ``launch``) that compiles its kernel and does no more. What such a
rehearsal says, and whatever it raises, is nothing; the kernels that it has compiled are listed together
(:func:`gpusim.isa.binary.listing_together.list_together`). The test itself then finds them compiled and listed. A test that
takes other fixtures is not rehearsed: its kernels are listed one by one, as every user's are.
"""

from __future__ import annotations

import contextlib
import inspect
from typing import Any
from unittest import mock

import pytest

from gpusim.frontend.registry import front_end_of
from gpusim.isa.binary.cubin import KernelImage
from gpusim.isa.binary.listing_together import list_together
from gpusim.isa.target import make_target

#: Launches of one test that are looked at: there are loops that end by what kernels compute.
MOST_LAUNCHES = 8
#: What a test calls that captures.
CAPTURING = {"capture", "run"}


class _Enough(BaseException):
    """No handler of a test's own catches it."""


def list_ahead(module: Any, items: list[pytest.Item]) -> int:
    """Rehearse those of ``items`` that are tests of ``module``; the number of kernels that were listed together.

    A test may take its parameters and ``launch``; the latter's ``gpu`` is its parameter. Which tests capture is told by their names:
    they take ``launch``, or speak of ``capture`` or of the module's ``run``.
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
    captures = "launch" in names or not CAPTURING.isdisjoint(item.function.__code__.co_names)
    if not captures or not set(names) <= set(values):
        return
    stand_ins = {"capture": capture} if hasattr(item.module, "capture") else {}
    with (
        mock.patch.multiple(item.module, **stand_ins) if stand_ins else contextlib.nullcontext(),
        contextlib.suppress(Exception, _Enough, pytest.skip.Exception, pytest.fail.Exception),
    ):
        item.function(**{name: values[name] for name in names})
