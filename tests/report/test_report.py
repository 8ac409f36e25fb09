"""The report: one page that says what is there, notes what is not, and lets no stranger's text become markup."""

import base64
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from duet.cli import main
from duet.evaluation import Result
from duet.evaluation.context import SIZES, Sizes
from duet.evaluation.drawing.confusion import draw_confusion
from duet.evaluation.wording import number
from duet.report import write_report
from duet.report.drawing import as_picture, draw_curves, epochs, thin
from duet.report.gathering import LONGEST, Run, read_run, read_runs, shown
from duet.report.page import as_csv
from duet.report.table import settings
from duet.report.wording import label, read_out, write
from tests.conftest import random_encoder
from tests.making import make_decoded, make_results, make_run

HOSTILE = "<img src=x onerror=alert(1)>\"'</script><script>alert(2)</script>"


class Page(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.text = [], ""
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text += data

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The pages of one run, and of two that differ, with their texts."""
    folder = tmp_path_factory.mktemp("runs")
    first = make_run(folder / "first")
    second = make_run(folder / "second", make_results()[:1], method="simclr")
    return {
        "one": write_report([first], folder / "one.html").read_text(),
        "two": write_report([first, second], folder / "deeper" / "two.html").read_text(),
        "first": first,
    }


def words(html):
    return re.sub(r"\s+", " ", Page(html).text.replace("\N{NO-BREAK SPACE}", " "))


def test_one_run_says_what_was_trained_and_how_well_it_does(made):
    text = words(made["one"])
    assert "DUET on digits, tracking rotation" in text
    assert "small encoder, 4 epochs, features 16 × 8" in text
    assert "90.0 %" in text
    assert "the rotation is off by 9.0° (median); an answer that ignores the image is off by 90.0°" in text
    assert "linear probe of the content, median error, degrees" in text
    assert "5 settings" in text


def test_several_runs_stand_side_by_side_with_their_differences(made):
    text = words(made["two"])
    assert "DUET and SimCLR on digits, side by side" in text
    assert "Where the runs differ" in text
    marked = re.findall(r'<tr class="marked">\s*<th scope="row">(\w+)', made["two"])
    assert set(marked) == {"method"}


def test_the_best_is_marked_whoever_it_is_and_only_beside_others(tmp_path):
    better = Result("classification", {"logistic": 0.95, "chance": 0.25}, {}, make_results()[0].provenance)
    runs = [make_run(tmp_path / "a"), make_run(tmp_path / "b", [better])]
    page = write_report(runs, tmp_path / "page.html").read_text()
    best = re.findall(r'<td class="value best" data-sort="([^"]+)"', page)
    # The better error is one run's; the accuracies of the other run and of the pixels are alike.
    assert best == ["9.0", "0.95", "0.95"]


def test_the_page_needs_nothing_from_outside(made):
    for page in (Page(made["one"]), Page(made["two"])):
        for tag, attributes in page.elements:
            for key in ("src", "href"):
                if key in attributes:
                    assert attributes[key].startswith(("data:", "#")), (tag, attributes[key][:80])
    policy = next(a["content"] for a in Page(made["one"]).all("meta") if "http-equiv" in a)
    assert policy.startswith("default-src 'none'; img-src data:;")


def test_every_picture_is_described_and_every_heading_can_sort(made):
    page = Page(made["two"])
    pictures = page.all("img")
    assert len(pictures) >= 6
    assert all(len(picture["alt"]) > 40 for picture in pictures)
    heads = [a for a in page.all("th") if a["scope"] == "col"]
    assert heads
    assert {a["aria-sort"] for a in heads} == {"none"}
    assert len(page.all("button")) == len(heads)


def test_the_downloads_hold_the_numbers(made):
    links = {a["download"]: a["href"] for a in Page(made["one"]).all("a") if "download" in a}
    assert set(links) == {"results.json", "results.csv", "losses-1.csv"}
    content = {name: base64.b64decode(uri.split(",", 1)[1]).decode() for name, uri in links.items()}
    found = json.loads(content["results.json"])["first"]["results"]
    assert found["classification"]["logistic"] == 0.9
    assert found["recovery"]["r2"] is None
    assert "first,retrieval,hit1_fitted,0.5\n" in content["results.csv"]
    assert content["losses-1.csv"].startswith("step,epoch,lr,loss,content\n3.0,0.0,")


def test_the_same_runs_give_the_same_bytes_and_no_trace_of_the_machine(made, tmp_path):
    again = write_report([made["first"]], tmp_path / "again.html").read_text()
    assert again == made["one"]
    pictures = "".join(base64.b64decode(a["src"].split(",", 1)[1]).decode() for a in Page(again).all("img"))
    assert str(made["first"].parent) not in again + pictures
    assert "<dc:date>" not in pictures
    assert list(tmp_path.iterdir()) == [tmp_path / "again.html"]


def test_a_strangers_run_cannot_inject_anything(tmp_path):
    facts = {"group": HOSTILE, "title": HOSTILE, "data": HOSTILE, "unit": HOSTILE, "advice": HOSTILE}
    facts["classes"] = [HOSTILE, "$\\frac{$"]
    results = make_results(**facts)
    results.append(Result("own", {HOSTILE: 1.0, "=1+1": 2.0}, {}, facts))
    name = HOSTILE.replace("/", "|")
    run = make_run(
        tmp_path / name,
        results,
        columns=f"step,epoch,lr,loss,{HOSTILE}",
        data=HOSTILE,
        method=HOSTILE,
        **{HOSTILE: [HOSTILE]},
    )
    page = Page(write_report([run, make_run(tmp_path / "plain")], tmp_path / "page.html").read_text())
    assert len(page.all("script")) == 1
    assert all(picture["src"].startswith("data:image/svg+xml;base64,") for picture in page.all("img"))
    assert not [key for _, attributes in page.elements for key in attributes if key.startswith("on")]
    for picture in page.all("img"):
        assert b"<script" not in base64.b64decode(picture["src"].split(",", 1)[1])
    assert "alert(1)" in page.text


def test_what_is_damaged_or_missing_is_noted(tmp_path):
    run = make_run(tmp_path / "run")
    (run / "results" / "recovery.npz").write_bytes(b"PK broken")
    (run / "results" / "zebra.json").write_text("[" * 100_000)
    (run / "metrics.csv").write_bytes(b"\xff\xfe")
    (run / "config.yaml").write_text("{")
    (run / "model" / "config.json").write_text("no JSON")
    text = words(write_report([run], tmp_path / "page.html").read_text())
    assert "results/recovery is damaged" in text
    assert "results/zebra is damaged" in text
    assert "metrics.csv is missing or cannot be read" in text
    assert "config.yaml is missing or cannot be read" in text
    assert "model/config.json cannot be read" in text
    assert "Classification" in text


def test_a_run_that_has_only_begun(tmp_path):
    (tmp_path / "config.yaml").write_text("method: duet\n")
    text = words(write_report([tmp_path], tmp_path / "page.html").read_text())
    assert "Nothing is measured yet" in text
    assert "it is not finished" in text
    assert "No result could be read" in text


def test_a_result_of_odd_shapes_loses_its_figure_and_nothing_else(tmp_path):
    odd = Result("retrieval", {"hit1_fitted": 0.5, "chance_hit1": 0.1}, {}, {})
    square = Result("classification", {"logistic": 0.5, "chance": 0.1}, {"confusion": np.ones((2, 3))}, {})
    text = words(write_report([make_run(tmp_path / "run", [odd, square])], tmp_path / "page.html").read_text())
    assert "The figure of retrieval is left out: its numbers are not as expected." in text
    assert "The figure of classification is left out: the table of mistakes is not square." in text
    assert "50.0 %" in text


OWN = """
import torch

def build(channels):
    return torch.nn.Sequential(torch.nn.AvgPool2d(4), torch.nn.Flatten())
"""


def test_the_results_of_an_encoder_that_was_not_trained_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    small = Sizes(train=200, test=200, images=12, probe=64)
    monkeypatch.setitem(SIZES, "demo", small)
    (tmp_path / "pooled_pixels.py").write_text(OWN)
    encoder = ["--encoder", "pooled_pixels:build", "--channels", "1", "--group", "rot4", "--data", "digits"]
    assert main(["evaluate", *encoder, "--only", "classification", "recovery", "--out", "pooled"]) == 0
    assert sorted(path.name for path in (tmp_path / "pooled").iterdir()) == [
        *("classification.json", "classification.npz", "recovery.json", "recovery.npz", "rivals"),
    ]
    run = read_run(tmp_path / "pooled", "pooled")
    assert list(run.results) == ["classification", "recovery"]
    assert run.notes == ()
    assert main(["report", "pooled", "-o", "page.html"]) == 0
    page = (tmp_path / "page.html").read_text()
    text = words(page)
    assert "pooled_pixels:build on digits, measured under quarter turn" in text
    assert "49 features" in text
    assert "A linear classifier on the frozen features names the class of" in text
    assert "The features have no columns for the quarter turn; a linear probe" in text
    assert len(Page(page).all("img")) == 3
    assert "missing" not in text
    both = write_report([tmp_path / "pooled", make_run(tmp_path / "run")], tmp_path / "both.html").read_text()
    assert "Where the runs differ" in words(both)


def test_a_model_that_was_saved_by_itself(tmp_path):
    folder = random_encoder().save(tmp_path / "mine")
    for result in make_results():
        result.save(folder / "results")
    text = words(write_report([folder], tmp_path / "page.html").read_text())
    assert "DUET on digits, tracking rotation" in text
    assert "features 16 × 8" in text
    assert "90.0 %" in text
    assert read_run(folder, "mine").notes == ()


def test_a_folder_of_other_json_is_no_run(tmp_path):
    (tmp_path / "package.json").write_text("{}")
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(ValueError, match=r"holds no run: no config.yaml, model, metrics.csv or results"):
        read_run(tmp_path, "other")


def test_settings_are_short_plain_and_without_folders():
    assert shown("/home/someone/photos") == "photos"
    assert shown("C:\\Users\\someone\\photos") == "photos"
    assert shown("timm:resnet18") == "timm:resnet18"
    assert shown(None) == "default"
    assert shown([0.5, 1.0]) == "0.5, 1"
    assert shown([["nested"]]) == "(not shown)"
    assert len(shown("x" * 1000)) == LONGEST
    rows = settings([Run("a", {"lr": 0.1, "own": 1}), Run("b", {"lr": 0.1})])
    assert [(row.head, row.marked) for row in rows] == [("lr", False), ("own", True)]


def test_a_bomb_of_aliases_is_not_expanded(tmp_path):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 12)]
    run = make_run(tmp_path / "run", [])
    (run / "config.yaml").write_text("\n".join(lines))
    page = write_report([run], tmp_path / "page.html").read_text()
    assert "x, x, x" not in page
    # What is short enough to be read, and still too deep to be shown.
    (run / "config.yaml").write_text("\n".join(lines[:3]))
    assert "(not shown)" in write_report([run], tmp_path / "page.html").read_text()


def test_runs_of_one_name_are_told_apart(tmp_path):
    runs = [make_run(tmp_path / where / "duet", []) for where in ("a", "b")]
    assert [run.name for run in read_runs([*runs, runs[0]])] == ["a/duet", "b/duet", "a/duet (3)"]


def test_damaged_lines_of_losses_are_left_out(tmp_path):
    run = make_run(tmp_path / "run", [])
    with open(run / "metrics.csv", "a") as file:
        file.write("37,4,0.1\n38,4,0.1,NaN,oops\n")
    found = read_run(run, "run")
    assert len(found.metrics["loss"]) == 13
    assert np.isnan(found.metrics["content"][-1])
    assert any("1 damaged line" in note for note in found.notes)


def test_words_for_numbers():
    assert label("recovery", "content_probe_median_error_degrees_circle") == (
        "linear probe of the content, median error, degrees, through a disc"
    )
    assert label("equivariance-scale", "row_minimum_within_one_bin_logits_fitted") == (
        "row minimum within one bin, on group logits, the fitted action"
    )
    assert label("classification", "chance") == "by chance"
    assert label("dependence", "delta_p_iid_pixels") == "ΔP, noise images"
    assert label("a_strangers", "own_number") == "own number"
    assert write("equivariance", "error_prescribed", 249.4) == "worse than no action"
    assert write("recovery", "median_error_degrees_circle", 9.46) == "9.5°"
    assert write("a_strangers", "own_number", 0.5) == "0.500"
    assert number(-0.00689) == "\N{MINUS SIGN}0.00689"
    assert number(float("nan")) == "–"


@pytest.mark.parametrize(
    ("more", "drop", "wanted"),
    [
        ({"relative": True}, [], "between two views of an image is read off to within 4.0°"),
        ({}, ["median_error_degrees"], "a linear probe that is trained on labels reads it to within 12.0°"),
        ({"group": "brightness", "title": "brightness"}, [], "the brightness is off by 9.0°"),
    ],
)
def test_recovery_is_worded_for_the_model_at_hand(more, drop, wanted):
    result = make_results(**more)[1]
    scalars = {key: value for key, value in result.scalars.items() if key not in drop}
    assert wanted in read_out("recovery", Result("recovery", scalars, {}, result.provenance))


def test_epochs_count_steps_as_the_rows_do():
    metrics = {"step": np.array([7.0, 27.0, 28.0, 54.0, 55.0]), "epoch": np.array([0.0, 0, 1, 1, 2])}
    assert np.allclose(epochs(metrics), metrics["step"] / 27)
    assert len(thin(np.arange(100_000))) == 400
    assert thin(np.arange(100_000))[-1] == 99_999


def test_curves_and_mistakes_are_drawn():
    run = Run("<a&b>", metrics={"step": np.arange(5.0), "loss": np.arange(5.0), "$odd{": np.arange(5.0)})
    picture = as_picture(draw_curves([run, run]), "curves", "alt", "caption")
    svg = base64.b64decode(picture.uri.split(",", 1)[1]).decode()
    assert "prefers-color-scheme:dark" in svg
    assert "#000000" not in svg
    assert draw_curves([Run("empty")]) is None
    assert len(draw_confusion(np.eye(30), ()).axes) == 2


def test_formulas_do_not_reach_a_spreadsheet():
    assert as_csv(("=cmd", "b"), [("-x", -1.0)]) == "'=cmd,b\n'-x,-1.0\n"


def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = make_run(tmp_path / "run", make_results()[:1])
    assert main(["report", str(run)]) == 0
    assert (run / "report.html").stat().st_size > 10_000
    assert main(["report", str(run), str(run), "-o", "out/page.html"]) == 0
    assert (tmp_path / "out" / "page.html").exists()
    assert main(["report", "digits-rot360"]) == 0
    assert "tracking rotation" in (tmp_path / "report.html").read_text(encoding="utf-8")  # and not in the package
    make_run(tmp_path / "digits-rot360", make_results()[:1])  # a folder of one's own comes first
    assert main(["report", "digits-rot360"]) == 0
    assert (tmp_path / "digits-rot360" / "report.html").exists()
    (tmp_path / "empty").mkdir()
    for wrong in ("no-such-run", "empty"):
        assert main(["report", wrong]) == 2
        assert "run" in capsys.readouterr().err


@pytest.mark.parametrize("unit", [5, None, ["degrees"]])
def test_an_odd_unit_of_a_strangers_result_costs_a_sentence_not_the_page(tmp_path, unit):
    run = make_run(tmp_path / "run", results=make_results(unit=unit))
    page = write_report([run], tmp_path / "page.html").read_text()
    assert "Classification" in page


def test_a_run_on_a_trunk_says_so(tmp_path):
    page = write_report([make_run(tmp_path / "run", trunk="lite0")], tmp_path / "report.html")
    assert "a neck on the trunk lite0, 4 epochs, features" in page.read_text()


def before_the_table(html):
    """The alternative texts of the pictures that stand above the first table."""
    return [attributes["alt"] for attributes in Page(html.partition("<table")[0]).all("img")]


def test_a_page_opens_with_a_picture_of_the_first_run_that_has_one(made, tmp_path):
    (alone,) = before_the_table(made["one"])
    assert alone.startswith("first, examples: ")
    bare = make_run(tmp_path / "bare", make_results()[:1])
    page = write_report([bare, made["first"]], tmp_path / "page.html").read_text()
    (beside,) = before_the_table(page)
    assert beside.startswith("first, examples: ")
    assert page.count(beside) == 1  # it does not stand in its section again
    assert before_the_table(write_report([bare], tmp_path / "none.html").read_text()) == []


def test_decoded_images_open_a_page_before_readings_do(tmp_path):
    run = make_run(tmp_path / "run", [*make_results(), make_decoded()])
    (opening,) = before_the_table(write_report([run], tmp_path / "page.html").read_text())
    assert opening.startswith("run, opening: ")
