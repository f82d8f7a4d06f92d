"""Notebooks that survive."""
