"""The page of a score card: one file, everyone on it, rivals marked as such, no stranger's text becomes markup."""

import base64
import json
import re

import pytest

from duet.evaluation.card import Card, Row
from duet.report.card import draw_depth, draw_everyone, render_card, write_card
from tests.report.test_report import HOSTILE, Page, words

PROTOCOL = {"data": "digits", "sizes": {"images": 4}, "seed": 0, "evaluations": {"spectrum": "What   turns."}}


def make_row(name="mine", error=3.0, accuracy=0.9, layer=None, group="rot360", **more):
    scalars = {"spectrum/median_difference_error_degrees": error, "equivariance/sensitivity": 1.0}
    intervals = {"spectrum/median_difference_error_degrees": (0.8 * error, 1.3 * error)}
    if accuracy is not None:
        key = "classification/logistic" if layer is None else "classification/knn"
        scalars[key], intervals[key] = accuracy, (accuracy - 0.05, accuracy + 0.04)
    return Row(name, group, layer, scalars, intervals, **more)


def make_card(layers=True):
    rows = [make_row(advice="turn-sensitive: align before retrieval; it falls"), make_row("other", 20.0, 0.8)]
    if layers:
        rows += [make_row(layer=f"blocks.{i} ({kind})") for i in range(3) for kind in ("pooled", "grid")]
    return Card([*rows, make_row("pixels", 0.4, 0.7, rival=True)], PROTOCOL)


def points(figure):
    return [container for axis in figure.axes for container in axis.containers]


def test_one_file_with_table_pictures_and_advice(tmp_path):
    html = write_card(make_card(), tmp_path / "card.html").read_text()
    page = Page(html)
    assert [attributes["src"][:19] for attributes in page.all("img")] == ["data:image/svg+xml;"] * 2
    assert not re.search(r"(src|href)=\"(?!data:|#)", html)
    text = words(html)
    assert "mine and other on digits" in text
    assert "turn-sensitive: align before retrieval; it falls" in text
    assert "3.0° [2.4, 3.9]" in re.sub(r"\s*\[", " [", text)
    assert "90.0 % [85.0, 94.0]" in re.sub(r"\s*\[", " [", text)
    assert "pixels (rival)" in text
    assert "mine, blocks.2 (grid)" in text
    assert "spectrum What turns." in text
    assert sum("rival" in str(row.get("class", "")) for row in page.all("tr")) == 1
    link = next(a for a in page.all("a") if a.get("download") == "card.json")
    stored = json.loads(base64.b64decode(link["href"].partition(",")[2]))
    assert stored == json.loads(json.dumps(make_card().to_dict()))


def test_the_same_card_gives_the_same_page():
    assert render_card(make_card()) == render_card(make_card())


def test_everyone_is_in_the_picture_and_rivals_are_hollow():
    figure = draw_everyone(make_card().rows, "rot360")
    (axis,) = figure.axes
    lines = [container.lines[0] for container in points(figure)]
    assert [(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in lines] == [
        (3.0, 0.9),
        (20.0, 0.8),
        (0.4, 0.7),
    ]
    assert [line.get_markerfacecolor() == "none" for line in lines] == [False, False, True]
    assert axis.xaxis_inverted()
    assert [text.get_text() for text in axis.texts] == ["mine", "other", "pixels (rival)"]


def test_without_labels_it_is_a_list_and_without_anything_no_picture():
    rows = [make_row(accuracy=None), make_row("pixels", accuracy=None, rival=True)]
    (axis,) = draw_everyone(rows, "rot360").axes
    assert [label.get_text() for label in axis.get_yticklabels()] == ["mine", "pixels (rival)"]
    assert draw_everyone([Row("mine", "rot360", None, {}, {})], "rot360") is None
    assert "mine" in render_card(Card([Row("mine", "rot360", None, {}, {})], PROTOCOL))


def test_other_groups_have_their_own_measure():
    finite = Row("mine", "rot4", None, {"spectrum/difference_accuracy": 0.8, "classification/logistic": 0.9}, {})
    (axis,) = draw_everyone([finite], "rot4").axes
    assert "how often right" in axis.get_xlabel()
    assert not axis.xaxis_inverted()
    plain = Row("mine", "hue", None, {"equivariance/error_fitted": 0.3, "classification/logistic": 0.9}, {})
    (axis,) = draw_everyone([plain], "hue").axes
    assert "left after the fitted action" in axis.get_xlabel()


def test_the_curve_over_depth_needs_layers():
    assert draw_depth(make_card(layers=False).rows, "rot360") is None
    figure = draw_depth(make_card().rows, "rot360")
    assert len(figure.axes) == 2
    lines = {line.get_label(): line for line in figure.axes[0].get_lines()}
    assert list(lines) == ["pooled", "grid"]
    assert lines["grid"].get_xdata().tolist() == [0, 1, 2]
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["blocks.0", "blocks.1", "blocks.2"]


@pytest.mark.parametrize("text", [HOSTILE, "$x^{", "a" * 300])
def test_a_strangers_name_stays_text(text):
    rows = [make_row(text, advice=text), make_row(text, layer=f"{text} (grid)")]
    page = Page(render_card(Card(rows, {**PROTOCOL, "data": text})))
    assert len(page.all("script")) == 1
    assert all("onerror" not in attributes for _, attributes in page.elements)
