"""Source text and code objects as names and normal forms. Pure: nothing is executed or imported."""

from resumable_nb.source.body import Body, analyse, normal_form
from resumable_nb.source.codeform import code_form
from resumable_nb.source.codenames import Names, calls_of, code_names, names_of
from resumable_nb.source.quoted import in_value as formula_words
from resumable_nb.source.scope import Import
from resumable_nb.source.setting import ANY_NAME, is_step
from resumable_nb.source.touched import Touched

__all__ = [
    "ANY_NAME", "Body", "Import", "Names", "Touched", "analyse", "calls_of", "code_form", "code_names", "formula_words",
    "is_step", "names_of", "normal_form",
]  # fmt: skip
