"""The demo: two methods trained, measured and shown side by side."""

import json
from functools import partial

import pytest

from duet.evaluation import EVALUATIONS, Result, Sizes, evaluate
from duet.evaluation.rival import RIVALS
from duet.paper import demo

TINY = Sizes(train=100, test=50, images=8, sweep=8, copies=8, queries=2, probe=64, centroids=4, decoder_steps=1)


@pytest.mark.slow
def test_the_whole_of_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo, "evaluate", partial(evaluate, sizes=TINY, progress=False))
    summary = demo.run_demo(tmp_path, "cpu", encoder="tiny", projector=[16], epochs=1, subset=128, batch_size=64)
    assert json.loads((tmp_path / "summary.json").read_text()) == summary
    assert {"classification/logistic", "recovery/probe_median_error_degrees"} <= set(summary["simclr"])
    assert "recovery/median_error_degrees" in summary["duet"]
    wanted = {"median_difference_error_degrees", "invariant_dimensions", "equivariant_planes"}
    for name in ("duet", "simclr", *RIVALS):
        assert {f"spectrum/{key}" for key in wanted} <= set(summary[name])
        assert "equivariance/error_fitted" in summary[name]
    assert "recovery/median_error_degrees" not in summary["simclr"]
    assert "generation/action_error_fitted" in summary["duet"]
    assert not [key for key in summary["simclr"] if key.startswith("generation/")]  # one decoder is trained, not two
    for name in demo.COMPARED:
        drawn = {path.stem for path in (tmp_path / name / "figures").glob("*.png")}
        results = {path.stem: Result.load(path) for path in (tmp_path / name / "results").glob("*.json")}
        expected = {f"{key}-{label}" for key, result in results.items() for label in EVALUATIONS[key].figures(result)}
        assert drawn == expected
        assert drawn
    assert (tmp_path / "views.png").stat().st_size > 1000
    assert (tmp_path / "spectrum.png").stat().st_size > 1000
    shown = capsys.readouterr().out
    assert "DUET" in shown
    assert "SimCLR" in shown
    assert "pixels" in shown
    assert "k-means patches" in shown


def retrieval(**scalars):
    return {"retrieval": Result("retrieval", {"chance_hit1": 0.25, **scalars}, {}, {"copies": 4})}


def test_the_summary_holds_what_the_evaluations_would_show():
    found = demo.summarise(retrieval(hit1_fitted=0.5, mrr_fitted=0.7) | {"strange": Result("strange", {"a": 1.0})})
    assert found == {"retrieval/hit1_fitted": 0.5, "retrieval/chance_hit1": 0.25}


def test_a_number_that_only_one_method_has_is_a_dash_for_the_other():
    both = {"duet": retrieval(hit1_fitted=0.5, hit1_prescribed=0.4), "simclr": retrieval(hit1_fitted=0.3)}
    table = demo.comparison(both)
    names, duets, simclrs = ([str(cell) for cell in column.cells] for column in table.columns)
    assert [column.header for column in table.columns] == ["measure", "DUET", "SimCLR"]
    row = names.index("Hit@1 of 4, the paper's T_g")
    assert (duets[row], simclrs[row]) == ("0.4", "-")
    row = names.index("Hit@1 of 4, the fitted action")
    assert (duets[row], simclrs[row]) == ("0.5", "0.3")


def test_a_folder_that_is_no_run_is_not_replaced(tmp_path):
    (tmp_path / "duet").mkdir()
    (tmp_path / "duet" / "thesis.txt").write_text("three years")
    with pytest.raises(ValueError, match="is not a run"):
        demo.run_demo(tmp_path, epochs=1, subset=64, batch_size=32)
    assert (tmp_path / "duet" / "thesis.txt").read_text() == "three years"
