"""Mutations of CSV: cells, columns and rows; names of the header among them."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from random import Random

from fuzzing.byte_mutations import NUMBERS, WORDS, encoded, mutate_text


def mutate_table(data: bytes, rng: Random, others: Sequence[bytes]) -> bytes:
    """Another table; a third of the time another text."""
    if rng.random() < 0.3:
        return mutate_text(data, rng, others)
    text = data.decode("utf-8", "replace")
    mark = max(",;\t", key=text.count)
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=mark))
    except csv.Error:
        return mutate_text(data, rng, others)
    for _ in range(rng.choice((1, 1, 2, 3))):
        _mutate_rows(rows, rng)
    out = io.StringIO(newline="")
    writer = csv.writer(
        out,
        delimiter=rng.choice((mark, mark, mark, ",", ";", "\t")),
        quoting=rng.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL)),
        lineterminator=rng.choice(("\n", "\n", "\r\n", "\r")),
    )
    writer.writerows(rows)
    return encoded(out.getvalue())


def _mutate_rows(rows: list[list[str]], rng: Random) -> None:
    full = [row for row in rows if row]
    if not full:
        rows.append(["kernel", "time_us"])
        return
    row = rng.choice(full[:2] if rng.random() < 0.4 else full)
    column = rng.randrange(len(row))
    what = rng.randrange(7)
    if what == 0:
        row[column] = rng.choice((*NUMBERS, *WORDS))
    elif what == 1:
        row[column] = rng.choice(rng.choice(full))
    elif what == 2:
        for each in full:  # a column of all rows goes
            del each[column : column + 1]
    elif what == 3:
        for each in full:
            each.insert(column, each[rng.randrange(len(each))] if each else "")
    elif what == 4:
        del row[column]
    elif what == 5:
        row.insert(column, rng.choice(WORDS))
    else:
        rows.insert(rng.randrange(len(rows) + 1), list(row))
