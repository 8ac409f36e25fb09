"""The explorer in a browser: the slider moves what is shown, a dropped image is read, what is none is refused."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from tests.explorer.test_explorer import HOSTILE, make_model

WIDTHS = (1280, 390)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    pytest.importorskip("gradio", reason="no gradio: pip install '.[explore]'")
    from dataclasses import replace

    from duet.explorer.opening import open_explorer
    from duet.explorer.page import import_gradio, opened
    from duet.explorer.upload import Uploads

    patch = pytest.MonkeyPatch()
    folder = tmp_path_factory.mktemp("gradio")
    patch.setenv("GRADIO_TEMP_DIR", str(folder))  # undone afterwards
    explorer = open_explorer(make_model(tmp_path_factory.mktemp("model")))
    explorer = replace(explorer, labels=(HOSTILE, *explorer.labels[1:]), run=f"mine {HOSTILE}")
    with opened(explorer, import_gradio(folder), Uploads(folder)) as address:
        yield address
    patch.undo()


@pytest.fixture
def page(open_page, address):
    page = open_page(address)
    page.wait_for_selector("#duet-truth")
    return page


def pixels(page, selector):
    source = page.locator(selector).get_attribute("src")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(source.split(",", 1)[1])))).astype(float)


def set_g(page, value):
    box = page.locator("#duet-g input[type=number]")
    box.fill(str(value))
    box.press("Enter")
    page.wait_for_function(f"document.querySelector('#duet-moved').textContent.includes('taken to {value}°')")


def send(page, name, content):
    page.locator("#duet-drop input[type=file]").set_input_files(
        {"name": name, "mimeType": "image/png", "buffer": content}
    )


def slope():
    buffer = io.BytesIO()
    Image.fromarray(np.tile(np.arange(0, 240, 4, dtype=np.uint8), (50, 1))).save(buffer, format="PNG")
    return buffer.getvalue()


def drop_slope(page):
    send(page, "slope.png", slope())
    page.wait_for_function("document.querySelector('#duet-reading').textContent.includes('your picture')")


def open_neighbours(page):
    page.get_by_role("tab", name="Neighbours").click()
    page.locator("#duet-near-full figure").nth(7).wait_for()


def boxes(page, selector):
    """Left, top, width and height of everything that matches, as it is drawn."""
    return page.locator(selector).evaluate_all(
        "all => all.map(e => e.getBoundingClientRect()).map(r => [r.left, r.top, r.width, r.height])"
    )


@pytest.fixture(params=WIDTHS)
def wide_or_narrow(request, open_page, address):
    page = open_page(address, request.param)
    page.wait_for_selector("#duet-truth")
    return page


def test_the_slider_turns_the_picture_and_moves_the_features(page):
    set_g(page, 0)
    upright = pixels(page, "#duet-truth")
    shown = {way: pixels(page, f"#duet-{way}") for way in ("prescribed", "fitted", "none")}
    assert float(page.locator("#duet-distance-none").inner_text()) == 0
    set_g(page, 90)
    assert np.array_equal(pixels(page, "#duet-truth"), np.rot90(upright))
    assert float(page.locator("#duet-distance-none").inner_text()) > 0
    for way in ("prescribed", "fitted"):
        assert not np.array_equal(pixels(page, f"#duet-{way}"), shown[way])
    assert np.array_equal(pixels(page, "#duet-none"), shown["none"])


def test_dragging_the_handle_answers_too(page):
    set_g(page, 0)
    handle = page.locator("#duet-g input[type=range]")
    handle.focus()
    handle.press("ArrowRight")
    page.wait_for_function("document.querySelector('#duet-moved').textContent.includes('taken to 1°')")


def test_a_picked_image_replaces_the_first(page):
    before = page.locator("#duet-reading img").get_attribute("src")
    page.locator("#duet-gallery button.thumbnail-item, #duet-gallery .thumbnail-lg").nth(4).click()
    page.wait_for_function(
        "before => document.querySelector('#duet-reading img').getAttribute('src') !== before", arg=before
    )


def test_a_dropped_image_is_read_and_what_is_none_is_refused(page):
    drop_slope(page)
    seen = pixels(page, "#duet-reading img")
    assert seen.shape == (28, 28)
    assert (np.diff(seen.mean(0)) > 0).all()
    page.wait_for_function("document.querySelector('#duet-gallery .selected') === null")
    open_neighbours(page)
    assert np.array_equal(pixels(page, "#duet-near-content img >> nth=0"), seen)
    page.get_by_role("tab", name="Read and move").click()
    page.wait_for_selector("#duet-drop input[type=file]", state="attached")  # ready for the next
    send(page, "page.png", b"<html>no image</html>")
    page.wait_for_function("document.querySelector('#duet-notice').textContent.includes('not an image')")
    assert np.array_equal(pixels(page, "#duet-reading img"), seen)
    assert "page.png" not in page.locator("#duet-drop").inner_text()
    page.locator("#duet-gallery .thumbnail-item").nth(2).click()
    page.wait_for_function("document.querySelector('#duet-notice').textContent.trim() === ''")


def test_the_title_names_the_run_and_its_data(page):
    assert page.title() == f"mine {HOSTILE}: rotation of digits"
    assert page.locator("h1").inner_text() == page.title()
    assert "rot360" not in page.locator("body").inner_text()


def test_equal_bins_are_drawn_equal_and_low_and_called_unknown(wide_or_narrow):
    page = wide_or_narrow  # the model is untrained, and so its bins are nearly equal
    bars = boxes(page, "#duet-reading .duet-bar")
    (_, top, _, height), (_, line, _, _) = *boxes(page, ".duet-plot"), *boxes(page, ".duet-even")
    assert len(bars) == 8
    for _, bar, _, tall in bars:
        assert tall == pytest.approx(height * 0.125 / 0.75, abs=2)
        assert bar == pytest.approx(line, abs=3)
        assert bar + tall == pytest.approx(top + height, abs=1)
    assert page.locator("#duet-recovered").inner_text() == "unknown"
    assert page.get_by_text("knows nothing").is_visible()
    assert page.locator(".duet-line").count() == 0


def test_neighbours_stay_in_their_row(wide_or_narrow):
    page = wide_or_narrow
    open_neighbours(page)
    for space in ("content", "full"):
        found = boxes(page, f"#duet-near-{space} figure")
        assert len(found) == 8
        assert len({round(top) for _, top, _, _ in found}) == 1
        assert min(width for _, _, width, _ in found) >= 60


def test_the_page_keeps_its_width_whatever_is_shown(wide_or_narrow):
    page = wide_or_narrow
    width = page.viewport_size["width"]

    def measure():
        parts = ("#duet-head", "#duet-picker", "#duet-result")
        return [box[0::2] for part in parts for box in boxes(page, part)]

    before = measure()
    drop_slope(page)
    assert measure() == before
    open_neighbours(page)
    assert measure() == before
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_on_a_phone_the_result_is_on_the_screen_of_the_picker(open_page, address):
    page = open_page(address, 390)
    page.wait_for_selector("#duet-truth")
    ((_, picker, _, tall),) = boxes(page, "#duet-gallery")
    ((_, value, _, _),), ((_, plot, _, high),) = boxes(page, "#duet-recovered"), boxes(page, ".duet-plot")
    assert 0 < picker < picker + tall < value
    assert plot + high < 844  # the height of a common phone, less than which nobody must scroll


def test_neighbours_are_on_the_second_tab(page):
    open_neighbours(page)
    assert page.locator("#duet-near-content figure").count() == 8
    before = page.locator("#duet-near").inner_html()
    page.get_by_label("as they are").check()
    page.wait_for_function("before => document.querySelector('#duet-near').innerHTML !== before", arg=before)


@pytest.mark.parametrize("width", WIDTHS)
def test_it_stays_on_this_machine_fits_and_lets_no_name_run(open_page, address, width):
    page = open_page(address, width)
    page.wait_for_selector("#duet-truth")
    page.wait_for_timeout(500)
    assert address.startswith("http://127.0.0.1:")
    assert [asked for asked in page.asked if not asked.startswith((address, "data:", "blob:"))] == []
    assert page.complaints == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert HOSTILE in page.locator("#duet-reading figcaption").inner_text()
    assert page.locator("#duet-reading img").count() == 1
