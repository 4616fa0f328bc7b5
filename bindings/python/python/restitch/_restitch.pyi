import builtins
from typing import Any, Literal, final

__all__ = ["Exchange", "LiveValue", "Repaired", "complete", "loads", "repair"]

@final
class LiveValue:
    """The value of a JSON document while its text arrives, in a stream of a model's text.

    A delta costs time for what it changes, and not for the whole value: the value is the same
    object each time, and grows in place. Copy it to keep a state.
    """

    def __new__(cls, *, strings: bool = True) -> LiveValue: ...
    def feed(self, delta: str) -> Any: ...
    @property
    def value(self) -> Any: ...
    @property
    def is_complete(self) -> bool: ...
    @property
    def path(self) -> str: ...
    @property
    def text(self) -> str: ...

@final
class Repaired:
    """The result of a repair."""

    @property
    def json(self) -> str: ...
    @property
    def status(self) -> Literal["valid", "repaired", "truncated", "malformed"]: ...
    @property
    def repairs(self) -> list[dict[str, Any]]: ...

@final
class Exchange:
    """A request and the calls that answer it. Not a part of the interface."""

    @staticmethod
    def for_request(
        host: str,
        path: str,
        body: bytes,
        *,
        max_continuations: int | None = None,
        max_total_time: float | None = None,
        idle_timeout: float | None = None,
        first_byte_timeout: float | None = None,
        on_give_up: str = "leave",
        repair: str = "strict",
        prose: str = "pass",
    ) -> Exchange | None: ...
    @property
    def is_stream(self) -> bool: ...
    def response(
        self,
        now: float,
        status: int,
        content_type: str,
        content_encoding: str | None,
        retry_after: float | None,
        server: str | None,
    ) -> bool: ...
    def bytes(self, now: float, data: builtins.bytes) -> None: ...
    def end(self, now: float, dropped: bool) -> None: ...
    def call_failed(self, now: float, reason: str, unavailable: bool) -> None: ...
    def silent_at(self) -> float | None: ...
    def timeout(self, now: float) -> None: ...
    def poll(
        self,
    ) -> tuple[
        builtins.bytes,
        list[dict[str, Any]],
        tuple[str, str, builtins.bytes, float] | None,
        tuple[dict[str, Any], bool, int] | None,
    ]: ...
    def abandoned(self) -> dict[str, Any]: ...

def loads(text: str | bytes | bytearray, *, partial: bool = False) -> Any: ...
def complete(text: str | bytes | bytearray) -> str | None: ...
def repair(text: str | bytes | bytearray, *, level: Literal["strict", "syntax", "guess"] = "guess") -> Repaired: ...
