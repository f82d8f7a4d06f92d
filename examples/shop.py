"""A shop to practise on: a real HTTP server in a process of its own, and the functions to talk to it.

    python shop.py --port-file shop.port --ledger ledger.jsonl

- ``GET /orders?page=N`` gives one of 60 pages of purchases as text, as web shops do: pages overlap.
- ``POST /charges`` takes money each time it is asked, twice if asked twice. ``GET /charges?reference=R`` looks it up.
- ``POST /confirmations`` sends a letter; with the same ``Idempotency-Key`` header it sends it once.
- ``POST /parcels`` sends a parcel each time it is asked, and nobody can ask afterwards.

The ledger has one line of JSON for each effect, on disk before the answer leaves. It is the truth that a demonstration
is measured by. The shop closes by itself when nobody has asked for ten minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

PAGES = 60
PAGE_SIZE = 20
OVERLAP = 2
PURCHASES = Path(__file__).with_name("purchases.txt")
PORT_FILE = "shop.port"
LEDGER = "shop-ledger.jsonl"

Record = dict[str, Any]


# ---- the server ------------------------------------------------------------------------------------------------------


class Ledger:
    """Every effect, one fsynced line each; read again when the shop opens again."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self.records: list[Record] = read_ledger(path)
        self._file = path.open("a", encoding="utf-8")
        os.truncate(path, path.read_bytes().rfind(b"\n") + 1)  # a last line that was cut off never happened

    def add(self, kind: str, key: str, **facts: Any) -> tuple[Record, bool]:
        """Record an effect. With ``once=`` (a key), an earlier effect of that key is given back instead."""
        once = facts.get("once")
        with self._lock:
            for record in self.records if once else ():
                if record["kind"] == kind and record.get("once") == once:
                    return record, False
            n = sum(record["kind"] == kind for record in self.records) + 1
            record = {"kind": kind, "n": n, "key": key, "at": time.time(), **facts}
            self._file.write(json.dumps(record) + "\n")
            self._file.flush()
            os.fsync(self._file.fileno())
            self.records.append(record)
            return record, True

    def find(self, kind: str, key: str) -> list[Record]:
        with self._lock:
            return [record for record in self.records if record["kind"] == kind and record["key"] == key]

    def close(self) -> None:
        self._file.close()


class Shop(ThreadingHTTPServer):
    """``slow`` effects (``charge:3`` is the third charge) happen at once and are answered after ``slow_s``."""

    daemon_threads = True

    def __init__(self, ledger: Ledger, *, latency_s: float, slow: frozenset[str], slow_s: float) -> None:
        super().__init__(("127.0.0.1", 0), Desk)
        self.ledger = ledger
        self.latency_s = latency_s
        self.slow = slow
        self.slow_s = slow_s
        self.orders = read_purchases()
        self.asked_at = time.monotonic()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is gone when its answer comes is none of the shop's business."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Desk(BaseHTTPRequestHandler):
    """One request."""

    server: Shop

    def do_GET(self) -> None:
        self.server.asked_at = time.monotonic()
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        match url.path:
            case "/orders":
                self._page(query.get("page", ""))
            case "/charges":
                self._answer(200, self.server.ledger.find("charge", query.get("reference", "")))
            case "/health":
                self._answer(200, {"open": True, "pid": os.getpid()})
            case _:
                self._answer(404, {"error": f"there is no {url.path}"})

    def do_POST(self) -> None:
        self.server.asked_at = time.monotonic()
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        match urlsplit(self.path).path:
            case "/charges":
                record, _ = self.server.ledger.add("charge", body["reference"], cents=body["cents"])
                self._answer(201, record)
            case "/parcels":
                record, _ = self.server.ledger.add("parcel", body["reference"])
                self._answer(201, record)
            case "/confirmations":
                once = self.headers.get("Idempotency-Key")
                record, new = self.server.ledger.add("confirmation", body["reference"], once=once)
                self._answer(201 if new else 200, record)
            case path:
                self._answer(404, {"error": f"there is no {path}"})

    def _page(self, page: str) -> None:
        if not page.isdigit() or not 1 <= int(page) <= PAGES:
            self._answer(404, {"error": f"page is 1 to {PAGES}, not {page!r}"})
            return
        number = int(page)
        self.server.ledger.add("page", page)
        begin = max(0, (number - 1) * PAGE_SIZE - OVERLAP)
        self._answer(200, {"page": number, "pages": PAGES, "orders": self.server.orders[begin : number * PAGE_SIZE]})

    def _answer(self, status: int, content: Any) -> None:
        """The effect is on disk by now; the answer takes its time, and may come too late for its asker."""
        effect = f"{content['kind']}:{content['n']}" if isinstance(content, dict) and "kind" in content else ""
        time.sleep(self.server.slow_s if effect in self.server.slow else self.server.latency_s)
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class names it so
        """The ledger is the log."""


