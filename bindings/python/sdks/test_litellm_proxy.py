"""LiteLLM's proxy with the callback, in front of `restitch sim`."""

import contextlib
import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
import sim
from conftest import Reply, Server

if importlib.util.find_spec("litellm") is None:
    pytest.skip("litellm is not installed", allow_module_level=True)
openai = importlib.import_module("openai")
anthropic = importlib.import_module("anthropic")

KEY = "sk-of-this-test-0123456789abcdef"
DOCUMENT = json.dumps({"notes": [{"id": at, "text": f"Note {at} on the tides."} for at in range(20)]}, indent=1)
PARAMETERS = {"type": "object", "properties": {"notes": {"type": "array"}}}
CUT = "answer@200!length | refusal anchor@150!stop fence"
DROPPED = "answer@200!drop | anchor"
GIVEN_UP = "answer@200!length | refusal"
CHUNK = {"id": "a", "object": "chat.completion.chunk", "created": 1, "model": "m"}
HELD = b"".join(
    b"data: %s\n\n" % json.dumps({**CHUNK, "choices": [{"index": 0, "delta": {"content": text}}]}).encode()
    for text in ("[1,", " 2,")
)


@pytest.fixture(scope="module")
def held():
    """A model server that is silent after its first words."""

    def reply(request):
        # At its start LiteLLM asks for the models.
        return Reply(pieces=[HELD], end="held") if request[0].endswith("/chat/completions") else Reply(404)

    server = Server([reply] * 4)
    yield server
    server.close()


@pytest.fixture(scope="module")
def url(tmp_path_factory, held):
    folder = tmp_path_factory.mktemp("litellm")
    (folder / "document.json").write_text(DOCUMENT)
    with contextlib.ExitStack() as stack:
        model = stack.enter_context(sim.running("--document", str(folder / "document.json")))
        deployments = {"chat": ("openai", model + "/v1"), "claude": ("anthropic", model), "held": ("openai", held.url)}
        settings = {
            "model_list": [
                {"model_name": name, "litellm_params": {"model": f"{kind}/sim", "api_base": base, "api_key": "key"}}
                for name, (kind, base) in deployments.items()
            ],
            "litellm_settings": {"callbacks": "restitch.litellm.callback"},
        }
        # JSON is YAML.
        (folder / "config.yaml").write_text(json.dumps(settings))
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        log = stack.enter_context((folder / "log").open("w"))
        command = [Path(sys.executable).with_name("litellm"), "--config", folder / "config.yaml"]
        # Without a network LiteLLM would wait for its list of prices.
        environment = {**os.environ, "LITELLM_MASTER_KEY": KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        proxy = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)], env=environment, stdout=log, stderr=log
        )
        try:
            url = f"http://127.0.0.1:{port}"
            for _ in range(240):
                with contextlib.suppress(OSError), urllib.request.urlopen(url + "/health/liveliness", timeout=5):
                    break
                assert proxy.poll() is None, (folder / "log").read_text()
                time.sleep(0.5)
            yield url
        finally:
            proxy.terminate()
            proxy.wait()


def messages(script):
    return [{"role": "user", "content": f"Notes on tides, as JSON [[script: {script}]]"}]


def chat(url, script, **more):
    client = openai.OpenAI(base_url=url + "/v1", api_key=KEY, max_retries=0)
    return client.chat.completions.create(model="chat", messages=messages(script), **more)


def ask(script):
    return {"model": "claude", "max_tokens": 4000, "messages": messages(script)}


def claude(url):
    return anthropic.Anthropic(base_url=url, api_key=KEY, max_retries=0)


@pytest.mark.parametrize(("script", "finish"), [("answer", "stop"), (CUT, "stop"), (DROPPED, "stop"), (GIVEN_UP, "length")])
@pytest.mark.parametrize("usage", [False, True])
def test_chat_completions_streamed(url, script, finish, usage):
    more = {"stream_options": {"include_usage": True}} if usage else {}
    chunks = list(chat(url, script, stream=True, **more))
    choices = [choice for chunk in chunks for choice in chunk.choices]
    text = "".join(choice.delta.content or "" for choice in choices)
    assert text == (DOCUMENT if finish == "stop" else DOCUMENT[: len(text)])
    assert [choice.finish_reason for choice in choices if choice.finish_reason] == [finish]
    assert len({chunk.id for chunk in chunks}) == 1
    assert len([chunk for chunk in chunks if chunk.usage]) == usage


@pytest.mark.parametrize(("script", "finish"), [("answer", "stop"), (CUT, "stop"), (GIVEN_UP, "length")])
def test_chat_completions_in_one_body(url, script, finish):
    answer = chat(url, script)
    text = answer.choices[0].message.content
    assert json.loads(text) == json.loads(DOCUMENT) if finish == "stop" else DOCUMENT.startswith(text)
    assert answer.choices[0].finish_reason == finish


@pytest.mark.parametrize("end", ["length", "drop"])
def test_chat_completions_with_a_tool(url, end):
    tool = {"type": "function", "function": {"name": "save", "parameters": PARAMETERS}}
    stream = chat(url, f"tool@200!{end} | anchor", stream=True, tools=[tool])
    calls = [call for chunk in stream for choice in chunk.choices for call in choice.delta.tool_calls or []]
    assert "".join(call.function.arguments or "" for call in calls) == DOCUMENT


@pytest.mark.parametrize(
    ("script", "reason"), [("answer", "end_turn"), (CUT, "end_turn"), (DROPPED, "end_turn"), (GIVEN_UP, "max_tokens")]
)
def test_messages_streamed(url, script, reason):
    with claude(url).messages.stream(**ask(script)) as stream:
        message = stream.get_final_message()
    text = message.content[0].text
    assert text == (DOCUMENT if reason == "end_turn" else DOCUMENT[: len(text)])
    assert message.stop_reason == reason


def test_messages_with_a_tool(url):
    tool = {"name": "save", "input_schema": PARAMETERS}
    with claude(url).messages.stream(**ask("tool@200!length | anchor"), tools=[tool]) as stream:
        message = stream.get_final_message()
    assert message.content[0].input == json.loads(DOCUMENT)


@pytest.mark.parametrize(("script", "reason"), [("answer", "end_turn"), (CUT, "end_turn"), (GIVEN_UP, "max_tokens")])
def test_messages_in_one_body(url, script, reason):
    message = claude(url).messages.create(**ask(script))
    text = message.content[0].text
    assert json.loads(text) == json.loads(DOCUMENT) if reason == "end_turn" else DOCUMENT.startswith(text)
    assert message.stop_reason == reason


def test_an_error_while_the_rest_is_asked_for_is_tried_again(url):
    chunks = list(chat(url, "answer@200!length | 500 anchor", stream=True))
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert text == DOCUMENT


def test_a_client_that_leaves_closes_the_upstream(url, held):
    client = openai.OpenAI(base_url=url + "/v1", api_key=KEY, max_retries=0)
    with client.chat.completions.create(model="held", messages=messages("answer"), stream=True) as stream:
        next(iter(stream))
    assert held.closed.wait(20)
    assert [path for path, _, _ in held.requests].count("/chat/completions") == 1
