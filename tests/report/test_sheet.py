"""The contact sheet: one page that needs nothing, the least sure first."""

import base64
import io
import re

import pytest
from PIL import Image

from duet.application.orientation import Oriented
from duet.application.sheet import Case, Sheet
from duet.report.sheet import SIDE, write_sheet
from tests.application.conftest import bearing, marked


@pytest.fixture
def make_sheet(tmp_path):
    """A sheet of images at 40 degrees, of which every third is left alone."""

    def make(count=6):
        sheet = Sheet()
        for number in range(count):
            path = tmp_path / f"<b>{number}.png"
            marked((400, 300) if number % 2 else (200, 300), 40, "RGB").save(path)
            sheet.add(Case(path, path, 40.0, number / 10, number % 3 > 0))
        done = Oriented(count, count - (count + 2) // 3, 0, (count + 2) // 3, 0)
        return write_sheet(sheet, done, tmp_path / "sheet.html")

    return make


def pictures(page):
    found = re.findall(r'src="data:image/jpeg;base64,([^"]+)"', page)
    return [Image.open(io.BytesIO(base64.b64decode(data))) for data in found]


def test_before_and_after_stand_side_by_side(make_sheet):
    page = make_sheet().read_text("utf-8")
    shown = pictures(page)
    assert len(shown) == 12
    for before, after in zip(shown[::2], shown[1::2], strict=True):
        assert max(before.size) == SIDE
        assert bearing(before) == pytest.approx(40, abs=3)
        assert bearing(after) == pytest.approx(0, abs=3)


def test_the_least_sure_come_first_and_what_was_left_alone_says_so(make_sheet):
    page = make_sheet().read_text("utf-8")
    assert re.findall(r"<b>(\d+)% sure(, left alone)?</b>", page) == [
        *[("0", ", left alone"), ("10", ""), ("20", ""), ("30", ", left alone"), ("40", ""), ("50", "")],
    ]
    assert "<h1>4 rotated, 0 already upright, 2 unsure</h1>" in page
    assert page.count("before: at +40°") == 6


def test_names_are_escaped_and_nothing_is_fetched(make_sheet):
    page = make_sheet(2).read_text("utf-8")
    assert "&lt;b&gt;0.png" in page
    assert "<b>0.png" not in page
    assert re.findall(r'(?:src|href)="(?!data:|#)', page) == []


def test_a_file_that_went_away_is_left_out(tmp_path):
    sheet = Sheet()
    sheet.add(Case(tmp_path / "gone.png", tmp_path / "gone.png", 0.0, 0.5, True))
    assert "gone" not in write_sheet(sheet, Oriented(1, 1, 0, 0, 0), tmp_path / "sheet.html").read_text()
