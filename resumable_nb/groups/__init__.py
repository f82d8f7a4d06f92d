"""Which variables share mutable objects?"""

from resumable_nb.groups.graphs import leaves
from resumable_nb.groups.joints import ITSELF, SAME, Joints, joints, partners
from resumable_nb.groups.survey import Holding, Survey, Written
from resumable_nb.groups.verdict import is_atom

__all__ = ["ITSELF", "SAME", "Holding", "Joints", "Survey", "Written", "is_atom", "joints", "leaves", "partners"]
