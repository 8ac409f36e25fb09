"""duet orient: copies turned upright where the model is sure, and never a touched original."""

import csv
import errno
import os
import struct
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from duet.application import choice, orient_files
from duet.application.angle import SURE_ANGLE, SURE_QUARTER
from duet.application.orientation import LEAST_TILT
from duet.application.rotation import save_turned
from duet.application.sheet import Sheet
from duet.cli import command, main
from duet.cli import orient as cli_orient
from duet.data.decoding import Unreadable
from duet.model.confidence import SURE
from tests.conftest import confident, make_compass, random_encoder

from .conftest import bearing, marked

ANGLES = (0, 30, 90, 135, 179, -150, -60, -5)


@pytest.fixture
def use(monkeypatch):
    """Let the command load this encoder."""
    return lambda encoder: monkeypatch.setattr("duet.model.load", lambda name, device, turns=None: encoder)


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
    assert main(["orient", str(scans), "-o", str(out), "--csv", str(table), "--any-angle", "--model", "m"]) == 0
    assert snapshot(scans) == before
    for path in before:
        copy = out / path.relative_to(scans)
        with Image.open(copy) as image, Image.open(path) as original:
            assert image.size == original.size
            assert image.format == original.format
            if path.stem != "blank":
                assert abs(bearing(image)) < 3, path
    assert capsys.readouterr().out == f"7 rotated, 1 already upright, 1 unsure: {out}, {table}\n"


def test_the_table_tells_every_angle_and_which_were_left_alone(scans, tmp_path):
    out, table = tmp_path / "out", tmp_path / "angles.csv"
    assert main(["orient", str(scans), "-o", str(out), "--csv", str(table), "--any-angle", "--model", "m"]) == 0
    rows = read(table)
    assert list(rows[0]) == ["path", "degrees", "probability", "sure", "result"]
    assert len(rows) == 9
    for row in rows:
        stem = Path(row["path"]).stem
        if stem == "blank":
            assert (row["sure"], row["result"]) == ("false", "unsure")
            assert (out / "blank.png").read_bytes() == (scans / "blank.png").read_bytes()
        else:
            assert row["sure"] == "true"
            assert row["result"] == ("upright" if stem == "0" else "rotated")
            if stem != "0":
                assert float(row["probability"]) == pytest.approx(0.99)
            error = (float(row["degrees"]) - float(stem) + 180) % 360 - 180
            assert abs(error) < 3
            assert -180 <= float(row["degrees"]) < 180


def test_the_table_alone_writes_no_image(scans, tmp_path):
    before = sorted(os.listdir(tmp_path))
    assert main(["orient", str(scans), "--csv", str(tmp_path / "angles.csv"), "--model", "m"]) == 0
    assert sorted(os.listdir(tmp_path)) == sorted([*before, "angles.csv"])


