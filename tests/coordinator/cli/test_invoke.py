"""Words of a command line that change before it is parsed."""

import pytest

from coordinator.cli.invoke import with_netns_value


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("run --netns", "run --netns=always"),
        ("run --netns --seed 1", "run --netns=always --seed 1"),
        ("run --netns Never --seed 1", "run --netns Never --seed 1"),
        ("run --netns=auto", "run --netns=auto"),
        ("run a.toml --seed 1", "run a.toml --seed 1"),
        ("", ""),
    ],
)
def test_a_bare_netns_is_always(line: str, expected: str) -> None:
    assert with_netns_value(line.split()) == expected.split()
