"""The tables in the docs and in the README are what the records beside them give."""

import re
import shutil
from functools import cache
from pathlib import Path

import pytest

from duet.cli import main
from duet.paper.accuracy import GROUPS
from duet.paper.reproduction import Request, find_reproduction
from duet.paper.rrc_plus_one import RrcPlusOne
from duet.study import Run, read_records
from duet.study.form import as_markdown
from duet.study.record import begun, finished, read_record
from duet.study.runner import preview
from duet.training.experiment import from_dict

ROOT = Path(__file__).parents[2]
STUDY = ROOT / "docs" / "results" / "study"
DRAWN = sorted([*STUDY.glob("*.md"), *STUDY.glob("*.csv")])
NAMES = {"scores", "sweeps", "rrc-plus-one", "full-stack", "maps", "marginals", "dependence", "transfer", "strips"}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """All tables, drawn from a copy of the records alone."""
    out = tmp_path_factory.mktemp("study")
    shutil.copytree(STUDY / "results", out / "results")
    for name in sorted(NAMES | {"reconstruction", "cost"}):
        main(["reproduce", name, "--draw", "--out", str(out)])
    return out


def test_there_are_tables():
    assert {"rrc-plus-one-cifar10"} <= {path.stem for path in DRAWN}


@pytest.mark.parametrize("kept", DRAWN, ids=lambda path: path.name)
def test_a_table_is_what_its_records_give(kept, drawn):
    assert kept.read_text() == (drawn / kept.name).read_text(), f"draw {kept.name} again"


def test_every_table_is_kept(drawn):
    assert {path.name for ending in ("md", "csv") for path in drawn.glob(f"*.{ending}")} == {p.name for p in DRAWN}


RECORDS = sorted((STUDY / "results").glob("*.json"))
TABLES = {
    # Of three seeds of every table: how many runs have a record that answers them.
    **{"rrc-plus-one": 66, "full-stack": 26, "sweeps": 26, "scores": 48, "transfer": 8, "reconstruction": 12},
    **{"marginals": 5, "maps": 4, "strips": 3, "dependence": 3, "cost": 1},
}
OF_A_BENCHMARK = {"rot4-duet_full-seed0", "rot4-duet_later-seed0"}


@cache
def plan_of(name):
    return find_reproduction(name).study(Request(STUDY, seeds=3))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_the_hash_of_a_kept_record_is_that_of_its_settings(path):
    """Where this fails, a change of Experiment or of the hash would train again what was trained."""
    record = read_record(path)
    run = Run(record.labels, from_dict(record.settings))
    assert run.key == record.key == path.stem


@pytest.mark.parametrize(("name", "least"), TABLES.items())
def test_no_run_of_a_table_that_has_a_record_is_to_do_again(name, least):
    study = plan_of(name)
    done = [run for run in study.runs if finished(STUDY, run) is not None]
    assert len(done) >= least
    there = {path.stem for path in RECORDS}
    trained = [run.key for run in study.runs if run.key in there]
    assert [run.key for run in study.runs if begun(STUDY, run) is not None] == trained  # if not measured so yet
    last = preview(study, STUDY).splitlines()[-1]
    assert f", {len(done)} finished, " in last or last.endswith(f", {len(done)} finished: nothing to compute")


def test_every_kept_record_answers_a_run_of_a_table():
    runs = [run for name in TABLES for run in plan_of(name).runs]
    answered = {run.key for run in runs if begun(STUDY, run) is not None}
    missing = {path.stem.rsplit("-", 1)[0] for path in RECORDS if path.stem not in answered}
    assert missing == OF_A_BENCHMARK


def test_a_dry_run_says_what_has_a_record_and_computes_nothing(tmp_path, capsys, monkeypatch):
    shutil.copytree(STUDY / "results", tmp_path / "results")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    monkeypatch.setattr("duet.study.computation.train", None)
    monkeypatch.setattr("duet.study.computation.evaluate", None)
    assert main(["reproduce", "full-stack", "--seeds", "2", "--dry-run", "--out", str(tmp_path)]) == 0
    *runs, last = capsys.readouterr().out.splitlines()
    there = [line for line in runs if line.endswith("  finished")]
    assert len(there) == sum(run.labels["seed"] == "0" for run in plan_of("full-stack").runs)
    assert all("-seed0 " in line for line in there)
    assert all("epochs  train: " in line for line in runs if line not in there)
    assert re.fullmatch(r"52 runs, 26 finished, 26 to train: \d+ (min|h .*)", last)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def readme_table():
    """Groups by methods of the crop and one transformation: ours alone."""
    records = [record for record in read_records(STUDY) if record.settings["stack"] == "rrc"]
    methods = {"simclr", "essl", "duet0", "duet", "duet-separate"}
    usual = [record for record in records if record.labels.get("method") in methods and "change" not in record.labels]
    return RrcPlusOne().table(usual, "cpu", "cifar10").turned()


def test_the_readme_has_the_table_of_the_records():
    wanted = as_markdown(readme_table())
    rows = wanted.splitlines()[2 : 2 + len(GROUPS)]
    text = (ROOT / "README.md").read_text()
    missing = [row for row in rows if row not in text]
    assert not missing, f"the README should have\n{wanted}"
    # Beside every figure its trivial baseline: they do not depend on the group, so one record has them.
    found = (record.baselines for record in read_records(STUDY))
    baselines = next(one for one in found if "classification/logistic" in one.get("pixels", {}))
    assert set(baselines) == {"pixels", "untrained"}
    for scores in baselines.values():
        assert f"{100 * scores['classification/logistic']:.1f} %" in text


RESULTS = ROOT / "docs" / "results"
BEST, CIFAR = RESULTS / "cifar-best", RESULTS / "cifar"


@pytest.mark.parametrize(
    ("folder", "words"), [(BEST, ["cifar-best"]), (CIFAR, ["rrc-plus-one", "--scale", "cifar"])], ids=["best", "cifar"]
)
def test_tables_of_all_of_cifar10_are_what_their_records_give(tmp_path, folder, words):
    shutil.copytree(folder / "results", tmp_path / "results")
    assert main(["reproduce", *words, "--draw", "--out", str(tmp_path)]) == 0
    drawn = {path.name for ending in ("md", "csv") for path in tmp_path.glob(f"*.{ending}")}
    assert drawn == {path.name for ending in ("md", "csv") for path in folder.glob(f"*.{ending}")}
    for name in drawn:
        assert (folder / name).read_text() == (tmp_path / name).read_text(), f"draw {name} again"
    request = Request(folder, scale=words[-1], seeds=3) if folder == CIFAR else Request(folder)
    study = find_reproduction(words[0]).study(request)
    records = {path.stem for path in (folder / "results").glob("*.json")}
    assert records == {run.key for run in study.runs if finished(folder, run) is not None}


def test_the_readme_has_the_figures_of_the_best_encoder():
    text = (ROOT / "README.md").read_text()
    study = find_reproduction("cifar-best").study(Request(BEST))
    duet = next(record for run in study.runs if (record := finished(BEST, run)) and record.labels["method"] == "duet")
    for scores in (duet.scalars, *duet.baselines.values()):
        for key in ("classification/logistic", "classification/knn"):
            assert f"{100 * scores[key]:.1f} %" in text
        assert f"{scores['recovery/probe_median_error_degrees']:.1f}°" in text
    assert f"{duet.scalars['recovery/median_error_degrees']:.1f}°" in text
