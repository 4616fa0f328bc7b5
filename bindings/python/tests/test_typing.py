"""The package is typed."""

import subprocess
import sys
from pathlib import Path

import pytest

import restitch

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
restitch.litellm.Restitch(max_continuations=2)
try:
    restitch.loads("x")
except restitch.JSONError as error:
    assert_type(error.byte, int)
    assert_type(error.path, str)
"""


# Typed code has no stubs: these are classes that a function makes, and a module whose package is not installed.
NOT_COMPARED = r"""
restitch\._transport\..*
restitch\.litellm
"""

# An SDK's types would take most of the time.
CONFIG = """[mypy]
cache_dir = {}
[mypy-anthropic.*,litellm.*]
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
    config.write_text(CONFIG.format(tmp_path))
    run("mypy", "--strict", "--config-file", str(config), str(use))


def test_the_stubs_fit_the_installed_package(tmp_path):
    for package in ("anthropic", "httpx", "httpx2"):
        pytest.importorskip(package)
    config, allowed = tmp_path / "mypy.ini", tmp_path / "allowed"
    config.write_text(CONFIG.format(tmp_path))
    allowed.write_text(NOT_COMPARED)
    run("mypy.stubtest", "--mypy-config-file", str(config), "--allowlist", str(allowed), "restitch")


def test_the_stubs_of_the_twins_are_equal():
    folder = Path(restitch.__file__).parent
    httpx, httpx2 = ((folder / f"{name}.pyi").read_text() for name in ("httpx", "httpx2"))
    assert httpx2.replace("httpx2", "httpx") == httpx
