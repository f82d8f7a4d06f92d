"""Values as digests: typed, and the same for equal values however they were built."""

from resumable_nb.canonical.definitions import wrapper_of
from resumable_nb.canonical.digests import Content, carries_code, content, fingerprint, is_plain
from resumable_nb.canonical.enrolled import ENROLLED, is_enrolled, leads_to_enrolled
from resumable_nb.canonical.origin import home, module_named, qualified, user_module

__all__ = [
    "ENROLLED",
    "Content",
    "carries_code",
    "content",
    "fingerprint",
    "home",
    "is_enrolled",
    "is_plain",
    "leads_to_enrolled",
    "module_named",
    "qualified",
    "user_module",
    "wrapper_of",
]
