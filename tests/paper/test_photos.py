"""The photos' model is rebuilt by one call: trained, measured beside its rivals, written, and never done twice."""

import json

import pytest
import torch

from duet import DuetError, load
from duet.paper import photos
from duet.paper.reproduction import Request, find_reproduction

TINY = {
    "trunk": "tests.small_trunk:build",
    "trunk_layers": ["5"],
    "neck": "grid",
    "neck_width": 16,
    "image_size": 16,
    "dim": 32,
    "cached_views": 2,
    "epochs": 1,
    "batch_size": 30,
    "action_pairs": 60,
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Noise that is bright at the top, in two kinds of classes."""
    from PIL import Image

    monkeypatch.setenv("DUET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("duet.training.calibration.LEAST_IMAGES", 5)
    generator = torch.Generator().manual_seed(0)
    for name in ("pet-pug", "scene-sea"):
        (tmp_path / "data" / name).mkdir(parents=True)
        for place in range(60):
            pixels = torch.rand(16, 16, 3, generator=generator) * 0.3
            pixels[2:6, 5:11] += 0.7
            Image.fromarray((255 * pixels).byte().numpy()).save(tmp_path / "data" / name / f"{place}.png")
    return tmp_path


def test_one_call_leaves_the_model_its_numbers_and_its_pictures(folder, monkeypatch):
    found = photos.reproduce_photos(folder / "out", str(folder / "data"), "cpu", **TINY)
    assert json.loads((folder / "out" / "photos-rot360.json").read_text()) == json.loads(json.dumps(found))
    assert {key.split()[0] for key in found["numbers"]} == {"duet", "simclr", "probe"}
    for turned in found["numbers"].values():
        for own in turned.values():
            assert 0 <= own["within_45"] <= 1
            assert 0 <= own["median_degrees"] <= 180
            assert own["images"] == 24
    assert found["numbers"]["probe 1"]["quarters"]["within_45"] > 0.8  # what is up is easily seen
    assert set(found["kinds"]["any"]) == {"pet", "scene"}
    assert load(folder / "out" / "model").turns == 4
    for name in ("worst.png", "angles.png", "photos-rot360.md"):
        assert (folder / "out" / name).stat().st_size > 500
    monkeypatch.setattr(photos, "train", None)  # a second call trains nothing
    assert photos.reproduce_photos(folder / "out", str(folder / "data"), "cpu", **TINY) == found


def test_its_table_has_chance_and_every_reader(folder):
    own = {"median_degrees": 4.44, "within_45": 0.851, "surest_median_degrees": 3.0, "surest_within_45": 0.95}
    told = {
        "numbers": {f"{name} {looks}": {"any": own, "quarters": own} for name in photos.ROWS for looks in photos.LOOKS},
        "kinds": {turned: {"pet": own} for turned in ("any", "quarters")},
        "hardest": [{"class": "object-ball", "images": 7, "within_45": 0.25}],
        "command": "duet train",
        "looks": 4,
    }
    text = photos.table(told)
    assert "| chance | 90.0° | 25.0 % | 25.0 % | 25.0 % | 25.0 % |" in text
    assert "| DUET, four looks | 4.4° | 85.1 % | 95.0 % | 85.1 % | 95.0 % |" in text
    assert text.count("linear probe") == 4
    assert "| DUET, four looks, of pet photos | 4.4° |" in text
    assert "object-ball (25 % of 7)" in text


def test_the_command_says_what_it_would_do(folder, capsys):
    find_reproduction("photos-rot360").run(Request(folder / "never", dry=True))
    said = capsys.readouterr()
    assert "about 20 minutes" in said.err
    assert said.out.splitlines() == [
        "duet train --preset photos --data photos128 --seed 0",
        "duet train --preset photos --data photos128 --seed 0 --method simclr --turns 1",
    ]
    assert not (folder / "never").exists()
    for odd in ({"scale": "paper"}, {"only": ("duet",)}, {"seeds": 3}):
        with pytest.raises(DuetError, match="leave out"):
            find_reproduction("photos-rot360").run(Request(folder / "never", **odd))
