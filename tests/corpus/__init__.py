"""Notebooks as people write them, each cell a step: killed at random, they must show and leave what they always do.

``python -m tests.corpus FOLDER [--seed N] [--kills N] [--jobs N]`` does it to all notebooks of a folder. A cell with
the tag ``always`` becomes a step that is never skipped, as configuration has to be.
"""
