"""The explorer as a process that strangers talk to: raw requests, junk, and every way to end it."""

import http.client
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image

from tests.explorer.test_explorer import make_model

pytest.importorskip("gradio", reason="no gradio: pip install '.[explore]'")

# What goes out to anywhere but this machine is told on standard error, and when asked for, how many components live.
CODE = """
import gc, signal, socket, sys
def count(*_):
    gc.collect()
    live = sum(str(type(one).__module__).startswith("gradio.components") for one in gc.get_objects())
    print("COMPONENTS", live, file=sys.stderr, flush=True)
signal.signal(signal.SIGUSR1, count)
def watched(kept):
    def connect(self, address, *rest):
        if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "::1", "localhost"):
            print("OUT", address, file=sys.stderr, flush=True)
            raise OSError("nothing goes out")
        return kept(self, address, *rest)
    return connect
for name in ("connect", "connect_ex"):
    setattr(socket.socket, name, watched(getattr(socket.socket, name)))
asked = socket.getaddrinfo
def getaddrinfo(host, *rest, **more):
    if host not in ("127.0.0.1", "::1", "localhost", None):
        print("OUT", host, file=sys.stderr, flush=True)
    return asked(host, *rest, **more)
socket.getaddrinfo = getaddrinfo
from duet.cli import main
sys.exit(main(sys.argv[1:]))
"""
PREDICT, UPLOAD = "/gradio_api/run/predict", "/gradio_api/upload"
ROUTES = [
    *("/", "/config", "/theme.css", "/favicon.ico", "/static/img/logo.svg", "/assets/index.js", "/nothing"),
    *("/gradio_api/info", "/gradio_api/heartbeat/abc", "/gradio_api/queue/data?session_hash=a", UPLOAD),
    *(
        PREDICT,
        "/gradio_api/queue/join",
        "/gradio_api/file=/etc/passwd",
        "/gradio_api/startup-events",
    ),
]
FOREIGN = [
    "evil.example",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "0.0.0.0",
    "10.0.0.1:7860",
    "",
    "localhost:x",
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A running explorer: its port, process, temporary folder and what it writes."""
    temporary = tmp_path_factory.mktemp("temporary")
    left = temporary / "duet-explore-killed"
    left.mkdir()
    (left / "lock").touch()
    (left / "upload.png").write_bytes(b"0" * 1000)
    run = make_model(tmp_path_factory.mktemp("model"), decoder=False)
    words = ["explore", str(run), "--no-browser", "--device", "cpu"]
    log = temporary / "stderr"
    with open(log, "wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", CODE, *words],
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, "TMPDIR": str(temporary), "OMP_NUM_THREADS": "1"},
        )
    line = process.stdout.readline().decode()
    assert line.startswith("Exploring"), log.read_text()
    port = int(re.search(r"at http://127\.0\.0\.1:(\d+)/", line)[1])
    yield SimpleNamespace(port=port, process=process, temporary=temporary, log=log)
    process.kill()
    process.wait()
    process.stdout.close()


MARK = "/mark-"


@pytest.fixture
def lines(server):
    """The lines that the explorer has written since this was asked for."""

    def wait_for(enough):
        end = time.monotonic() + 120
        while not enough(found := server.log.read_text().splitlines()) and time.monotonic() < end:
            time.sleep(0.02)
        return found

    def all_lines():
        """What is written until a request of ours is: nothing of an earlier one comes after it."""
        mark = MARK + os.urandom(8).hex()
        assert ask(server, "GET", mark)[0] == 404
        found = wait_for(lambda found: any(mark in line for line in found))
        return [line for line in found if MARK not in line]

    before = len(all_lines())

    def written(least=1):
        wait_for(lambda found: len([line for line in found if MARK not in line]) >= before + least)
        return all_lines()[before:]

    return written


@pytest.fixture
def folder(server):
    (found,) = server.temporary.glob("duet-explore-*")
    return found / "files"


def ask(server, method, path, body=None, host=None, **headers):
    """(status, headers, body) of one request."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", f"127.0.0.1:{server.port}" if host is None else host)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    if body is not None:
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body)
    answer = connection.getresponse()
    content = b"" if "event-stream" in answer.getheader("content-type", "") else answer.read()
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, content


