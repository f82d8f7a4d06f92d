"""Every test has its own signing key, so that no test touches the user's."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def key_file(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path_factory.mktemp("key") / "key"
    monkeypatch.setenv("RESUMABLE_KEY_FILE", str(path))
    return path
