"""The contact sheet in a browser."""

import pytest

from duet.application.orientation import Oriented
from duet.application.sheet import Case, Sheet
from duet.report.sheet import write_sheet
from tests.application.conftest import marked


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder, sheet = tmp_path_factory.mktemp("sheet"), Sheet()
    for number, size in enumerate([(300, 200), (200, 300), (900, 60), (60, 900), (30, 30), (300, 300)]):
        path = folder / f"{'a-rather-long-name-without-any-space-' * (number % 2)}{number}.png"
        marked(size, 30, "RGB").save(path)
        sheet.add(Case(path, path, (90.0, 30.0)[number % 2], number / 6, number % 3 > 0))
    return write_sheet(sheet, Oriented(6, 4, 0, 2, 0), folder / "sheet.html").as_uri()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_opens_quietly_fits_and_talks_to_nobody(open_page, address, width, scheme):
    page = open_page(address, width, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    ends = page.locator("img, figure").evaluate_all("all => all.map(one => one.getBoundingClientRect().right)")
    assert max(ends) <= width
    pictures = page.locator("img").evaluate_all("all => all.map(one => one.complete && one.naturalWidth > 0)")
    assert pictures == [True] * 12
    assert page.complaints == []
    assert [asked for asked in page.asked if not asked.startswith(("file:", "data:"))] == []


def test_before_and_after_do_not_overlap(open_page, address):
    page = open_page(address, 390)
    for pair in page.locator(".pair").all():
        before, after = (pair.locator(f".{name}").bounding_box() for name in ("before", "after"))
        assert before["x"] + before["width"] <= after["x"]
