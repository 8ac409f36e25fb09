"""Tables 2 and 3: the experiments they ask for, the paper's numbers beside, drawn from records."""

import csv
import re

import pytest

from duet.cli import main
from duet.error import DuetError
from duet.paper.full_stack import FullStack
from duet.paper.reproduction import REPRODUCTIONS, Request, find_reproduction, register
from duet.paper.rrc_plus_one import RrcPlusOne
from duet.study.computation import record_run
from duet.study.runner import Outcome, Unfinished


def runs_of(reproduction, tmp_path, **request):
    return {run.name: run.experiment for run in reproduction.study(Request(tmp_path, **request)).runs}


def test_rrc_plus_one_is_ten_groups_by_six_methods_where_they_have_a_meaning(tmp_path):
    runs = runs_of(RrcPlusOne(), tmp_path)
    assert len(runs) == 3 * 53
    assert list(runs)[52].endswith("seed0")
    assert list(runs)[53].endswith("seed1")  # all of the first seed come first
    assert "scale-essl-seed0" not in runs
    assert "scale-duet_separate-seed0" not in runs
    assert runs["hue-duet_separate-seed0"].options == {"views": "separate"}
    theirs = {run.group for run in runs.values() if run.options == {"targets": "authors"}}
    assert theirs == {("rot360",), ("brightness",), ("contrast",), ("saturation",), ("hue",)}
    assert {run.stack for run in runs.values()} == {"rrc"}
    assert {run.subset for run in runs.values()} == {10_000}
    strong = {"rot4", "rot360", "vflip", "scale"}
    for name, run in runs.items():
        group, method, _ = name.split("-")
        usual = 100 if group in strong else 10
        wanted = {"duet": usual, "duet_separate": usual, "duet0": 0}.get(method)
        assert run.weight == wanted, name
        assert run.group == (group,)


def test_the_full_stack_has_simclr_with_and_without_the_group(tmp_path):
    runs = runs_of(FullStack(), tmp_path, seeds=1)
    assert len(runs) == 26
    assert {run.stack for run in runs.values()} == {"full"}
    assert runs["hue-simclr_without-seed0"].options == {"leave_out": True}
    assert runs["hue-simclr-seed0"].options == {}


def test_at_the_papers_scale_the_papers_presets_run(tmp_path):
    runs = runs_of(RrcPlusOne(), tmp_path, scale="paper", seeds=1)
    assert len(runs) == 3 * 53
    assert runs["cifar100-rot4-duet-seed0"].weight == 1000
    assert {run.epochs for run in runs.values()} == {800}
    full = runs_of(FullStack(), tmp_path, scale="paper", seeds=1)
    assert len(full) == 3 * 71
    assert {run.weight for name, run in full.items() if "-duet-" in name} == {10}


def test_the_papers_numbers_are_those_of_its_tables():
    table_2, table_3 = RrcPlusOne.paper, FullStack.paper
    assert set(table_2) == {"cifar100", "tiny-imagenet"}
    assert set(table_3) == {"cifar10", "cifar100", "tiny-imagenet"}
    assert (table_2["cifar100"]["duet"]["rot4"].mean, table_2["cifar100"]["duet"]["rot4"].std) == (47.25, 0.26)
    assert table_3["cifar10"]["essl"]["rot4"].mean == 89.33
    assert table_3["tiny-imagenet"]["duet"]["hue"].mean == 44.61
    assert "scale" not in table_3["cifar10"]["essl"]
    # The averages that the paper prints of the colour groups.
    colour = ("grayscale", "brightness", "contrast", "saturation", "hue")
    for table, data, method, average in [
        (table_2, "cifar100", "simclr", 44.56),
        (table_2, "tiny-imagenet", "duet", 33.83),
        (table_3, "cifar10", "essl", 85.84),
        (table_3, "cifar100", "duet", 62.46),
    ]:
        found = sum(table[data][method][group].mean for group in colour) / 5
        assert found == pytest.approx(average, abs=0.011)


def test_tables_are_drawn_from_records_with_the_papers_beside(tmp_path):
    request = Request(tmp_path, seeds=2)
    for run in FullStack().study(request).runs:
        value = 0.5 + 0.001 * run.experiment.seed + 0.1 * (run.labels["method"] == "essl")
        record = record_run(run, {}, {}, True)
        record.scalars["classification/logistic"] = value
        record.save(tmp_path)
    paths = FullStack().draw(request)
    assert sorted(path.name for path in paths) == [
        *("full-stack-cifar10.csv", "full-stack-cifar10.md", "full-stack-cifar10.png", "full-stack-cifar10.tex")
    ]
    text = (tmp_path / "full-stack-cifar10.md").read_text()
    assert text.splitlines()[2] == "| method | rot360 | rot4 | hflip | hue |"
    assert "| ESSL | **60.05 ± 0.07** |" in text
    assert "| ESSL (paper, cifar10) | 86.55 ± 0.13 (3) | 89.33 ± 0.32 (3) |" in text
    with open(tmp_path / "full-stack-cifar10.csv") as file:
        assert len(list(csv.DictReader(file))) == 26 + 16
    with pytest.raises(DuetError, match="no run of rrc-plus-one is finished"):
        RrcPlusOne().draw(request)


def test_failed_runs_are_raised_after_the_tables_are_drawn(tmp_path, monkeypatch, capsys):
    drawn = []
    monkeypatch.setattr("duet.paper.studied.run_study", lambda *a, **k: Outcome({}, {"hue-duet-seed0": "it broke"}))
    monkeypatch.setattr(FullStack, "draw", lambda self, request: drawn.append(request) or [])
    assert main(["reproduce", "full-stack", "--out", str(tmp_path), "--only", "hue-duet"]) == 1
    assert "hue-duet-seed0: it broke" in capsys.readouterr().err
    assert len(drawn) == 1
    with pytest.raises(Unfinished):
        FullStack().run(Request(tmp_path))


def test_reproductions_are_listed_found_and_previewed(tmp_path, capsys):
    assert main(["reproduce"]) == 0
    listed = capsys.readouterr().out
    assert main(["list", "reproductions"]) == 0
    assert capsys.readouterr().out == listed
    assert re.search(r"^rrc-plus-one +Table 2", listed, flags=re.MULTILINE)
    assert main(["reproduce", "full-stack", "--dry-run", "--only", "rot4-essl", "--out", str(tmp_path)]) == 0
    assert "3 runs, 0 finished, 3 to train" in capsys.readouterr().out
    assert main(["reproduce", "full-stak"]) == 2
    assert "did you mean 'full-stack'" in capsys.readouterr().err
    assert main(["reproduce", "full-stack", "--scale", "huge"]) == 2
    assert main(["reproduce", "full-stack", "--seeds", "0"]) == 2
    assert isinstance(find_reproduction("full-stack"), FullStack)
    with pytest.raises(DuetError, match="registered already"):
        register(REPRODUCTIONS["full-stack"])
