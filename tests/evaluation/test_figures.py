"""Every figure is drawn from a Result alone, in raw units."""

import io

import numpy as np
import pytest

from duet.evaluation import Result
from duet.evaluation.dependence import draw_dependence
from duet.evaluation.drawing.confusion import draw_confusion
from duet.evaluation.drawing.recovery import draw_marginals, draw_probe, draw_recovery
from duet.evaluation.equivariance import draw_equivariance
from duet.evaluation.marginals import draw_ambiguity
from duet.evaluation.recovery import Recovery
from duet.evaluation.retrieval import draw_retrieval

ROTATION = {
    "group": "rot360",
    "title": "rotation",
    "unit": "degrees",
    "span": [-180.0, 180.0],
    "cyclic": True,
    "data": "digits",
}
BRIGHTNESS = {"group": "brightness", "unit": "factor", "span": [0.6, 1.4], "cyclic": False, "data": "digits"}


def recovery(provenance, suffixes=("",), **more):
    g = np.arange(10) / 10
    found = np.clip(g[:, None] + np.linspace(-0.05, 0.05, 20), 0, 1)
    unit = provenance["unit"]
    arrays, scalars = {"g": g, "probe": found, "content_probe": found}, {}
    scalars |= {f"probe_median_error_{unit}": 1.0, f"content_probe_median_error_{unit}": 1.0}
    for suffix in suffixes:
        arrays |= {f"recovered{suffix}": found}
        scalars |= {f"median_error_{unit}{suffix}": 9.0, f"median_difference_error_{unit}{suffix}": 4.0}
    arrays |= {"shown_g": g[:3], "shown_marginal": np.full((3, 8), 0.125)}
    return Result("recovery", scalars, arrays, {**provenance, "corners": None, "relative": False, **more})


def equivariance(provenance, kinds):
    g = np.arange(12) / 12
    arrays, scalars = {"g": g, "true_elements": g}, {}
    for kind in kinds:
        arrays |= {f"map{kind}": np.abs(g[:, None] - g), f"row_minimum{kind}": g}
        scalars[f"row_minimum_within_one_bin{kind}"] = 0.9
    return Result("equivariance", scalars, arrays, provenance)


def words(figure):
    return " ".join(text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text")))


def render(figure):
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=60)
    assert len(buffer.getvalue()) > 5000
    return words(figure)


def test_recovery_says_degrees_and_shows_both_corners():
    text = render(draw_recovery(recovery(ROTATION, ("", "_circle"), corners="zero")))
    assert "true rotation (degrees)" in text
    assert "median error 9.0°" in text
    assert "black corners" in text
    assert "seen through a disc" in text


def test_recovery_of_a_relative_reference_quotes_differences():
    assert "median error 4.0°" in render(draw_recovery(recovery(ROTATION, relative=True)))


def test_recovery_in_another_unit():
    assert "true brightness (factor)" in render(draw_recovery(recovery(BRIGHTNESS)))


def test_without_a_table_the_figure_says_why():
    empty = recovery(ROTATION, ())
    with pytest.raises(ValueError, match="draw_probe"):
        draw_recovery(empty)
    assert "content alone" in render(draw_probe(empty))
    del empty.arrays["shown_marginal"]
    with pytest.raises(ValueError, match="no columns"):
        draw_marginals(empty)


def test_marginals_name_the_truth():
    assert "true: \N{MINUS SIGN}180°" in render(draw_marginals(recovery(ROTATION)))


@pytest.mark.parametrize("kinds", [("", "_logits", "_fitted", "_logits_fitted"), ("_fitted",)])
def test_maps_of_whatever_actions_there_are(kinds):
    figure = draw_equivariance(equivariance(ROTATION, kinds))
    assert "90% of row minima" in render(figure)
    assert len([axis for axis in figure.axes if axis.get_title()]) == len(kinds)


def test_retrieval_shows_chance():
    scalars = {"hit1_fitted": 0.5, "mrr_fitted": 0.7, "chance_hit1": 0.25, "chance_mrr": 0.4}
    text = render(draw_retrieval(Result("retrieval", scalars, {}, {**ROTATION, "copies": 4})))
    assert "chance" in text
    assert "Hit@5" not in text


def test_ambiguity_and_dependence():
    arrays = {
        **dict.fromkeys(("average", "upright", "anywhere"), np.full(8, 0.125)),
        **{"quartiles": np.array([[0.1] * 8, [0.2] * 8]), "modes": np.array([0.5])},
    }
    text = render(draw_ambiguity(Result("marginals", {"ambiguity": 0.36}, arrays, ROTATION)))
    assert "ambiguity 0.36" in text
    arrays = {f"delta_p_{name}": np.linspace(0.01, 0.1, 9) for name in ("images", "iid_pixels", "iid_features")}
    assert "noise images" in render(draw_dependence(Result("dependence", {}, arrays, ROTATION)))


def test_what_cannot_be_drawn_is_left_out():
    with_table, without = recovery(ROTATION), recovery(ROTATION, ())
    assert list(Recovery().figures(with_table)) == ["recovery", "probe", "marginals"]
    del without.arrays["shown_marginal"]
    assert list(Recovery().figures(without)) == ["probe"]


def test_the_confusion_matrix_names_its_classes_and_counts_in_percent():
    text = render(draw_confusion(np.array([[3, 1], [0, 4]]), ["cat", "dog"]))
    assert {"cat", "dog", "75", "25", "100"} <= set(text.split())
    assert "cat" not in render(draw_confusion(np.array([[3, 1], [0, 4]]), ["cat"]))
    with pytest.raises(ValueError, match="not square"):
        draw_confusion(np.zeros((2, 3)))
