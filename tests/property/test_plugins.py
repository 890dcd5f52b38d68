"""Is what another package declares found by name, loaded only when wanted, and blamed by name when it is broken?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_distribution import install, on_path

from gpusim.errors import PluginError
from gpusim.io.plugins import plugins

GROUP = "gpusim.tests"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    """A folder of installed packages of this test alone."""
    with on_path(tmp_path):
        yield tmp_path


def test_own_come_first_then_others_by_name(site: Path) -> None:
    install(site, "stranger", {GROUP: {"b": "stranger_things:B.inner", "a": "stranger_things:missing"}})
    (site / "stranger_things.py").write_text("class B:\n    inner = 7\n")
    found = plugins(GROUP, {"z": "math:pi", "y": "json"})
    assert [(name, plugin.distribution) for name, plugin in found.items()] == [
        ("z", "gpusim"), ("y", "gpusim"), ("a", "stranger"), ("b", "stranger"),
    ]  # fmt: skip
    assert found["b"].load() == 7 and found["z"].load() > 3 and found["y"].load().__name__ == "json"


@pytest.mark.parametrize(
    ("body", "target", "why"),
    [
        ("", "broken_things:missing", "AttributeError.*missing"),
        ("", "no_such_things:x", "ModuleNotFoundError.*no_such_things"),
        ("raise SystemExit(3)", "broken_things:x", "SystemExit: 3"),
        ("1 +", "broken_things:x", "SyntaxError"),
        ("raise ValueError('two\\nlines')", "broken_things:x", "ValueError: two lines"),
    ],
)
def test_a_broken_one_is_named_with_its_distribution(site: Path, body: str, target: str, why: str) -> None:
    install(site, "breaker", {GROUP: {"odd": target}})
    (site / "broken_things.py").write_text(body)
    plugin = plugins(GROUP, {})["odd"]
    with pytest.raises(
        PluginError, match=f"entry point odd = {target} .*distribution breaker: .*{why}.*uninstall"
    ) as caught:
        plugin.load()
    assert "\n" not in str(caught.value) and caught.value.exit_code == 2


def test_two_distributions_may_not_share_a_name(site: Path) -> None:
    install(site, "first", {GROUP: {"same": "math:pi"}})
    install(site, "second", {GROUP: {"same": "math:tau"}})
    with pytest.raises(PluginError, match=r"'same' in gpusim.tests: .*first.* and .*second|second.* and .*first"):
        plugins(GROUP, {})
    with pytest.raises(PluginError, match=r"gpusim \(json:loads\) and first"):
        plugins(GROUP, {"same": "json:loads"})


def test_gpusims_own_metadata_of_another_version_changes_nothing(site: Path) -> None:
    install(site, "GPUsim", {GROUP: {"old": "gone:gone", "now": "gone:gone"}})
    assert {name: plugin.target for name, plugin in plugins(GROUP, {"now": "math:pi"}).items()} == {"now": "math:pi"}