def test_the_user_says_what_is_sure_enough(scans, tmp_path, capsys):
    sure = {}
    for least in ("1", "0.9", "0"):
        table = tmp_path / f"{least}.csv"
        assert main(["orient", str(scans), "--csv", str(table), "--sure", least, "--model", "m"]) == 0
        sure[least] = sum(row["sure"] == "true" for row in read(table))
    assert sure == {"1": 0, "0.9": 7, "0": 9}  # 135 degrees lies between two quarter turns
    said = [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert said == [
        "0 to rotate, 0 already upright, 9 unsure",
        "4 to rotate, 3 already upright, 2 unsure",
        "5 to rotate, 4 already upright",
    ]
    assert command.SURE == SURE
    own = cli_orient.SURE_QUARTER, cli_orient.SURE_ANGLE, cli_orient.LEAST_TILT
    assert own == (SURE_QUARTER, SURE_ANGLE, LEAST_TILT)


def test_another_kind_of_image_is_never_turned(scans, tmp_path, use, capsys):
    use(confident(make_compass(), strangeness=10.0))
    out, table, before = tmp_path / "out", tmp_path / "angles.csv", snapshot(scans)
    assert main(["orient", str(scans), "-o", str(out), "--csv", str(table), "--sure", "0", "--model", "m"]) == 0
    # The blank image has no features at all, which is where this model's known range is.
    assert "0 rotated, 1 already upright, 8 of a kind that the model does not know" in capsys.readouterr().out
    rows = {Path(row["path"]).stem: row for row in read(table)}
    assert all(row["sure"] == str(stem == "blank").lower() for stem, row in rows.items())
    for path in before:
        if path.stem != "blank":
            assert (out / path.relative_to(scans)).read_bytes() == before[path]


def test_a_model_that_cannot_tell_how_sure_it_is_turns_all_or_nothing(scans, tmp_path, use, capsys):
    use(make_compass())
    table = tmp_path / "angles.csv"
    assert main(["orient", str(scans), "--csv", str(table), "--model", "m"]) == 2
    error = capsys.readouterr().err
    assert "cannot tell how sure it is" in error
    assert "--sure 0" in error
    assert error.count("\n") == 1
    assert not table.exists()
    assert main(["orient", str(scans), "--csv", str(table), "--sure", "0", "--model", "m"]) == 0
    assert "5 to rotate, 4 already upright" in capsys.readouterr().out
    assert {row["probability"] for row in read(table)} == {"nan"}


def test_no_model_is_taken_for_granted(scans, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(choice, "shipped_models", lambda: ["digits-rot360"])
    assert main(["orient", str(scans), "--csv", str(tmp_path / "a.csv")]) == 2
    error = capsys.readouterr().err
    assert "no shipped model knows such images" in error
    assert "digits-rot360 is sure of 0 of 9" in error
    assert "name a model with --model" in error
    assert error.count("\n") == 1


def test_images_are_counted_once(scans, compass, tmp_path):
    done = orient_files([scans], compass, table=tmp_path / "a.csv", any_angle=True)
    assert (done.readable, done.rotated, done.upright, done.unsure, done.strange, done.failed) == (9, 7, 1, 1, 0, 0)


def test_bad_files_are_named_and_get_no_row(scans, tmp_path, capsys):
    (scans / "zero.png").touch()
    (scans / "text.png").write_text("text")
    table = tmp_path / "angles.csv"
    assert main(["orient", str(scans), "-o", str(tmp_path / "out"), "--csv", str(table), "--model", "m"]) == 0
    assert len(read(table)) == 9
    assert "2 of 11 files cannot be read" in capsys.readouterr().err
    assert not (tmp_path / "out" / "zero.png").exists()


def test_colours_of_sixteen_bits_are_not_thrown_away(tmp_path):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + os.urandom(6 * 8) for _ in range(8))
    header = struct.pack(">IIBBBBB", 8, 8, 16, 2, 0, 0, 0)
    wide = tmp_path / "wide.png"
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    wide.write_bytes(b"\x89PNG\r\n\x1a\n" + body)
    with pytest.raises(Unreadable, match="16 bits a colour"):
        save_turned(wide, tmp_path / "out.png", 90)
    marked(8).convert("RGB").save(tmp_path / "usual.png")
    save_turned(tmp_path / "usual.png", tmp_path / "out.png", 90)


def test_a_full_disk_is_no_fault_of_the_image(scans, tmp_path, monkeypatch, capsys):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Image.Image, "save", full)
    assert main(["orient", str(scans), "-o", str(tmp_path / "out"), "--write", "pixels", "--model", "m"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "no space left to write" in said
    assert not [path for path in (tmp_path / "out").rglob("*.png") if path.stat().st_size == 0]


def test_quarter_turns_keep_every_pixel_and_swap_the_sides(tmp_path, use):
    use(confident(make_compass(group="rot4")))
    original = marked((60, 40), 90)
    original.save(tmp_path / "wide.png")
    options = ["-o", str(tmp_path / "out"), "--write", "pixels", "--model", "m"]
    assert main(["orient", str(tmp_path / "wide.png"), *options]) == 0
    with Image.open(tmp_path / "out" / "wide.png") as image:
        expected = original.transpose(Image.Transpose.ROTATE_270)
        assert np.array_equal(np.asarray(image), np.asarray(expected))


def test_the_camera_orientation_counts_once(tmp_path, compass, use):
    use(compass)
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "maker"  # the camera lay on its side
    upright = marked(60, 30, "RGB")
    upright.transpose(Image.Transpose.ROTATE_90).save(tmp_path / "photo.jpg", exif=exif, quality=95)
    options = ["-o", str(tmp_path / "out"), "--any-angle", "--model", "m"]
    assert main(["orient", str(tmp_path / "photo.jpg"), *options]) == 0
    with Image.open(tmp_path / "out" / "photo.jpg") as image:
        assert abs(bearing(image)) < 3
        assert image.getexif().get(0x0112, 1) == 1
        assert image.getexif()[0x010F] == "maker"


def test_an_animation_is_copied_as_it_is(tmp_path, compass, use, capsys):
    use(compass)
    frames = [marked(40, angle, "RGB") for angle in (90, 80)]
    frames[0].save(tmp_path / "moving.gif", save_all=True, append_images=frames[1:])
    table = tmp_path / "angles.csv"
    assert (
        main(["orient", str(tmp_path / "moving.gif"), "-o", str(tmp_path / "out"), "--csv", str(table), "--model", "m"])
        == 0
    )
    assert (tmp_path / "out" / "moving.gif").read_bytes() == (tmp_path / "moving.gif").read_bytes()
    assert read(table)[0]["sure"] == "true"  # of the angle; a moving image is not turned
    assert read(table)[0]["result"] == "failed"
    assert "it holds 2 images" in capsys.readouterr().err


@pytest.mark.parametrize("where", [".", "more", "../scans"])
def test_a_folder_with_inputs_in_it_is_refused(scans, where, capsys):
    before = snapshot(scans)
    assert main(["orient", str(scans), "-o", str(scans / where), "--model", "m"]) == 2
    error = capsys.readouterr().err
    assert "contains the input" in error
    assert error.count("\n") == 1
    assert snapshot(scans) == before


@pytest.mark.parametrize("kind", ["file", "link"])
def test_what_is_there_is_never_written_over(kind, scans, tmp_path, capsys):
    before, there = snapshot(scans), tmp_path / "out" / "30.png"
    there.parent.mkdir()
    if kind == "link":
        there.symlink_to(scans / "more" / "30.png")
    else:
        there.write_bytes(b"mine")
    assert main(["orient", str(scans / "more"), "-o", str(tmp_path / "out"), "--model", "m"]) == 2
    error = capsys.readouterr().err
    assert "30.png is there already" in error
    assert error.count("\n") == 1
    assert snapshot(scans) == before
    assert there.read_bytes() == (b"mine" if kind == "file" else before[scans / "more" / "30.png"])
    assert len(os.listdir(there.parent)) == 1


def test_the_table_is_never_an_input(scans, capsys):
    before = snapshot(scans)
    assert main(["orient", str(scans), "--csv", str(scans / "0.png"), "--model", "m"]) == 2
    assert "one of the inputs" in capsys.readouterr().err
    assert snapshot(scans) == before


def test_two_images_of_one_name_are_refused_and_folders_kept_apart(scans, tmp_path, capsys):
    other = tmp_path / "other"
    other.mkdir()
    marked(60, 30).save(other / "0.png")
    assert main(["orient", str(scans), str(other / "0.png"), "-o", str(tmp_path / "out"), "--model", "m"]) == 2
    assert "have one name" in capsys.readouterr().err
    for number, given in enumerate([(scans, other), (scans / "0.png", other / "0.png")]):
        out = tmp_path / f"out{number}"
        assert main(["orient", *map(str, given), "-o", str(out), "--model", "m"]) == 0
        assert (out / "scans" / "0.png").exists()
        assert (out / "other" / "0.png").exists()


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
    assert main(["orient", str(scans), "-o", str(tmp_path / "out"), "--model", "m"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--csv", "a.csv", "--sure", "2"], "from 0 to 1"), (["--csv", "."], "is a folder")],
)
def test_mistakes_are_one_line(arguments, message, scans, capsys, monkeypatch):
    monkeypatch.chdir(scans.parent)
    assert main(["orient", str(scans), *arguments, "--model", "m"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.fixture
def lying(tmp_path, compass, use):
    """Photos that stand, lie and hang, two folders deep, and a blank one."""
    use(compass)
    folder = tmp_path / "lying"
    (folder / "more").mkdir(parents=True)
    for number, angle in enumerate((0, 90, 180, -90)):
        kind = ("jpg", "png", "webp", "tif")[number]
        marked((60, 44), angle + 7, "RGB").save(folder / "more" / f"{angle}.{kind}")
        marked((60, 44), angle - 7, "RGB").save(folder / f"{angle}.jpg", quality=80)
    Image.new("RGB", (50, 30)).save(folder / "blank.jpg")
    return folder


def upright(path):
    with Image.open(path) as image:
        return bearing(ImageOps.exif_transpose(image))


@pytest.mark.parametrize("write", ["pixels", "exif"])
def test_quarter_turns_alone_are_taken_back(write, lying, tmp_path, capsys):
    out, table = tmp_path / "out", tmp_path / "a.csv"
    options = ["--snap", "90", "--write", write, "--csv", str(table), "--model", "m"]
    assert main(["orient", str(lying), "-o", str(out), *options]) == 0
    assert "6 rotated, 2 already upright, 1 unsure" in capsys.readouterr().out
    for row in read(table):
        path = Path(row["path"])
        copy = out / path.relative_to(lying)
        if path.stem == "blank":
            assert row["sure"] == "false"
            assert copy.read_bytes() == path.read_bytes()
            continue
        assert row["sure"] == "true"
        assert float(row["degrees"]) == (-180 if path.stem == "180" else float(path.stem))
        assert abs(upright(copy)) == pytest.approx(7, abs=2)
        if path.stem == "0":
            assert copy.read_bytes() == path.read_bytes()  # it stood already: not encoded again
        elif write == "exif" and path.suffix != ".tif":  # Pillow turns TIFF as it reads it
            with Image.open(path) as before, Image.open(copy) as after:
                assert np.array_equal(np.asarray(before), np.asarray(after))


def test_the_tag_that_was_there_is_turned_further(tmp_path, compass, use):
    use(compass)
    exif = Image.Exif()
    exif[0x0112] = 6
    stored = marked((60, 44), 90, "RGB").transpose(Image.Transpose.ROTATE_90)  # seen through its tag it lies
    stored.save(tmp_path / "photo.jpg", exif=exif)
    options = ["-o", str(tmp_path / "out"), "--snap", "90", "--write", "exif", "--model", "m"]
    assert main(["orient", str(tmp_path / "photo.jpg"), *options]) == 0
    assert abs(upright(tmp_path / "out" / "photo.jpg")) < 3
    with Image.open(tmp_path / "out" / "photo.jpg") as image:
        assert image.getexif()[0x0112] == 3


def test_small_tilts_are_levelled_and_others_left_alone(tmp_path, compass, use):
    use(compass)
    for angle in (-12, 4, 60):
        marked(60, angle).save(tmp_path / f"{angle}.png")
    names = [str(tmp_path / f"{angle}.png") for angle in (-12, 4, 60)]
    table, out = tmp_path / "a.csv", tmp_path / "out"
    assert main(["orient", *names, "-o", str(out), "--range", "15", "--csv", str(table), "--model", "m"]) == 0
    rows = read(table)
    assert [row["sure"] for row in rows] == ["true", "true", "false"]
    assert [float(row["degrees"]) for row in rows] == pytest.approx([-12, 4, 15], abs=1.5)
    assert abs(upright(out / "-12.png")) < 2
    assert (out / "60.png").read_bytes() == (tmp_path / "60.png").read_bytes()


@pytest.mark.parametrize(("options", "alone"), [((), 1), (("--least", "8"), 2), (("--least", "0"), 0)])
def test_tilts_within_the_error_are_not_worth_another_encoding(options, alone, tmp_path, compass, use, capsys):
    use(compass)
    for angle in (-12, 6, 1):
        marked(60, angle).save(tmp_path / f"{angle}.png")
    names = [str(tmp_path / f"{angle}.png") for angle in (-12, 6, 1)]
    out, page = tmp_path / "out", tmp_path / "look.html"
    arguments = ["-o", str(out), "--sheet", str(page), "--range", "15", *options, "--model", "m"]
    assert main(["orient", *names, *arguments]) == 0
    counts = f"{3 - alone} rotated, {alone} already upright"
    assert capsys.readouterr().out.startswith(counts if alone else "2 rotated, 0 already upright, 1 unsure")
    same = [(out / Path(name).name).read_bytes() == Path(name).read_bytes() for name in names]
    assert same == [False, alone > 1, True]  # nobody can be sure of one degree


def test_expanded_copies_hold_the_whole_image(tmp_path, compass, use):
    use(compass)
    marked((90, 60), 40).save(tmp_path / "a.png")
    for name, options in (("kept", []), ("whole", ["--expand"])):
        arguments = ["-o", str(tmp_path / name), "--any-angle", *options, "--model", "m"]
        assert main(["orient", str(tmp_path / "a.png"), *arguments]) == 0
        with Image.open(tmp_path / name / "a.png") as image:
            assert (image.size == (90, 60)) == (not options)
            assert image.width >= 90
            assert image.height >= 60
            assert abs(upright(tmp_path / name / "a.png")) < 3


def test_the_table_is_no_copy(lying, tmp_path, capsys):
    assert (
        main(["orient", str(lying), "-o", str(tmp_path / "out"), "--csv", str(tmp_path / "out/0.jpg"), "--model", "m"])
        == 2
    )
    assert "out/0.jpg is the place of a copy too; choose another --csv" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["lying"]


@pytest.mark.parametrize("write", ["pixels", "exif"])
def test_in_place_turns_the_files_and_undo_brings_them_back(write, lying, capsys):
    before = snapshot(lying)
    options = ["--in-place", "--snap", "90", "--write", write, "--model", "m"]
    assert main(["orient", str(lying), str(lying / "90.jpg"), *options]) == 0
    said = capsys.readouterr()
    assert said.out == "6 rotated, 2 already upright, 1 unsure\n"
    assert said.err == ""
    for path in before:
        if path.stem != "blank":
            assert abs(upright(path)) == pytest.approx(7, abs=2)
        if path.stem in ("blank", "0"):
            assert path.read_bytes() == before[path]
    kept = [path for path in (lying / ".duet-orient").rglob("*.*") if path.suffix != ".jsonl"]
    assert len(kept) == 6
    assert main(["orient", str(lying), "--undo"]) == 0
    assert capsys.readouterr().out == "6 files put back\n"
    assert snapshot(lying) == before


def test_in_place_again_finds_nothing_more_to_turn(lying):
    options = ["--in-place", "--snap", "90", "--model", "m"]
    assert main(["orient", str(lying), *options]) == 0
    once = snapshot(lying)
    assert main(["orient", str(lying), *options]) == 0
    assert snapshot(lying) == once


def test_forget_keeps_the_turned_files(lying, capsys):
    assert main(["orient", str(lying), "--in-place", "--snap", "90", "--model", "m"]) == 0
    after = {path: data for path, data in snapshot(lying).items() if ".duet-orient" not in path.parts}
    assert main(["orient", str(lying / "90.jpg"), "--forget"]) == 2
    assert main(["orient", str(lying), "--forget"]) == 0
    assert "6 files forgotten" in capsys.readouterr().out
    assert snapshot(lying) == after
    assert main(["orient", str(lying), "--undo"]) == 2
    assert "nothing to take back" in capsys.readouterr().err


def test_undo_says_what_it_left_alone(lying, capsys):
    assert main(["orient", str(lying), "--in-place", "--snap", "90", "--model", "m"]) == 0
    (lying / "90.jpg").write_bytes(b"edited")
    assert main(["orient", str(lying / "180.jpg"), "--undo"]) == 0
    assert main(["orient", str(lying / "more" / "180.webp"), "--undo"]) == 0
    assert main(["orient", str(lying), "--undo"]) == 2
    captured = capsys.readouterr()
    assert captured.out.endswith("1 file put back\n1 file put back\n3 files put back\n")
    assert "left alone" in captured.err
    assert "90.jpg was changed since" in captured.err


def test_a_link_in_a_folder_is_not_replaced(lying, tmp_path, capsys):
    elsewhere = tmp_path / "elsewhere.jpg"
    marked(60, 90, "RGB").save(elsewhere)
    (lying / "link.jpg").symlink_to(elsewhere)
    (lying / "0-link.jpg").symlink_to(lying / "90.jpg")
    before = elsewhere.read_bytes()
    assert main(["orient", str(lying), "--in-place", "--snap", "90", "--model", "m"]) == 0
    assert "link.jpg stays as it is: it is a link" in capsys.readouterr().err
    assert elsewhere.read_bytes() == before
    assert (lying / "link.jpg").is_symlink()
    assert (lying / "0-link.jpg").is_symlink()
    assert abs(upright(lying / "90.jpg")) == pytest.approx(7, abs=2)


def test_reporting_alone_writes_no_image(lying, tmp_path):
    before = snapshot(lying)
    options = ["--write", "none", "--csv", str(tmp_path / "a.csv"), "--sheet", str(tmp_path / "look.html")]
    assert main(["orient", str(lying), *options, "--snap", "90", "--model", "m"]) == 0
    assert snapshot(lying) == before
    assert {"a.csv", "look.html", "lying"} == set(os.listdir(tmp_path))


def test_a_sheet_after_in_place_shows_the_originals(lying, tmp_path):
    sheet = Sheet()
    encoder = confident(make_compass())
    orient_files([lying], encoder, in_place=True, sheet=sheet)
    assert sheet.seen == 9
    assert sheet.cases[0].path.stem == "blank"
    assert not sheet.cases[0].turned
    for case in sheet.cases[1:]:
        assert abs(upright(case.before)) == pytest.approx(abs(case.degrees), abs=9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--write", "exif", "--in-place", "--any-angle"], "leave out --any-angle"),
        (["--in-place", "-o", "out"], "leave out -o"),
        (["--write", "none", "-o", "out"], "leave out -o"),
        (["--write", "none", "--in-place"], "leave out --in-place"),
        (["--sheet", "."], "is a folder"),
        (["--sheet", "page.txt"], "end in .html"),
        (["--csv", "a.html", "--sheet", "a.html"], "a.html is the place of --csv too; choose another --sheet"),
        (["--expand", "--write", "exif", "-o", "out"], "--write exif makes none: leave it out"),
        (["--expand", "-o", "out"], "a quarter turn cuts nothing: leave it out"),
        (["--least", "-1", "--csv", "a.csv"], "--least is in degrees"),
        (["--sheet", "lying/0.jpg"], "one of the inputs; choose another --sheet"),
        (["--undo", "--forget"], "give one of them"),
        (["--undo"], "nothing to take back"),
        (["--forget"], "nothing to take back"),
    ],
)
def test_what_does_not_go_together_is_one_line(arguments, message, lying, capsys, monkeypatch):
    monkeypatch.chdir(lying.parent)
    before = snapshot(lying)
    assert main(["orient", str(lying), *arguments, "--model", "m"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert snapshot(lying) == before
    assert os.listdir(lying.parent) == ["lying"]


def test_heic_photos_are_turned_where_there_is_a_reader(lying, tmp_path, capsys):
    heif = pytest.importorskip("pillow_heif", reason="no reader of HEIC: pip install pillow-heif")
    heif.register_heif_opener()
    marked((60, 44), 90, "RGB").save(lying / "phone.heic", quality=90)
    options = ["-o", str(tmp_path / "out"), "--write", "pixels", "--model", "m"]
    assert main(["orient", str(lying), *options]) == 0
    with Image.open(tmp_path / "out" / "phone.heic") as image:
        assert image.format == "HEIF"
        assert abs(bearing(image)) < 4
    options = ["-o", str(tmp_path / "tagged"), "--snap", "90", "--write", "exif", "--model", "m"]
    assert main(["orient", str(lying / "phone.heic"), *options]) == 0
    assert "HEIF has no orientation tag" in capsys.readouterr().err


def test_without_a_reader_heic_photos_are_named(lying, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("duet.data.decoding._formats", lambda: ("JPEG", "PNG", "WEBP", "TIFF"))
    (lying / "phone.HEIC").write_bytes(b"\0\0\0\x18ftypheic" + b"\0" * 20)
    assert main(["orient", str(lying), "--csv", str(tmp_path / "a.csv"), "--model", "m"]) == 0
    assert "phone.HEIC: a HEIC photo: to read these, pip install pillow-heif" in capsys.readouterr().err


def test_alone_it_counts_and_writes_nothing(lying, capsys):
    before, there = snapshot(lying), sorted(os.listdir(lying.parent))
    assert main(["orient", str(lying), "--model", "m"]) == 0
    said = capsys.readouterr()
    assert said.out == "6 to rotate, 2 already upright, 1 unsure\n"
    assert said.err == "no image was written: -o DIR writes copies, --in-place replaces the files\n"
    assert snapshot(lying) == before
    assert sorted(os.listdir(lying.parent)) == there


def test_a_second_run_finds_upright_what_the_first_one_rotated(lying, capsys):
    for expected in ("6 rotated, 2 already upright, 1 unsure\n", "0 rotated, 8 already upright, 1 unsure\n"):
        assert main(["orient", str(lying), "--in-place", "--model", "m"]) == 0
        assert capsys.readouterr().out == expected
    assert main(["orient", str(lying), "--model", "m"]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == ("0 to rotate, 8 already upright, 1 unsure\n", "")


def test_every_file_is_in_one_count(lying, tmp_path, capsys):
    frames = [marked(40, angle, "RGB") for angle in (90, 80)]
    frames[0].save(lying / "moving.gif", save_all=True, append_images=frames[1:])
    (lying / "text.png").write_text("text")
    table = tmp_path / "a.csv"
    assert main(["orient", str(lying), "-o", str(tmp_path / "out"), "--csv", str(table), "--model", "m"]) == 0
    counts = "6 rotated, 2 already upright, 1 unsure, 1 that cannot be written again, 1 unreadable"
    assert capsys.readouterr().out == f"{counts}: {tmp_path / 'out'}, {table}\n"
    assert Counter(row["result"] for row in read(table)) == {"rotated": 6, "upright": 2, "unsure": 1, "failed": 1}


def test_by_default_no_pixel_is_touched(lying, tmp_path):
    """The tag is set where there is one; a format without one moves its pixels, or is left alone where that costs."""
    marked((60, 44), 90, "RGB").save(lying / "flat.bmp")
    marked((60, 44), 90, "RGB").save(lying / "lossy.jp2")
    out = tmp_path / "out"
    assert main(["orient", str(lying), "-o", str(out), "--model", "m"]) == 0
    for path in lying.rglob("*.*"):
        copy = out / path.relative_to(lying)
        if path.suffix in (".jpg", ".png", ".webp"):
            with Image.open(path) as before, Image.open(copy) as after:
                assert np.array_equal(np.asarray(before), np.asarray(after))
        if path.stem not in ("blank", "lossy"):
            assert abs(upright(copy)) < 9
    assert (out / "lossy.jp2").read_bytes() == (lying / "lossy.jp2").read_bytes()


@pytest.mark.parametrize("write", ["auto", "pixels"])
@pytest.mark.parametrize("in_place", [False, True])
def test_modification_times_stay(write, in_place, lying, tmp_path):
    times = {}
    for number, path in enumerate(sorted(lying.rglob("*.*"))):
        os.utime(path, ns=(10**18, 10**18 + number * 10**9 + 7))
        times[path.relative_to(lying)] = path.stat().st_mtime_ns
    where = ["--in-place"] if in_place else ["-o", str(tmp_path / "out")]
    assert main(["orient", str(lying), *where, "--write", write, "--model", "m"]) == 0
    root = lying if in_place else tmp_path / "out"
    assert {name: (root / name).stat().st_mtime_ns for name in times} == times


def test_the_table_goes_to_standard_output_and_the_counts_beside_it(lying, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["orient", str(lying), "--csv", "-", "--model", "m"]) == 0
    said = capsys.readouterr()
    rows = list(csv.DictReader(said.out.splitlines()))
    assert len(rows) == 9
    assert "6 to rotate, 2 already upright, 1 unsure" in said.err
    assert os.listdir(tmp_path) == ["lying"]


def test_one_sign_of_angles_in_the_table_the_sheet_and_the_model(tmp_path, compass, use):
    use(compass)
    path, table, page = tmp_path / "left.png", tmp_path / "a.csv", tmp_path / "look.html"
    marked(60, 90).save(path)
    assert main(["orient", str(path), "--csv", str(table), "--sheet", str(page), "--model", "m"]) == 0
    assert float(read(table)[0]["degrees"]) == 90
    assert "before: at +90°" in page.read_text("utf-8")
    assert "Angles are counter-clockwise" in page.read_text("utf-8")
    reading = compass.recover(compass.features(torch.from_numpy(np.array(marked(28, 90)))[None, None]))
    assert float(reading.value) == pytest.approx(90, abs=2)


@pytest.mark.parametrize(("blank", "foreign"), [(15, False), (16, True)])
def test_images_of_which_the_model_is_seldom_sure_are_said_to_be_of_another_kind(blank, foreign, tmp_path, use, capsys):
    use(confident(make_compass()))
    for number in range(blank):
        Image.new("L", (40, 40), number).save(tmp_path / f"blank-{number}.png")
    for number in range(5):
        marked(40, 90).save(tmp_path / f"{number}.png")
    assert main(["orient", str(tmp_path), "--model", "m"]) == 0
    assert ("of a kind that it does not know" in capsys.readouterr().err) == foreign
