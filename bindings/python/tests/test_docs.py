"""What docs/clients.md says about the package."""

import inspect
import json
import re
from pathlib import Path

from restitch._restitch import Exchange

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "clients.md").read_text()
REQUEST = json.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": "Count."}]}).encode()


def rows():
    """Returns the defaults of the table of settings."""
    table = PAGE.split("| setting | default |")[1].split("\n\n")[0]
    cells = [line.split(" | ")[:2] for line in table.splitlines()[2:]]
    pairs = [zip(re.findall(r"`(\w+)`", names), defaults.split(", "), strict=True) for names, defaults in cells]
    return {name: default for pair in pairs for name, default in pair}


def exchange():
    return Exchange.for_request("", "/v1/chat/completions", REQUEST)


def answer(made, text, finish):
    data = {"id": "a", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}
    assert made.response(0.0, 200, "text/event-stream", None, None, None)
    made.bytes(0.0, f"data: {json.dumps(data)}\n\n".encode())


def test_the_table_has_the_defaults():
    parameters = inspect.signature(Exchange.for_request).parameters
    settings = {name: value.default for name, value in parameters.items() if value.kind == value.KEYWORD_ONLY}
    table = rows()
    assert set(table) == {*settings, "on_event"}
    for name, default in settings.items():
        # The limits have the engine's defaults, which the next test reads.
        if default is not None:
            assert table[name] == f'`"{default}"`'
    assert table["on_event"] == table["max_total_time"] == "none"


def test_the_table_has_the_defaults_of_the_engine():
    made = exchange()
    made.response(0.0, 200, "text/event-stream", None, None, None)
    silent = [made.silent_at()]
    made = exchange()
    answer(made, "[1", None)
    silent.append(made.silent_at())

    made, calls = exchange(), 0
    answer(made, "[1", "length")
    made.end(0.0, False)
    while made.poll()[3] is None:
        calls += 1
        # Each call brings one more element, and is cut, too.
        answer(made, f"[1{', 1' * calls}", "length")
        made.end(0.0, False)
    table = rows()
    found = {"first_byte_timeout": silent[0], "idle_timeout": silent[1], "max_continuations": calls}
    assert found == {name: float(table[name]) for name in found}


def pins(path):
    text = (ROOT / "bindings" / "python" / path).read_text()
    return dict(re.findall(r"^([\w-]+)(?:\[.*\])?==(\S+)$", text, re.MULTILINE))


def test_the_tested_versions_are_the_documented_ones():
    sdks = pins("sdks/requirements.txt")
    tested = {**sdks, "instructor": pins("sdks/requirements-instructor.txt")["instructor"]}
    names = {"pydantic-ai-slim": "pydantic-ai"}
    for name, version in tested.items():
        assert name == "pytest" or f"| {names.get(name, name)} {version} |" in PAGE
    for name, version in pins("tests/requirements.txt").items():
        assert sdks.get(name, version) == version
