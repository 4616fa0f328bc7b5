"""The SDKs of providers with the package's clients: cut, dropped and given-up answers."""

import asyncio
import importlib
import json

import pytest
from conftest import Reply

JSON = "application/json"
TEXT = '{"titles": ["One", "Two", "Three"]}'
CUT = TEXT[:24]


def sse(*events):
    names = [f"event: {event['type']}\n" if "type" in event else "" for event in events]
    return "".join(f"{name}data: {json.dumps(event)}\n\n" for name, event in zip(names, events, strict=True)).encode()


def chunk(delta, finish=None):
    return {
        "id": "a",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


def chat_stream(text, finish="stop"):
    parts = [text[at : at + 7] for at in range(0, len(text), 7)]
    events = [chunk({"role": "assistant", "content": ""}), *[chunk({"content": part}) for part in parts]]
    if finish is None:
        return Reply(pieces=[sse(*events)], end="dropped")
    return Reply(pieces=[sse(*events, chunk({}, finish)) + b"data: [DONE]\n\n"])


def chat_body(text, finish):
    message = {"role": "assistant", "content": text}
    body = {
        "id": "a",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
    }
    return Reply(content_type=JSON, pieces=[json.dumps(body).encode()])


NO = Reply(400, JSON, [b'{"error":{"message":"no","type":"invalid_request_error"}}'])
MESSAGES = [{"role": "user", "content": "Titles, as JSON."}]


@pytest.fixture(params=["httpx2", "httpx"])
def http(request):
    pytest.importorskip(request.param)
    return importlib.import_module(f"restitch.{request.param}")


@pytest.mark.parametrize("finish", ["length", None, "stop"])
def test_openai_streams_whole_text(serve, http, finish):
    openai = pytest.importorskip("openai")
    server = serve(chat_stream(CUT, finish), chat_stream(TEXT))
    with http.Client() as client:
        sdk = openai.OpenAI(base_url=server.url + "/v1", api_key="key", http_client=client)
        stream = sdk.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == TEXT
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices[0].finish_reason] == ["stop"]


def test_openai_reads_a_whole_body(serve, http):
    openai = pytest.importorskip("openai")
    server = serve(chat_body(CUT, "length"), chat_body(TEXT, "stop"))
    with http.Client() as client:
        sdk = openai.OpenAI(base_url=server.url + "/v1", api_key="key", http_client=client)
        answer = sdk.chat.completions.create(model="m", messages=MESSAGES)
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == (TEXT, "stop")


def test_openai_parses_a_cut_answer(serve, http):
    openai, pydantic = pytest.importorskip("openai"), pytest.importorskip("pydantic")

    class Titles(pydantic.BaseModel):
        titles: list[str]

    server = serve(chat_body(CUT, "length"), chat_body(TEXT, "stop"))
    with http.Client() as client:
        sdk = openai.OpenAI(base_url=server.url + "/v1", api_key="key", http_client=client)
        answer = sdk.chat.completions.parse(model="m", messages=MESSAGES, response_format=Titles)
    assert answer.choices[0].message.parsed == Titles(titles=["One", "Two", "Three"])


def test_openai_async(serve, http):
    openai = pytest.importorskip("openai")
    server = serve(chat_stream(CUT, None), chat_stream(TEXT), chat_body(CUT, "length"), chat_body(TEXT, "stop"))

    async def run():
        async with http.AsyncClient() as client:
            sdk = openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="key", http_client=client)
            stream = await sdk.chat.completions.create(model="m", messages=MESSAGES, stream=True)
            text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
            answer = await sdk.chat.completions.create(model="m", messages=MESSAGES)
            return text, answer.choices[0].message.content

    assert asyncio.run(run()) == (TEXT, TEXT)


@pytest.mark.parametrize("is_stream", [True, False])
@pytest.mark.parametrize("give_up", ["leave", "close", "error"])
def test_openai_does_not_retry_what_was_given_up(serve, http, is_stream, give_up):
    """The first answer was delivered, or its calls are made: another one would cost them again."""
    openai = pytest.importorskip("openai")
    first = chat_stream(CUT, None) if is_stream else chat_body(CUT, "length")
    server = serve(first, NO, first, NO)
    with http.Client(max_continuations=1, on_give_up=give_up) as client:
        sdk = openai.OpenAI(base_url=server.url + "/v1", api_key="key", http_client=client, max_retries=2)
        error = None
        try:
            answer = sdk.chat.completions.create(model="m", messages=MESSAGES, stream=is_stream)
            if is_stream:
                for _ in answer:
                    pass
        except Exception as raised:
            error = raised
    assert len(server.requests) == 2
    # Without the package, a lost stream is an error, and a cut body is not.
    assert (error is not None) == (give_up == "error" or is_stream and give_up == "leave")


