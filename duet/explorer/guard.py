"""Who may ask the page, and for what: by this machine's own names, from no other page, for what the page needs."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, MutableMapping
from contextvars import ContextVar
from typing import Any, NamedTuple

from ..error import first_line

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

NAMES = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?", re.IGNORECASE)
API = "/gradio_api"
READ = re.compile(
    r"/|/(theme\.css|config/?|favicon\.ico|manifest\.json|robots\.txt)|/(assets|static)/.+"
    rf"|{API}/(info|heartbeat/\w+|upload_progress)"
)
FILE = re.compile(rf"{API}/file=(.+)", re.DOTALL)
UPLOAD = f"{API}/upload"
WRITE = (f"{API}/run/predict", UPLOAD)
LARGEST_BODY = 1_000_000
"""Bytes of a request that is no upload."""
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", b"frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
)
log = logging.getLogger(__name__)
_why: ContextVar[list[str]] = ContextVar("why")


def explain(error: BaseException) -> str:
    """Note why the present request fails, for its line in the log; the same in one line."""
    line = first_line(error)
    _why.get([]).append(line)
    return line


class Refusal(NamedTuple):
    """The status of an answer, and its sentence."""

    status: int
    sentence: str


class Guard:
    """Lets through to an application what may be asked of it. Everything else is a short answer and one line.

    `shows`: may the file of this path be read? `largest`: bytes of an upload.
    """

    def __init__(self, application: Application, shows: Callable[[str], bool], largest: int) -> None:
        self.application = application
        self.shows = shows
        self.largest = largest
        self._going: set[asyncio.Task[Any]] = set()
        self._closing = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.application(scope, receive, send)
            return
        body = _Body(receive, self.largest if scope["path"] == UPLOAD else LARGEST_BODY)
        answer = _Answer(send, body)
        refusal = self.refuse(scope, body)
        why = [] if refusal is None else [refusal.sentence]
        if refusal is not None:
            await answer.say(refusal)
        else:
            await self._pass_on(scope, body, answer, why)
        if answer.status >= 400:
            said = f": {printable(why[0])}" if why else ""
            log.warning("%d %s %s%s", answer.status, printable(scope["method"]), printable(scope["path"]), said)

    def refuse(self, scope: Scope, body: _Body) -> Refusal | None:
        """Why this request gets no answer from the application; None if it does."""
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        host, method, path = headers.get(b"host", ""), scope["method"], scope["path"]
        if not NAMES.fullmatch(host):
            return Refusal(403, f"the page answers to localhost only, not to {host!r}")
        if b"origin" in headers and headers[b"origin"].lower() != f"http://{host.lower()}":
            return Refusal(403, f"the page answers to itself only, not to {headers[b'origin']!r}")
        file = FILE.fullmatch(path)
        if method in ("GET", "HEAD") and (READ.fullmatch(path) or (file and self.shows(file[1]))):
            return None
        if method == "POST" and path in WRITE:
            declared = headers.get(b"content-length", "0")
            return body.too_large if int(declared) > body.largest else None
        return Refusal(404, "there is nothing here")

    def close(self) -> None:
        """End what is still being answered: a page that is open holds a connection for as long as it is."""
        self._closing = True
        for task in list(self._going):
            task.get_loop().call_soon_threadsafe(task.cancel)

    async def _pass_on(self, scope: Scope, body: _Body, answer: _Answer, why: list[str]) -> None:
        """Let the application answer; what it raises becomes a status and a reason."""
        kept = _why.set(why)
        task = asyncio.current_task()
        assert task is not None
        self._going.add(task)
        try:
            # A proxy's words about names and addresses come from whoever asks.
            trusted = [(k, v) for k, v in scope["headers"] if not k.startswith((b"x-forwarded", b"forwarded"))]
            await self.application({**scope, "headers": trusted}, body, answer)
        except asyncio.CancelledError:
            if not self._closing:
                raise
        except Exception as error:
            explain(error)
        finally:
            self._going.discard(task)
            _why.reset(kept)
        if body.exceeded:
            why[:] = [body.too_large.sentence]
            await answer.say(body.too_large)
        elif not answer.status:
            await answer.say(Refusal(500, "this cannot be answered"))
        elif not answer.complete:
            await answer.end()


class _Body:
    """What a client sends, up to a size; beyond it the client counts as gone."""

    def __init__(self, receive: Receive, largest: int) -> None:
        self.receive = receive
        self.largest = largest
        self.size = 0
        self.too_large = Refusal(413, f"at most {largest} bytes are taken")

    @property
    def exceeded(self) -> bool:
        """Was it too much?"""
        return self.size > self.largest

    async def __call__(self) -> MutableMapping[str, Any]:
        message = await self.receive()
        self.size += len(message.get("body", b""))
        return {"type": "http.disconnect"} if self.exceeded else message


class _Answer:
    """What the client is told; nothing of the application's once the body was too large."""

    def __init__(self, send: Send, body: _Body) -> None:
        self.send = send
        self.body = body
        self.status = 0
        self.complete = False

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if self.body.exceeded and not self.status:
            return
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": [*message.get("headers", ()), *HEADERS]}
        elif message["type"] == "http.response.body":
            self.complete = not message.get("more_body", False)
        await self.send(message)

    async def say(self, refusal: Refusal) -> None:
        """A short answer of ours, unless another one has begun."""
        if self.status:
            return
        self.status = refusal.status
        text = f"{refusal.status}: {printable(refusal.sentence)}\n".encode()
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(text))]
        headers += [(b"connection", b"close"), *HEADERS]
        await self.send({"type": "http.response.start", "status": refusal.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": text})

    async def end(self) -> None:
        """Finish an answer that was cut short."""
        self.complete = True
        await self.send({"type": "http.response.body", "body": b""})


def printable(text: str, longest: int = 120) -> str:
    """A stranger's words in one line of a log: short, and without control characters."""
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[: longest + 1])
    return text if len(text) <= longest else f"{text[:longest]}..."
