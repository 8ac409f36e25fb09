"""The page itself: gradio's components around the functions of `model` and `drawing`. Served to this machine only."""

from __future__ import annotations

import os
import time
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..error import DuetError
from ..installation import install_command
from ..interruption import stopped_as_by_ctrl_c
from .drawing import as_pillow, show_empty, show_head, show_move, show_neighbours, show_notice, show_reading
from .guard import Guard, explain
from .model import move, read, slider
from .neighbour import neighbours
from .opening import Explorer, open_explorer
from .picture import LARGEST_FILE, Picture, drop, pick
from .server import HOST, served
from .upload import UNUSED, Uploads, upload_folder

GALLERY = 48
SESSIONS = 50
"""Open pages whose picture is remembered."""
EVENT = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
"""Of every event: answered at once, without a curtain over the page, and not offered as an API."""


def explore(
    run: str | os.PathLike[str],
    port: int | None = None,
    browser: bool = True,
    device: str = "auto",
    turns: int | None = None,
    data: str | None = None,
) -> None:
    """Serve the page of a trained run on this machine until it is interrupted; `data`: other images than its own."""
    if port is not None and not 0 < port < 2**16:
        raise DuetError(f"ports are 1 to 65535, not {port}")
    with stopped_as_by_ctrl_c(), upload_folder() as folder:
        gradio = import_gradio(folder)
        explorer = open_explorer(run, device, turns, data)
        uploads = Uploads(folder)
        with opened(explorer, gradio, uploads, port) as address:
            print(f"Exploring {run} at {address} (Ctrl-C ends it)", flush=True)
            if browser:
                webbrowser.open(address)
            with suppress(KeyboardInterrupt):
                while True:
                    time.sleep(UNUSED / 2)
                    uploads.sweep()
    print("\nclosed")


def import_gradio(folder: Path) -> Any:
    """Gradio, told before its first line where its files go and that nothing goes out; a sentence without it."""
    os.environ["GRADIO_TEMP_DIR"] = str(folder)
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["GRADIO_RUN_HISTORY"] = "False"
    try:
        import gradio
    except ImportError:
        raise DuetError(f"the explorer needs gradio: {install_command('explore')}") from None
    return gradio


@contextmanager
def opened(explorer: Explorer, gradio: Any, uploads: Uploads, port: int | None = None) -> Iterator[str]:
    """Serve the page in the background while the block runs; its address."""
    page = build(explorer, gradio, uploads)
    uploads.keep()
    with served(Guard(mount(page, gradio), uploads.shows, 2 * LARGEST_FILE), port) as address:
        yield address


def mount(page: Any, gradio: Any) -> Any:
    """The page as an application that a server can ask."""
    from fastapi import FastAPI

    system = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif")
    mono = ("ui-monospace", "Consolas", "monospace")
    page.state_session_capacity = SESSIONS
    return gradio.mount_gradio_app(
        FastAPI(openapi_url=None),
        page,
        path="/",
        server_name=HOST,
        root_path="",
        ssr_mode=False,
        mcp_server=False,
        enable_monitoring=False,
        pwa=False,
        footer_links=[],
        max_file_size=2 * LARGEST_FILE,  # what is a little too large is refused with a sentence of ours
        theme=gradio.themes.Default(font=system, font_mono=mono, primary_hue="blue", neutral_hue="slate"),
        css=(files("duet") / "templates" / "explorer.css").read_text("utf-8"),
    )


def answer_strictly(page: Any, gradio: Any, uploads: Uploads) -> None:
    """Let events take files that were sent to the page, once, and no others; what fails is a sentence of one line."""
    process = page.process_api

    async def answer(*args: Any, **kwargs: Any) -> Any:
        sent = list(_paths(kwargs.get("inputs")))
        try:
            if not all(map(uploads.holds, sent)):
                raise DuetError("this file was not sent to the page; drop it again")
            return await process(*args, **kwargs)
        except Exception as error:
            raise gradio.Error(explain(error), print_exception=False) from None
        finally:
            for path in sent:
                uploads.forget(path)

    page.process_api = answer


def _paths(value: Any) -> Iterator[str]:
    """The files that an event's inputs name."""
    if isinstance(value, dict):
        if "path" in value:
            yield str(value["path"])
        value = list(value.values())
    for inner in value if isinstance(value, list) else ():
        yield from _paths(inner)


