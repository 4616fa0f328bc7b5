from . import anthropic as anthropic
from . import httpx as httpx
from . import httpx2 as httpx2
from . import litellm as litellm
from ._errors import JSONError as JSONError
from ._restitch import LiveValue as LiveValue
from ._restitch import Repaired as Repaired
from ._restitch import complete as complete
from ._restitch import loads as loads
from ._restitch import repair as repair

__all__ = ["JSONError", "LiveValue", "Repaired", "complete", "loads", "repair"]
