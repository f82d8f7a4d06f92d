"""Values to bytes and back: notebook functions on the live namespace, large buffers apart from the stream."""

from resumable_nb.codec.carry import Reply, Unsent, opened, packed, run, run_attached, run_permitted
from resumable_nb.codec.coder import Codec, is_reading, may_come_back_otherwise
from resumable_nb.codec.definitions import importable, is_filled, parts_of
from resumable_nb.codec.encoder import Encoded, OutOfBand, Shared
from resumable_nb.codec.endings import is_noticed, keep_endings
from resumable_nb.codec.graft import pair
from resumable_nb.codec.graphs import Linked, is_linked, link
from resumable_nb.codec.handles import stands_for_one
from resumable_nb.codec.living import data_of
from resumable_nb.codec.probe import changing, used_up
from resumable_nb.codec.tables import laid
from resumable_nb.codec.values import dumps_value, loads_value

__all__ = [
    "Codec",
    "Encoded",
    "Linked",
    "OutOfBand",
    "Reply",
    "Shared",
    "Unsent",
    "changing",
    "data_of",
    "dumps_value",
    "importable",
    "is_filled",
    "is_linked",
    "is_noticed",
    "is_reading",
    "keep_endings",
    "laid",
    "link",
    "loads_value",
    "may_come_back_otherwise",
    "opened",
    "packed",
    "pair",
    "parts_of",
    "run",
    "run_attached",
    "run_permitted",
    "stands_for_one",
    "used_up",
]
