"""HTTP clients of httpx2 that make the answers of language models whole."""

import httpx2 as _httpx2

from ._transport import make as _make

__all__ = ["AsyncClient", "AsyncTransport", "Client", "Transport"]

Transport, AsyncTransport, Client, AsyncClient = _make(_httpx2)
