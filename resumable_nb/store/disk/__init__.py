"""A store in one directory. Only this package imports diskcache."""

from resumable_nb.store.disk.store import DiskStore

__all__ = ["DiskStore"]
