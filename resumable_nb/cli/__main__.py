"""``python -m resumable_nb.cli``."""

from resumable_nb.cli.command import main

main()