def read_purchases() -> list[Record]:
    """The purchases as a web shop would give them: all text, with a currency sign."""
    lines = [line.split() for line in PURCHASES.read_text().splitlines() if line and line[0] != "#"]
    return [
        {"order": f"O-{n:05d}", "customer": customer, "date": date, "items": items, "total": f"${total}"}
        for n, (customer, date, items, total) in enumerate(lines, 1)
    ]


def read_ledger(path: Path) -> list[Record]:
    """The effects that are on disk."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def main() -> None:
    parser = argparse.ArgumentParser(description="A shop to practise on.")
    parser.add_argument("--port-file", type=Path, default=Path(PORT_FILE), help="where to write the port")
    parser.add_argument("--ledger", type=Path, default=Path(LEDGER), help="where to write each effect")
    parser.add_argument("--latency-s", type=float, default=0.02, help="seconds between an effect and its answer")
    parser.add_argument("--slow", nargs="*", default=[], metavar="KIND:N", help="effects that are answered late")
    parser.add_argument("--slow-s", type=float, default=5.0, help="how late")
    parser.add_argument("--idle-s", type=float, default=600.0, help="close after so many seconds without a request")
    options = parser.parse_args()
    ledger = Ledger(options.ledger)
    with Shop(ledger, latency_s=options.latency_s, slow=frozenset(options.slow), slow_s=options.slow_s) as shop:
        draft = options.port_file.with_suffix(".draft")
        draft.write_text(str(shop.server_address[1]))
        draft.replace(options.port_file)
        threading.Thread(target=shop.serve_forever, daemon=True).start()
        while time.monotonic() - shop.asked_at < options.idle_s:
            time.sleep(min(1.0, options.idle_s))
    ledger.close()


# ---- the client ------------------------------------------------------------------------------------------------------


def ask(method: str, path: str, body: Any = None, **headers: str) -> Any:
    """One request to the shop whose port file lies in this folder. Raises ConnectionError when it is closed."""
    try:
        port = int(Path(PORT_FILE).read_text())
    except FileNotFoundError:
        raise ConnectionRefusedError("the shop is closed: call shop.open_shop()") from None
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
            raise ValueError(f"{method} {path}: {error.code} {json.load(error)['error']}") from None
    except urllib.error.URLError as error:
        raise error.reason if isinstance(error.reason, OSError) else error from None


def is_open() -> bool:
    try:
        return bool(ask("GET", "/health")["open"])
    except (OSError, ValueError):
        return False


def open_shop() -> None:
    """Open a shop for this folder, unless one is open. It outlives the kernel."""
    if is_open():
        return
    Path(PORT_FILE).unlink(missing_ok=True)
    command = [sys.executable, __file__, "--port-file", PORT_FILE, "--ledger", LEDGER]
    process = subprocess.Popen(command, start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while not is_open():
        if process.poll() is not None:
            raise RuntimeError(f"the shop did not open: {' '.join(command)} ended with {process.returncode}")
        time.sleep(0.05)
    process.returncode = 0  # it is meant to go on: no warning when this object goes


def get_orders(page: int) -> list[Record]:
    """The purchases on one page."""
    orders: list[Record] = ask("GET", f"/orders?page={page}")["orders"]
    return orders


def post_charge(reference: str, cents: int) -> Record:
    """Take money. Each request takes it."""
    charge: Record = ask("POST", "/charges", {"reference": reference, "cents": cents})
    return charge


def find_charges(reference: str) -> list[Record]:
    """The charges that were made under a reference."""
    charges: list[Record] = ask("GET", f"/charges?reference={quote(reference)}")
    return charges


def post_parcel(reference: str) -> Record:
    """Send a parcel. Each request sends one."""
    parcel: Record = ask("POST", "/parcels", {"reference": reference})
    return parcel


def post_confirmation(reference: str, idempotency_key: str) -> Record:
    """Send a letter; one for each idempotency key."""
    confirmation: Record = ask(
        "POST", "/confirmations", {"reference": reference}, **{"Idempotency-Key": idempotency_key}
    )
    return confirmation


if __name__ == "__main__":
    main()
