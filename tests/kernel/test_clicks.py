"""Clicks as front ends without subshells send them (VS Code, Colab): on the shell channel, while a cell runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.kernel.test_cells import TIMEOUT_S, Client, kernel
from tests.kernel.test_control import ASYNC, CPU, SYNC, TOOLS, Book
from tests.kernels import LOAD

pytestmark = pytest.mark.kernel


class Panel:
    """The panel's buttons, by the comms that the kernel opened for them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        reply = client("%resumable\n'it need not be the last line'")
        assert reply.status == "ok"
        states = {each["comm_id"]: each["data"].get("state", {}) for each in reply.of("comm_open")}
        self._comms = {str(state.get("description")): comm for comm, state in states.items()}
        bundles = [each["data"] for each in reply.of("display_data")]
        self.mimes = {mime for bundle in bundles for mime in bundle}

    def click(self, button: str) -> None:
        session, channel = self._client.client.session, self._client.client.shell_channel
        data: dict[str, Any] = {"method": "custom", "content": {"event": "click"}}
        channel.send(session.msg("comm_msg", {"comm_id": self._comms[button], "data": data}))

    def ask(self, kind: str) -> dict[str, Any]:
        """A question as a page asks it that is loaded meanwhile. Returns what is answered while the cell runs."""
        session, channel = self._client.client.session, self._client.client.shell_channel
        asked = session.msg(kind, {})
        channel.send(asked)
        while True:
            answer = self._client.client.get_shell_msg(timeout=TIMEOUT_S)
            if answer["parent_header"].get("msg_id") == asked["header"]["msg_id"]:
                content: dict[str, Any] = answer["content"]
                return content
            assert answer["msg_type"] != "execute_reply", "the cell has ended"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Book, Panel]]:
    folder = tmp_path_factory.mktemp("clicks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RESUMABLE_KEY_FILE", str(folder / "key"))
        with kernel(folder) as made:
            assert made(f"{LOAD}\n{TOOLS}").status == "ok"
            yield Book(made, folder, "book"), Panel(made)


@pytest.mark.parametrize("text", [SYNC, ASYNC, CPU], ids=["sync", "async", "cpu"])
def test_clicks_on_the_shell_channel_act_while_a_cell_runs(
    shared: tuple[Book, Panel], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    book, panel = shared
    monkeypatch.setenv("RESUMABLE_KEY_FILE", str(book.folder / "key"))
    assert book.client("%resumable forget --yes").status == "ok"
    cell = book.start(text)
    cell.until("begun")
    panel.click("Pause")
    cell.until("paused by the panel")
    if text is not ASYNC:  # there the kernel's loop has taken the question, and keeps it until the cell's end
        assert panel.ask("kernel_info_request")["status"] == "ok"
        assert set(panel._comms.values()) <= set(panel.ask("comm_info_request")["comms"])
    assert book.status() == "paused"
    panel.click("Resume")
    cell.until("then went on")
    panel.click("Stop")
    reply = cell.reply()
    assert (reply.status, reply.name) == ("error", "Stopped")
    assert book.status() == "stopped"


def test_the_panel_brings_html_and_text_for_readers_without_widgets(shared: tuple[Book, Panel]) -> None:
    assert {"application/vnd.jupyter.widget-view+json", "text/html", "text/plain"} <= shared[1].mimes
