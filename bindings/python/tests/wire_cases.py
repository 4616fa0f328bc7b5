"""Reads the files of `tests/wire-cases`."""

import contextlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[3] / "tests" / "wire-cases"

# The pictures of control characters.
_PICTURES = {0x2400 + code: code for code in range(0x20)} | {0x2420: 0x20, 0x2421: 0x7F, 0x237D: 0xA0}
_NUMBERS = {"max_continuations": int, "idle_timeout": float, "first_byte_timeout": float}
_WORDS = ("on_give_up", "repair", "prose")


@dataclass
class Case:
    name: str
    facts: list[tuple[str, str]]
    blocks: list[tuple[str, str]]

    def fact(self, name, default=None):
        return next((value for known, value in self.facts if known == name), default)

    def calls(self):
        return [value for name, value in self.facts if name == "call"]

    def texts(self, name):
        return [text for known, text in self.blocks if known == name]

    def settings(self):
        numbers = {name: read(self.fact(name)) for name, read in _NUMBERS.items() if self.fact(name)}
        return numbers | {name: self.fact(name) for name in _WORDS if self.fact(name)}


def read(path):
    facts, blocks, lines = [], [], iter(path.read_text().split("\n"))
    assert next(lines) == f"# {path.stem}"
    for line in lines:
        if line.startswith("```"):
            inner = []
            while (text := next(lines)) != "```":
                inner.append(text)
            blocks.append((line[3:], "\n".join(inner).translate(_PICTURES)))
        elif line.startswith("- "):
            name, _, value = line[2:].partition(": ")
            facts.append((name, value))
    return Case(path.stem, facts, blocks)


def all_cases():
    return [read(path) for path in sorted(FOLDER.glob("*.md")) if path.name != "README.md"]


def fits(pattern, value):
    """Whether a value fits a pattern."""
    if isinstance(pattern, dict):
        return isinstance(value, dict) and all(key in value and fits(pattern[key], value[key]) for key in pattern)
    if isinstance(pattern, list):
        return isinstance(value, list) and len(pattern) == len(value) and all(map(fits, pattern, value))
    if isinstance(pattern, str) and isinstance(value, str):
        wild = ".*".join(map(re.escape, pattern.split("…")))
        return re.fullmatch(wild, value, re.DOTALL) is not None
    return type(pattern) is type(value) and pattern == value


def assert_fits(what, patterns, values):
    """Fails with the first value that does not fit its pattern."""
    assert len(patterns) == len(values), f"{what}: {len(patterns)} are due\n" + "\n".join(map(str, values))
    for pattern, value in zip(patterns, values, strict=True):
        is_equal = pattern == value
        if not is_equal:
            with contextlib.suppress(ValueError):
                is_equal = fits(json.loads(pattern), json.loads(value))
        assert is_equal, f"{what}\n  wanted {pattern}\n  found  {value}"
