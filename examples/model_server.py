"""A language model to practise on, with a world to act in: a real HTTP server in a process of its own.

    python model_server.py --port-file model.port --ledger model-ledger.jsonl

- ``POST /v1/chat/completions`` answers in the chat-completions format. The model is a script: it searches, writes a
  briefing of what it was told, mails it, and says so. Each completion is billed; with the same ``Idempotency-Key``
  header once.
- ``GET /search?query=Q`` gives a page of a small encyclopedia.
- ``POST /mail`` sends a mail each time it is asked. ``GET /mail?to=T&subject=S`` looks into the outbox.

The ledger has one line of JSON for each effect, on disk before the answer leaves. The server closes by itself when
nobody has asked for ten minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

PORT_FILE = "model.port"
LEDGER = "model-ledger.jsonl"
PAGES = {
    "tea": "Tea is made from the leaves of Camellia sinensis. Green and black tea are one leaf, treated differently.",
    "coffee": "Coffee is brewed from roasted seeds. A shrub of arabica bears about half a kilogram of them a year.",
    "cocoa": "Cocoa beans grow in pods on the trunk of the tree. They are fermented for about a week, then dried.",
}

Record = dict[str, Any]


# ---- the model -------------------------------------------------------------------------------------------------------


def reply(messages: list[Record]) -> Record:
    """The assistant's next message: what a model would say, by a script that looks at nothing but the messages."""
    asked = next(each["content"] for each in messages if each["role"] == "user")
    topics = [topic for topic in PAGES if topic in asked.lower()]
    people = re.findall(r"[\w.]+@[\w.]*\w", asked)
    results = [each["content"] for each in messages if each["role"] == "tool"]
    if not results:
        return calls("I look things up first.", *[("search", {"query": topic}) for topic in topics])
    briefing = "# Briefing\n\n" + "\n".join(f"- {text}" for text in results[: len(topics)]) + "\n"
    if len(results) == len(topics):
        return calls("I know enough to write.", ("write_file", {"path": "briefing.md", "text": briefing}))
    if len(results) == len(topics) + 1:
        mails = [("send_mail", {"to": each, "subject": "Your briefing", "body": briefing}) for each in people]
        return calls("Now to the people who wait for it.", *mails)
    return {
        "role": "assistant",
        "content": f"The briefing on {', '.join(topics)} is written, and {len(people)} have it.",
    }


def calls(content: str, *wanted: tuple[str, Record]) -> Record:
    """A message that asks for tools; the ids are random, as everywhere."""
    return {
        "role": "assistant",
        "content": content,
        "tool_calls": [
            {
                "id": f"call_{uuid.uuid4().hex[:12]}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for name, arguments in wanted
        ],
    }


def completion(messages: list[Record], model: str) -> Record:
    message = reply(messages)
    words = len(json.dumps(messages).split()), len(json.dumps(message).split())
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [
            {"index": 0, "message": message, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}
        ],
        "usage": {"prompt_tokens": words[0], "completion_tokens": words[1], "total_tokens": sum(words)},
    }


# ---- the server ------------------------------------------------------------------------------------------------------


class World(ThreadingHTTPServer):
    """What happened, on disk and in memory."""

    daemon_threads = True

    def __init__(self, ledger: Path, latency_s: float) -> None:
        super().__init__(("127.0.0.1", 0), Desk)
        self.latency_s = latency_s
        self.asked_at = time.monotonic()
        self.records = read_ledger(ledger)
        self._lock = threading.Lock()
        self._file = ledger.open("a", encoding="utf-8")
        os.truncate(ledger, ledger.read_bytes().rfind(b"\n") + 1)  # a last line that was cut off never happened

    def add(self, kind: str, once: str | None = None, **facts: Any) -> Record:
        """Record an effect; of one key only the first time."""
        with self._lock:
            for record in self.records if once else ():
                if record.get("once") == once:
                    return record
            record = {"kind": kind, **({"once": once} if once else {}), **facts}
            self._file.write(json.dumps(record) + "\n")
            self._file.flush()
            os.fsync(self._file.fileno())
            self.records.append(record)
            return record

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is gone when its answer comes is none of the server's business."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Desk(BaseHTTPRequestHandler):
    """One request."""

    server: World

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        match url.path:
            case "/search":
                self._answer(200, {"text": PAGES.get(query["query"], "There is no such page.")})
            case "/mail":
                outbox = [each for each in self.server.records if each["kind"] == "mail"]
                self._answer(200, [each for each in outbox if all(each[name] == query[name] for name in query)])
            case "/health":
                self._answer(200, {"pid": os.getpid()})
            case path:
                self._answer(404, {"error": {"message": f"there is no {path}"}})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        match urlsplit(self.path).path:
            case "/v1/chat/completions":
                once = self.headers.get("Idempotency-Key")
                answer = completion(body["messages"], body["model"])
                self._answer(200, self.server.add("completion", once, answer=answer)["answer"])
            case "/mail":
                self._answer(201, self.server.add("mail", to=body["to"], subject=body["subject"], body=body["body"]))
            case path:
                self._answer(404, {"error": {"message": f"there is no {path}"}})

    def _answer(self, status: int, content: Any) -> None:
        """The effect is on disk by now; the answer takes its time, and may come too late for its asker."""
        self.server.asked_at = time.monotonic()
        time.sleep(self.server.latency_s if self.path != "/health" else 0)
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class names it so
        """The ledger is the log."""


