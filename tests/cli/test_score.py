"""duet score: what it prints and writes, and one line for a mistake."""

import csv
import json
from dataclasses import replace

import pytest

from duet.cli import main
from duet.evaluation import SIZES, Sizes

from ..evaluation.test_stored_features import features, write

SMALL = Sizes(train=80, test=40, images=10, few=4, sweep=6, copies=6, queries=2, probe=30, views=3)


@pytest.fixture(autouse=True)
def _small(tmp_path, monkeypatch):
    monkeypatch.setitem(SIZES, "quick", replace(SMALL))
    monkeypatch.chdir(tmp_path)


def run(capsys, *arguments):
    code = main(["score", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_card_a_page_and_the_features(capsys, tmp_path):
    names = (
        "digits-rot360",
        "--data",
        "digits",
        "--group",
        "rot360",
        "--sizes",
        "quick",
        "--layers",
        "body.blocks.0",
        "*.stem",
    )
    code, out, err = run(capsys, *names, "--out", "card.json", "--html", "card.html", "--features", "f.csv")
    assert code == 0, err
    assert out.splitlines()[0] == "rot360, on digits"
    assert "pixels (rival)" in out
    assert "written to card.html" in out
    card = json.loads((tmp_path / "card.json").read_text())
    final = [row["encoder"] for row in card["rows"] if row["layer"] is None]
    assert final == ["digits-rot360", "pixels", "untrained digits-rot360", "patches"]
    layers = [row["layer"] for row in card["rows"] if row["layer"] is not None]
    assert layers == [f"body.{name} ({kind})" for name in ("stem", "blocks.0") for kind in ("pooled", "grid")]
    assert card["protocol"]["groups"][0]["corners"] == "circle"
    rows = list(csv.DictReader((tmp_path / "f.csv").open()))
    own = [row for row in rows if row["encoder"] == "digits-rot360" and not row["layer"]]
    assert len(own) == 128
    assert 0 <= float(own[-1]["share"]) <= float(own[0]["share"]) <= 1
    assert "<title>digits-rot360 on digits</title>" in (tmp_path / "card.html").read_text()


def test_corners_and_rivals_are_choices(capsys, tmp_path):
    line = ("pixels", "untrained:tiny", "--data", "digits", "--group", "rot360", "--sizes", "quick", "--no-rivals")
    code, _, _ = run(capsys, *line, "--corners", "zero", "--out", "card.json")
    assert code == 0
    card = json.loads((tmp_path / "card.json").read_text())
    assert [row["encoder"] for row in card["rows"]] == ["untrained:tiny", "pixels"]
    assert card["protocol"]["groups"][0]["corners"] == "zero"


def test_a_file_of_features(capsys, tmp_path):
    z, g = features(images=60, views=3, noise=0.2)
    write(tmp_path / "features.parquet", z, g)
    code, out, err = run(capsys, "features.parquet", "--group", "rot360", "--features", "f.csv")
    assert code == 0, err
    assert "features.parquet, g shuffled (rival)" in out
    assert len((tmp_path / "f.csv").read_text().splitlines()) == 1 + z.shape[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pixels", "--group", "rot360"], "--data"),
        (["pixels", "--data", "digits"], "--group"),
        (["pixels", "--data", "digits", "--group", "rotation"], "did you mean 'rot360'?"),
        (["pixels", "--data", "digits", "--group", "rot360", "--sizes", "quik"], "did you mean 'quick'?"),
        (["pixels", "--data", "digits", "--group", "rot360", "--out", "card.txt"], "should end in .json"),
        (["pixels", "--data", "digits", "--group", "rot360", "--html", "card"], "should end in .html"),
        (["digits-rot360", "--data", "digits", "--group", "hue"], "hue changes nothing"),
        (["untrained:smal", "--data", "digits", "--group", "rot360"], "did you mean 'small'?"),
        (["patches:800/0", "--data", "digits", "--group", "rot360"], "say patches, patches:800 or patches:800/256"),
        (["none.parquet", "--group", "rot360"], "none.parquet"),
        (
            ["digits-rot360", "--data", "digits", "--group", "rot360", "--layers", "body.block.1"],
            "did you mean 'body.blocks.1'?",
        ),
        (["timm:resnet18", "--data", "digits", "--group", "rot360"], "timm"),
    ],
)
def test_a_mistake_is_one_line_and_code_two(capsys, tmp_path, arguments, message):
    code, _, err = run(capsys, *arguments)
    assert code == 2
    line = [text for text in err.splitlines() if text.startswith("duet")][-1]
    assert message in line
    assert "Traceback" not in err
    assert not list(tmp_path.iterdir())
