"""All of them: ``python -m benchmarks``."""

from benchmarks import calls, fingerprints, lazy_restore, panel, snapshots, steps
from benchmarks.race import main

PROGRAMS = (fingerprints, calls, steps, snapshots, lazy_restore, panel)

if __name__ == "__main__":
    main([each.races for each in PROGRAMS], "What resumable_nb costs, as ratios.")
