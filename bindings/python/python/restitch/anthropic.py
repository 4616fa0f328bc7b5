"""A middleware for Anthropic's SDK that makes messages whole.

The calls for the rest go through the rest of the chain: other middlewares, and the SDK's key.
"""

import contextlib
import copy
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import anthropic as _anthropic
import httpx2 as _httpx2

from ._answer import FIRST_CALL_ONLY, Answer, Settings
from ._transport import read_whole, read_whole_async, stream, stream_async

__all__ = ["Restitch"]


class Restitch(_anthropic.Middleware):
    """`Anthropic(middleware=[Restitch()])`. Takes the settings of `restitch.httpx2.Transport`."""

    def __init__(self, *, on_event: Callable[[dict[str, Any]], object] | None = None, **settings: Any) -> None:
        self._settings = Settings(on_event, settings)

    def handle(self, request: Any, call_next: Any) -> Any:
        answer = self._answer(request)
        if answer is None:
            return call_next(request)
        response = call_next(request)
        first = _Decoded(response.http_response)
        if not answer.reads(first):
            return response
        calls = _Calls(request, call_next)
        if answer.exchange.is_stream:
            return _replaced(response, stream(_httpx2, first, answer, calls))
        return _replaced(response, read_whole(_httpx2, first, answer, calls))

    async def handle_async(self, request: Any, call_next: Any) -> Any:
        answer = self._answer(request)
        if answer is None:
            return await call_next(request)
        response = await call_next(request)
        first = _AsyncDecoded(response.http_response)
        if not answer.reads(first):
            return response
        calls = _Calls(request, call_next)
        if answer.exchange.is_stream:
            return _replaced(response, stream_async(_httpx2, first, answer, calls))
        return _replaced(response, await read_whole_async(_httpx2, first, answer, calls))

    def _answer(self, request: Any) -> Answer | None:
        if request.method.upper() != "POST" or not isinstance(request.json, dict):
            return None
        # The path of a client may be behind a prefix, but the API's own path is its end.
        url = _httpx2.URL(_HOST).copy_with(raw_path=request.url.encode())
        first = _httpx2.Request("POST", url, content=json.dumps(request.json).encode())
        exchange = self._settings.exchange(first, first.content)
        return exchange and Answer(_httpx2, self._settings, exchange, first)


class _Calls:
    """Makes the calls for the rest through the rest of the chain."""

    def __init__(self, request: Any, call_next: Any) -> None:
        self._request, self._call_next = request, call_next

    def handle_request(self, request: Any) -> Any:
        with _lost():
            return _Decoded(self._call_next(self._with(request)).http_response)

    async def handle_async_request(self, request: Any) -> Any:
        with _lost():
            return _AsyncDecoded((await self._call_next(self._with(request))).http_response)

    def _with(self, request: Any) -> Any:
        headers = self._request.headers
        kept = {name: value for name, value in headers.items() if name.lower() not in FIRST_CALL_ONLY}
        return self._request.copy(body=json.loads(request.content), headers=kept)


class _Decoded:
    """A response whose body the SDK's client has decoded."""

    def __init__(self, response: Any) -> None:
        self.response = response
        self.status_code = response.status_code
        self.extensions = response.extensions
        self.headers = response.headers.copy()
        self.headers.pop("content-encoding", None)

    @property
    def stream(self) -> Iterator[bytes]:
        return self.response.iter_bytes()

    def close(self) -> None:
        self.response.close()


class _AsyncDecoded(_Decoded):
    @property
    def stream(self) -> AsyncIterator[bytes]:  # type: ignore[override]
        return self.response.aiter_bytes()

    async def aclose(self) -> None:
        await self.response.aclose()


@contextlib.contextmanager
def _lost() -> Iterator[None]:
    """Turns the SDK's errors of connections into those of its HTTP client."""
    try:
        yield
    except _anthropic.APITimeoutError as error:
        raise _httpx2.ReadTimeout(str(error)) from error
    except _anthropic.APIConnectionError as error:
        raise _httpx2.ConnectError(str(error)) from error


def _replaced(response: Any, http_response: Any) -> Any:
    """Returns a response of the SDK with another response of its HTTP client."""
    http_response.request = response.http_response.request
    replaced = copy.copy(response)
    replaced.http_response = http_response
    return replaced


# Only the model and the API decide how the rest is asked for.
_HOST = "https://api.anthropic.com"
