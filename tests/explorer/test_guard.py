"""The guard before an application: whatever that does, the client gets an answer, and the log one line."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

import pytest

from duet.explorer.guard import HEADERS, LARGEST_BODY, Guard, explain, printable

OWN = [(b"host", b"localhost:7860")]


def ask(application, method="GET", path="/", headers=OWN, bodies=(b"",), close=False):
    """(status, headers, body) of what the client gets."""
    sent = []
    parts = [{"type": "http.request", "body": body, "more_body": True} for body in bodies]

    async def receive():
        return parts.pop(0) if parts else {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    async def talk():
        guard = Guard(application, lambda path: path == "/page/shown.png", 100)
        scope = {"type": "http", "method": method, "path": path, "headers": headers}
        asking = asyncio.create_task(guard(scope, receive, send))
        if close:
            await asyncio.sleep(0.01)
            guard.close()
        await asking

    # In a thread of its own: a browser of other tests may hold this one's loop.
    with ThreadPoolExecutor(1) as alone:
        alone.submit(asyncio.run, talk()).result()
    assert not sent[-1].get("more_body", False)
    return sent[0]["status"], sent[0]["headers"], b"".join(part.get("body", b"") for part in sent[1:])


async def fine(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"fine"})


async def broken(scope, receive, send):
    raise RuntimeError("first\nsecond")


async def halfway(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"half", "more_body": True})
    raise RuntimeError("gone")


async def endless(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ALIVE", "more_body": True})
    await asyncio.sleep(60)


async def refusing(scope, receive, send):
    explain(ValueError("not like this"))
    await send({"type": "http.response.start", "status": 500, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def reading(scope, receive, send):
    while (await receive())["type"] != "http.disconnect":
        pass
    await send({"type": "http.response.start", "status": 500, "headers": []})
    await send({"type": "http.response.body", "body": b"read"})


def test_what_is_allowed_is_passed_on(caplog):
    status, headers, body = ask(fine)
    assert (status, body) == (200, b"fine")
    assert set(HEADERS) <= set(headers)
    assert ask(fine, "POST", "/gradio_api/upload", [*OWN, (b"origin", b"http://localhost:7860")])[0] == 200
    assert ask(fine, path="/gradio_api/file=/page/shown.png")[0] == 200
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/", [], 403),
        ("GET", "/", [(b"host", b"evil")], 403),
        ("GET", "/", [(b"host", b"localhost\n")], 403),
        ("GET", "/", [*OWN, (b"origin", b"http://localhost")], 403),
        ("GET", "/gradio_api/file=/page/other.png", OWN, 404),
        ("GET", "/gradio_api/upload", OWN, 404),
        ("GET", "/gradio_api/proxy=http://example.com", OWN, 404),
        ("DELETE", "/", OWN, 404),
        ("POST", "/", OWN, 404),
        ("POST", "/gradio_api/upload", [*OWN, (b"content-length", b"101")], 413),
        ("POST", "/gradio_api/run/predict", [*OWN, (b"content-length", b"%d" % (LARGEST_BODY + 1))], 413),
    ],
)
def test_what_is_not_is_refused_in_one_line(caplog, method, path, headers, status):
    assert ask(fine, method, path, headers)[0] == status
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith(f"{status} {method} {path}: ")


@pytest.mark.parametrize(
    ("application", "line"), [(broken, "500 GET /: first"), (refusing, "500 GET /: not like this")]
)
def test_what_fails_says_why_in_one_line(caplog, application, line):
    assert ask(application)[0] == 500
    assert caplog.messages == [line]
    assert caplog.records[0].exc_info is None


def test_an_answer_that_breaks_off_is_ended(caplog):
    assert ask(halfway)[::2] == (200, b"half")
    assert ask(endless, close=True)[::2] == (200, b"ALIVE")


def test_a_body_without_a_length_has_a_largest_size_too(caplog):
    assert ask(reading, "POST", "/gradio_api/upload", bodies=[b"0" * 60] * 2)[::2] == (
        413,
        b"413: at most 100 bytes are taken\n",
    )
    assert caplog.messages == ["413 POST /gradio_api/upload: at most 100 bytes are taken"]
    assert ask(reading, "POST", "/gradio_api/upload", bodies=[b"0" * 50] * 2)[2] == b"read"


def test_a_line_of_the_log_stays_one_line(caplog):
    caplog.set_level(logging.WARNING)
    ask(fine, path="/a\nForged\x1b[31m" + "b" * 500)
    assert len(caplog.messages[0].splitlines()) == 1
    assert caplog.messages[0].isprintable()
    assert len(caplog.messages[0]) < 300
    assert printable("\r\n\x1b\u202e") == r"\r\n\x1b\u202e"
