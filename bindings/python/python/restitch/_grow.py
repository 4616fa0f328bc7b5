"""Extends a string inside a value."""

from typing import Any


def grow(container: Any, key: Any, delta: str) -> None:
    """Appends to the string of a member or an element.

    CPython extends a string in place if a local variable holds it and nothing else does, so the time does not depend on
    the string's length. Otherwise, as where a caller has kept the string, it makes a new one. No other thread runs between
    these lines.
    """
    text = container[key]
    container[key] = None
    text += delta
    container[key] = text
