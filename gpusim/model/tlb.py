"""Address translation: which pages an SM's requests may reach at once.

Mental model: each SM has a small cache of page numbers, least recently used in its set. A request to a page
that is there passes; one to another page is held up while the page is looked up elsewhere, and the page is
there from then on. Lookups of different requests overlap, as they do on silicon as far as the published
curves show.

``pages`` is int64[sms, sets, 2 * ways]: first the ways' page numbers + 1 (0 = empty), then each way's last
use. Addresses are byte addresses; :func:`translate` is the one entry, for timed and functional runs.
"""

from __future__ import annotations

import numpy as np

from gpusim.gpus.spec import TlbSpec
from gpusim.model.compiled import compiled
from gpusim.model.whole_division import quotient, remainder

#: Runs of ``sets`` pages are rotated against each other by so many sets, as the L1's are.
ROTATION = 3


def make_pages(spec: TlbSpec, sms: int) -> np.ndarray:
    """Empty TLBs of ``sms`` SMs."""
    return np.zeros((sms, spec.entries // spec.ways, 2 * spec.ways), np.int64)


def page_shift(spec: TlbSpec) -> int:
    """log2 of the page's size."""
    return spec.page_bytes.bit_length() - 1


@compiled
def set_of_page(page: int, sets: int) -> int:
    """The set of a page: neighbouring pages lie in different sets."""
    return remainder(page + quotient(page, sets) * ROTATION, sets)


@compiled
def translate(pages: np.ndarray, sm: int, address: int, shift: int, now: int) -> bool:
    """Whether the page of ``address`` was there; it is afterwards, as the set's latest used one.

    ``now`` is any number that never falls from call to call.
    """
    page = address >> shift
    return use_page(pages, sm, set_of_page(page, pages.shape[1]), page, now)


@compiled
def use_page(pages: np.ndarray, sm: int, row: int, page: int, now: int) -> bool:
    """The same of a page whose set, ``row``, is known."""
    ways = pages.shape[2] >> 1
    victim = 0
    for way in range(ways):
        if pages[sm, row, way] == page + 1:
            pages[sm, row, ways + way] = now
            return True
        if pages[sm, row, way] == 0:
            if pages[sm, row, victim] != 0:
                victim = way
        elif pages[sm, row, victim] != 0 and pages[sm, row, ways + way] < pages[sm, row, ways + victim]:
            victim = way
    pages[sm, row, victim] = page + 1
    pages[sm, row, ways + victim] = now
    return False
