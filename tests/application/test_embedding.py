"""duet embed: one row for each readable image, whatever else lies in the folder."""

import csv
import os

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import duet
from duet.application import writer
from duet.cli import main
from duet.networks import build_backbone
from duet.representation import Axis, Table, VonMises
from tests.conftest import confident, random_encoder


def rows_of(path):
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    if path.suffix == ".csv":
        return columns_of(path)
    read = pq.read_table(path)
    columns = {name: np.asarray(read[name].to_pylist()) for name in read.column_names}
    return {**columns, "features": columns["features"].astype(np.float32)}


def columns_of(path):
    """The columns of a CSV file, those of the features side by side."""
    with path.open(encoding="utf-8", newline="") as file:
        head, *lines = csv.reader(file)
    wide = [place for place, name in enumerate(head) if name.startswith("features_")]
    assert [head[place] for place in wide] == [f"features_{number}" for number in range(len(wide))]
    columns = {"path": np.array([line[0] for line in lines])}
    columns["features"] = np.array([[float(line[place]) for place in wide] for line in lines], np.float32)
    for place, name in enumerate(head):
        if place and place not in wide:
            values = [line[place] for line in lines]
            truth = set(values) <= {"true", "false"}
            columns[name] = np.array([value == "true" if truth else float(value) for value in values])
    return columns


@pytest.fixture(params=["parquet", "npz", "csv"])
def out(request, tmp_path):
    return tmp_path / "tables" / f"out.{request.param}"


def test_rows_hold_what_python_gives(photos, model_folder, out, capsys):
    model = model_folder()
    assert main(["embed", str(photos), "-o", str(out), "--model", str(model)]) == 0
    rows = rows_of(out)
    assert list(rows) == ["path", "features", "rot360", "rot360_spread"]
    encoder = duet.load(model)
    rep = encoder.embed([str(path) for path in rows["path"]])
    found = encoder.recover(rep)
    assert np.allclose(rows["features"], rep.numpy(), atol=1e-5)
    assert np.allclose(rows["rot360"], found.value, atol=0.1)
    assert np.allclose(rows["rot360_spread"], found.spread, atol=0.1)
    assert ((rows["rot360"] >= -180) & (rows["rot360"] <= 180)).all()
    assert capsys.readouterr().out == f"9 images: {out}\n"


def test_a_calibrated_model_says_what_to_trust(photos, tmp_path, out):
    encoder = confident(random_encoder())
    model = encoder.save(tmp_path / "model")
    assert main(["embed", str(photos), "-o", str(out), "--model", str(model)]) == 0
    rows = rows_of(out)
    assert list(rows) == ["path", "features", "rot360", "rot360_spread", "rot360_sure", "rot360_probability"]
    found = encoder.recover(encoder.embed([str(path) for path in rows["path"]]))
    assert rows["rot360_sure"].dtype == bool
    assert rows["rot360_sure"].tolist() == found.sure.tolist()
    assert np.allclose(rows["rot360_probability"], found.probability, atol=1e-3)


def test_no_model_is_taken_for_granted(photos, out, capsys):
    assert main(["embed", str(photos), "-o", str(out)]) == 2
    error = capsys.readouterr().err
    assert "say which model: --model RUN" in error
    assert error.count("\n") == 1


def test_folders_are_read_at_every_depth_in_the_order_of_names(photos, model_folder, out):
    assert main(["embed", str(photos), "-o", str(out), "--model", str(model_folder())]) == 0
    names = [os.path.relpath(path, photos) for path in rows_of(out)["path"]]
    first = ["0.png", "3.jpg", "6.webp", "inner/1.png", "inner/4.jpg", "inner/7.webp"]
    assert names == [*first, "inner/deep/2.png", "inner/deep/5.jpg", "inner/deep/8.webp"]


def test_the_same_images_make_the_same_file(photos, model_folder, out):
    model = str(model_folder())
    made = []
    for size in ("4", "4"):
        assert main(["embed", str(photos), "-o", str(out), "--model", model, "--batch-size", size]) == 0
        made.append(out.read_bytes())
    assert made[0] == made[1]


def test_bad_files_are_named_and_left_out(photos, hostile, model_folder, out, capsys):
    assert main(["embed", str(photos), "-o", str(out), "--model", str(model_folder())]) == 0
    assert len(rows_of(out)["path"]) == 9
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == len(hostile) + 1
    assert errors[-1] == f"duet: {len(hostile)} of {len(hostile) + 9} files cannot be read and were left out"
    for name in hostile:
        shown = name.replace("\n", "\\n").replace("\x1b", "\\x1b")
        assert any(f"{photos}/{shown}: " in line for line in errors), name


def test_a_name_that_is_no_text_still_gets_its_row(photos, model_folder, out):
    strange = os.fsencode(photos) + b"/\xff\xfe.png"
    os.rename(photos / "0.png", strange)
    assert main(["embed", str(photos), "-o", str(out), "--model", str(model_folder())]) == 0
    assert f"{photos}/\\xff\\xfe.png" in rows_of(out)["path"]


