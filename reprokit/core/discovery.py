"""The objects that the modules of a package register: to add one, add a module."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")


def registered(package: ModuleType, kind: type[T]) -> dict[str, T]:
    """Return the one object of that kind which each module of ``package`` defines, by the module's name.

    A module whose name begins with ``_`` holds helpers, and is passed over. Raises TypeError for a module that defines
    no such object, or several.
    """
    found: dict[str, T] = {}
    for name in sorted(module.name for module in pkgutil.iter_modules(package.__path__)):
        if name.startswith("_"):
            continue
        module = import_module(f"{package.__name__}.{name}")
        objects = [value for value in vars(module).values() if isinstance(value, kind)]
        if len(objects) != 1:
            raise TypeError(
                f"{module.__name__} defines {len(objects)} objects of {kind.__name__}: each module of "
                f"{package.__name__} defines exactly one (helpers go to a module whose name begins with _)"
            )
        found[name] = objects[0]
    return found
