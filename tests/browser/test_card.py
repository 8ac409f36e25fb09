"""The page of a score card in a browser."""

import pytest

from duet.report.card import write_card
from tests.report.test_card import make_card


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    return write_card(make_card(), tmp_path_factory.mktemp("card") / "card.html").as_uri()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_opens_quietly_fits_and_talks_to_nobody(open_page, address, width, scheme):
    page = open_page(address, width, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    pictures = page.locator("img").evaluate_all("all => all.map(one => one.complete && one.naturalWidth > 0)")
    assert pictures == [True, True]
    assert page.complaints == []
    assert [asked for asked in page.asked if not asked.startswith(("file:", "data:"))] == []


def test_a_heading_sorts(open_page, address):
    page = open_page(address)
    table = page.locator("#group-rot360 table").first
    column = table.locator("thead th").nth(1)
    assert column.inner_text().startswith("accuracy")
    column.locator("button").click()
    assert table.locator("tbody th").all_inner_texts() == ["pixels (rival)", "other", "mine"]
