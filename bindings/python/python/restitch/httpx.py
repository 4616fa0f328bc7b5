"""HTTP clients of httpx that make the answers of language models whole."""

import httpx as _httpx

from ._transport import make as _make

__all__ = ["AsyncClient", "AsyncTransport", "Client", "Transport"]

Transport, AsyncTransport, Client, AsyncClient = _make(_httpx)