def read_ledger(path: Path) -> list[Record]:
    """The effects that are on disk."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def main() -> None:
    parser = argparse.ArgumentParser(description="A language model to practise on.")
    parser.add_argument("--port-file", type=Path, default=Path(PORT_FILE), help="where to write the port")
    parser.add_argument("--ledger", type=Path, default=Path(LEDGER), help="where to write each effect")
    parser.add_argument("--latency-s", type=float, default=0.2, help="seconds between an effect and its answer")
    parser.add_argument("--idle-s", type=float, default=600.0, help="close after so many seconds without a request")
    options = parser.parse_args()
    with World(options.ledger, options.latency_s) as world:
        draft = options.port_file.with_suffix(".draft")
        draft.write_text(str(world.server_address[1]))
        draft.replace(options.port_file)
        threading.Thread(target=world.serve_forever, daemon=True).start()
        while time.monotonic() - world.asked_at < options.idle_s:
            time.sleep(min(1.0, options.idle_s))


# ---- the client ------------------------------------------------------------------------------------------------------


def ask(method: str, path: str, body: Any = None, **headers: str) -> Any:
    """One request to the server whose port file lies in this folder. Raises ConnectionError when it is closed."""
    try:
        port = int(Path(PORT_FILE).read_text())
    except FileNotFoundError:
        raise ConnectionRefusedError("there is no model: call model_server.start()") from None
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json", **headers},
    )
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            raise ValueError(f"{method} {path}: {error.code} {json.load(error)['error']['message']}") from None
    except urllib.error.URLError as error:
        raise error.reason if isinstance(error.reason, OSError) else error from None


def chat(messages: list[Record], tools: list[Record], idempotency_key: str) -> Record:
    """The assistant's next message."""
    body = {"model": "script-1", "messages": messages, "tools": tools}
    answer = ask("POST", "/v1/chat/completions", body, **{"Idempotency-Key": idempotency_key})
    message: Record = answer["choices"][0]["message"]
    return message


def find_page(query: str) -> str:
    return str(ask("GET", f"/search?{urlencode({'query': query})}")["text"])


def post_mail(to: str, subject: str, body: str) -> None:
    """Send a mail. Each request sends one."""
    ask("POST", "/mail", {"to": to, "subject": subject, "body": body})


def find_mail(to: str, subject: str) -> list[Record]:
    """The mails in the outbox."""
    found: list[Record] = ask("GET", f"/mail?{urlencode({'to': to, 'subject': subject})}")
    return found


def is_running() -> bool:
    try:
        return bool(ask("GET", "/health")["pid"])
    except (OSError, ValueError):
        return False


def start() -> None:
    """Start the server for this folder, unless it runs. It outlives the kernel."""
    if is_running():
        return
    Path(PORT_FILE).unlink(missing_ok=True)
    command = [sys.executable, __file__, "--port-file", PORT_FILE, "--ledger", LEDGER]
    process = subprocess.Popen(command, start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while not is_running():
        if process.poll() is not None:
            raise RuntimeError(f"the model did not start: {' '.join(command)} ended with {process.returncode}")
        time.sleep(0.05)
    process.returncode = 0  # it is meant to go on: no warning when this object goes


def stop() -> None:
    """Stop the server of this folder; its ledger stays."""
    os.kill(int(ask("GET", "/health")["pid"]), signal.SIGTERM)


if __name__ == "__main__":
    main()
