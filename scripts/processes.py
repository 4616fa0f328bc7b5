"""The servers that scripts start, and what they share: the program, free ports, and tools that may be missing."""

import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PROGRAM = os.path.abspath(os.environ.get("RESTITCH", TARGET / "debug" / "restitch"))
# A server or an alert that needs longer has failed. The machine may be busy with other work.
PATIENCE = 120


class Process:
    """A server that this script has started. `pattern` finds its addresses in its output."""

    def __init__(self, command, pattern, env=None):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            command, stdout=self.log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=env
        )
        self.found = self.wait_for(pattern).groups()

    @property
    def address(self):
        return self.found[0]

    def wait_for(self, pattern):
        """Waits until the output matches."""
        deadline = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, self.output(), re.S)):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise SystemExit(f"{self.process.args[0]} shows no {pattern}: {self.output()[-500:]}")
            time.sleep(0.05)
        return found

    def output(self):
        self.log.seek(0)
        return self.log.read()

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Servers:
    """All servers of a script. Their end is the end of the `with` block."""

    def __enter__(self):
        self.started = []
        return self

    def __exit__(self, *_):
        for process in reversed(self.started):
            process.stop()

    def start(self, command, pattern, env=None):
        if not shutil.which(command[0]):
            raise SystemExit(f"there is no {command[0]}")
        self.started.append(Process([str(word) for word in command], pattern, env))
        return self.started[-1]

    def sim(self):
        """Starts a scripted model server. Returns its URL."""
        return self.start([PROGRAM, "sim", "--listen", "127.0.0.1:0"], r"listening on (http://[^/\s]+)").address


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def missing(*tools):
    """Returns whether a tool is missing, and says so."""
    absent = [tool for tool in tools if not shutil.which(tool) and not pathlib.Path("/usr/sbin", tool).exists()]
    if absent:
        print(f"skipped: there is no {', no '.join(absent)}")
    return bool(absent)
