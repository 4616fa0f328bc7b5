"""Makes cut-off LLM output whole: the calls of SDKs, and partial JSON.

>>> import restitch
>>> restitch.loads('{"titles": ["One", "Tw', partial=True)
{'titles': ['One', 'Tw']}

`restitch.httpx2.Client` and `restitch.httpx.Client` are HTTP clients for the SDKs of OpenAI, Anthropic
and Google. `restitch.anthropic.Restitch` is a middleware for Anthropic's, and `restitch.litellm.Restitch`
a callback for LiteLLM's proxy.
"""

from ._errors import JSONError
from ._restitch import LiveValue, Repaired, complete, loads, repair

__all__ = ["JSONError", "LiveValue", "Repaired", "complete", "loads", "repair"]

# Each needs a package that not every user has.
_ON_DEMAND = frozenset({"anthropic", "httpx", "httpx2", "litellm"})


def __getattr__(name: str) -> object:
    if name in _ON_DEMAND:
        # Most of the time that an import of the package takes would go into these modules.
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
