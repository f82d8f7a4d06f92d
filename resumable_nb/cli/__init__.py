"""The command ``resumable``."""

from resumable_nb.cli.command import main

__all__ = ["main"]
