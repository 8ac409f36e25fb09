"""duet align: copies at one common angle, a table, a picture, and never a touched original."""

import csv
import inspect
import os

import numpy as np
import pytest
from PIL import Image

from duet.application import aligned_files, alignment
from duet.cli import align, command, main
from tests.conftest import make_compass, random_encoder

from .conftest import bearing, marked

ANGLES = (0, 30, 90, 135, 179, -150, -60, -5, 20, 75)


@pytest.fixture
def use(monkeypatch):
    """Let the command load this encoder."""
    return lambda encoder: monkeypatch.setattr("duet.model.load", lambda name, device, turns=None: encoder)


@pytest.fixture
def cells(tmp_path, use):
    """Marked images at known angles, in two folders."""
    use(make_compass(reference="relative"))
    folder = tmp_path / "cells"
    for number, angle in enumerate(ANGLES):
        place = folder / ("round" if number % 2 else "long")
        place.mkdir(parents=True, exist_ok=True)
        marked(60, angle).save(place / f"{angle}.png")
    return folder


def read(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def snapshot(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def apart(angles):
    """The widest gap between angles that should be one."""
    turns = np.exp(1j * np.deg2rad(angles))
    return np.rad2deg(np.abs(np.angle(turns / turns.mean()))).max()


def bearings(folder):
    found = []
    for path in sorted(folder.rglob("*.png")):
        if path.name != "mean.png":
            with Image.open(path) as image:
                found.append(bearing(image))
    return found


def test_copies_stand_alike_and_originals_are_untouched(cells, tmp_path, capsys):
    before = snapshot(cells)
    out, table = tmp_path / "out", tmp_path / "angles.csv"
    assert main(["align", str(cells), "-o", str(out), "--csv", str(table), "--model", "m"]) == 0
    assert snapshot(cells) == before
    assert apart(bearings(cells)) > 90
    assert len(bearings(out)) == len(ANGLES)
    assert apart(bearings(out)) < 8
    said = capsys.readouterr()
    assert said.out.startswith(
        "10 images of 2 folders (long, round), merged into one set, brought to one angle, 10 of them surely; "
        "their variance around the mean fell by"
    )
    assert said.out.endswith(f": {out}, {table}, {out / 'mean.png'}\n")
    assert "2 folders are aligned as one set; --by-class" in said.err


def test_the_table_has_the_same_columns_as_that_of_orient(cells, tmp_path):
    table = tmp_path / "angles.csv"
    assert main(["align", str(cells), "--csv", str(table), "--model", "m"]) == 0
    rows = read(table)
    assert list(rows[0]) == ["path", "degrees", "probability", "sure"]
    # Degrees are counter-clockwise from the common angle, as those of orient are from upright.
    assert apart([float(row["degrees"]) - float(os.path.basename(row["path"])[:-4]) for row in rows]) < 8
    assert all(-180 <= float(row["degrees"]) < 180 for row in rows)
    assert all(row["sure"] == str(float(row["probability"]) >= 0.9).lower() for row in rows)
    assert sorted(os.listdir(tmp_path)) == ["angles.csv", "cells"]


def test_each_class_folder_on_its_own(cells, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["align", str(cells), "-o", str(out), "--by-class", "--model", "m"]) == 0
    said = capsys.readouterr()
    assert "10 images in 2 sets (long, round), each brought to one angle" in said.out
    assert said.err == ""
    for name in ("round", "long"):
        assert apart(bearings(out / name)) < 8
    with Image.open(out / "mean.png") as two:
        width = two.width
    assert main(["align", str(cells), "--picture", str(tmp_path / "one.png"), "--model", "m"]) == 0
    with Image.open(tmp_path / "one.png") as one:
        assert width > 1.5 * one.width


def test_several_folders_are_a_class_each(cells, tmp_path, capsys):
    words = ["align", str(cells / "long"), str(cells / "round"), "--model", "m"]
    table, inner = tmp_path / "angles.csv", tmp_path / "inner.csv"
    assert main([*words, "--csv", str(table), "--by-class"]) == 0
    said = capsys.readouterr()
    assert "10 images in 2 sets (long, round), each brought to one angle" in said.out
    assert said.err == ""
    # The same as the two sub-folders of one folder.
    assert main(["align", str(cells), "--csv", str(inner), "--by-class", "--model", "m"]) == 0
    angles = [{row["path"]: row["degrees"] for row in read(path)} for path in (table, inner)]
    assert angles[0] == angles[1]


def test_several_folders_without_by_class_are_named_and_merged(cells, tmp_path, capsys):
    words = ["align", str(cells / "round"), str(cells / "long"), "--model", "m"]
    assert main([*words, "--csv", str(tmp_path / "angles.csv")]) == 0
    said = capsys.readouterr()
    assert "10 images of 2 folders (long, round), merged into one set, brought to one angle" in said.out
    assert "2 folders are aligned as one set; --by-class aligns each folder separately" in said.err


def test_folders_of_one_name_are_told_apart_by_their_paths(tmp_path, use, capsys):
    use(make_compass(reference="relative"))
    for place in ("first", "second"):
        (tmp_path / place / "cells").mkdir(parents=True)
        for angle in ANGLES[:4]:
            marked(60, angle).save(tmp_path / place / "cells" / f"{angle}.png")
    words = [str(tmp_path / place / "cells") for place in ("first", "second")]
    assert main(["align", *words, "--csv", str(tmp_path / "a.csv"), "--by-class", "--model", "m"]) == 0
    assert f"8 images in 2 sets ({words[0]}, {words[1]}), each" in capsys.readouterr().out


def test_what_is_sure_is_marked_and_all_are_turned(cells, tmp_path, capsys):
    out, table = tmp_path / "out", tmp_path / "angles.csv"
    words = ["align", str(cells), "-o", str(out), "--csv", str(table), "--sure", "1", "--model", "m"]
    assert main(words) == 0
    sure = sum(row["sure"] == "true" for row in read(table))
    assert f"{sure} of them surely" in capsys.readouterr().out
    assert apart(bearings(out)) < 8


def test_quarter_turns_keep_every_pixel(tmp_path, use):
    use(make_compass())
    (tmp_path / "scans").mkdir()
    original = np.asarray(marked((60, 60), 10))
    for number in range(6):
        Image.fromarray(np.rot90(original, number)).save(tmp_path / "scans" / f"{number}.png")
    words = ["align", str(tmp_path / "scans"), "-o", str(tmp_path / "out"), "--group", "rot4", "--model", "m"]
    assert main(words) == 0
    copies = {(tmp_path / "out" / f"{number}.png") for number in range(6)}
    assert len({np.asarray(Image.open(copy)).tobytes() for copy in copies}) == 1


def test_any_model_will_do(cells, tmp_path, use):
    use(random_encoder(method="simclr"))
    assert main(["align", str(cells), "-o", str(tmp_path / "out"), "--model", "m"]) == 0
    assert apart(bearings(tmp_path / "out")) < 20


@pytest.mark.parametrize("named", [[], ["--model", "pixels"]])
def test_without_a_model_images_are_compared_by_their_pixels(named, cells, tmp_path, monkeypatch):
    monkeypatch.setattr("duet.model.load", None)
    table = tmp_path / "angles.csv"
    assert main(["align", str(cells), "-o", str(tmp_path / "out"), "--csv", str(table), *named]) == 0
    assert apart(bearings(tmp_path / "out")) < 20
    assert len(read(table)) == len(ANGLES)


def test_bad_files_are_named_and_left_out(cells, tmp_path, capsys):
    (cells / "long" / "zero.png").touch()
    table = tmp_path / "angles.csv"
    assert main(["align", str(cells), "-o", str(tmp_path / "out"), "--csv", str(table), "--model", "m"]) == 0
    assert len(read(table)) == 10
    assert "1 of 11 files cannot be read" in capsys.readouterr().err
    assert not (tmp_path / "out" / "long" / "zero.png").exists()


def test_expanded_copies_stand_alike_too_and_none_is_smaller(cells, tmp_path):
    assert main(["align", str(cells), "-o", str(tmp_path / "out"), "--expand", "--model", "m"]) == 0
    assert apart(bearings(tmp_path / "out")) < 8
    sides = []
    for path in (tmp_path / "out").rglob("*.png"):
        if path.name != "mean.png":
            with Image.open(path) as image:
                sides.append(min(image.size))
    assert min(sides) >= 60
    assert max(sides) > 75


def test_the_picture_is_no_input_and_no_copy(cells, tmp_path, capsys):
    marked(60, 0).save(cells / "mean.png")
    before = snapshot(cells)
    assert main(["align", str(cells), "-o", str(tmp_path / "out"), "--model", "m"]) == 2
    assert "is the place of a copy too; choose another --picture" in capsys.readouterr().err
    assert main(["align", str(cells), "--picture", str(cells / "mean.png"), "--model", "m"]) == 2
    assert "is one of the inputs" in capsys.readouterr().err
    assert snapshot(cells) == before
    words = ["align", str(cells), "-o", str(tmp_path / "out"), "--picture", str(tmp_path / "p.png"), "--model", "m"]
    assert main(words) == 0
    assert (tmp_path / "p.png").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "say where to write"),
        (["--csv", "a.csv", "--sure", "2"], "from 0 to 1"),
        (["--csv", "a.csv", "--group", "hflip"], "is no rotation"),
        (["--csv", "a.csv", "--group", "scale"], "is no group that turns"),
        (["--csv", "a.csv", "--group", "rot36"], "no group 'rot36'"),
        (["--csv", "a.csv", "--turns", "0"], "turns start at 1"),
    ],
)
def test_mistakes_are_one_line(words, message, cells, capsys, monkeypatch):
    monkeypatch.chdir(cells.parent)
    assert main(["align", str(cells / "long"), *words, "--model", "m"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (cells.parent / "a.csv").exists()


def test_one_image_is_not_enough(cells, tmp_path, capsys):
    assert main(["align", str(cells / "long" / "0.png"), "-o", str(tmp_path / "out"), "--model", "m"]) == 2
    error = capsys.readouterr().err
    assert "at least 2 images" in error
    assert error.count("\n") == 1


def test_the_help_tells_what_is_done_by_default():
    values = inspect.signature(aligned_files.align_files).parameters
    assert values["sure"].default == command.SURE
    assert align.TURNS == values["turns"].default == alignment.TURNS


def test_the_table_of_angles_goes_to_standard_output(cells, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["align", str(cells), "--csv", "-", "--model", "m"]) == 0
    said = capsys.readouterr()
    assert len(list(csv.DictReader(said.out.splitlines()))) == len(ANGLES)
    assert "brought to one angle" in said.err
    assert os.listdir(tmp_path) == ["cells"]
