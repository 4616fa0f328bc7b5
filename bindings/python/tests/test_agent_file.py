"""A large file in one tool call, through five cuts of different kinds."""

import importlib
import json
import random
import re

import pytest
from conftest import Reply
from test_sdks import sse

THINKING = {"type": "thinking", "thinking": "A parser, then its tests.", "signature": "c2lnbmF0dXJl"}
TOOL = {
    "name": "write_file",
    "input_schema": {
        "type": "object",
        "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
        "required": ["path", "content"],
    },
}


def source(size):
    """Returns code of about this size, in which lines look alike."""
    rng, lines, length = random.Random(7), [], 0
    while length < size:
        number = rng.randrange(10**6)
        line = f"    if token == \"{number:x}\" and state[{number % 97}] != '\\\\n':\n        return {number / 7}  # \u2192 {number}\n"
        lines.append(line)
        length += len(line)
    return "def parse(token, state):\n" + "".join(lines)


def deltas(text):
    return [text[at : at + 997] for at in range(0, len(text), 997)]


def start(number):
    usage = {"input_tokens": 50, "output_tokens": 1}
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "m", "content": []}
    return {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None, "usage": usage}}


def block(index, content, parts):
    yield {"type": "content_block_start", "index": index, "content_block": content}
    for part in parts:
        yield {"type": "content_block_delta", "index": index, "delta": part}


def end(index, reason):
    yield {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": reason, "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 100}}
    yield {"type": "message_stop"}


ERROR = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


def test_a_large_file_is_identical_after_five_cuts(serve):
    sdk = pytest.importorskip("anthropic")
    whole = importlib.import_module("restitch.httpx2")
    arguments = {"path": "src/parser.py", "content": source(200 << 10)}
    text = json.dumps(arguments, ensure_ascii=False)
    # The number of bytes of the text at each cut, and how the call ends there.
    ends = ["limit", "silent", "reset", "error", "stop", "whole"]
    cuts = [len(text) * (number + 1) // 6 for number in range(5)] + [len(text)]
    calls = []

    def reply(received):
        number = len(calls)
        calls.append(number)
        kind, cut = ends[number], cuts[number]
        if number == 0:
            thinking = {"type": "thinking_delta", "thinking": THINKING["thinking"]}
            signature = {"type": "signature_delta", "signature": THINKING["signature"]}
            events = [start(0), *block(0, {"type": "thinking", "thinking": "", "signature": ""}, [thinking, signature])]
            events.append({"type": "content_block_stop", "index": 0})
            call = {"type": "tool_use", "id": "toolu_1", "name": "write_file", "input": {}}
            parts = [{"type": "input_json_delta", "partial_json": part} for part in deltas(text[:cut])]
            index, events = 1, [*events, *block(1, call, parts)]
        else:
            # The model copies the text that it is asked to repeat, and goes on.
            prompt = json.loads(received[2])["messages"][-1]["content"]
            anchor = re.search(r"<overlap_context>\n(.*)\n</overlap_context>", prompt, re.DOTALL)[1]
            at = text.rindex(anchor, 0, cuts[number - 1])
            parts = [{"type": "text_delta", "text": part} for part in deltas(text[at:cut])]
            index, events = 0, [start(number), *block(0, {"type": "text", "text": ""}, parts)]
        if kind == "limit":
            events += end(index, "max_tokens")
        elif kind == "stop":
            events += end(index, "end_turn")
        elif kind == "error":
            events.append(ERROR)
        elif kind == "whole":
            events += end(index, "end_turn")
        return Reply(pieces=[sse(*events)], end={"silent": "silent", "reset": "dropped"}.get(kind, "closed"))

    server, report = serve(*[reply] * 6), []
    with whole.Client(idle_timeout=0.5, on_event=report.append) as http:
        client = sdk.Anthropic(base_url=server.url, api_key="key", http_client=http)
        ask = {"model": "m", "max_tokens": 64_000, "messages": [{"role": "user", "content": "Write the parser."}]}
        with client.messages.stream(**ask, tools=[TOOL]) as stream:
            message = stream.get_final_message()
    assert [content.type for content in message.content] == ["thinking", "tool_use"]
    thinking, call = message.content
    assert (thinking.thinking, thinking.signature) == (THINKING["thinking"], THINKING["signature"])
    assert (call.id, call.name, message.stop_reason) == ("toolu_1", "write_file", "tool_use")
    assert call.input == arguments
    assert (report[-1]["status"], report[-1]["continuations"], report[-1]["failures"]) == ("complete", 5, 0)
    causes = [event["cause"] for event in report if event["event"] == "cut"]
    assert causes == ["length", "idle", "drop", "in_band", "premature_stop"]
