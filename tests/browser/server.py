"""A real Jupyter server on loopback, cut off from this machine's own settings, for JupyterLab and Notebook 7."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

QUIET = {
    "@jupyterlab/apputils-extension/notification": {
        "fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True,
    },
}  # fmt: skip


@dataclass(frozen=True)
class Server:
    """Where it is, and the folder of its notebooks."""

    port: int
    token: str
    folder: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, path: str, method: str = "GET") -> Any:
        """One request to the server's API."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, path, headers={"Authorization": f"token {self.token}"})
            answer = connection.getresponse()
            body = answer.read()
            return json.loads(body) if body else None
        finally:
            connection.close()

    def kernel(self, notebook: str) -> dict[str, Any]:
        """The kernel of an open notebook, as the server sees it."""
        found: list[dict[str, Any]] = [each["kernel"] for each in self.ask("/api/sessions") if each["path"] == notebook]
        assert len(found) == 1, found
        return found[0]


@contextlib.contextmanager
def serving(folder: Path, home: Path, specs: Mapping[str, Mapping[str, str]]) -> Iterator[Server]:
    """A server for the block. ``specs``: kernel name to its environment, beside this one's."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = Server(port, uuid.uuid4().hex, folder)
    for name, variables in specs.items():
        _spec(home / "data" / "kernels" / name, variables)
    for name, values in QUIET.items():
        path = home / "settings" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
    log = home / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(_command(server, folder), env=_environment(home), stdout=out, stderr=out, cwd=folder)
    try:
        _wait(server, process, log)
        yield server
    finally:
        with contextlib.suppress(OSError):
            server.ask("/api/shutdown", "POST")
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _command(server: Server, folder: Path) -> list[str]:
    return [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={server.port}",
        "--ServerApp.port_retries=0", f"--IdentityProvider.token={server.token}", f"--ServerApp.root_dir={folder}",
        "--LabApp.news_url=", "--LabApp.extension_manager=readonly",
        "--ServerApp.jpserver_extensions={'notebook':True}",
        "--ServerApp.terminals_enabled=False",
    ]  # fmt: skip


def _environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "JPY_", "IPYTHON"))}
    return {
        **kept,
        "HOME": str(home),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "IPYTHONDIR": str(home / "ipython"),
        "JUPYTER_PREFER_ENV_PATH": "0",
    }


def _spec(folder: Path, variables: Mapping[str, str]) -> None:
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": command, "display_name": folder.name, "language": "python", "env": dict(variables)}
    (folder / "kernel.json").write_text(json.dumps(spec))


def _wait(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        assert process.poll() is None, log.read_text()[-3000:]
        with contextlib.suppress(OSError):
            server.ask("/api/status")
            return
        time.sleep(0.1)
    raise AssertionError(log.read_text()[-3000:])
