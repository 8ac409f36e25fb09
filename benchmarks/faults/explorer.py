"""The explorer under several clients at once: is its memory flat, is every answer right, and does it leave nothing?

python benchmarks/faults/explorer.py [MODEL] [--clients 8] [--minutes 5] [--out FILE]

Each client opens the page, moves the slider, picks images, drops an image of its own and now and then sends junk, all
the time. The memory is the process's own, read every second; the first fifth of the time is for warming up. Then the
explorer gets a SIGTERM, and its temporary folder must be empty. The exit code is 1 where one of these does not hold.
"""

from __future__ import annotations

import argparse
import http.client
import io
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image
from process import resident

sys.path.append(str(Path(__file__).parents[1]))
from measure import write

FLAT = 0.02
"""How much the memory may grow."""
PREDICT, UPLOAD = "/gradio_api/run/predict", "/gradio_api/upload"
JUNK = (b"{", b"[" * 5000, b'{"data": 5}', b'{"data": [], "fn_index": 999}', b"\xff" * 100)


class Client(threading.Thread):
    """One user who never rests."""

    def __init__(self, port: int, number: int, until: float) -> None:
        super().__init__(daemon=True)
        self.port, self.number, self.until = port, number, until
        self.answers: Counter[str] = Counter()
        self.times: list[float] = []

    def run(self) -> None:
        """Ask until the time is over."""
        config = json.loads(self.ask("GET", "/config")[1])
        events = {target[1]: one["id"] for one in config["dependencies"] for target in one["targets"]}
        shared = random.Random(self.number)
        group, at = "rot360", lambda: shared.uniform(-180, 180)
        while time.monotonic() < self.until:
            start = time.monotonic()
            kind = shared.choices(("move", "pick", "drop", "junk"), (6, 2, 2, 1))[0]
            if kind == "move":
                status = self.predict(events["input"], [None, group, at()])
            elif kind == "pick":
                chosen = {"index": shared.randrange(40), "value": None}
                status = self.predict(events["select"], [group, at(), True], event_data=chosen)
            elif kind == "drop":
                status = self.drop(events["upload"], shared, [None, group, at(), True])
            else:
                status = self.ask("POST", PREDICT, shared.choice(JUNK), "application/json")[0]
            self.answers[f"{kind} {status}"] += 1
            self.times.append(time.monotonic() - start)

    def ask(self, method: str, path: str, body: bytes | None = None, kind: str = "") -> tuple[int, bytes]:
        """One request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request(method, path, body, {"Content-Type": kind} if kind else {})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, content

    def predict(self, event: int, data: list[Any], **more: Any) -> int:
        """One event of the page."""
        body = {"data": data, "fn_index": event, "session_hash": f"client{self.number}", **more}
        return self.ask("POST", PREDICT, json.dumps(body).encode(), "application/json")[0]

    def drop(self, event: int, shared: random.Random, others: list[Any]) -> int:
        """Send an image that nobody else sends, and have it read."""
        buffer = io.BytesIO()
        Image.frombytes("L", (64, 64), shared.randbytes(64 * 64)).save(buffer, format="PNG")
        head = b'--cut\r\nContent-Disposition: form-data; name="files"; filename="mine.png"\r\n\r\n'
        body = head + buffer.getvalue() + b"\r\n--cut--\r\n"
        status, content = self.ask("POST", UPLOAD, body, "multipart/form-data; boundary=cut")
        if status != 200:
            return status
        file = {"path": json.loads(content)[0], "meta": {"_type": "gradio.FileData"}}
        return self.predict(event, [file, *others])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="digits-rot360")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--out", type=Path, default=Path("runs/faults/explorer.json"))
    args = parser.parse_args()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with TemporaryDirectory() as name:
        temporary, log = Path(name) / "temporary", Path(name) / "log"
        temporary.mkdir()
        words = [sys.executable, "-m", "duet.cli", "explore", args.model, "--no-browser", "--port", str(port)]
        with open(log, "wb") as errors:
            process = subprocess.Popen(
                words, stdout=subprocess.PIPE, stderr=errors, env={**os.environ, "TMPDIR": str(temporary)}
            )
        assert process.stdout is not None
        if not process.stdout.readline().startswith(b"Exploring"):
            sys.exit(log.read_text())
        begin = time.monotonic()
        clients = [Client(port, number, begin + 60 * args.minutes) for number in range(args.clients)]
        for client in clients:
            client.start()
        memory = []
        while any(client.is_alive() for client in clients):
            memory.append((time.monotonic() - begin, resident(process.pid)))
            print(f"\r{memory[-1][0]:5.0f} s  {memory[-1][1]:7.1f} MB", end="", flush=True)
            time.sleep(1)
        print()
        files = sum(1 for path in temporary.rglob("*") if path.is_file() and path.stat().st_size)
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
        left = [str(path.relative_to(temporary)) for path in temporary.rglob("*")]
        lines = log.read_text().splitlines()
    warm = [value for at, value in memory if at > 12 * args.minutes]
    third = max(len(warm) // 3, 1)
    growth = statistics.median(warm[-third:]) / statistics.median(warm[:third]) - 1
    answers: Counter[str] = sum((client.answers for client in clients), Counter())
    times = sorted(seconds for client in clients for seconds in client.times)
    figures = {
        "clients": args.clients,
        "minutes": args.minutes,
        "answers": dict(sorted(answers.items())),
        "median seconds": statistics.median(times),
        "longest seconds": times[-1],
        "memory MB": [round(value, 1) for _, value in memory[:: max(len(memory) // 60, 1)]],
        "growth of the memory": growth,
        "files before the end": files,
        "exit code": code,
        "left behind": left,
        "tracebacks": sum("Traceback" in line for line in lines),
        "log lines": len(lines),
        "most common lines": dict(Counter(lines).most_common(8)),
    }
    print(json.dumps({key: value for key, value in figures.items() if key != "memory MB"}, indent=2))
    write(args.out, figures)
    wrong = [kind for kind in answers if kind.endswith("200") == kind.startswith("junk")]
    return int(growth > FLAT or code != 0 or bool(left) or figures["tracebacks"] > 0 or bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
