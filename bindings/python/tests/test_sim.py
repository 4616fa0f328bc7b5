"""The SDKs against `restitch sim`, the scripted model server, as a new user would try them."""

import importlib
import json

import pytest
import sim

# The first answer is cut after 200 bytes. The first call for the rest is refused in words, the second one repeats the
# anchor, adds 150 bytes and ends with a premature `stop`, and the third one writes the rest in a fence.
PROMPT = "Notes on tides, as JSON [[script: answer@200!length | refusal anchor@150!stop fence]]"
MESSAGES = [{"role": "user", "content": PROMPT}]


@pytest.fixture(scope="module")
def url():
    with sim.running() as url:
        yield url


@pytest.fixture
def seen():
    return []


@pytest.fixture
def http(seen):
    with importlib.import_module("restitch.httpx2").Client(on_event=seen.append) as client:
        yield client


def check(text, seen):
    json.loads(text)
    assert len(text) > 350
    report = seen[-1]
    assert (report["status"], report["continuations"], report["failures"]) == ("complete", 3, 1)


def test_openai(url, http, seen):
    client = pytest.importorskip("openai").OpenAI(base_url=url + "/v1", api_key="key", http_client=http)
    stream = client.chat.completions.create(model="sim", messages=MESSAGES, stream=True)
    check("".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices), seen)
    answer = client.chat.completions.create(model="sim", messages=MESSAGES)
    check(answer.choices[0].message.content, seen)
    with client.responses.stream(model="sim", input=PROMPT) as stream:
        for _ in stream:
            pass
        check(stream.get_final_response().output_text, seen)
    check(client.responses.create(model="sim", input=PROMPT).output_text, seen)


@pytest.mark.parametrize("door", ["client", "middleware"])
def test_anthropic(url, http, seen, door):
    sdk = pytest.importorskip("anthropic")
    restitch = importlib.import_module("restitch.anthropic").Restitch(on_event=seen.append)
    more = {"http_client": http} if door == "client" else {"middleware": [restitch]}
    client = sdk.Anthropic(base_url=url, api_key="key", **more)
    ask = {"model": "sim", "max_tokens": 4000, "messages": MESSAGES}
    with client.messages.stream(**ask) as stream:
        check(stream.get_final_text(), seen)
    check(client.messages.create(**ask).content[0].text, seen)
    tool = {"name": "save", "input_schema": {"type": "object"}}
    prompt = "Notes on tides, as JSON [[script: reasoning+text+tool@40 | anchor]]"
    with client.messages.stream(**{**ask, "messages": [{"role": "user", "content": prompt}]}, tools=[tool]) as stream:
        message = stream.get_final_message()
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]
    assert (message.stop_reason, bool(message.content[2].input)) == ("tool_use", True)
    assert message.content[0].signature


def test_google_genai(url, http, seen):
    genai = pytest.importorskip("google.genai")
    client = genai.Client(api_key="key", http_options=genai.types.HttpOptions(base_url=url, httpx_client=http))
    chunks = client.models.generate_content_stream(model="sim", contents=PROMPT)
    check("".join(chunk.text or "" for chunk in chunks), seen)
    check(client.models.generate_content(model="sim", contents=PROMPT).text, seen)
