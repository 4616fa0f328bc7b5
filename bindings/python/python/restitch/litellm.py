"""A callback for LiteLLM's proxy that makes answers whole, whatever provider they come from.

LiteLLM's router makes the calls for the rest, so its keys, retries and fallbacks count for them. Chat Completions and
Messages are read. The answers of other APIs pass unchanged.
"""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import httpx as _httpx
from litellm.exceptions import APIError
from litellm.integrations.custom_logger import CustomLogger
from litellm.types.utils import ModelResponse, ModelResponseStream

from ._answer import Answer, Settings
from ._transport import read_whole_async, stream_async

__all__ = ["Restitch", "callback"]


class Restitch(CustomLogger):
    """`callbacks` of LiteLLM. Takes the settings of `restitch.httpx.AsyncTransport`."""

    def __init__(self, *, on_event: Callable[[dict[str, Any]], object] | None = None, **settings: Any) -> None:
        super().__init__()
        self._settings = Settings(on_event, settings)

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: Any, request_data: dict[str, Any]
    ) -> AsyncIterator[Any]:
        api = _api_of(user_api_key_dict)
        answer = self._answer(api, request_data, is_stream=True)
        if answer is None:
            async for item in response:
                yield item
            return
        first = _Streamed(api, response, answer)
        answer.reads(first)
        whole = stream_async(_httpx, first, answer, _Router(api, request_data, answer))
        try:
            async for part in whole.stream:
                for item in api.items(part, first.sent):
                    yield item
        finally:
            await whole.aclose()

    async def async_post_call_success_hook(self, data: dict[str, Any], user_api_key_dict: Any, response: Any) -> Any:
        api = _api_of(user_api_key_dict)
        answer = self._answer(api, data, is_stream=False)
        if answer is None:
            return None
        first = _Response("application/json", api.body(response))
        answer.reads(first)
        whole = await read_whole_async(_httpx, first, answer, _Router(api, data, answer))
        if whole.status_code != 200:
            raise _failed(whole.text)
        # LiteLLM keeps its own response then.
        return None if whole.content == first.body else api.response(whole.json(), response)

    def _answer(self, api: "type[_Chat]", data: dict[str, Any], *, is_stream: bool) -> Answer | None:
        request = _httpx.Request("POST", _HOST + api.path, json=_members(data))
        exchange = self._settings.exchange(request, request.content)
        if exchange is None or exchange.is_stream != is_stream:
            return None
        return Answer(_httpx, self._settings, exchange, request)


def _members(data: dict[str, Any]) -> dict[str, Any]:
    """Returns the members of the request's body. LiteLLM mixes them with its own, and writes into the metadata."""
    received = data.get("proxy_server_request", {}).get("body") or {}
    return {name: data[name] for name in received if name in data and not name.endswith("metadata")}


class _Chat:
    """Chat Completions: LiteLLM has read the events."""

    path = "/v1/chat/completions"
    method = "acompletion"

    @staticmethod
    def event(item: Any) -> bytes:
        """Returns the event of an item of LiteLLM's stream."""
        return f"data: {item.model_dump_json(exclude_none=True, exclude_unset=True)}\n\n".encode()

    @staticmethod
    def items(part: bytes, sent: dict[bytes, Any]) -> list[Any]:
        """Returns the items of whole events. An event that is unchanged is the item that was sent."""
        items = []
        for event in part.split(b"\n\n"):
            if event.startswith(b"data: {"):
                data = json.loads(event[6:])
                if "error" in data:
                    raise _failed(json.dumps(data["error"]))
                items.append(sent.pop(event + b"\n\n", None) or ModelResponseStream(**data))
        return items

    @staticmethod
    def body(response: Any) -> bytes:
        """Returns the body of a whole response."""
        return response.model_dump_json(exclude_none=True).encode()

    @staticmethod
    def response(body: dict[str, Any], first: Any) -> Any:
        """Returns the response with another body."""
        response = ModelResponse(**body)
        response._hidden_params = first._hidden_params
        return response


