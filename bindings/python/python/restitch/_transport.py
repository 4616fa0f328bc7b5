"""Transports and clients for httpx and its twin httpx2, which have the same interface."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anyio

from ._answer import CLOSE, GIVE, READ, SEND, SLEEP, Answer, Settings

_SETTINGS = (
    "max_continuations",
    "max_total_time",
    "idle_timeout",
    "first_byte_timeout",
    "on_give_up",
    "repair",
    "prose",
)


def make(http: Any) -> tuple[type, type, type, type]:
    """Makes `Transport`, `AsyncTransport`, `Client` and `AsyncClient` for a package."""

    class Transport(http.BaseTransport):
        """A transport that makes the answers of language models whole. Other requests pass unchanged."""

        def __init__(
            self, transport: Any = None, *, on_event: Callable[[dict[str, Any]], object] | None = None, **settings: Any
        ) -> None:
            self._settings = Settings(on_event, settings)
            self._transport = http.HTTPTransport() if transport is None else transport

        def handle_request(self, request: Any) -> Any:
            content = request.read() if isinstance(request.stream, http.ByteStream) else None
            exchange = self._settings.exchange(request, content)
            if exchange is None:
                return self._transport.handle_request(request)
            answer = Answer(http, self._settings, exchange, request)
            response = self._transport.handle_request(answer.request)
            if not answer.reads(response):
                return response
            if exchange.is_stream:
                return stream(http, response, answer, self._transport)
            return read_whole(http, response, answer, self._transport)

        def close(self) -> None:
            self._transport.close()

    class AsyncTransport(http.AsyncBaseTransport):
        """A transport that makes the answers of language models whole. Other requests pass unchanged."""

        def __init__(
            self, transport: Any = None, *, on_event: Callable[[dict[str, Any]], object] | None = None, **settings: Any
        ) -> None:
            self._settings = Settings(on_event, settings)
            self._transport = http.AsyncHTTPTransport() if transport is None else transport

        async def handle_async_request(self, request: Any) -> Any:
            content = await request.aread() if isinstance(request.stream, http.ByteStream) else None
            exchange = self._settings.exchange(request, content)
            if exchange is None:
                return await self._transport.handle_async_request(request)
            answer = Answer(http, self._settings, exchange, request)
            response = await self._transport.handle_async_request(answer.request)
            if not answer.reads(response):
                return response
            if exchange.is_stream:
                return stream_async(http, response, answer, self._transport)
            return await read_whole_async(http, response, answer, self._transport)

        async def aclose(self) -> None:
            await self._transport.aclose()

    class Client(http.Client):
        """An HTTP client for SDKs. Takes the settings of `Transport`, and those of its base class."""

        def __init__(self, *, on_event: Callable[[dict[str, Any]], object] | None = None, **kwargs: Any) -> None:
            settings = _own(kwargs)
            Settings(on_event, settings)
            super().__init__(**_defaults(http, kwargs))
            _wrap(self, lambda transport: Transport(transport, on_event=on_event, **settings))

    class AsyncClient(http.AsyncClient):
        """An HTTP client for SDKs. Takes the settings of `AsyncTransport`, and those of its base class."""

        def __init__(self, *, on_event: Callable[[dict[str, Any]], object] | None = None, **kwargs: Any) -> None:
            settings = _own(kwargs)
            Settings(on_event, settings)
            super().__init__(**_defaults(http, kwargs))
            _wrap(self, lambda transport: AsyncTransport(transport, on_event=on_event, **settings))

    for made in (Transport, AsyncTransport, Client, AsyncClient):
        made.__module__ = f"restitch.{http.__name__}"
        made.__qualname__ = made.__name__
    return Transport, AsyncTransport, Client, AsyncClient


def stream(http: Any, response: Any, answer: Answer, transport: Any) -> Any:
    """Returns the response that the client streams."""

    class Stream(http.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            return _run(answer, transport)

        def close(self) -> None:
            left = answer.abandon()
            if left is not None:
                left.close()

    return _streamed(http, response, Stream())


def stream_async(http: Any, response: Any, answer: Answer, transport: Any) -> Any:
    """Returns the response that the client streams."""

    class Stream(http.AsyncByteStream):
        def __aiter__(self) -> AsyncIterator[bytes]:
            return _run_async(answer, transport)

        async def aclose(self) -> None:
            left = answer.abandon()
            if left is not None:
                await left.aclose()

    return _streamed(http, response, Stream())


def read_whole(http: Any, response: Any, answer: Answer, transport: Any) -> Any:
    """Reads an answer to its end. Returns a response with its whole body."""
    try:
        body = b"".join(_run(answer, transport))
    finally:
        left = answer.abandon()
        if left is not None:
            left.close()
    return _whole(http, response, answer.status, body)


async def read_whole_async(http: Any, response: Any, answer: Answer, transport: Any) -> Any:
    """Reads an answer to its end. Returns a response with its whole body."""
    try:
        body = b"".join([part async for part in _run_async(answer, transport)])
    finally:
        left = answer.abandon()
        if left is not None:
            # A cancelled task must close the upstream, too.
            with anyio.CancelScope(shield=True):
                await left.aclose()
    return _whole(http, response, answer.status, body)


def _run(answer: Answer, transport: Any) -> Iterator[bytes]:
    """Does the steps of an answer, and gives its bytes."""
    steps = answer.steps()
    parts: Any = None
    result: Any = None
    while True:
        try:
            step, subject = steps.send(result)
        except StopIteration:
            return
        result = None
        if step == READ:
            if parts is None or parts[0] is not subject:
                parts = (subject, iter(subject.stream))
            try:
                with _limited(answer, subject, _timed):
                    result = next(parts[1], None)
            except Exception as error:
                result = error
        elif step == SEND:
            try:
                result = transport.handle_request(subject)
            except Exception as error:
                result = error
        elif step == CLOSE:
            if subject is not None:
                subject.close()
        elif step == SLEEP:
            time.sleep(subject)
        elif step == GIVE:
            yield subject


async def _run_async(answer: Answer, transport: Any) -> AsyncIterator[bytes]:
    """Does the steps of an answer, and gives its bytes."""
    steps = answer.steps()
    parts: Any = None
    result: Any = None
    while True:
        try:
            step, subject = steps.send(result)
        except StopIteration:
            return
        result = None
        if step == READ:
            if parts is None or parts[0] is not subject:
                parts = (subject, aiter(subject.stream))
            try:
                with _limited(answer, subject, _timed_async):
                    result = await anext(parts[1], None)
            except Exception as error:
                result = error
        elif step == SEND:
            try:
                result = await transport.handle_async_request(subject)
            except Exception as error:
                result = error
        elif step == CLOSE:
            if subject is not None:
                await subject.aclose()
        elif step == SLEEP:
            await anyio.sleep(subject)
        elif step == GIVE:
            yield subject


@contextmanager
def _limited(answer: Answer, response: Any, timed: Callable[[Any, Answer], Any]) -> Iterator[None]:
    """Limits each read of a connection to the time until silence ends the call.

    The timeouts of a request count for its whole body, but the time that a model may be silent depends
    on what it has sent.
    """
    stream = response.extensions.get("network_stream")
    # A connection of HTTP/2 has other answers, too.
    if stream is None or response.extensions.get("http_version") != b"HTTP/1.1":
        yield
        return
    try:
        stream.read = timed(stream.read, answer)
    except AttributeError:
        yield
        return
    try:
        yield
    finally:
        del stream.read


def _timed(read: Any, answer: Answer) -> Any:
    def timed(max_bytes: int, timeout: float | None = None) -> Any:
        return read(max_bytes, timeout=answer.least(timeout))

    return timed


def _timed_async(read: Any, answer: Answer) -> Any:
    async def timed(max_bytes: int, timeout: float | None = None) -> Any:
        return await read(max_bytes, timeout=answer.least(timeout))

    return timed


def _streamed(http: Any, response: Any, stream: Any) -> Any:
    headers = response.headers.copy()
    # Continuations may make the stream longer than the first response announced.
    headers.pop("content-length", None)
    extensions = {name: value for name, value in response.extensions.items() if name != "network_stream"}
    return http.Response(response.status_code, headers=headers, stream=stream, extensions=extensions)


def _whole(http: Any, response: Any, status: int, body: bytes) -> Any:
    headers = response.headers.copy()
    for name in ("content-length", "transfer-encoding"):
        headers.pop(name, None)
    if status != 200:
        # These calls are made and paid: the SDK should not repeat them.
        headers["x-should-retry"] = "false"
    return http.Response(status, headers=headers, content=body)


def _own(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Takes the settings of the transport out of a client's arguments."""
    return {name: kwargs.pop(name) for name in _SETTINGS if name in kwargs}


def _defaults(http: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Adds the defaults that SDKs have for their own clients."""
    kwargs.setdefault("follow_redirects", True)
    kwargs.setdefault("limits", http.Limits(max_connections=1000, max_keepalive_connections=100))
    return kwargs


def _wrap(client: Any, wrap: Callable[[Any], Any]) -> None:
    """Wraps the transports that a client has made: one for each proxy of the environment, too."""
    client._transport = wrap(client._transport)
    client._mounts = {pattern: transport and wrap(transport) for pattern, transport in client._mounts.items()}
