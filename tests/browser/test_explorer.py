"""The explorer in a browser: the slider moves what is shown, a dropped image is read, what is none is refused."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from tests.explorer.test_explorer import HOSTILE, make_model


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    pytest.importorskip("gradio", reason="no gradio: pip install 'duet-ssl[explore]'")
    from dataclasses import replace

    from duet.explorer.model import open_explorer
    from duet.explorer.page import build, import_gradio, launch

    patch = pytest.MonkeyPatch()
    patch.setenv("GRADIO_TEMP_DIR", str(tmp_path_factory.mktemp("gradio")))
    explorer = open_explorer(make_model(tmp_path_factory.mktemp("model")))
    explorer = replace(explorer, labels=(HOSTILE, *explorer.labels[1:]))
    gradio = import_gradio()
    page = build(explorer, gradio)
    yield launch(page, gradio)
    page.close(verbose=False)
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
    buffer = io.BytesIO()
    Image.fromarray(np.tile(np.arange(0, 240, 4, dtype=np.uint8), (50, 1))).save(buffer, format="PNG")
    send(page, "slope.png", buffer.getvalue())
    page.wait_for_function("document.querySelector('#duet-reading').textContent.includes('your picture')")
    slope = pixels(page, "#duet-reading img")
    assert slope.shape == (28, 28)
    assert (np.diff(slope.mean(0)) > 0).all()
    page.get_by_role("tab", name="Neighbours").click()
    assert np.array_equal(pixels(page, "#duet-near-content img >> nth=0"), slope)
    page.get_by_role("tab", name="Move g").click()
    page.get_by_label("Remove").or_(page.get_by_label("Clear")).first.click()
    page.wait_for_selector("#duet-drop input[type=file]", state="attached")
    send(page, "page.png", b"<html>no image</html>")
    page.wait_for_function("document.querySelector('#duet-notice').textContent.includes('not an image')")
    assert np.array_equal(pixels(page, "#duet-reading img"), slope)


def test_neighbours_are_on_the_second_tab(page):
    page.get_by_role("tab", name="Neighbours").click()
    assert page.locator("#duet-near-content figure").count() == 8
    before = page.locator("#duet-near").inner_html()
    page.get_by_label("as they are").check()
    page.wait_for_function("before => document.querySelector('#duet-near').innerHTML !== before", arg=before)


@pytest.mark.parametrize("width", [1280, 390])
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