def raw(server, content, wait=True):
    """What comes back for these bytes, until the explorer closes the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=120) as connection:
        connection.sendall(content)
        if not wait:
            return b""
        answer = b""
        try:
            while part := connection.recv(65536):
                answer += part
        except (TimeoutError, ConnectionResetError):
            pass
        return answer


def events(server):
    """The number of each event of the page, by what triggers it."""
    config = json.loads(ask(server, "GET", "/config")[2])
    return {target[1]: one["id"] for one in config["dependencies"] for target in one["targets"]}


def predict(server, event, data, **more):
    body = json.dumps({"data": data, "fn_index": event, "session_hash": "tester", **more}).encode()
    return ask(server, "POST", PREDICT, body, Content_Type="application/json")


def photo():
    buffer = io.BytesIO()
    Image.effect_noise((40, 30), 50).save(buffer, format="PNG")
    return buffer.getvalue()


def send(server, content, name="photo.png"):
    body = f'--cut\r\nContent-Disposition: form-data; name="files"; filename="{name}"\r\n\r\n'.encode()
    body += content + b"\r\n--cut--\r\n"
    return ask(server, "POST", UPLOAD, body, Content_Type="multipart/form-data; boundary=cut")


def sent_to(folder):
    """The files of the folder that are not the gallery's."""
    return [path for path in folder.rglob("*") if path.is_file() and path.name != "image.png"]


def test_what_a_killed_explorer_left_is_gone(server):
    assert not (server.temporary / "duet-explore-killed").exists()


def test_it_listens_to_this_machine_only(server):
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.2", server.port), timeout=5):
        pass


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "[::1]", "LocalHost:80"])
def test_this_machines_names_are_answered(server, name):
    assert ask(server, "GET", "/config", host=name)[0] == 200


@pytest.mark.parametrize("name", FOREIGN)
def test_other_names_are_refused_on_every_route(server, name):
    for method, route in [(method, route) for route in ROUTES for method in ("GET", "POST")] + [("OPTIONS", "/")]:
        status, headers, content = ask(server, method, route, b"" if method == "POST" else None, host=name)
        assert status == 403, (method, route)
        assert not [name for name in headers if name.startswith("access-control")]
        assert len(content) < 200
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec_WebSocket_Key": "a", "Sec_WebSocket_Version": "13"}
    assert ask(server, "GET", "/gradio_api/queue/join", host=name, **upgrade)[0] == 403


def test_a_request_without_a_name_is_refused(server):
    assert b" 403 " in raw(server, b"GET /config HTTP/1.0\r\n\r\n").split(b"\r\n")[0]
    assert b" 400 " in raw(server, b"GET /config HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n").split(b"\r\n")[0]


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:1", "https://127.0.0.1", "file://"]
)
def test_other_pages_may_not_ask(server, folder, origin):
    for route in ROUTES:
        for method in ("POST", "GET", "OPTIONS"):
            status, headers, _ = ask(server, method, route, b"", Origin=origin, Access_Control_Request_Method="POST")
            assert status == 403, (method, route)
            assert not [name for name in headers if name.startswith("access-control")]
    assert sent_to(folder) == []


def test_the_page_itself_may(server):
    for host in (f"127.0.0.1:{server.port}", f"localhost:{server.port}"):
        status, headers, _ = ask(server, "GET", "/config", host=host, Origin=f"http://{host}")
        assert status == 200
        assert headers.get("access-control-allow-origin") in (None, f"http://{host}")
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["content-security-policy"] == "frame-ancestors 'none'"


def test_a_proxys_words_are_not_believed(server):
    own = ask(server, "GET", "/config")[2]
    told = ask(server, "GET", "/config", X_Forwarded_Host="evil.example", X_Forwarded_Proto="https")[2]
    assert b"evil.example" not in told
    assert json.loads(told)["root"] == json.loads(own)["root"]


def test_a_dropped_file_is_read_and_deleted(server, folder):
    before = sorted(folder.rglob("*"))
    status, _, content = send(server, photo())
    assert status == 200
    (path,) = json.loads(content)
    assert sent_to(folder) == [Path(path)]
    file = {"path": path, "meta": {"_type": "gradio.FileData"}}
    status, _, content = predict(server, events(server)["upload"], [file, None, "rot360", 45, True])
    assert status == 200
    assert "your picture" in json.dumps(json.loads(content)["data"])
    assert sent_to(folder) == []
    assert {path for path in sorted(folder.rglob("*")) if path.is_dir()} == {path for path in before if path.is_dir()}


