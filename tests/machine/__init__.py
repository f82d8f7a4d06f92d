"""Random programs of cells, calls, errors, crashes, edits and re-runs, against a simple model of the promises."""
