"""Has the emulator a row for everything that Numba compiles? A corpus of over a thousand kernels answers.

The corpus is the suite and what numba-cuda's own tests compile, see ``tools/corpus.py``, which prints the
statement for all of it. Every day each test module is compiled for one of the seven architectures (the hash of its
name decides) and of its methods some (again by hash) up to a few kernels each; ``-m nightly`` compiles everything for
all seven.
"""

from __future__ import annotations

import zlib

import pytest

from tools import corpus

#: Of a module's test methods, one in so many is compiled every day.
EVERY = 80
#: And a method is left when it has compiled so many kernels: some compile one for each of fifty types.
MOST = 6
#: Modules that cannot be imported without what they are about.
NEEDS_MORE = {"numba.cuda.tests.cudapy.test_cupy_bfloat16_interop"}
#: Opcodes that are refused still -> (what they belong to, where they occur for sure). A gap that closes must
#: leave this list.
KNOWN_GAPS: dict[str, tuple[str, set[str]]] = {}
#: What cannot be compiled or linked: tests about just that, and 16-bit floats that Turing lacks.
FAILURES = 12
FAILURES_OF_BFLOAT16 = {"sm_75": 60}


def shares() -> dict[str, list[str]]:
    """Architecture -> the modules that are compiled for it every day."""
    dealt: dict[str, list[str]] = {architecture: [] for architecture in corpus.ARCHITECTURES}
    for name in corpus.modules():
        dealt[corpus.ARCHITECTURES[zlib.crc32(name.encode()) % len(dealt)]].append(name)
    return dealt


def statements(dealt: dict[str, list[str]], every: int, most: int = 0) -> dict[str, corpus.Statement]:
    found = {architecture: corpus.Statement() for architecture in dealt}
    for record in corpus.compile_shares(dealt, every, most=most):
        found[record["architecture"]].take(record)
    return found


@pytest.fixture(scope="module")
def today() -> dict[str, corpus.Statement]:
    """Every architecture's share, compiled once for all tests here."""
    return statements(shares(), EVERY, MOST)


def belongs(form: str, opcode: str) -> bool:
    return (form.split()[0] + ".").startswith(opcode + ".")


def gaps(found: corpus.Statement) -> dict[str, str]:
    """The refused forms that are not known gaps, each with its reason and a place."""
    return {
        form: f"{reason}: {found.examples[form]}"
        for form, reason in found.refused.items()
        if not any(belongs(form, gap) for gap in KNOWN_GAPS)
    }


def test_the_corpus_has_the_modules_that_it_is_known_for():
    names = corpus.modules()
    assert len(names) == len(set(names)) > 120
    assert {corpus.SUITE, "numba.cuda.tests.cudapy.test_math", "numba.cuda.tests.cudapy.test_atomics"} <= set(names)
    assert all(len(part) > 5 for part in shares().values())


@pytest.mark.parametrize("architecture", corpus.ARCHITECTURES)
def test_a_share_of_the_corpus_has_no_unsupported_form(today, architecture):
    found = today[architecture]
    assert gaps(found) == {}
    assert set(found.skipped) <= NEEDS_MORE, found.skipped
    assert len(found.modules) + len(found.skipped) == len(shares()[architecture])


def test_the_shares_together_are_as_large_as_they_should_be(today):
    """A collector that has lost its grip finds a handful of kernels, or none."""
    total = corpus.together(today.values())
    assert len(total.cubins) > 20 and total.instructions > 2_000 and len(total.forms) > 150, total.row("all")


@pytest.mark.nightly
@pytest.mark.parametrize("architecture", corpus.ARCHITECTURES)
def test_the_whole_corpus_has_no_unsupported_form(architecture):
    found = statements({architecture: corpus.modules()}, 1)[architecture]
    assert gaps(found) == {}
    assert set(found.skipped) <= NEEDS_MORE, found.skipped
    assert len(found.cubins) > 1000 and found.instructions > 150_000 and len(found.forms) > 700, found.row(architecture)
    assert len(found.failed) < FAILURES + FAILURES_OF_BFLOAT16.get(architecture, 0), found.failed
    for gap, (why, where) in KNOWN_GAPS.items():
        still = architecture not in where or any(belongs(form, gap) for form in found.refused)
        assert still, f"{gap} ({why}) is supported: take it off the list"
