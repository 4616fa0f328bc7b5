from collections.abc import Callable
from typing import Any, Literal

import httpx2

__all__ = ["AsyncClient", "AsyncTransport", "Client", "Transport"]

_OnEvent = Callable[[dict[str, Any]], object]
_OnGiveUp = Literal["leave", "close", "error"]
_Repair = Literal["strict", "syntax", "guess"]
_Prose = Literal["pass", "anchor"]

class Transport(httpx2.BaseTransport):
    def __init__(
        self,
        transport: httpx2.BaseTransport | None = None,
        *,
        on_event: _OnEvent | None = None,
        max_continuations: int | None = None,
        max_total_time: float | None = None,
        idle_timeout: float | None = None,
        first_byte_timeout: float | None = None,
        on_give_up: _OnGiveUp = "leave",
        repair: _Repair = "strict",
        prose: _Prose = "pass",
    ) -> None: ...

class AsyncTransport(httpx2.AsyncBaseTransport):
    def __init__(
        self,
        transport: httpx2.AsyncBaseTransport | None = None,
        *,
        on_event: _OnEvent | None = None,
        max_continuations: int | None = None,
        max_total_time: float | None = None,
        idle_timeout: float | None = None,
        first_byte_timeout: float | None = None,
        on_give_up: _OnGiveUp = "leave",
        repair: _Repair = "strict",
        prose: _Prose = "pass",
    ) -> None: ...

class Client(httpx2.Client):
    def __init__(
        self,
        *,
        on_event: _OnEvent | None = None,
        max_continuations: int | None = None,
        max_total_time: float | None = None,
        idle_timeout: float | None = None,
        first_byte_timeout: float | None = None,
        on_give_up: _OnGiveUp = "leave",
        repair: _Repair = "strict",
        prose: _Prose = "pass",
        **kwargs: Any,
    ) -> None: ...

class AsyncClient(httpx2.AsyncClient):
    def __init__(
        self,
        *,
        on_event: _OnEvent | None = None,
        max_continuations: int | None = None,
        max_total_time: float | None = None,
        idle_timeout: float | None = None,
        first_byte_timeout: float | None = None,
        on_give_up: _OnGiveUp = "leave",
        repair: _Repair = "strict",
        prose: _Prose = "pass",
        **kwargs: Any,
    ) -> None: ...