def build(explorer: Explorer, gradio: Any, uploads: Uploads) -> Any:
    """The page's components and what happens when one of them is used."""
    names = list(explorer.encoder.groups)
    if not names:
        raise DuetError("this model has no group to explore")
    has_images = len(explorer.images) > 0
    first = pick(explorer, 0) if has_images else None
    begin = slider(explorer.group(names[0])).first
    with gradio.Blocks(title=explorer.title, analytics_enabled=False) as page:
        gradio.HTML(show_head(explorer), elem_id="duet-head")
        picture = gradio.State(first)
        with gradio.Row(elem_id="duet-main"):
            with gradio.Column(elem_id="duet-picker"):
                gallery = gradio.Gallery(
                    [as_pillow(image) for image in explorer.images[:GALLERY]],
                    label="Test images",
                    columns=6,
                    height=330,
                    allow_preview=False,
                    object_fit="contain",
                    format="png",
                    buttons=[],
                    interactive=False,
                    selected_index=0 if has_images else None,
                    visible=has_images,
                    elem_id="duet-gallery",
                )
                dropped = gradio.File(
                    type="binary", label="An image of yours", show_label=False, height=64, elem_id="duet-drop"
                )
                notice = gradio.HTML(show_notice(explorer.missing), elem_id="duet-notice")
                words = [(explorer.called(name), name) for name in names]
                group = gradio.Dropdown(words, value=names[0], label="Transformation", visible=len(names) > 1)
            with gradio.Column(elem_id="duet-result"), gradio.Tabs():
                with gradio.Tab("Read and move"):
                    reading = gradio.HTML(_reading(explorer, first, names[0]), elem_id="duet-reading")
                    value = gradio.Slider(**_slider(explorer, names[0]), elem_id="duet-g", buttons=[])
                    moved = gradio.HTML(_moved(explorer, first, names[0], begin), elem_id="duet-moved")
                with gradio.Tab("Neighbours"):
                    among = gradio.Radio(**_among(explorer, names[0]), value=True, visible=has_images)
                    near = gradio.HTML(_near(explorer, first, names[0], True), elem_id="duet-near")

        def choose(chosen: gradio.SelectData, name: str, at: float, turned: bool) -> tuple[Any, ...]:
            if chosen.index not in range(min(GALLERY, len(explorer.images))):
                raise DuetError("there is no such image")
            found = pick(explorer, chosen.index)
            return found, "", *_all(explorer, found, name, at, turned)

        def take(file: bytes, now: Picture | None, name: str, at: float, turned: bool) -> tuple[Any, ...]:
            try:
                found = drop(explorer, file)
            except (ValueError, OSError) as refusal:
                return None, gradio.skip(), now, show_notice(str(refusal)), *_all(explorer, now, name, at, turned)
            return None, gradio.Gallery(selected_index=None), found, "", *_all(explorer, found, name, at, turned)

        def change_group(now: Picture | None, name: str, turned: bool) -> tuple[Any, ...]:
            begin = slider(explorer.group(name)).first
            shown = _all(explorer, now, name, begin, turned)
            return gradio.update(**_slider(explorer, name)), gradio.update(**_among(explorer, name)), *shown

        shown = [reading, moved, near]
        # `choose` is defined where gradio is a variable, so its annotations are told by hand.
        choose.__annotations__ = {"chosen": gradio.SelectData}
        gallery.select(choose, [group, value, among], [picture, notice, *shown], **EVENT)
        # The field is emptied again, so that it takes the next file and shows none that was refused.
        # Panels are shown anew, not skipped, and the slider is left alone: Gradio adds one more component to the
        # session for every one that is skipped or changed.
        taken = [dropped, gallery, picture, notice, *shown]
        dropped.upload(take, [dropped, picture, group, value, among], taken, **EVENT)
        group.change(change_group, [picture, group, among], [value, among, *shown], **EVENT)
        value.input(
            lambda now, name, at: _moved(explorer, now, name, at),
            [picture, group, value],
            moved,
            trigger_mode="always_last",
            **EVENT,
        )
        among.change(
            lambda now, name, turned: _near(explorer, now, name, turned), [picture, group, among], near, **EVENT
        )
    answer_strictly(page, gradio, uploads)
    return page


def _all(explorer: Explorer, picture: Picture | None, name: str, at: float, turned: bool) -> tuple[str, str, str]:
    """The three panels of a picture."""
    return (
        _reading(explorer, picture, name),
        _moved(explorer, picture, name, at),
        _near(explorer, picture, name, turned),
    )


def _reading(explorer: Explorer, picture: Picture | None, name: str) -> str:
    if picture is None:
        return show_empty("Drop an image to see what the model reads off it.")
    return show_reading(explorer, picture, name, read(explorer, picture, name))


def _moved(explorer: Explorer, picture: Picture | None, name: str, at: float) -> str:
    return "" if picture is None else show_move(explorer, picture, name, at, move(explorer, picture, name, at))


def _near(explorer: Explorer, picture: Picture | None, name: str, turned: bool) -> str:
    if picture is None or len(explorer.images) < 2:
        return show_empty("There are no test images to be neighbours.")
    under = name if turned else ""
    found = {"full": neighbours(explorer, picture, "full", under)}
    if explorer.encoder.layout.axes:
        found = {"content": neighbours(explorer, picture, "content", under), **found}
    return show_neighbours(explorer, picture, name, found)


def _slider(explorer: Explorer, name: str) -> dict[str, Any]:
    """The slider of a group: to where, or for a model that knows differences only, by how much."""
    group = explorer.group(name)
    low, high, step, first = slider(group)
    unit = f" ({group.unit})" if group.unit else ""
    label = f"Move {'by' if explorer.relative else 'to'}: {explorer.called(name)}{unit}"
    return {"minimum": low, "maximum": high, "step": step, "value": first, "label": label}


def _among(explorer: Explorer, name: str) -> dict[str, Any]:
    """Among which images neighbours are sought."""
    choices = [("as they are", False), (f"each at a random {explorer.called(name)}", True)]
    return {"choices": choices, "label": "Test images"}
