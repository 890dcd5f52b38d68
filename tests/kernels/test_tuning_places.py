"""On which GPU a launch for a bare architecture compares its configurations, and that it is said."""

import pytest

from gpusim import tuning
from gpusim.frontend.protocol import Choice
from gpusim.isa.target import make_target


@pytest.mark.parametrize(
    ("gpu", "told"),
    [
        (
            "sm_75",
            "scale for sm_75 on rtx2070; it may choose otherwise on rtx2070_super, rtx2080ti, t4, titan_rtx: name",
        ),
        ("t4", ""),
    ],
)
def test_of_a_bare_architecture_it_is_said_which_gpu_was_taken(gpu, told, monkeypatch, capsys) -> None:
    monkeypatch.setattr(tuning, "_fastest", lambda choice, spec, run: spec.name)
    names = ("rtx2070", "t4")
    choice = Choice("scale", (gpu, "test of places"), {each: each for each in names})
    for _ in range(2):  # said once: the second launch is one like it
        assert tuning.choose(choice, gpu, make_target(gpu), 1, lambda variant: None) == (
            gpu if gpu in names else names[0]
        )
    said = capsys.readouterr().err
    assert told in said and said.count("may choose otherwise") == bool(told)
