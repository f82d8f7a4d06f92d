"""The ipywidgets view of a task: progress, history, timeline and what can be done about them."""

from resumable_nb.panel.widget import Panel, panel

__all__ = ["Panel", "panel"]
