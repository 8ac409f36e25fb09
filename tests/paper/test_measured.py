"""The paper's further results: runs of Table 2 measured once more, never trained twice in one folder."""

import pytest

from duet import DuetError
from duet.cli import main
from duet.paper.claims import BINS as CLAIMED_BINS
from duet.paper.claims import GAINS, SMALLER, claims
from duet.paper.claims import SIGMAS as CLAIMED_SIGMAS
from duet.paper.maps import Maps
from duet.paper.measured import Measured
from duet.paper.reproduction import Request, known_reproductions
from duet.paper.rrc_plus_one import RrcPlusOne
from duet.paper.scores import Scores, with_readings
from duet.paper.sweeps import BINS, SIGMAS, SWEEPS, WEIGHTS, Sweeps, draw_sweep
from duet.paper.transfers import SETS, Transfers
from duet.study.computation import record_run
from duet.study.record import Record

TINY = {
    **{"preset": "demo", "epochs": 1, "subset": 100, "batch_size": 50, "encoder": "tiny", "dim": 16},
    **{"projector": [16, 8], "action_pairs": 0, "calibrate": False},
}


class Tried(Measured):
    name = "tried"
    summary = "a test's own"
    evaluate = ("marginals",)
    scalars = ("marginals/ambiguity",)
    groups = ("rot360",)

    def values(self, request):
        return {**super().values(request), "base": TINY, "effort": "quick"}


class Classified(Tried):
    name = "classified"
    evaluate = ("classification",)
    scalars = ("classification/logistic",)


def test_a_second_result_of_a_run_trains_nothing_and_keeps_the_first(tmp_path, monkeypatch, capsys):
    request = Request(tmp_path)
    Classified().run(request)
    monkeypatch.setattr("duet.study.computation.train", None)
    Tried().run(request)
    said = capsys.readouterr().out
    assert "classified.md" in said
    assert (tmp_path / "figures" / "tried" / "rot360-duet-seed0").is_dir()
    (run,) = Tried().study(request).runs
    for one in (Tried, Classified):
        assert "| duet |" in (tmp_path / f"{one.name}.md").read_text()
    Classified().run(request)  # all is there
    monkeypatch.setattr("duet.study.computation.evaluate", None)
    Tried().run(request)
    assert run.key in {path.stem for path in (tmp_path / "results").glob("*.json")}


def scored(labels, scalars, baselines=None):
    return Record("x", "h", {"seed": "0", **labels}, {}, [], "standard", scalars, baselines=baselines or {})


def test_readings_have_no_unit():
    turned = {"recovery/constant_median_error_degrees": 90.0, "recovery/probe_median_error_degrees": 45.0}
    quarters = {"recovery/constant_accuracy": 0.25, "recovery/accuracy": 0.625, "recovery/probe_accuracy": 0.25}
    continuous, finite = (with_readings(scored({"group": "x"}, own)) for own in (turned, quarters))
    assert continuous.value("reading/probe") == 0.5
    assert continuous.value("reading/table") is None
    assert finite.value("reading/table") == 0.5
    assert finite.value("reading/probe") == 0.0
    assert with_readings(scored({"group": "x"}, {})).value("reading/probe") is None


def test_the_scores_have_rows_of_baselines(tmp_path):
    own = {"pixels": 0.41, "untrained": 0.33, "patches": 0.62}
    beside = {name: {"classification/logistic": value} for name, value in own.items()}
    records = [
        scored({"group": group, "method": method}, {"classification/logistic": 0.5}, beside)
        for group in ("rot4", "hue")
        for method in ("simclr", "duet")
    ]
    [path] = Scores().tables(records, tmp_path, "method", "group")
    rows = path.read_text().splitlines()[6:11]
    assert [row.split(" | ")[0] for row in rows] == ["| simclr", "| duet", "| pixels", "| untrained", "| patches"]
    assert rows[2].count("0.41") == 2
    assert all(run.baselines for run in Scores().study(Request(tmp_path)).runs)


