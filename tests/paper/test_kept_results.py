"""The tables in the docs and in the README are what the records beside them give."""

import shutil
from pathlib import Path

import pytest

from duet.cli import main
from duet.paper.accuracy import GROUPS
from duet.paper.rrc_plus_one import RrcPlusOne
from duet.study import read_records
from duet.study.form import as_markdown

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
