"""`afo data profile` as users call it."""

import json
from pathlib import Path

import pytest

from afo.data.example import encode
from afo.data.io.tfrecord import RecordWriter
from afo_client.cli.main import run


@pytest.fixture
def data(tmp_path: Path) -> str:
    """Values that are hostile to a page and to a terminal."""
    for name, value in (("train", b"<script>\x1b[2J"), ("eval", b"other")):
        with RecordWriter(str(tmp_path / name)) as writer:
            for number in range(20):
                writer.write(encode({"<b>site": [value], "click": [number % 2], "x": [number / 7]}))
    return str(tmp_path)


def test_in_the_terminal(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "profile", f"{data}/train", "--label", "click", "--eval", f"{data}/eval"]) == 0
    text = capsys.readouterr().out
    assert "20 records of the training data, `click` above 0 in 50.000%; 20 of the evaluation data" in text
    assert "LABEL INFO" in text
    assert "<script>" in text
    assert "\x1b" not in text


def test_without_a_label_there_is_nothing_of_it(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "profile", f"{data}/train"]) == 0
    text = capsys.readouterr().out
    assert "LABEL INFO" not in text
    assert "DRIFT" not in text
    assert run(["data", "profile", f"{data}/train", "--json"]) == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)["features"]] == ["<b>site", "click", "x"]


def test_as_a_page(data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    assert run(["data", "profile", f"{data}/train", "--eval", f"{data}/eval", "--html", str(page)]) == 0
    shown = page.read_text()
    assert "&lt;b&gt;site" in shown
    assert "<script" not in shown
    assert shown.count('class="shifted"') == 1, "the site alone"
    assert run(["data", "profile", f"{data}/train", "--html", data]) != 0, "a directory"
    assert "cannot write" in capsys.readouterr().err
