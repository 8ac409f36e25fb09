"""Images of the reader's own in the report: read by the run's model, the least sure first, and never touched."""

import re

import pytest
from PIL import Image

from duet.cli import main
from duet.error import DuetError
from duet.report import write_report
from duet.report.own_images import LONGEST, show_images
from tests.application.conftest import bearing, marked
from tests.conftest import confident, make_compass, random_encoder
from tests.making import make_run
from tests.report.test_report import HOSTILE
from tests.report.test_sheet import pictures


@pytest.fixture
def use(monkeypatch):
    """Let every run have this model."""
    return lambda encoder: monkeypatch.setattr("duet.report.own_images.load", lambda name, device: encoder)


def make_bare(folder):
    """A run without anything to draw."""
    run = make_run(folder, [])
    (run / "metrics.csv").unlink()
    return run


@pytest.fixture
def run(tmp_path, use):
    use(confident(make_compass()))
    return make_bare(tmp_path / "run")


@pytest.fixture
def scans(tmp_path):
    """Marked images at known angles, a blank one of which nothing can be said, and two that are none."""
    folder = tmp_path / "somewhere" / "scans"
    (folder / "more").mkdir(parents=True)
    for angle in (0, 40, -100):
        marked((90, 60), angle).save(folder / "more" / f"{angle}.png")
    Image.new("L", (50, 30)).save(folder / "blank.png")
    (folder / "empty.png").write_bytes(b"")
    (folder / f"{HOSTILE.replace('/', '|')[:100]}.png").write_text("a text")
    return folder


def test_every_image_stands_before_and_after_the_least_sure_first(run, scans, tmp_path):
    before = {path: path.read_bytes() for path in scans.rglob("*.png")}
    page = write_report([run], tmp_path / "page.html", [scans]).read_text("utf-8")
    shown = pictures(page)
    assert len(shown) == 8
    names = re.findall(r"<figcaption><b>(.+?)</b>(.+?)</figcaption>", page)
    assert names[0] == ("50% sure, left alone", "blank.png")
    assert sorted(names[1:]) == [("99% sure", f"more/{angle}.png") for angle in (-100, 0, 40)]
    for first, after in list(zip(shown[::2], shown[1::2], strict=True))[1:]:
        assert bearing(after) == pytest.approx(0, abs=3), bearing(first)
    assert {path: path.read_bytes() for path in scans.rglob("*.png")} == before


def test_it_counts_what_is_sure_and_names_what_cannot_be_read(run, scans, tmp_path):
    (found,) = show_images([scans], [run], "cpu")
    assert found.words.startswith(
        "4 images, 2 to rotate, 1 upright, 1 not sure; 2 skipped that cannot be read. All are shown, the least"
    )
    assert found.unreadable == 2
    assert "empty.png: empty file" in found.broken
    page = write_report([run], tmp_path / "page.html", [scans]).read_text("utf-8")
    assert "<li>empty.png: empty file</li>" in page
    assert HOSTILE[:20] not in page
    assert "somewhere" not in page
    assert page == write_report([run], tmp_path / "again.html", [scans]).read_text("utf-8")


def test_of_many_a_few_dozen_are_shown_shared_out_over_the_runs(run, tmp_path):
    (tmp_path / "many").mkdir()
    for number in range(LONGEST + 5):
        marked(20, 7 * number).save(tmp_path / "many" / f"{number}.png")
    (alone,) = show_images([tmp_path / "many"], [run], "cpu")
    assert len(alone.pairs) == LONGEST
    assert f"The {LONGEST} least sure are shown" in alone.words
    beside = show_images([tmp_path / "many"], [run] * 3, "cpu")
    assert [(one.place, len(one.pairs)) for one in beside] == [(0, LONGEST // 3), (1, LONGEST // 3), (2, LONGEST // 3)]


def test_what_is_of_another_kind_says_so(run, scans, use):
    use(confident(make_compass(), strangeness=10.0))
    (found,) = show_images([scans], [run], "cpu")
    assert "0 to rotate, 0 upright, 1 not sure, 3 of a kind that the model does not know" in found.words
    assert sorted(pair.sure for pair in found.pairs) == ["50% sure", *["of an unknown kind"] * 3]
    assert not any(pair.turned for pair in found.pairs)


def test_without_calibration_nothing_is_said_of_being_sure(run, scans, use):
    use(make_compass())
    (found,) = show_images([scans], [run], "cpu")
    assert found.words.startswith("4 images; 2 skipped")
    assert "it is not calibrated" in found.words
    assert {pair.sure for pair in found.pairs} == {"not calibrated"}


@pytest.mark.parametrize(
    ("encoder", "words"),
    [
        (random_encoder(method="simclr"), "this model cannot tell a rotation (its groups: none)"),
        (make_compass(reference="relative"), "this model knows differences of angles only, and so no upright"),
    ],
)
def test_a_model_without_an_upright_says_why_there_are_none(encoder, words, run, scans, use, tmp_path):
    use(encoder)
    page = write_report([run], tmp_path / "page.html", [scans]).read_text("utf-8")
    assert f"<p>No pictures: {words}" in page
    assert pictures(page) == []


def test_a_run_whose_model_is_broken_still_gives_its_page(tmp_path, scans, capsys):
    page = write_report([make_bare(tmp_path / "run")], tmp_path / "page.html", [scans]).read_text("utf-8")
    assert "No pictures: the model of this run cannot be loaded." in page
    assert str(tmp_path) not in page
    assert "no pictures of" in capsys.readouterr().err


def test_results_of_other_images_belong_to_the_run_above(tmp_path, scans, monkeypatch):
    run = make_bare(tmp_path / "run")
    asked = []
    monkeypatch.setattr("duet.report.own_images.load", lambda name, device: asked.append(name) or make_compass())
    for folder in (run / "results" / "photos", run):
        folder.mkdir(parents=True, exist_ok=True)
        show_images([scans], [folder], "cpu")
    assert asked == [run, run]


def test_images_that_nobody_can_read_are_an_error_and_leave_no_page(run, tmp_path, capsys):
    (tmp_path / "nothing").mkdir()
    with pytest.raises(DuetError, match="no images there"):
        write_report([run], tmp_path / "page.html", [tmp_path / "nothing"])
    assert main(["report", str(run), "--images", str(tmp_path / "missing.png")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not (tmp_path / "page.html").exists()


def test_the_command(run, scans, capsys):
    assert main(["report", str(run), "--images", str(scans)]) == 0
    page = (run / "report.html").read_text("utf-8")
    assert 'id="own-images" open' in page
    assert main(["report", str(run)]) == 0
    assert "own-images" not in (run / "report.html").read_text("utf-8")