def test_openai_responses(serve, http):
    openai = pytest.importorskip("openai")
    case = importlib.import_module("wire_cases")
    cases = {case.name: case for case in case.all_cases()}
    for name in ("responses-stream-text-limit", "responses-stream-text-drop"):
        calls = zip(cases[name].calls(), cases[name].texts("upstream"), strict=True)
        server = serve(
            *[Reply(pieces=[body.replace("----\n", "").encode()], end=call.split()[2]) for call, body in calls]
        )
        with http.Client() as client:
            sdk = openai.OpenAI(base_url=server.url + "/v1", api_key="key", http_client=client)
            with sdk.responses.stream(model="m", input="Count to three.") as stream:
                for _ in stream:
                    pass
                response = stream.get_final_response()
        assert (response.output_text, response.status) == ("[1, 2, 3]", "completed")


def message_stream(block, deltas, reason, id="msg_1"):
    message = {
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 5, "output_tokens": 1},
    }
    events = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
    ]
    events += [{"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas]
    if reason is None:
        return Reply(pieces=[sse(*events)], end="dropped")
    events += [
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": None},
            "usage": {"output_tokens": 9},
        },
        {"type": "message_stop"},
    ]
    return Reply(pieces=[sse(*events)])


def message_text(text, reason, id="msg_1"):
    deltas = [{"type": "text_delta", "text": text[at : at + 7]} for at in range(0, len(text), 7)]
    return message_stream({"type": "text", "text": ""}, deltas, reason, id)


def message_tool(text, reason):
    deltas = [{"type": "input_json_delta", "partial_json": text[at : at + 7]} for at in range(0, len(text), 7)]
    return message_stream({"type": "tool_use", "id": "toolu_1", "name": "save", "input": {}}, deltas, reason)


def message_body(text, reason):
    body = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": text}],
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 5, "output_tokens": 9},
    }
    return Reply(content_type=JSON, pieces=[json.dumps(body).encode()])


@pytest.fixture(params=["client", "middleware"])
def anthropic(request):
    """Makes a client of Anthropic's, with one of the two doors."""
    sdk = pytest.importorskip("anthropic")

    def make(server, kind="Anthropic", **settings):
        more = {}
        if request.param == "middleware":
            if not hasattr(sdk, "Middleware"):
                pytest.skip("this version has no middleware")
            more["middleware"] = [importlib.import_module("restitch.anthropic").Restitch(**settings)]
        else:
            module = importlib.import_module("restitch.httpx2")
            more["http_client"] = getattr(module, "AsyncClient" if kind.startswith("Async") else "Client")(**settings)
        return getattr(sdk, kind)(base_url=server.url, api_key="key", **more)

    return make


ASK = {"model": "m", "max_tokens": 100, "messages": MESSAGES}
TOOL = {
    "name": "save",
    "input_schema": {"type": "object", "properties": {"titles": {"type": "array", "items": {"type": "string"}}}},
}


@pytest.mark.parametrize("reason", ["max_tokens", None])
def test_anthropic_streams_whole_text(serve, anthropic, reason):
    server, events = serve(message_text(CUT, reason), message_text(TEXT, "end_turn", "msg_2")), []
    with anthropic(server, on_event=events.append).messages.stream(**ASK) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == final.content[0].text == TEXT
    assert (final.id, final.stop_reason, events[-1]["status"]) == ("msg_1", "end_turn", "complete")


@pytest.mark.parametrize("reason", ["max_tokens", None])
def test_anthropic_streams_a_whole_tool_call(serve, anthropic, reason):
    server = serve(message_tool(CUT, reason), message_text(TEXT, "end_turn", "msg_2"))
    with anthropic(server).messages.stream(**ASK, tools=[TOOL]) as stream:
        final = stream.get_final_message()
    assert [(block.type, block.input) for block in final.content] == [("tool_use", json.loads(TEXT))]
    assert final.stop_reason == "tool_use"


def test_anthropic_reads_a_whole_body(serve, anthropic):
    server = serve(message_body(CUT, "max_tokens"), message_body(TEXT, "end_turn"))
    message = anthropic(server).messages.create(**ASK)
    assert (message.content[0].text, message.stop_reason) == (TEXT, "end_turn")
    keys = [headers.get("x-api-key", headers.get("authorization")) for _, headers, _ in server.requests]
    assert keys[0] == keys[1]
    assert "key" in keys[0]


