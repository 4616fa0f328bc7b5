"""LiteLLM's callback without a proxy: a test plays the router."""

import asyncio
import importlib.util
import sys
from types import SimpleNamespace

import pytest

if importlib.util.find_spec("litellm") is None:
    pytest.skip("litellm is not installed", allow_module_level=True)
types = importlib.import_module("litellm.types.utils")
exceptions = importlib.import_module("litellm.exceptions")
callback = importlib.import_module("restitch.litellm")

REQUEST = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Count."}]}
USER = SimpleNamespace(request_route="/v1/chat/completions")


class Router:
    """Answers each call with the next stream."""

    def __init__(self, *streams):
        self.streams, self.calls = list(streams), []

    async def acompletion(self, **call):
        self.calls.append(call)
        return stream(*self.streams.pop(0))


async def stream(*texts):
    """Streams texts. The last item is the finish, an error, or the seconds of a silence."""
    for text in texts[:-1]:
        yield chunk({"content": text})
    if isinstance(texts[-1], Exception):
        raise texts[-1]
    if isinstance(texts[-1], float):
        await asyncio.sleep(texts[-1])
    yield chunk({}, texts[-1])


def chunk(delta, finish=None):
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return types.ModelResponseStream(id="a", created=1, model="m", choices=choices)


@pytest.fixture
def ask(monkeypatch):
    def ask(first, *rests, route=USER, **settings):
        router, items = Router(*rests), []
        monkeypatch.setitem(sys.modules, "litellm.proxy.proxy_server", SimpleNamespace(llm_router=router))
        data = {**REQUEST, "proxy_server_request": {"body": REQUEST}, "litellm_call_id": "first", "shared": "kept"}

        async def run():
            made = callback.Restitch(**settings)
            async for item in made.async_post_call_streaming_iterator_hook(route, stream(*first), data):
                items.append(item)

        return router, items, run

    return ask


def text_of(items):
    return "".join(choice.delta.content or "" for item in items for choice in item.choices)


@pytest.mark.parametrize("end", ["length", "stop", RuntimeError("lost"), 5.0])
def test_a_cut_stream_is_whole(ask, end):
    router, items, run = ask(("[1,", " 2", end), ("[1,", " 2, 3]", "stop"), idle_timeout=0.3)
    asyncio.run(run())
    assert text_of(items) == "[1, 2, 3]"
    assert [choice.finish_reason for item in items for choice in item.choices][-1] == "stop"
    (call,) = router.calls
    assert (call["shared"], call["model"], call["stream"]) == ("kept", "m", True)
    assert "litellm_call_id" not in call


def test_an_unchanged_item_is_the_same_object():
    first = []

    async def kept(response):
        async for item in response:
            first.append(item)
            yield item

    data = {**REQUEST, "proxy_server_request": {"body": REQUEST}}

    async def run():
        hook = callback.Restitch().async_post_call_streaming_iterator_hook
        return [item async for item in hook(USER, kept(stream("[1,", " 2]", "stop")), data)]

    items = asyncio.run(run())
    assert [id(item) for item in items] == [id(item) for item in first]


def test_an_answer_that_is_given_up_may_be_an_error(ask):
    _, items, run = ask(("[1,", " 2", "length"), ("No.", "stop"), max_continuations=1, on_give_up="error")
    with pytest.raises(exceptions.APIError, match="cut"):
        asyncio.run(run())
    assert text_of(items) == "[1, 2"


def test_other_apis_pass(ask):
    router, items, run = ask(("[1,", " 2", "length"), route=SimpleNamespace(request_route="/v1/responses"))
    asyncio.run(run())
    assert (text_of(items), router.calls) == ("[1, 2", [])
