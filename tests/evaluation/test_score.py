"""The score card: who is on it, what it says of whom, and that everybody saw the same."""

import json
import math
import sys

import numpy as np
import pytest
import torch
from PIL import Image

from duet.error import DuetError
from duet.evaluation import Context, Sizes, evaluate, flatten
from duet.evaluation.candidate import find_encoder
from duet.evaluation.card import Card, Row, cell, columns, row_title, shares_as_csv, write_table
from duet.evaluation.score import SCORED, score
from duet.evaluation.sensitivity import group_share
from duet.evaluation.suite import open_splits
from duet.groups import GROUPS

from .test_stored_features import features, write

SMALL = Sizes(images=12, few=4, sweep=6, copies=6, queries=2, probe=40, views=3, centroids=6)
ENCODER = """
import torch

def build(channels):
    torch.manual_seed(3)
    return torch.nn.Sequential(
        torch.nn.Conv2d(channels, 6, 3, stride=2), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten()
    )
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with grey images of two classes, coloured ones without, and a module of the user's."""
    draw = np.random.default_rng(0)
    for number in range(60):
        for folder, mode in (("grey", "L"), ("colour", "RGB")):
            path = tmp_path / folder / ("ab"[number % 2] if mode == "L" else "") / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            shape = (12, 12) if mode == "L" else (12, 12, 3)
            pixels = draw.integers(0, 120, shape, dtype=np.uint8)
            pixels[2 : 6 + 3 * (number % 2), 3:8] = 250
            Image.fromarray(pixels, mode=None).save(path)
    (tmp_path / "mine_to_score.py").write_text(ENCODER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("mine_to_score", None)


def test_a_row_for_everyone_and_their_rivals(place):
    card = score(["mine_to_score:build", "untrained:tiny"], ["rot360", "rot4"], "grey", sizes=SMALL, progress=False)
    names = [(row.encoder, row.group, row.layer, row.rival) for row in card.rows]
    who = [("mine_to_score:build", False), ("untrained:tiny", True), ("pixels", True)]
    who += [("untrained mine_to_score:build", True), ("patches", True)]
    assert names == [(name, group, None, rival) for name, rival in who for group in ("rot360", "rot4")]
    for row in card.rows:
        for name in SCORED:
            assert any(key.startswith(f"{name}/") for key in row.scalars), (row.encoder, name)
        assert set(row.intervals) <= set(row.scalars)
        assert "classification/logistic" in row.intervals
    assert card.rows[0].facts == {"image_size": [12, 12], "channels": 1, "features": 24}
    assert "spectrum/difference_accuracy" in card.rows[1].scalars


def test_patches_by_name_stand_beside_each_other_and_the_default_ones_are_there_once(place):
    names = ["mine_to_score:build", "patches", "patches:5", "patches:5/3"]
    card = score(names, ["rot4"], "grey", sizes=SMALL, progress=False)
    rows = {row.encoder: row.facts for row in card.rows}
    assert list(rows) == [names[0], "patches:5", "patches:5/3", "patches", "pixels", f"untrained {names[0]}"]
    assert [rows[name] for name in names[1:]] == [
        {"centroids": 6, "features": 24},  # as many as the network has
        {"centroids": 5, "features": 20},
        {"centroids": 5, "features": 3},
    ]


def test_its_numbers_are_those_of_the_suite(place):
    card = score(["mine_to_score:build"], ["rot4", "rot360"], "grey", sizes=SMALL, rivals=False, progress=False)
    train, test = open_splits({"source": "grey", "channels": 1})
    groups = {name: GROUPS[name] for name in ("rot4", "rot360")}
    subject = (
        find_encoder("mine_to_score:build", torch.device("cpu"))
        .build(train, groups, torch.device("cpu"), 0, 128)
        .subject
    )
    for row in card.rows:
        own = Context(subject, train, test, groups[row.group], SMALL, groups=(groups[row.group],))
        results = evaluate(own, list(SCORED), rivals=False, progress=False)
        assert row.scalars == pytest.approx(flatten(results), nan_ok=True)


def test_it_is_written_as_plain_values(place):
    card = score(["mine_to_score:build"], ["rot360"], "grey", sizes=SMALL, seed=3, progress=False)
    plain = json.loads(json.dumps(card.to_dict(), allow_nan=False))
    row = plain["rows"][0]
    assert {"encoder", "group", "layer", "scalars", "intervals"} <= set(row)
    assert row["layer"] is None
    low, high = row["intervals"]["spectrum/median_difference_error_degrees"]
    assert low <= row["scalars"]["spectrum/median_difference_error_degrees"] <= high
    protocol = plain["protocol"]
    assert (protocol["data"], protocol["seed"], protocol["views"]) == ("grey", 3, 3)
    assert protocol["sizes"]["images"] == 12
    assert protocol["image_shape"] == [1, 12, 12]
    assert set(protocol["evaluations"]) == set(SCORED)
    assert all(protocol["evaluations"].values())
    assert protocol["groups"][0]["group"] == "rot360"


def test_what_could_not_be_measured_is_null():
    row = Row("a", "rot360", None, {"x/y": math.nan, "x/z": 1.0}, {"x/y": (math.nan, 1.0), "x/z": (0.5, 2.0)})
    assert row.to_dict()["scalars"] == {"x/y": None, "x/z": 1.0}
    assert row.to_dict()["intervals"] == {"x/z": [0.5, 2.0]}


def test_images_are_as_large_as_the_largest_that_somebody_knows(place):
    card = score(["digits-rot360", "pixels"], ["rot360"], "colour", sizes=SMALL, rivals=False, progress=False)
    assert card.protocol["image_shape"] == [3, 28, 28]
    assert [row.rival for row in card.rows] == [False, True]
    assert card.rows[1].facts["features"] == 3 * 7 * 7  # about as many as the other's 128
    small = score(["pixels"], ["hue"], "colour", sizes=SMALL, image_size=8, progress=False)
    assert small.protocol["image_shape"] == [3, 8, 8]
    assert not any(key.startswith(("spectrum", "classification", "robustness")) for key in small.rows[0].scalars)
    assert "equivariance/error_fitted" in small.rows[0].scalars


def test_layers_have_rows_of_their_own(place):
    card = score(
        ["mine_to_score:build"], ["rot360"], "grey", sizes=SMALL, layers=["0", "3"], shares=True, progress=False
    )
    layers = [row for row in card.rows if row.layer is not None]
    assert [row.layer for row in layers] == ["0 (pooled)", "0 (grid)", "3 (pooled)"]
    assert [row.facts["depth"] for row in layers] == [0, 0, 1]
    assert [row.facts["features"] for row in layers] == [6, 96, 24]
    for row in layers:
        assert row.encoder == "mine_to_score:build"
        assert {"spectrum/capacity_1", "classification/knn", "equivariance/sensitivity"} <= set(row.scalars)
    assert [part.layer for part in card.shares] == [None, "0 (pooled)", "0 (grid)", "3 (pooled)", None, None, None]
    with pytest.raises(ValueError, match="no layer '7'"):
        score(["mine_to_score:build"], ["rot360"], "grey", sizes=SMALL, layers=["7"], progress=False)


def test_features_of_a_file_need_no_images(tmp_path):
    z, g = features(images=120, views=3, noise=0.2)
    path = write(tmp_path / "f.parquet", z, g)
    card = score([str(path)], ["rot360"], sizes=SMALL, shares=True)
    assert [(row.encoder, row.rival) for row in card.rows] == [("f.parquet", False), ("f.parquet, g shuffled", True)]
    key = "spectrum/median_difference_error_degrees"
    assert card.rows[0].scalars[key] < 10 < card.rows[1].scalars[key]
    assert card.rows[0].facts == {"images": 120, "views": 3, "features": z.shape[2]}
    assert card.protocol["data"] is None
    assert len(score([str(path)], ["rot360"], sizes=SMALL, rivals=False).rows) == 1
    lines = shares_as_csv(card).splitlines()
    assert lines[0] == "encoder,group,layer,feature,share,variance"
    assert len(lines) == 1 + z.shape[2]
    found = [line.split(",") for line in lines[1:]]
    shares = [float(line[4]) for line in found]
    assert shares == sorted(shares, reverse=True)
    wanted = dict(zip((f"f{i}" for i in range(z.shape[2])), group_share(z.float()).share.tolist(), strict=True))
    assert {line[3]: float(line[4]) for line in found} == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], ["rot360"], "digits"), "at least one encoder"),
        ((["pixels"], [], "digits"), "at least one encoder and one group"),
        ((["pixels"], ["rot360"], None), "--data"),
        ((["pixels"], ["rot36"], "digits"), "did you mean 'rot360'"),
        ((["pixels"], ["rot360"], "no-such-set"), "no-such-set"),
        ((["no-such-model"], ["rot360"], "digits"), "no model 'no-such-model'"),
    ],
)
def test_a_mistake_is_one_line(arguments, message):
    with pytest.raises(ValueError, match=message):
        score(*arguments, sizes=SMALL)