def test_a_session_does_not_grow_with_what_is_done_in_it(server, lines):
    number = events(server)

    def drop(content):
        (path,) = json.loads(send(server, content)[2])
        file = {"path": path, "meta": {"_type": "gradio.FileData"}}
        assert predict(server, number["upload"], [file, None, "rot360", 45, True])[0] == 200

    def components():
        before = len(lines(0))
        server.process.send_signal(signal.SIGUSR1)
        return int(lines(before + 1)[-1].removeprefix("COMPONENTS "))

    for content in (photo(), b"no image"):
        drop(content)
    before = components()
    for content in (photo(), b"no image") * 3:
        drop(content)
    assert components() == before


def test_files_that_were_not_sent_are_neither_read_nor_deleted(server, folder, lines, tmp_path):
    own = tmp_path / "private.png"
    own.write_bytes(photo())
    shown = next(folder.rglob("image.png"))
    taken = events(server)["upload"]
    for path in (
        str(own),
        str(shown),
        f"{folder}/../x.png",
        "http://example.com/a.png",
        str(folder.parent / "lock"),
        "a\0b",
        "",
    ):
        file = {"path": path, "meta": {"_type": "gradio.FileData"}}
        for given in (file, [file], {"a": [file]}):
            assert predict(server, taken, [given, None, "rot360", 45, True])[0] == 500
    assert own.exists()
    assert shown.exists()
    written = lines(21)
    assert len(written) == 21
    assert all("500 POST /gradio_api/run/predict: " in line for line in written)


def test_only_the_pages_own_files_are_shown(server, folder, lines):
    shown = next(folder.rglob("image.png"))
    assert ask(server, "GET", f"/gradio_api/file={shown}")[2] == shown.read_bytes()
    strange = [
        "/etc/passwd",
        f"{folder}/../../etc/passwd",
        "..%2f..%2fetc%2fpasswd",
        f"{folder}/../lock",
        "http://example.com/",
    ]
    strange += ["%00", "//etc/passwd", "file:///etc/passwd", "C:%5Cwindows", f"{shown}/..", "https%3a//example.com"]
    for path in strange:
        status, _, content = ask(server, "GET", f"/gradio_api/file={path}")
        assert status == 404, path
        assert b"root:" not in content
    for path in ("/assets/../../../etc/passwd", "/static/%2e%2e/%2e%2e/%2e%2e/etc/passwd", "/svelte//etc/passwd"):
        status, _, content = ask(server, "GET", path)
        assert status in (403, 404), path
        assert b"root:" not in content
    assert len(lines(14)) == 14


def test_bodies_have_a_largest_size(server, folder, lines):
    head = "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=cut\r\n"
    upload, other = head % UPLOAD, head % PREDICT
    assert b" 413 " in raw(server, f"{upload}Content-Length: 99000000\r\n\r\n".encode()).split(b"\r\n")[0]
    assert b" 413 " in raw(server, f"{other}Content-Length: 1000001\r\n\r\n".encode()).split(b"\r\n")[0]
    chunk = b"%x\r\n" % 600_000 + b" " * 600_000 + b"\r\n"
    chunks = f"{other}Transfer-Encoding: chunked\r\n\r\n".encode() + chunk + chunk + b"0\r\n\r\n"
    raw(server, chunks)  # who still sends may not hear the answer
    assert [line.split(":")[0] for line in lines(3)] == [f"413 POST {path}" for path in (UPLOAD, PREDICT, PREDICT)]
    assert sent_to(folder) == []


