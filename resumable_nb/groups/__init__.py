"""Which variables share mutable objects?"""

from resumable_nb.groups.survey import Holding, Survey, Written
from resumable_nb.groups.verdict import is_atom

__all__ = ["Holding", "Survey", "Written", "is_atom"]