def test_files_are_taken_as_they_are_given(photos, model_folder, out):
    os.rename(photos / "3.jpg", photos / "no-suffix")
    given = [str(photos / name) for name in ("6.webp", "no-suffix", "0.png")]
    assert main(["embed", *given, "-o", str(out), "--model", str(model_folder())]) == 0
    assert list(rows_of(out)["path"]) == given


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["zero.png"], "cannot read the image: zero.png: empty file"),
        (["zero.png", "text.png", "missing.png"], "cannot read any of the 3 images; the first: zero.png: empty file"),
        (["nothing"], "no images there"),
    ],
)
def test_nothing_readable_is_one_line_and_leaves_the_old_output(
    names, message, model_folder, out, tmp_path, monkeypatch, capsys
):
    model = model_folder()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "zero.png").touch()
    (tmp_path / "text.png").write_text("text")
    (tmp_path / "nothing").mkdir()
    out.parent.mkdir()
    out.write_text("old")
    assert main(["embed", *names, "-o", str(out), "--model", str(model)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"duet: {message}")
    assert error.count("\n") == 1
    assert out.read_text() == "old"
    assert os.listdir(out.parent) == [out.name]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "out.txt"], "should end in .parquet, .csv or .npz"),
        (["-o", "out.npz", "--batch-size", "0"], "--batch-size starts at 1"),
        (["-o", "out.npz", "--model", "missing"], "no model 'missing'"),
        (["-o", "photos"], "should end in"),
    ],
)
def test_mistakes_are_one_line(arguments, message, photos, model_folder, tmp_path, monkeypatch, capsys):
    model = model_folder()
    monkeypatch.chdir(tmp_path)
    assert main(["embed", str(photos), "--model", str(model), *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not list(tmp_path.glob("out*"))


def test_an_input_is_never_the_output(model_folder, tmp_path, photos, capsys):
    os.rename(photos / "0.png", tmp_path / "image.npz")
    taken = str(tmp_path / "image.npz")
    before = (tmp_path / "image.npz").read_bytes()
    assert main(["embed", taken, "-o", taken, "--model", str(model_folder())]) == 2
    assert "one of the inputs" in capsys.readouterr().err
    assert (tmp_path / "image.npz").read_bytes() == before


def test_a_model_without_a_table_has_no_group_columns(photos, model_folder, out):
    assert main(["embed", str(photos), "-o", str(out), "--model", str(model_folder(method="simclr"))]) == 0
    assert list(rows_of(out)) == ["path", "features"]


def test_several_groups_have_their_own_columns(photos, model_folder, out):
    model = model_folder(group=["rot360", "scale"], dim=64)
    assert main(["embed", str(photos), "-o", str(out), "--model", str(model)]) == 0
    rows = rows_of(out)
    assert list(rows)[2:] == ["rot360", "rot360_spread", "scale", "scale_spread"]
    assert ((rows["scale"] >= 0.2) & (rows["scale"] <= 1)).all()


def test_rows_leave_memory_group_by_group(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "ROW_GROUP", 10)
    held = []
    with writer.open_table(tmp_path / "out.parquet", {"angle": "degrees"}) as rows:
        for number in range(15):
            rows.write([f"{number}-{i}" for i in range(7)], {"features": np.full((7, 3), number), "angle": np.ones(7)})
            held.append(rows._rows)
    assert max(held) < 10
    read = pq.ParquetFile(tmp_path / "out.parquet")
    assert [read.metadata.row_group(i).num_rows for i in range(read.num_row_groups)] == [10] * 10 + [5]
    assert read.schema_arrow.field("angle").metadata == {b"unit": b"degrees"}
    assert read.read()["path"].to_pylist() == [f"{number}-{i}" for number in range(15) for i in range(7)]


def test_images_are_decoded_no_further_ahead_than_needed(photos, encoder, monkeypatch):
    from duet.application.files import Reader, find_files

    many = [photos] * 200
    seen = 0

    def counted():
        nonlocal seen
        for file in find_files(many):
            seen += 1
            yield file

    batches = Reader(encoder, 8).batches(counted(), None, "test")
    next(batches)
    assert seen < 100
    batches.close()


def test_a_stopped_command_leaves_nothing(photos, model_folder, out, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    model = str(model_folder())
    monkeypatch.setattr(duet.Encoder, "recover", stop)
    assert main(["embed", str(photos), "-o", str(out), "--model", model]) == 130
    assert os.listdir(out.parent) == []


def test_the_bar_counts_the_files_when_somebody_watches(photos, encoder, tmp_path, monkeypatch):
    from duet.application import embedding, files

    totals = []
    monkeypatch.setattr(embedding.sys.stderr, "isatty", lambda: True, raising=False)

    def watch(parts, total, label, unit):
        totals.append((total, unit))
        return (part for _, part in parts)

    monkeypatch.setattr(files, "track", watch)
    embedding.embed_files([photos], tmp_path / "out.npz", encoder)
    assert totals == [(9, "images")]
    assert torch.is_inference_mode_enabled() is False


def test_two_bins_on_a_circle_have_no_angle_to_write(photos, tmp_path, out):
    layout = Table(64, Axis("rot360", 2, VonMises()))
    model = duet.Encoder(build_backbone("tiny", channels=1), layout, ["rot360"], image_size=28).save(tmp_path / "model")
    assert main(["embed", str(photos), "-o", str(out), "--model", str(model)]) == 0
    assert list(rows_of(out)) == ["path", "features"]
