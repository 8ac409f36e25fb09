"""Debian's Chromium, driven by Playwright; where there is none these tests are skipped, and say how to get it.

With DUET_SCREENSHOTS=FOLDER every page is kept there as it looked at the end of its test, to be looked at.
"""

import os
import shutil
from pathlib import Path

import pytest

PLACES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu")
PATIENCE = 300_000  # milliseconds, to end what hangs on a busy machine
FRAMES = """() => new Promise(done => {
  let left = 3;
  const frame = () => left-- ? requestAnimationFrame(frame) : done();
  frame();
})"""


def draw(page):
    """Wait until the page is drawn as it is now: what watches sizes is told of them with each frame."""
    page.evaluate(FRAMES)


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="no Playwright: pip install playwright")
    path = next((found for name in PLACES if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("no Chromium for the browser tests: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=path, args=list(FLAGS), timeout=PATIENCE)
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser, request):
    """A function that opens an address; `page.complaints` are console errors, `page.asked` all addresses asked for."""
    contexts = []

    def opened(address, width=1280, scheme="light"):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.complaints, page.asked = [], []
        page.on("console", lambda message: page.complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(address)
        return page

    yield opened
    folder = os.environ.get("DUET_SCREENSHOTS")
    for number, context in enumerate(contexts):
        if folder:
            context.pages[0].screenshot(path=Path(folder) / f"{request.node.name}-{number}.png", full_page=True)
        context.close()