def test_they_are_runs_of_table_2(tmp_path):
    table = {run.key for run in RrcPlusOne().study(Request(tmp_path)).runs}
    for name, kind in known_reproductions().items():
        if issubclass(kind, Measured) and kind.__module__.startswith("duet.") and name != "sweeps":
            runs = kind().study(Request(tmp_path)).runs
            assert {run.key for run in runs} <= table, name
            assert all(run.labels["seed"] == "0" for run in runs)
    assert len(Maps().study(Request(tmp_path, seeds=2)).runs) == 8


def test_sweeps_change_one_setting_and_repeat_no_run(tmp_path):
    runs = Sweeps().study(Request(tmp_path)).runs
    assert len({run.hash for run in runs}) == len(runs)
    usual = {run.experiment.group: run.experiment.to_dict() for run in runs if "change" not in run.labels}
    for run in runs:
        own, base = run.experiment.to_dict(), usual[run.experiment.group]
        assert sum(own[key] != base[key] for key in own) == ("change" in run.labels)
    assert not {"sigma0.2", "bins8"} & {run.labels.get("change") for run in runs}


def test_what_the_claims_ask_for_is_computed(tmp_path):
    """Every comparison of the sweeps and of transfer finds a run of the same settings."""
    assert set(CLAIMED_SIGMAS) | {0.2} == set(SIGMAS)
    assert set(CLAIMED_BINS) | {8} == set(BINS)
    assert {10.0, 1000.0} <= set(WEIGHTS)
    asked = {SMALLER.get(name, name) for names in GAINS.values() for name in names}
    assert asked <= set(SETS["cpu"])
    assert all(run.transfer == SETS["cpu"] for run in Transfers().study(Request(tmp_path)).runs)
    commands = {claim.command.split()[2] for claim in claims() if claim.command.startswith("duet reproduce")}
    assert commands <= set(known_reproductions())


def test_a_sweep_is_drawn_where_there_are_two_values(tmp_path):
    records = []
    for run in Sweeps().study(Request(tmp_path)).runs:
        record = record_run(run, {}, {}, True)
        record.labels.setdefault("change", "usual")
        record.scalars["classification/logistic"] = 0.4
        record.save(tmp_path)
        records.append(record)
    for key, values in SWEEPS.items():
        (axis,) = draw_sweep(records, key).axes
        assert {len(line.get_xdata()) for line in axis.lines} == {len(values)}
    assert draw_sweep(records[:1], "sigma") is None
    names = {path.name for path in Sweeps().draw(Request(tmp_path))}
    assert names == {"sweeps.md", *(f"sweeps-{key}.png" for key in SWEEPS)}
    assert "| usual |" in (tmp_path / "sweeps.md").read_text()


def test_claims_are_drawn_from_what_is_finished(tmp_path, capsys):
    assert main(["reproduce", "claims", "--out", str(tmp_path)]) == 2
    assert "is not a folder of records" in capsys.readouterr().err
    for run in RrcPlusOne().study(Request(tmp_path, seeds=2)).runs:
        record = record_run(run, {}, {}, True)
        record.scalars["classification/logistic"] = 0.4 + 0.1 * (run.labels["method"] == "duet")
        record.save(tmp_path)
    assert main(["reproduce", "claims", "--out", str(tmp_path)]) == 0
    text = (tmp_path / "claims.md").read_text()
    assert "holds" in text
    assert "not tested" in text
    assert main(["reproduce", "claims", "--only", "hue", "--out", str(tmp_path)]) == 2


def test_results_of_a_scale_share_a_folder_by_default(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    seen = []
    monkeypatch.setattr(Maps, "run", lambda self, request: seen.append(request.out))
    assert main(["reproduce", "maps"]) == 0
    assert [str(path) for path in seen] == ["runs/reproduce/cpu"]


def test_seeds_start_at_one(tmp_path):
    with pytest.raises(DuetError, match="start at 1"):
        Request(tmp_path, seeds=0)
