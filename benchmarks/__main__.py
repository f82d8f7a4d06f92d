"""All of them: ``python -m benchmarks``."""

from benchmarks import fingerprints
from benchmarks.race import main

if __name__ == "__main__":
    main([each.races for each in (fingerprints,)], "What resumable_nb costs, as ratios.")
