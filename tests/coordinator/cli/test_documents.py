"""JSON documents on standard output."""

import json

import pytest

from emunode.terminal import print_json


def test_a_document_is_indented_json(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"label": "é", "rows": [{"steps": 4, "finding": None}]}
    print_json(value)
    text = capsys.readouterr().out
    assert json.loads(text) == value
    assert text.startswith('{\n  "label"')
    assert text.endswith("}\n")
