"""The package is typed."""

import subprocess
import sys

import pytest

USE = """
from typing import Any, assert_type

import httpx
import httpx2

import restitch

assert_type(restitch.loads("[1]", partial=True), Any)
assert_type(restitch.complete("["), str | None)
assert_type(restitch.repair("{}", level="syntax").json, str)
assert_type(restitch.LiveValue(strings=False).feed("["), Any)
one: httpx2.Client = restitch.httpx2.Client(on_event=print, max_continuations=3, timeout=3)
two: httpx2.AsyncClient = restitch.httpx2.AsyncClient(on_give_up="close")
three: httpx.BaseTransport = restitch.httpx.Transport(httpx.HTTPTransport(), repair="syntax")
four: httpx.AsyncBaseTransport = restitch.httpx.AsyncTransport(prose="anchor")
restitch.anthropic.Restitch(max_continuations=2)
try:
    restitch.loads("x")
except restitch.JSONError as error:
    assert_type(error.byte, int)
    assert_type(error.path, str)
"""


# An SDK's types would take most of the time.
CONFIG = """[mypy]
[mypy-anthropic.*]
follow_imports = skip
ignore_missing_imports = True
"""


def run(*arguments):
    pytest.importorskip("mypy")
    done = subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_strict_check_accepts_the_use(tmp_path):
    for package in ("httpx", "httpx2"):
        pytest.importorskip(package)
    use, config = tmp_path / "use.py", tmp_path / "mypy.ini"
    use.write_text(USE)
    config.write_text(CONFIG)
    run("mypy", "--strict", "--config-file", str(config), "--cache-dir", str(tmp_path), str(use))