class _Messages(_Chat):
    """Messages: LiteLLM passes the events as bytes."""

    path = "/v1/messages"
    method = "aanthropic_messages"

    @staticmethod
    def event(item: bytes) -> bytes:
        return item

    @staticmethod
    def items(part: bytes, sent: dict[bytes, Any]) -> list[Any]:
        return [part]

    @staticmethod
    def body(response: Any) -> bytes:
        return json.dumps(response).encode()

    @staticmethod
    def response(body: dict[str, Any], first: Any) -> Any:
        return {**first, **body}


class _Other(_Chat):
    """An API whose answers pass unchanged."""

    path = "/"


def _api_of(user_api_key_dict: Any) -> type[_Chat]:
    """Returns the API of a route of the proxy, which may have a prefix."""
    route = user_api_key_dict.request_route or ""
    return next((api for api in (_Chat, _Messages) if route.endswith(api.path.removeprefix("/v1"))), _Other)


class _Router:
    """Makes the calls for the rest through LiteLLM's router."""

    def __init__(self, api: type[_Chat], data: dict[str, Any], answer: Answer) -> None:
        self._api, self._answer = api, answer
        members = _members(data)
        self._kept = {name: value for name, value in data.items() if name not in members and not _is_of_one_call(name)}

    async def handle_async_request(self, request: Any) -> Any:
        from litellm.proxy.proxy_server import llm_router

        body = json.loads(request.content)
        try:
            response = await getattr(llm_router, self._api.method)(**self._kept, **body)
        except Exception as error:
            return _of_error(error)
        if body.get("stream"):
            return _Streamed(self._api, response, self._answer)
        return _Response("application/json", self._api.body(response))


def _is_of_one_call(name: str) -> bool:
    """Whether LiteLLM has added a name for the first call. Each call has a log of its own."""
    return name in ("deployment", "litellm_call_id", "litellm_logging_obj") or name.startswith("_litellm")


class _Response:
    """A response of LiteLLM's, as one of its HTTP client."""

    def __init__(self, content_type: str, body: bytes = b"", status_code: int = 200) -> None:
        self.headers = _httpx.Headers({"content-type": content_type})
        self.body, self.status_code = body, status_code
        self.extensions: dict[str, Any] = {}

    @property
    def stream(self) -> AsyncIterator[bytes]:
        return self._parts()

    async def _parts(self) -> AsyncIterator[bytes]:
        yield self.body

    async def aclose(self) -> None:
        pass


class _Streamed(_Response):
    """A response whose items LiteLLM streams."""

    def __init__(self, api: type[_Chat], response: Any, answer: Answer) -> None:
        super().__init__("text/event-stream")
        self._api, self._response, self._answer = api, response, answer
        self.sent: dict[bytes, Any] = {}
        """The items by their events, for a client that gets an event unchanged."""

    async def _parts(self) -> AsyncIterator[bytes]:
        items = aiter(self._response)
        while True:
            try:
                with anyio.fail_after(self._answer.least(None)):
                    item = await anext(items)
            except StopAsyncIteration:
                return
            except TimeoutError as error:
                raise _httpx.ReadTimeout("the model is silent") from error
            event = self._api.event(item)
            self.sent[event] = item
            yield event

    async def aclose(self) -> None:
        if hasattr(self._response, "aclose"):
            await self._response.aclose()


def _failed(message: str) -> APIError:
    """Returns the error of an answer that is given up, if the settings ask for one."""
    return APIError(502, message, llm_provider="restitch", model="")


def _of_error(error: Exception) -> _Response:
    """Returns the response that LiteLLM has made an error of."""
    response = _Response("application/json", b"", getattr(error, "status_code", None) or 500)
    response.body = json.dumps({"error": {"message": str(error)}}).encode()
    headers = getattr(getattr(error, "response", None), "headers", {})
    if "retry-after" in headers:
        response.headers["retry-after"] = headers["retry-after"]
    return response


# The router chooses the provider, so nothing about it is known.
_HOST = "http://litellm"

callback = Restitch()
"""The callback with the default settings, for LiteLLM's configuration."""
