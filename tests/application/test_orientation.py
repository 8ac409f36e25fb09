"""duet orient: copies turned upright where the model is sure, and never a touched original."""

import csv
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from duet.application.orientation import default_threshold
from duet.cli import main
from tests.conftest import make_compass, random_encoder

from .conftest import bearing, marked

ANGLES = (0, 30, 90, 135, 179, -150, -60, -5)


@pytest.fixture
def use(monkeypatch):
    """Let the command load this encoder."""
    return lambda encoder: monkeypatch.setattr("duet.model.load", lambda name, device: encoder)


@pytest.fixture
def scans(tmp_path, compass, use):
    """Marked images at known angles, two folders deep, and a blank one that says nothing."""
    use(compass)
    folder = tmp_path / "scans"
    (folder / "more").mkdir(parents=True)
    for number, angle in enumerate(ANGLES):
        place = folder / "more" if number % 2 else folder
        marked(60, angle).save(place / f"{angle}.png")
    Image.new("L", (50, 30)).save(folder / "blank.png")
    return folder


def read(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def snapshot(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_copies_are_upright_and_originals_untouched(scans, tmp_path, capsys):
    before = snapshot(scans)
    out, table = tmp_path / "out", tmp_path / "angles.csv"
    assert main(["orient", str(scans), "-o", str(out), "--csv", str(table)]) == 0
    assert snapshot(scans) == before
    for path in before:
        copy = out / path.relative_to(scans)
        with Image.open(copy) as image, Image.open(path) as original:
            assert image.size == original.size
            assert image.format == original.format
            if path.stem != "blank":
                assert abs(bearing(image)) < 3, path
    assert "8 of 9 images turned upright" in capsys.readouterr().out


def test_the_table_tells_every_angle_and_which_were_left_alone(scans, tmp_path):
    out, table = tmp_path / "out", tmp_path / "angles.csv"
    assert main(["orient", str(scans), "-o", str(out), "--csv", str(table)]) == 0
    rows = read(table)
    assert list(rows[0]) == ["path", "angle", "spread", "corrected"]
    assert len(rows) == 9
    for row in rows:
        stem = Path(row["path"]).stem
        if stem == "blank":
            assert row["corrected"] == "false"
            assert float(row["spread"]) > 100
            assert (out / "blank.png").read_bytes() == (scans / "blank.png").read_bytes()
        else:
            assert row["corrected"] == "true"
            error = (float(row["angle"]) - float(stem) + 180) % 360 - 180
            assert abs(error) < 3
            assert -180 <= float(row["angle"]) < 180


def test_the_table_alone_writes_no_image(scans, tmp_path):
    before = sorted(os.listdir(tmp_path))
    assert main(["orient", str(scans), "--csv", str(tmp_path / "angles.csv")]) == 0
    assert sorted(os.listdir(tmp_path)) == sorted([*before, "angles.csv"])


def test_the_threshold_decides_what_is_sure(scans, tmp_path):
    corrected = {}
    for threshold in ("10", "50", "200"):
        table = tmp_path / f"{threshold}.csv"
        assert main(["orient", str(scans), "--csv", str(table), "--threshold", threshold]) == 0
        corrected[threshold] = sum(row["corrected"] == "true" for row in read(table))
    assert corrected == {"10": 0, "50": 8, "200": 9}


def test_the_default_threshold_lies_between_certain_and_ignorant(compass):
    axis, group = compass.layout.axes[0], compass.groups["rot360"]
    assert default_threshold(axis, group) == pytest.approx(68.6, abs=0.2)


def test_bad_files_are_named_and_get_no_row(scans, tmp_path, capsys):
    (scans / "zero.png").touch()
    (scans / "text.png").write_text("text")
    table = tmp_path / "angles.csv"
    assert main(["orient", str(scans), "-o", str(tmp_path / "out"), "--csv", str(table)]) == 0
    assert len(read(table)) == 9
    assert "2 of 11 files cannot be read" in capsys.readouterr().err
    assert not (tmp_path / "out" / "zero.png").exists()


def test_quarter_turns_keep_every_pixel_and_swap_the_sides(tmp_path, use):
    use(make_compass(group="rot4"))
    original = marked((60, 40), 90)
    original.save(tmp_path / "wide.png")
    assert main(["orient", str(tmp_path / "wide.png"), "-o", str(tmp_path / "out")]) == 0
    with Image.open(tmp_path / "out" / "wide.png") as image:
        expected = original.transpose(Image.Transpose.ROTATE_270)
        assert np.array_equal(np.asarray(image), np.asarray(expected))


def test_the_camera_orientation_counts_once(tmp_path, compass, use):
    use(compass)
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "maker"  # the camera lay on its side
    upright = marked(60, 30, "RGB")
    upright.transpose(Image.Transpose.ROTATE_90).save(tmp_path / "photo.jpg", exif=exif, quality=95)
    assert main(["orient", str(tmp_path / "photo.jpg"), "-o", str(tmp_path / "out")]) == 0
    with Image.open(tmp_path / "out" / "photo.jpg") as image:
        assert abs(bearing(image)) < 3
        assert image.getexif().get(0x0112, 1) == 1
        assert image.getexif()[0x010F] == "maker"


def test_an_animation_is_copied_as_it_is(tmp_path, compass, use, capsys):
    use(compass)
    frames = [marked(40, angle, "RGB") for angle in (90, 80)]
    frames[0].save(tmp_path / "moving.gif", save_all=True, append_images=frames[1:])
    table = tmp_path / "angles.csv"
    assert main(["orient", str(tmp_path / "moving.gif"), "-o", str(tmp_path / "out"), "--csv", str(table)]) == 0
    assert (tmp_path / "out" / "moving.gif").read_bytes() == (tmp_path / "moving.gif").read_bytes()
    assert read(table)[0]["corrected"] == "false"
    assert "it holds 2 images" in capsys.readouterr().err


@pytest.mark.parametrize("where", [".", "more", "../scans"])
def test_a_folder_with_inputs_in_it_is_refused(scans, where, capsys):
    before = snapshot(scans)
    assert main(["orient", str(scans), "-o", str(scans / where)]) == 2
    error = capsys.readouterr().err
    assert "contains the input" in error
    assert error.count("\n") == 1
    assert snapshot(scans) == before


def test_an_input_behind_a_link_is_not_written_through(scans, tmp_path):
    before = snapshot(scans)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "30.png").symlink_to(scans / "more" / "30.png")
    assert main(["orient", str(scans / "more" / "30.png"), "-o", str(tmp_path / "out")]) == 0
    assert snapshot(scans) == before
    assert not (tmp_path / "out" / "30.png").is_symlink()


def test_the_table_is_never_an_input(scans, capsys):
    before = snapshot(scans)
    assert main(["orient", str(scans), "--csv", str(scans / "0.png")]) == 2
    assert "one of the inputs" in capsys.readouterr().err
    assert snapshot(scans) == before


def test_two_images_of_one_name_are_refused_and_two_folders_kept_apart(scans, tmp_path, capsys):
    other = tmp_path / "other"
    other.mkdir()
    marked(60, 30).save(other / "0.png")
    assert main(["orient", str(scans / "0.png"), str(other / "0.png"), "-o", str(tmp_path / "out")]) == 2
    assert "have one name" in capsys.readouterr().err
    assert main(["orient", str(scans), str(other), "-o", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "scans" / "0.png").exists()
    assert (tmp_path / "out" / "other" / "0.png").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"group": ["scale"]}, "cannot tell a rotation (its groups: scale)"),
        ({"method": "simclr"}, "cannot tell a rotation (its groups: none)"),
        ({"reference": "relative"}, "knows differences of angles only"),
    ],
)
def test_a_model_without_upright_says_so(changes, message, scans, use, tmp_path, capsys):
    use(random_encoder(**changes))
    assert main(["orient", str(scans), "-o", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [([], "say where to write"), (["--csv", "a.csv", "--threshold", "-1"], "above 0"), (["--csv", "."], "is a folder")],
)
def test_mistakes_are_one_line(arguments, message, scans, capsys, monkeypatch):
    monkeypatch.chdir(scans.parent)
    assert main(["orient", str(scans), *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
