"""The strips: a Result in, a figure out, labelled in the raw unit."""

import numpy as np
import pytest

from duet.evaluation.drawing.strips import GAP, _mosaic, draw_opening, draw_strips
from tests.making import make_decoded as result


def texts(axis):
    return [text.get_text() for text in axis.texts]


def test_every_strip_has_its_rows_and_their_errors():
    strip, _, errors = draw_strips(result()).axes
    assert [label.get_text() for label in strip.get_yticklabels()] == [
        "truth",
        "paper's $T_g$\nworse than no action",
        "fitted action",
    ]
    assert texts(strip) == ["error", "0.250", "0.040"]
    assert [line.get_label() for line in errors.lines] == [
        *("no action", "paper's $T_g$", "fitted action", "reconstruction"),
    ]


def test_columns_are_labelled_in_the_raw_unit():
    strip = draw_strips(result()).axes[0]
    assert [label.get_text() for label in strip.get_xticklabels()] == [
        "\N{MINUS SIGN}180°",
        "\N{MINUS SIGN}90°",
        "0°",
        "90°",
    ]


def test_a_model_without_a_table_has_no_prescribed_row():
    strip = draw_strips(result(actions=("fitted",))).axes[0]
    assert [label.get_text() for label in strip.get_yticklabels()] == ["truth", "fitted action"]


def test_a_long_sweep_is_thinned_out_and_keeps_the_untouched_image():
    labels = [label.get_text() for label in draw_strips(result(swept=50)).axes[0].get_xticklabels()]
    assert len(labels) == 13
    assert "0°" in labels


@pytest.mark.parametrize("channels", [1, 3])
def test_images_lie_side_by_side_with_white_gaps(channels):
    rows = [np.full((3, channels, 4, 5), value) for value in (0.0, 0.5)]
    picture = _mosaic(rows)
    assert picture.shape[:2] == (2 * 4 + GAP, 3 * 5 + 2 * GAP)
    assert (picture[:4, :5] == 0).all()
    assert (picture[4 : 4 + GAP] == 1).all()
    assert (picture[4 + GAP :, 5 + GAP : 10 + GAP] == 0.5).all()


def test_the_opening_picture_has_the_truth_and_the_best_action():
    strips = draw_opening(result(swept=50)).axes
    assert len(strips) == 2  # images
    for strip in strips:
        assert [label.get_text() for label in strip.get_yticklabels()] == ["truth", "decoded"]
        assert texts(strip) == ["error", "0.040"]
    assert len(strips[0].get_xticklabels()) == 13
    (only,) = draw_opening(result(actions=("prescribed",)), shown=1).axes
    assert texts(only) == ["error", "0.250"]


def test_it_can_be_saved(tmp_path):
    draw_strips(result(channels=3)).savefig(tmp_path / "strips.png", dpi=40)
    assert (tmp_path / "strips.png").stat().st_size > 1000