JUNK_EVENTS = {
    "no JSON": b"{",
    "deep JSON": b"[" * 100_000,
    "no object": b"[1, 2]",
    "no UTF-8": b'{"data": "\xff\xfe"}',
    "wrong types": b'{"data": 5, "fn_index": "a", "session_hash": []}',
    "no event": b'{"data": [], "fn_index": 999, "session_hash": "a"}',
    "negative event": b'{"data": [], "fn_index": -1}',
    "too few values": b'{"data": [], "fn_index": 3, "session_hash": "a"}',
    "strange values": b'{"data": [{}, "rot361", "x", {"a": 1}], "fn_index": 3, "session_hash": "a"}',
    "no session": b'{"data": [null, "rot360", 1e999], "fn_index": 3}',
    "odd event id": b'{"data": [], "fn_index": 0, "event_id": "../x", "event_data": {"index": 9}, "session_hash": "a"}',
}
JUNK = {
    **{kind: (PREDICT, body, "application/json") for kind, body in JUNK_EVENTS.items()},
    "queue": ("/gradio_api/queue/join", b'{"data": []}', "application/json"),
    "cancel": ("/gradio_api/cancel", b'{"session_hash": "a", "fn_index": 0, "event_id": "b"}', "application/json"),
    "component": ("/gradio_api/component_server", b"{}", "application/json"),
    "stream": ("/gradio_api/stream/xyz", b"{}", "application/json"),
    "recording": ("/gradio_api/process_recording", b"", "application/json"),
    "newline": ("/a%0aForged%20line%1b[31m", b"", "text/plain"),
    "no multipart": (UPLOAD, b"junk", "multipart/form-data; boundary=cut"),
    "no boundary": (UPLOAD, b"junk", "multipart/form-data"),
    "no type": (UPLOAD, b"junk", "text/plain"),
    "text for a file": (
        UPLOAD,
        b'--cut\r\nContent-Disposition: form-data; name="files"\r\n\r\nword\r\n--cut--\r\n',
        "multipart/form-data; boundary=cut",
    ),
    "half a file": (
        UPLOAD,
        b'--cut\r\nContent-Disposition: form-data; name="files"; filename="a.png"\r\n\r\nhalf',
        "multipart/form-data; boundary=cut",
    ),
}


@pytest.mark.parametrize("kind", JUNK)
def test_junk_is_one_line_and_no_traceback(server, lines, kind):
    path, body, content_type = JUNK[kind]
    status, _, _ = ask(server, "POST", path, body, Content_Type=content_type)
    written = lines(1 if status >= 400 else 0)
    assert status >= 400 or kind == "half a file"
    assert len(written) == (status >= 400), written
    assert all(line.isprintable() and len(line) < 400 for line in written)


@pytest.mark.parametrize(
    ("content", "least"),
    [(b"\x16\x03\x01\x02\x00\x01\x00", 1), (b"GET\r\n\r\n", 1), (b"GET / HTTP/9.9\r\n\r\n", 1), (b"\0" * 70_000, 1)],
)
def test_what_is_not_http_is_one_line(server, lines, content, least):
    raw(server, content)
    written = lines(least)
    assert len(written) == 1
    assert "Traceback" not in written[0]


def test_requests_that_are_never_finished_hold_nobody_up(server, lines):
    head = b"POST /gradio_api/upload HTTP/1.1\r\nHost: localhost\r\n"
    head += b"Content-Type: multipart/form-data; boundary=cut\r\nContent-Length: 5000\r\n\r\n"
    half = b'--cut\r\nContent-Disposition: form-data; name="files"; filename="a.png"\r\n\r\nhalf'
    connections = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
    for number, connection in enumerate(connections):
        connection.sendall((b"GET / HT", head, head + half)[number % 3])
    assert ask(server, "GET", "/config")[0] == 200
    for connection in connections:
        connection.close()
    assert ask(server, "GET", "/config")[0] == 200
    written = lines(0)
    assert len(written) <= 20
    assert "Traceback" not in "".join(written)


def test_a_signal_closes_it_and_leaves_nothing(server):
    """The last one: with a page open and a file that nobody read."""
    with socket.create_connection(("127.0.0.1", server.port)) as page:
        page.sendall(b"GET /gradio_api/heartbeat/abc HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b""
        while b"ALIVE" not in answer:
            part = page.recv(4096)
            assert part, answer
            answer += part
        assert send(server, photo())[0] == 200
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait() == 0
    assert [path.name for path in server.temporary.iterdir()] == ["stderr"]
    written = server.log.read_text()
    assert "Traceback" not in written
    assert [line for line in written.splitlines() if line.startswith("OUT")] == []
