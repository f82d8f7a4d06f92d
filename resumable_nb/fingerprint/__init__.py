"""Digests of values, steps and calls: what decides whether a step is stale and whether a call was made before."""

from resumable_nb.canonical import carries_code, fingerprint, user_module
from resumable_nb.fingerprint.describe import describe
from resumable_nb.fingerprint.identity import argument_marks, argument_prints, bind, call_identity
from resumable_nb.fingerprint.key import step_key
from resumable_nb.fingerprint.reach import Known, Lookup, by_provenance
from resumable_nb.fingerprint.scripts import contents as script_contents

__all__ = [
    "Known", "Lookup", "argument_marks", "argument_prints", "bind", "by_provenance", "call_identity", "carries_code",
    "describe", "fingerprint", "script_contents", "step_key", "user_module",
]  # fmt: skip
