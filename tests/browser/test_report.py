"""The report in a browser: it opens, sorts, fits a phone, and talks to nobody."""

import json

import pytest

from duet.report import write_report
from tests.application.conftest import marked
from tests.conftest import confident, make_compass
from tests.making import make_results, make_run
from tests.report.test_report import HOSTILE

from .conftest import draw


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    runs = [make_run(folder / "duet"), make_run(folder / "simclr", make_results()[::2], method="simclr")]
    runs.append(make_run(folder / HOSTILE.replace("/", "|"), make_results()[:1], data=HOSTILE))
    return write_report(runs, folder / "page.html").as_uri()


def first_column(page, table):
    cells = page.locator(table).locator("tbody tr td:nth-child(2)").all_inner_texts()
    return [cell.replace("\N{NO-BREAK SPACE}", " ").split("\n")[0] for cell in cells]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_opens_quietly_fits_and_talks_to_nobody(open_page, address, width, scheme):
    page = open_page(address, width, scheme)
    assert page.title() == "3 runs, side by side"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    pictures = page.locator("img").evaluate_all("all => all.map(one => one.complete && one.naturalWidth > 0)")
    assert len(pictures) >= 5
    assert all(pictures)
    assert page.complaints == []
    assert [asked[:60] for asked in page.asked if not asked.startswith(("file:", "data:"))] == []
    assert page.locator("script").count() == 1


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    folder = tmp_path_factory.mktemp("single")
    return write_report([make_run(folder / "duet")], folder / "page.html").as_uri()


@pytest.fixture(scope="module")
def with_images(tmp_path_factory):
    """A run without figures of its own, and images of odd sizes with long names."""
    folder = tmp_path_factory.mktemp("own")
    run = make_run(folder / "run", [])
    (run / "metrics.csv").unlink()
    (folder / "photos").mkdir()
    for number in range(14):
        size = [(300, 200), (200, 300), (900, 60), (60, 900), (30, 30)][number % 5]
        marked(size, 30 * number).save(folder / "photos" / f"{'a-rather-long-name-' * (number % 3)}{number}.png")
    (folder / "photos" / "broken.png").write_bytes(b"")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("duet.report.own_images.load", lambda name, device: confident(make_compass()))
        return write_report([run], folder / "page.html", [folder / "photos"]).as_uri()


@pytest.mark.parametrize("width", [1280, 390])
def test_images_of_ones_own_are_seen_at_once_and_fit(open_page, with_images, width):
    page = open_page(with_images, width)
    own = page.locator("#own-images")
    assert own.locator("figure >> visible=true").count() == 12
    assert not own.get_by_text("broken.png").is_visible()
    for summary in own.locator("details > summary").all():
        summary.click()
    assert own.locator("figure >> visible=true").count() == 14
    assert own.get_by_text("broken.png: empty file").is_visible()
    pictures = own.locator("img").evaluate_all("all => all.map(one => one.complete && one.naturalWidth > 0)")
    assert pictures == [True] * 28
    ends = own.locator("img, figure").evaluate_all("all => all.map(one => one.getBoundingClientRect().right)")
    assert max(ends) <= width
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.complaints == []
    assert [asked[:60] for asked in page.asked if not asked.startswith(("file:", "data:"))] == []


def test_the_verdict_comes_first_and_all_but_the_overview_folds(open_page, single):
    page = open_page(single)
    assert page.locator("main p").first.inner_text().split("\n")[0] == "Rotation: learned."
    assert page.evaluate("document.querySelector('#overview').getBoundingClientRect().bottom") < 1400
    assert page.locator("details[open]").count() == 0
    assert page.locator("#overview figure").count() == 1
    assert not page.locator("#result-recovery figure").first.is_visible()
    page.locator("#result-recovery > summary").press("Enter")
    assert page.locator("#result-recovery figure").first.is_visible()


def test_a_link_to_something_folded_opens_it(open_page, single):
    page = open_page(f"{single}#result-retrieval")
    assert page.locator("#result-retrieval table").first.is_visible()


def test_on_a_phone_what_is_wide_scrolls_and_says_so(open_page, single):
    page = open_page(single, 390)
    page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    draw(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    wide = page.locator(".scroll").evaluate_all("all => all.map(one => one.scrollWidth > one.clientWidth + 1)")
    hints = page.locator(".hint").evaluate_all("all => all.map(one => getComputedStyle(one).display != 'none')")
    assert any(wide)
    assert hints == wide
    assert page.locator("#overview .hint").first.is_visible()


def test_on_a_desk_the_overview_needs_no_hint(open_page, single):
    page = open_page(single)
    draw(page)
    assert page.locator("#overview .hint >> visible=true").count() == 0


def test_a_heading_sorts_by_mouse_and_by_keyboard(open_page, address):
    page = open_page(address)
    page.locator("#result-classification > summary").click()
    table = "#result-classification table >> nth=0"
    heading = page.locator(table).locator("thead th").nth(1)
    heading.locator("button").click()
    assert heading.get_attribute("aria-sort") == "ascending"
    assert first_column(page, table) == ["70.0 %", "80.0 %", "90.0 %"]
    heading.locator("button").press("Enter")
    assert heading.get_attribute("aria-sort") == "descending"
    assert first_column(page, table) == ["90.0 %", "80.0 %", "70.0 %"]
    page.locator(table).locator("thead th").nth(0).locator("button").click()
    assert heading.get_attribute("aria-sort") == "none"
    names = page.locator(table).locator("tbody th").all_inner_texts()
    assert names == sorted(names)


def test_what_is_missing_is_sorted_last_both_ways(open_page, address):
    page = open_page(address)
    table = "#overview table"
    column = page.locator(table).locator("thead th").nth(2)  # recovery: of the first run only
    for _ in range(2):
        column.locator("button").click()
        cells = page.locator(table).locator("tbody tr td:nth-child(3)").all_inner_texts()
        assert [cell.split("\n")[0] for cell in cells[-2:]] == ["–", "–"]
        assert any("9.0°" in cell for cell in cells[:-2])


def test_the_numbers_can_be_saved(open_page, address):
    page = open_page(address)
    page.locator("#downloads > summary").click()
    with page.expect_download() as saved:
        page.get_by_role("link", name="results.json").click()
    found = json.loads(saved.value.path().read_text())
    assert found["duet"]["results"]["classification"]["logistic"] == 0.9


def test_an_injected_script_is_kept_out_by_the_policy(open_page, address):
    page = open_page(address)
    refused = page.evaluate("""() => new Promise(done => {
      addEventListener("securitypolicyviolation", event => done([event.effectiveDirective, event.blockedURI]));
      window.hit = () => done("it ran");
      document.body.insertAdjacentHTML("beforeend", '<img src="data:," onerror="hit()">');
    })""")
    assert refused == ["script-src-attr", "inline"]
