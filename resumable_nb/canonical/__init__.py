"""Values as digests: typed, and the same for equal values however they were built."""

from resumable_nb.canonical.definitions import wrapper_of
from resumable_nb.canonical.digests import Content, carries_code, content, fingerprint, is_plain
from resumable_nb.canonical.origin import home, module_named, qualified, user_module

__all__ = [
    "Content",
    "carries_code",
    "content",
    "fingerprint",
    "home",
    "is_plain",
    "module_named",
    "qualified",
    "user_module",
    "wrapper_of",
]
