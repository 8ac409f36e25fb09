"""A record says of which images it is, and stands for a run on no others."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from duet.data import open_images
from duet.data.identity import identity_of
from duet.data.named import is_at_hand
from duet.error import DuetError
from duet.study import expand, read_records
from duet.study.computation import compute, record_run, run_folder
from duet.study.images import Looked, check_images
from duet.study.record import finished, record_of
from duet.study.runner import preview, run_study
from duet.study.table import tabulate
from duet.training.machine import this_machine
from duet.training.trained_images import images_to_train

SAME = {"count": 100, "fingerprint": "a" * 16}
OTHER = {"count": 100, "fingerprint": "b" * 16}
LARGER = {"count": 200, "fingerprint": "c" * 16}
NAME = "classification/logistic"


@pytest.fixture
def folder(tmp_path):
    """Three classes of twenty images of noise in train/, of four in test/."""
    generator = np.random.default_rng(0)
    for split, count in (("train", 20), ("test", 4)):
        for name in "abc":
            place = tmp_path / "set" / split / name
            place.mkdir(parents=True)
            for i in range(count):
                pixels = generator.integers(256, size=(16, 16), dtype=np.uint8)
                Image.fromarray(pixels).save(place / f"{i:02}.png")
    return tmp_path / "set"


@pytest.fixture
def study(tiny, folder):
    """One run on all of that folder."""
    base = {**tiny, "data": str(folder), "subset": None, "image_size": 16, "batch_size": 20}
    return expand({"base": base, "effort": "quick"})


def put_more(folder):
    """Five more images of a class."""
    for i in range(5):
        shutil.copy(folder / "train" / "a" / f"{i:02}.png", folder / "train" / "a" / f"more{i}.png")


def stated(run, images):
    return replace(record_run(run, {}, {"train": 1.0}, True), images=images)


def test_a_record_has_count_and_fingerprint_of_what_was_trained_on(tmp_path, tiny):
    [run] = expand({"base": {**tiny, "subset": 1000, "calibrate": True}, "effort": "quick"}).runs
    run_study(expand({"base": run.experiment.to_dict(), "effort": "quick"}), tmp_path / "out")
    [record] = read_records(tmp_path / "out")
    assert record.images == images_to_train(run.experiment)
    assert record.images["count"] == 900  # a tenth was kept aside for calibration
    assert record.images != identity_of(open_images("digits", subset=1000, channels=1))
    assert record.resolved == {}


def test_a_record_of_other_images_is_said_and_left_alone(tmp_path, study, folder, monkeypatch):
    out, [run] = tmp_path / "out", study.runs
    assert run_study(study, out, keep="none").failed == {}
    path = out / "results" / f"{run.key}.json"
    before = path.read_bytes()
    put_more(folder)
    monkeypatch.setattr("duet.study.computation.compute", None)
    outcome = run_study(study, out)
    [why] = outcome.failed.values()
    assert why.startswith(f"its record results/{run.key}.json is of 60 images (")
    assert f"{folder} now gives 65 images (" in why
    assert why.endswith("restore the former images, take another --out, or move that away to train on the new ones")
    assert outcome.code == 1
    lines = preview(study, out).splitlines()
    assert lines[0].endswith("has a record of other images: will not be computed here")
    assert lines[-1] == "1 runs, 0 finished, 1 with records of other images: nothing to compute"
    assert path.read_bytes() == before
    for more in (folder / "train" / "a").glob("more*"):
        more.unlink()
    assert run_study(study, out).failed == {}
    assert preview(study, out).splitlines()[-1] == "1 runs, 1 finished: nothing to compute"


def test_what_is_measured_later_is_of_the_images_that_were_trained_on(tmp_path, study, folder, monkeypatch):
    out, [run] = tmp_path / "out", study.runs
    run_study(study, out)
    path = out / "results" / f"{run.key}.json"
    noted = json.loads(path.read_text())["images"]
    monkeypatch.setattr("duet.study.computation.train", None)
    for again in (study, replace(study, runs=(replace(run, evaluate=("classification", "marginals")),))):
        put_more(folder)
        path.unlink(missing_ok=True)
        [why] = run_study(again, out).failed.values()
        assert why.startswith(f"its model in runs/{run.key} is of 60 images (")
        assert not path.exists()
        for more in (folder / "train" / "a").glob("more*"):
            more.unlink()
        assert run_study(again, out).failed == {}
        assert json.loads(path.read_text())["images"] == noted


def test_another_evaluation_is_not_added_to_a_record_of_other_images(tmp_path, study, folder, monkeypatch):
    out, [run] = tmp_path / "out", study.runs
    run_study(study, out, keep="none")
    before = (out / "results" / f"{run.key}.json").read_bytes()
    put_more(folder)
    monkeypatch.setattr("duet.study.computation.train", None)  # hours of training would be lost
    more = replace(study, runs=(replace(run, evaluate=("classification", "marginals")),))
    [why] = run_study(more, out, engine=lambda runs, place: pytest.fail("nothing is to compute")).failed.values()
    assert why.startswith("its record results/")
    with pytest.raises(DuetError, match="its record results/"):
        compute(more.runs[0], out)
    assert (out / "results" / f"{run.key}.json").read_bytes() == before


def test_a_model_that_did_not_note_its_images_has_a_record_without(tmp_path, study, folder):
    out, [run] = tmp_path / "out", study.runs
    run_study(study, out)
    (run_folder(out, run) / "images.json").unlink()
    (out / "results" / f"{run.key}.json").unlink()
    put_more(folder)
    assert run_study(study, out).failed == {}
    assert read_records(out)[0].images == {}


def test_images_that_cannot_be_read_are_no_other_images(tmp_path, study, folder):
    """In memory they are left out, and a stream, which is opened first for a check, counts them."""
    for i in range(2):
        (folder / "train" / "b" / f"{i:02}.png").write_bytes(b"broken")
    assert run_study(study, tmp_path / "memory", keep="none").failed == {}
    assert read_records(tmp_path / "memory")[0].images["count"] == 58
    assert run_study(study, tmp_path / "memory").failed == {}
    [run] = study.runs
    streamed = replace(run, experiment=replace(run.experiment, storage="stream"))
    check_images(images_to_train(streamed.experiment), run, "it")
    assert images_to_train(streamed.experiment)["count"] == 60


def test_what_cannot_be_known_is_accepted(tmp_path, study, folder, monkeypatch):
    [run] = study.runs
    check_images({}, run, "it")
    with pytest.raises(DuetError, match="it is of 100 images"):
        check_images(SAME, run, "it")
    shutil.rmtree(folder)
    check_images(SAME, run, "it")
    monkeypatch.delenv("DUET_DATA", raising=False)
    monkeypatch.setattr("duet.data.named._is_cached", lambda hub: False)
    assert not is_at_hand("cifar10")
    asked = []
    named = replace(run, experiment=replace(run.experiment, data="cifar10"))
    check_images(SAME, named, "it", look=asked.append)  # nothing is downloaded to look
    assert not asked
    monkeypatch.setenv("DUET_DATA", str(tmp_path))
    (tmp_path / "cifar10").mkdir()
    assert is_at_hand("cifar10")


def test_a_record_without_images_answers(tmp_path, study):
    [run] = study.runs
    stated(run, {}).save(tmp_path)
    assert run_study(study, tmp_path).failed == {}


def test_runs_on_the_same_images_are_looked_at_once(tiny, monkeypatch):
    opened = []
    monkeypatch.setattr("duet.study.images.images_to_train", lambda e: opened.append(e) or SAME)
    base = {**tiny, "subset": None}
    looked = Looked()
    for run in expand({"base": base, "vary": {"method": ["simclr", "duet"], "seed": [0, 1]}}).runs:
        assert looked(run.experiment) == SAME
    assert len(opened) == 1
    for run in expand({"base": tiny, "vary": {"seed": [0, 1]}}).runs:  # another seed draws another subset
        looked(run.experiment)
    assert len(opened) == 3


def test_seeds_of_other_images_are_no_cell(tiny):
    def cell(subset, first, second):
        runs = expand({"base": {**tiny, "subset": subset}, "vary": {"seed": [0, 1]}}).runs
        records = [
            replace(stated(run, images), labels={"method": "duet", "group": "rot4"}, scalars={NAME: 0.5})
            for run, images in zip(runs, (first, second), strict=True)
        ]
        return tabulate(records, "method", "group", NAME).cells["duet", "rot4"].seeds

    assert cell(None, SAME, SAME) == cell(None, {}, SAME) == cell(None, SAME, {}) == 2
    assert cell(100, SAME, OTHER) == 2  # each seed draws its own
    for subset, second in ((None, OTHER), (None, LARGER), (100, LARGER)):
        with pytest.raises(DuetError, match=r"the runs of duet rot4 are of other images: seed0 of 100 .*seed1 of"):
            cell(subset, SAME, second)


def test_numbers_of_two_trainings_are_of_known_images_only_where_both_are(tiny):
    [run] = expand({"base": tiny}).runs
    assert stated(run, SAME).joined(stated(run, SAME)).images == SAME
    assert stated(run, SAME).joined(stated(run, {})).images == {}


@pytest.mark.parametrize("images", [None, 3, {"count": 3}, {"count": "3", "fingerprint": "a"}, {**SAME, "more": 1}])
def test_a_record_with_odd_images_is_refused(tiny, images):
    [run] = expand({"base": tiny}).runs
    plain = {**stated(run, {}).to_dict(), "images": images}
    with pytest.raises(DuetError, match="does not hold a whole record"):
        record_of(plain, "a.json")


def test_what_a_setting_became_and_what_the_machine_notes_stand_in_the_record(tmp_path, tiny, monkeypatch):
    """As where `auto` becomes a value on the machine that trains: config.yaml and machine.json say it."""
    from duet.study import computation

    def train(experiment, folder, **options):
        real(experiment, folder, **options)
        config = folder / "config.yaml"
        config.write_text(config.read_text().replace("precision: '32'", "precision: bf16"))
        machine = folder / "machine.json"
        machine.write_text(json.dumps({**json.loads(machine.read_text()), "precision": "bf16"}))

    real = computation.train
    monkeypatch.setattr(computation, "train", train)
    study = expand({"base": tiny, "effort": "quick"})
    run_study(study, tmp_path)
    [record] = read_records(tmp_path)
    assert record.settings["precision"] == "32"
    assert record.resolved == {"precision": "bf16"}
    assert record.machine == {**this_machine(), "precision": "bf16"}
    assert finished(tmp_path, study.runs[0]) == record
