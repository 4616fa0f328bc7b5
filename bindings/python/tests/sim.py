"""The scripted model server, `restitch sim`, as a process."""

import contextlib
import os
import re
import subprocess

import pytest

PROGRAM = os.environ.get("RESTITCH_PROGRAM")


@contextlib.contextmanager
def running(*arguments):
    """Runs a server until the end of the block. Gives its address."""
    if not PROGRAM:
        pytest.skip("RESTITCH_PROGRAM does not name the program `restitch`")
    command = [PROGRAM, "sim", "--listen", "127.0.0.1:0", *arguments]
    sim = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        yield re.search(r"http://[0-9.]+:[0-9]+", sim.stderr.readline())[0]
    finally:
        sim.terminate()
        sim.wait()