def test_the_table_shows_who_is_whose_rival_with_intervals():
    scalars = {"classification/logistic": 0.9, "spectrum/median_difference_error_degrees": 2.94, "x/y": 1.0}
    intervals = {"classification/logistic": (0.85, 0.95), "spectrum/median_difference_error_degrees": (2.5, 3.5)}
    rows = [
        Row("mine", "rot360", None, scalars, intervals, advice="holds"),
        Row("mine", "rot360", "blocks.0 (grid)", {"classification/knn": 0.5}, {}),
        Row("pixels", "rot360", None, {"classification/logistic": 0.7}, {}, rival=True),
    ]
    text = write_table(Card(rows, {"data": "digits"}))
    lines = text.splitlines()
    assert lines[0] == "rot360, on digits"
    assert lines[2].split("  ")[1] == "mine"
    assert "90.0\N{NO-BREAK SPACE}% [85.0, 95.0]" in lines[2]
    assert "2.9° [2.5, 3.5]" in lines[2]
    assert "mine, blocks.0 (grid)" in lines[3]
    assert "pixels (rival)" in lines[4]
    assert "  mine: holds" in lines
    starts = {
        line.index("accuracy") if "accuracy" in line else line.index("%") - 5 for line in (lines[1], lines[2], lines[4])
    }
    assert len(starts) == 1
    assert cell(rows[1], columns("rot360")[0]) is None
    assert row_title(rows[1]) == "mine, blocks.0 (grid)"


@pytest.mark.parametrize(
    ("encoders", "data", "words"),
    [
        ([torch.nn.Flatten()], "digits", "score takes encoders by name, not a torch.Flatten: write a function"),
        (torch.nn.Flatten(), "digits", "score takes encoders by name, not a torch.Flatten"),
        ([torch.zeros(2, 3)], "digits", "not a torch.Tensor"),
        (["pixels", lambda images: images], "digits", "not a function"),
        (["pixels"], torch.zeros(2, 3, 8, 8), "score takes images by name, not a torch.Tensor: a set's name"),
    ],
)
def test_objects_where_names_are_expected_are_one_clear_line(encoders, data, words):
    with pytest.raises(DuetError, match=words):
        score(encoders, ["rot360"], data)


def test_one_name_is_a_list_of_one():
    with pytest.raises(DuetError, match=r"no encoder 'pixel' .did you mean 'pixels'"):
        score("pixel", "rot360", "digits")
