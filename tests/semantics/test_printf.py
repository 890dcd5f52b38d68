"""What a kernel's ``printf`` prints, against what C prints: the host's C library formats a GPU's output too."""

import struct

import pytest

from gpusim.emulator.printf import format_printf

SIZES = {"d": 8, "q": 8, "Q": 8, "i": 4, "I": 4}


def printed(text: str, *arguments: tuple[str, float]) -> str:
    """The output, with (struct's letter, value) as the compiler puts arguments into its buffer: each aligned to its
    size."""
    buffer = b""
    for kind, value in arguments:
        buffer += bytes(-len(buffer) % SIZES[kind]) + struct.pack(f"<{kind}", value)
    output, count = format_printf(text, lambda offset, size: buffer[offset : offset + size], lambda pointer: "text")
    assert count == len(arguments)
    return output


@pytest.mark.parametrize(
    ("text", "arguments", "expected"),
    [
        ("%a %.3a %A", [("d", 1.0), ("d", 3.14), ("d", -0.5)], "0x1p+0 0x1.91fp+1 -0X1P-1"),
        ("%#x %#x %#o", [("I", 0), ("I", 255), ("I", 8)], "0 0xff 010"),
        ("[%.0d] [%05.3d] [%+u]", [("i", 0), ("i", 42), ("I", 5)], "[] [  042] [5]"),
        ("%.*f [%*d]", [("i", -2), ("d", 2.5), ("i", -4), ("i", 7)], "2.500000 [7   ]"),
        ("%05f %F", [("d", float("inf")), ("d", float("nan"))], "  inf NAN"),
        ("%hd %hhu %hhd", [("i", -70000), ("i", 300), ("i", 200)], "-4464 44 -56"),
        ("%lld %llu %zx", [("q", -(2**60)), ("Q", 2**64 - 1), ("Q", 2**40)], "-1152921504606846976 18446744073709551615 10000000000"),
        ("%c%% %s %-6s|", [("i", 65), ("Q", 1), ("Q", 1)], "A% text text  |"),
        ("%p %s", [("Q", 0x1234), ("Q", 0)], "0x1234 (null)"),
    ],
)  # fmt: skip
def test_numbers_look_as_in_c(text: str, arguments: list, expected: str) -> None:
    assert printed(text, *arguments) == expected