def test_anthropic_headers_about_the_first_call_stay_there(serve, anthropic):
    server = serve(message_body(CUT, "max_tokens"), message_body(TEXT, "end_turn"))
    headers = {"idempotency-key": "once", "content-digest": "x", "x-own": "1"}
    anthropic(server).messages.create(**ASK, extra_headers=headers)
    (_, one, _), (_, two, _) = server.requests
    assert (one["idempotency-key"], one["content-digest"]) == ("once", "x")
    assert one["x-own"] == two["x-own"] == "1"
    assert two.get("idempotency-key") != "once"
    assert "content-digest" not in two


def test_anthropic_async(serve, anthropic):
    server = serve(
        message_text(CUT, None),
        message_text(TEXT, "end_turn"),
        message_body(CUT, "max_tokens"),
        message_body(TEXT, "end_turn"),
    )

    async def run():
        sdk = anthropic(server, "AsyncAnthropic")
        async with sdk.messages.stream(**ASK) as stream:
            text = "".join([part async for part in stream.text_stream])
        message = await sdk.messages.create(**ASK)
        await sdk.close()
        return text, message.content[0].text

    assert asyncio.run(run()) == (TEXT, TEXT)


def test_anthropic_error_of_the_first_call_is_the_sdks(serve, anthropic):
    sdk = pytest.importorskip("anthropic")
    server = serve(Reply(400, JSON, [b'{"type":"error","error":{"type":"invalid_request_error","message":"no"}}']))
    with pytest.raises(sdk.BadRequestError):
        anthropic(server).messages.create(**ASK)


def test_anthropic_does_not_retry_what_was_given_up(serve, anthropic):
    server = serve(message_body(CUT, "max_tokens"), NO, message_body(CUT, "max_tokens"), NO)
    with pytest.raises(Exception):
        anthropic(server, max_continuations=1, on_give_up="error").messages.create(**ASK)
    assert len(server.requests) == 2


def gemini(text, finish, usage=5):
    candidate = {"content": {"parts": [{"text": text}], "role": "model"}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    return {
        "candidates": [candidate],
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": usage, "totalTokenCount": 1 + usage},
        "responseId": "r",
        "modelVersion": "m",
    }


def gemini_stream(text, finish):
    events = [gemini(text[at : at + 7], None) for at in range(0, len(text), 7)]
    if finish is None:
        return Reply(pieces=[sse(*events)], end="dropped")
    return Reply(pieces=[sse(*events, gemini("", finish))])


def gemini_body(text, finish):
    return Reply(content_type=JSON, pieces=[json.dumps(gemini(text, finish)).encode()])


def test_google_genai(serve, http):
    genai = pytest.importorskip("google.genai")
    server = serve(
        gemini_stream(CUT, "MAX_TOKENS"),
        gemini_stream(TEXT, "STOP"),
        gemini_stream(CUT, None),
        gemini_stream(TEXT, "STOP"),
        gemini_body(CUT, "MAX_TOKENS"),
        gemini_body(TEXT, "STOP"),
    )
    with http.Client() as client:
        options = genai.types.HttpOptions(base_url=server.url, httpx_client=client)
        sdk = genai.Client(api_key="key", http_options=options)
        for _ in range(2):
            chunks = list(sdk.models.generate_content_stream(model="m", contents="Titles"))
            assert "".join(chunk.text or "" for chunk in chunks) == TEXT
            assert chunks[-1].candidates[0].finish_reason.value == "STOP"
        assert sdk.models.generate_content(model="m", contents="Titles").text == TEXT


def test_google_genai_async(serve, http):
    genai = pytest.importorskip("google.genai")
    server = serve(
        gemini_stream(CUT, None), gemini_stream(TEXT, "STOP"), gemini_body(CUT, "MAX_TOKENS"), gemini_body(TEXT, "STOP")
    )

    async def run():
        async with http.AsyncClient() as client:
            options = genai.types.HttpOptions(base_url=server.url, httpx_async_client=client)
            sdk = genai.Client(api_key="key", http_options=options)
            stream = await sdk.aio.models.generate_content_stream(model="m", contents="Titles")
            text = "".join([chunk.text or "" async for chunk in stream])
            return text, (await sdk.aio.models.generate_content(model="m", contents="Titles")).text

    assert asyncio.run(run()) == (TEXT, TEXT)
