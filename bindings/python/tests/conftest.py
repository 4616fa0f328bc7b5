"""Servers that answer as a test says, on a loopback port of their own."""

import contextlib
import socket
import threading
import time
from dataclasses import dataclass, field

import pytest


@dataclass
class Reply:
    """The answer to one call."""

    status: int = 200
    content_type: str = "text/event-stream"
    pieces: list[bytes] = field(default_factory=list)
    end: str = "closed"
    """`closed`, `dropped`, `silent`, or `held`: silent until the client closes the connection."""
    headers: tuple[str, ...] = ()
    delay: float = 0.0
    """The time before the body."""


class Server:
    """Answers each call with the next reply."""

    def __init__(self, replies):
        self.replies = list(replies)
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.closed = threading.Event()
        """The client has closed the connection of a reply that was held."""
        self._stop = threading.Event()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def close(self):
        self._stop.set()
        # Wakes the thread that accepts.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self):
        while not self._stop.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection, connection.makefile("rb") as received:
            request = self._read(received)
            if request is None:
                return
            self.requests.append(request)
            reply = self.replies.pop(0) if self.replies else Reply(500, "text/plain", [b"no reply is left"])
            if callable(reply):
                reply = reply(request)
            with contextlib.suppress(OSError):
                self._answer(connection, reply)

    def _read(self, received):
        line = received.readline().decode()
        if not line:
            return None
        headers = {}
        while (header := received.readline().decode().strip()) != "":
            name, _, value = header.partition(":")
            headers[name.lower()] = value.strip()
        body = received.read(int(headers.get("content-length", 0)))
        # A connection that is closed before its request is read is reset.
        while headers.get("transfer-encoding") == "chunked" and (size := int(received.readline(), 16)):
            body += received.read(size)
            received.readline()
        return line.split(" ")[1], headers, body

    def _answer(self, connection, reply):
        head = [
            f"HTTP/1.1 {reply.status} Status",
            f"content-type: {reply.content_type}",
            "transfer-encoding: chunked",
            "connection: close",
            *reply.headers,
        ]
        connection.sendall("".join(f"{line}\r\n" for line in [*head, ""]).encode())
        time.sleep(reply.delay)
        for piece in filter(None, reply.pieces):
            connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        if reply.end == "closed":
            connection.sendall(b"0\r\n\r\n")
        elif reply.end == "silent":
            self._stop.wait(10)
        elif reply.end == "held":
            connection.settimeout(10)
            with contextlib.suppress(OSError):
                if connection.recv(1) == b"":
                    self.closed.set()


@pytest.fixture
def serve():
    servers = []

    def start(*replies):
        servers.append(Server(replies))
        return servers[-1]

    yield start
    for server in servers:
        server.close()
