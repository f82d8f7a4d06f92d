"""``Construction``: making an object of a class, as a function."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Mapping
from typing import Any


class Construction:
    """The function that makes objects of a class. It does not keep the class alive, which knows it."""

    def __init__(self, kind: type, make: Callable[[type, tuple[Any, ...], Mapping[str, Any]], Any]) -> None:
        self._kind, self._make = weakref.ref(kind), make
        self.__module__, self.__doc__ = kind.__module__, kind.__doc__
        self.__name__, self.__qualname__ = kind.__name__, kind.__qualname__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._make(self.__wrapped__, args, kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        return Construction, (self.__wrapped__, self._make)

    @property
    def __wrapped__(self) -> type:
        kind = self._kind()
        assert kind is not None, "whoever calls it has the class"
        return kind

    @property
    def __signature__(self) -> inspect.Signature:
        """Of the class that was marked, or of the first one on the way there that says otherwise."""
        for kind in self.__wrapped__.__mro__:
            marked = getattr(kind, "__wrapped__", None)
            if isinstance(marked, type):
                return inspect.signature(marked)
            for name in ("__new__", "__init__"):
                if name in vars(kind):
                    own = inspect.signature(getattr(kind, name))
                    return own.replace(parameters=list(own.parameters.values())[1:])
        raise ValueError
