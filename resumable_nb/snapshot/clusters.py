"""Variables that are reached from each other, as all that hold a part of one figure: what changes one changes each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from resumable_nb.codec import changing
from resumable_nb.groups import Survey


def clusters(
    survey: Survey, values: Mapping[str, Any], side: Callable[[str], object] = lambda _: None
) -> list[frozenset[str]]:
    """Parts of a sharing group that need one look together, not one each; only those on one ``side`` come together."""
    found: list[list[str]] = []
    firsts: dict[int, list[int]] = {}  # object that a cluster's first name holds: places in ``found``
    for name, value in values.items():
        holding = survey.holding(name)
        nodes = {} if holding is None or changing(holding.nodes.values()) else holding.nodes
        for place in sorted(place for each in firsts.keys() & nodes.keys() for place in firsts[each]):
            cluster = found[place]
            if id(value) in survey.holdings[cluster[0]].nodes and side(name) == side(cluster[0]):
                cluster.append(name)
                break
        else:
            if nodes:
                firsts.setdefault(id(value), []).append(len(found))
            found.append([name])
    return [frozenset(each) for each in found]
