"""Drives an exchange: one request, and the calls that answer it.

The steps of an answer are a generator. It yields what to do and gets the result, so the synchronous
and the asynchronous transport differ only in how they do it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator
from email.utils import parsedate_to_datetime
from typing import Any, Final

from ._restitch import Exchange

logger = logging.getLogger("restitch")

READ: Final = "read"
"""Read the next bytes of a response's body. The result: the bytes, `None` at the end, or an error."""
SEND: Final = "send"
"""Send a request. The result: the response, or an error."""
CLOSE: Final = "close"
"""Close a response."""
SLEEP: Final = "sleep"
"""Wait for some seconds."""
GIVE: Final = "give"
"""Give bytes to the client."""

Step = tuple[str, Any]

# The first call's key would make the upstream replay that answer, and a digest of the old body does not
# match the new one.
FIRST_CALL_ONLY = (
    "content-digest",
    "content-length",
    "content-md5",
    "digest",
    "idempotency-key",
    "repr-digest",
    "transfer-encoding",
)


class Settings:
    """The settings of a transport."""

    def __init__(self, on_event: Callable[[dict[str, Any]], object] | None, limits: dict[str, Any]) -> None:
        # An unknown name or value is an error now, and not at the first request.
        Exchange.for_request("", "", b"", **limits)
        self.on_event = on_event
        self.limits = limits

    def exchange(self, request: Any, content: bytes | None) -> Exchange | None:
        """Reads a request. `None`: it is not one whose answer can be continued."""
        is_signed = request.headers.get("authorization", "").startswith("AWS4-")
        if request.method != "POST" or content is None or is_signed:
            return None
        path = request.url.raw_path.decode("ascii")
        return Exchange.for_request(request.url.host, path, content, **self.limits)

    def report(self, event: dict[str, Any]) -> None:
        """Calls `on_event`. An error in it must not break the answer."""
        if self.on_event is None:
            return
        try:
            self.on_event(event)
        except Exception:
            logger.exception("on_event failed")


class Answer:
    """The answer to one request."""

    def __init__(self, http: Any, settings: Settings, exchange: Exchange, request: Any) -> None:
        self._http = http
        self._settings = settings
        self.exchange = exchange
        self._origin = time.monotonic()
        # Compression would hide the end of a cut body.
        self._request = self._with(request.method, request.url, request, request.stream)
        self._error: Exception | None = None
        self._open: Any = None
        self._done: tuple[dict[str, Any], bool, int] | None = None

    @property
    def request(self) -> Any:
        """The request of the first call."""
        return self._request

    @property
    def open(self) -> Any:
        """The open response, if there is one."""
        return self._open

    @property
    def status(self) -> int:
        """The status of a response in one body."""
        return self._done[2] if self._done else 200

    def reads(self, response: Any) -> bool:
        """Takes the head of a response. Returns whether its body is read."""
        headers = response.headers
        is_read = self.exchange.response(
            self._now(),
            response.status_code,
            headers.get("content-type", ""),
            headers.get("content-encoding"),
            _retry_after(headers.get("retry-after")),
            headers.get("server"),
        )
        if is_read:
            self._open = response
        return is_read

    def steps(self) -> Generator[Step, Any, None]:
        """Reads the open response, and makes the calls for the rest, to the end of the answer."""
        call: tuple[str, str, bytes, float] | None = None
        while self._done is None:
            if call is not None:
                yield from self._make(call)
            elif self._open is not None:
                yield from self._read()
            else:
                raise RuntimeError("an answer is neither open nor over")
            given, events, call, self._done = self.exchange.poll()
            for event in events:
                self._settings.report(event)
            if self._done is not None:
                self._settings.report(self._done[0])
            if self._open is not None and (call is not None or self._done is not None):
                yield CLOSE, self._let_go()
            if given:
                yield GIVE, given
        if self._done[1]:
            # The client must see that its stream is not whole, as it would without this package. The error of a
            # further call, such as a refused connection, would say that nothing was delivered, and invite a retry.
            lost = self._http.RemoteProtocolError("the answer was cut off and could not be completed")
            raise lost from self._error

    def abandon(self) -> Any:
        """Ends the answer: the client has left. Returns the open response, which has to be closed."""
        if self._done is None:
            self._done = (self.exchange.abandoned(), False, 200)
            self._settings.report(self._done[0])
        return self._let_go()

    def _make(self, call: tuple[str, str, bytes, float]) -> Generator[Step, Any, None]:
        method, path, body, at = call
        wait = at - self._now()
        if wait > 0:
            yield SLEEP, wait
        url = self._request.url.copy_with(raw_path=path.encode("ascii"))
        request = self._with(method, url, self._request, body if method == "POST" else b"")
        timeouts = request.extensions["timeout"]
        given = timeouts.get("read")
        timeouts["read"] = self.least(given)
        result = yield SEND, request
        timeouts["read"] = given
        now = self._now()
        if isinstance(result, Exception):
            self._error = result
            silent_at = self.exchange.silent_at()
            if isinstance(result, self._http.ReadTimeout) and silent_at is not None and silent_at <= now:
                self.exchange.timeout(now)
            else:
                is_unavailable = isinstance(result, self._http.TransportError)
                self.exchange.call_failed(now, str(result) or type(result).__name__, is_unavailable)
        elif not self.reads(result):
            yield CLOSE, result

    def _read(self) -> Generator[Step, Any, None]:
        item = yield READ, self._open
        now = self._now()
        if isinstance(item, bytes):
            return self.exchange.bytes(now, item)
        yield CLOSE, self._let_go()
        if item is None:
            return self.exchange.end(now, False)
        self._error = item
        silent_at = self.exchange.silent_at()
        if isinstance(item, self._http.ReadTimeout) and silent_at is not None and silent_at <= now:
            self.exchange.timeout(now)
        else:
            self.exchange.end(now, True)

    def _let_go(self) -> Any:
        response, self._open = self._open, None
        return response

    def _with(self, method: str, url: Any, request: Any, content: Any) -> Any:
        """Returns a request like another one."""
        headers = request.headers.copy()
        headers["accept-encoding"] = "identity"
        extensions = dict(request.extensions)
        extensions["timeout"] = dict(extensions.get("timeout", {}))
        if not isinstance(content, bytes):
            return self._http.Request(method, url, headers=headers, stream=content, extensions=extensions)
        for name in FIRST_CALL_ONLY:
            headers.pop(name, None)
        return self._http.Request(method, url, headers=headers, content=content, extensions=extensions)

    def _now(self) -> float:
        return time.monotonic() - self._origin

    def least(self, given: float | None) -> float | None:
        """Returns the time limit of a read: the client's, or the time until silence ends the call."""
        silent_at = self.exchange.silent_at()
        if silent_at is None:
            return given
        left = max(silent_at - self._now(), 0.001)
        return left if given is None else min(left, given)


def _retry_after(value: str | None) -> float | None:
    """Reads `Retry-After`: seconds, or a date."""
    if value is None:
        return None
    try:
        return max(float(value), 0.0)
    except ValueError:
        pass
    try:
        return max(parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except (TypeError, ValueError):
        return None
