"""Compiled templates: kept beside their sources like modules, and compiled again when a source changes."""

import sys
from pathlib import Path

import pytest

from coordinator.reports import pages
from coordinator.reports.pages import template


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    path = tmp_path / "page.html.jinja"
    path.write_text("{{ name }} one")
    return path


def drawn(source: Path) -> str:
    template.cache_clear()  # as in another process
    return template(source).render(name="<a>")


def test_a_template_is_compiled_once_and_again_when_it_changes(source: Path) -> None:
    assert drawn(source) == "&lt;a&gt; one"
    (kept,) = (source.parent / "__pycache__").iterdir()
    before = kept.read_bytes()
    assert drawn(source) == "&lt;a&gt; one"
    assert kept.read_bytes() == before
    source.write_text("{{ name }} two")
    assert drawn(source) == "&lt;a&gt; two"
    assert [path.name for path in kept.parent.iterdir()] == [kept.name]
    assert kept.read_bytes() != before


def test_a_damaged_or_missing_compiled_template_is_replaced(source: Path) -> None:
    drawn(source)
    (kept,) = (source.parent / "__pycache__").iterdir()
    whole = kept.read_bytes()
    for damaged in (b"", b"nonsense", whole[:-7]):
        kept.write_bytes(damaged)
        assert drawn(source) == "&lt;a&gt; one"
    kept.unlink()
    kept.mkdir()  # it cannot be written
    assert drawn(source) == "&lt;a&gt; one"
    assert list(kept.parent.iterdir()) == [kept]


def test_nothing_is_kept_where_python_keeps_nothing(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert drawn(source) == "&lt;a&gt; one"
    assert not (source.parent / "__pycache__").exists()


def test_an_installation_compiles_every_template_wherever_it_is(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(pages, "FOLDER", source.parent)
    panel = source.parent / "panels" / "a.html.jinja"
    panel.parent.mkdir()
    panel.write_text("{{ name }}")
    template.cache_clear()
    pages.compile_templates()
    assert [len(list((path.parent / "__pycache__").iterdir())) for path in (source, panel)] == [1, 1]
    assert sys.dont_write_bytecode
