"""Clients against `restitch sim`: cut, dropped and given-up answers, as a new user would ask for them.

`scripts/bindings python-sdks` runs it. The table of docs/clients.md has the outcomes.
"""

import asyncio
import contextlib
import importlib
import importlib.metadata
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import sim

DOCUMENT = {"title": "Tides", "notes": [{"id": at, "text": f"Note {at} on the tides, high and low."} for at in range(12)]}
SCHEMA = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "notes": {"type": "array", "items": {"type": "object"}}},
    "required": ["title", "notes"],
}
# The first call for the rest is refused in words, the second one repeats the anchor, adds 150 bytes and ends with a
# premature `stop`, and the third one writes the rest in a fence.
ENDS = {
    "cut": "{}@200!length | refusal anchor@150!stop fence",
    # A body that is dropped is asked for again.
    "dropped": "{0}@200!drop {0} | anchor",
    "given up": "{}@200!length | refusal",
}



@dataclass
class Way:
    """A way to ask. Its function takes the server's address and a prompt, and returns the document or a sign."""

    client: str
    package: str
    api: str
    name: str
    kind: str
    passes: bool
    """A cut answer passes unchanged: the model server leaves out the arguments in one body of Messages."""
    ask: Callable[[str, str], object]


WAYS = []


def way(client, package, api, name, kind="answer", passes=False):
    return lambda ask: WAYS.append(Way(client, package, api, name, kind, passes, ask))


def read(text, sign):
    """Returns the document of a text, or the sign that it is not whole."""
    with contextlib.suppress(ValueError):
        if json.loads(text) == DOCUMENT:
            return DOCUMENT
    return sign


def messages(prompt):
    return [{"role": "user", "content": prompt}]


def model():
    pydantic = importlib.import_module("pydantic")
    note = pydantic.create_model("Note", id=int, text=str)
    return pydantic.create_model("Notes", title=str, notes=list[note])


# openai


def openai(url):
    http = importlib.import_module("restitch.httpx2")
    return importlib.import_module("openai").OpenAI(base_url=url + "/v1", api_key="key", http_client=http.Client())


TOOL = {"type": "function", "function": {"name": "save", "parameters": SCHEMA}}


@way("openai", "openai", "Chat", "`create`")
def _(url, prompt):
    answer = openai(url).chat.completions.create(model="sim", messages=messages(prompt))
    return read(answer.choices[0].message.content, answer.choices[0].finish_reason)


@way("openai", "openai", "Chat", "streamed `create`")
def _(url, prompt):
    chunks = list(openai(url).chat.completions.create(model="sim", messages=messages(prompt), stream=True))
    choices = [chunk.choices[0] for chunk in chunks if chunk.choices]
    return read("".join(choice.delta.content or "" for choice in choices), choices[-1].finish_reason)


@way("openai", "openai", "Chat", "`stream`")
def _(url, prompt):
    with openai(url).chat.completions.stream(model="sim", messages=messages(prompt)) as stream:
        choice = stream.get_final_completion().choices[0]
    return read(choice.message.content, choice.finish_reason)


@way("openai", "openai", "Chat", "`parse`")
def _(url, prompt):
    answer = openai(url).chat.completions.parse(model="sim", messages=messages(prompt), response_format=model())
    return answer.choices[0].message.parsed.model_dump()


@way("openai", "openai", "Chat", "tools", "tool")
def _(url, prompt):
    choice = openai(url).chat.completions.create(model="sim", messages=messages(prompt), tools=[TOOL]).choices[0]
    return read(choice.message.tool_calls[0].function.arguments, choice.finish_reason)


@way("openai", "openai", "Chat", "streamed tools", "tool")
def _(url, prompt):
    with openai(url).chat.completions.stream(model="sim", messages=messages(prompt), tools=[TOOL]) as stream:
        choice = stream.get_final_completion().choices[0]
    return read(choice.message.tool_calls[0].function.arguments, choice.finish_reason)


def of_response(response):
    details = response.incomplete_details
    return read(response.output_text, details.reason if details else response.status)


@way("openai", "openai", "Responses", "`create`")
def _(url, prompt):
    return of_response(openai(url).responses.create(model="sim", input=prompt))


@way("openai", "openai", "Responses", "streamed `create`")
def _(url, prompt):
    *_, last = openai(url).responses.create(model="sim", input=prompt, stream=True)
    return of_response(last.response)


@way("openai", "openai", "Responses", "`stream`")
def _(url, prompt):
    with openai(url).responses.stream(model="sim", input=prompt) as stream:
        *_, last = stream
    return of_response(last.response)


@way("openai", "openai", "Responses", "`parse`")
def _(url, prompt):
    answer = openai(url).responses.parse(model="sim", input=prompt, text_format=model())
    return answer.output_parsed.model_dump()


# anthropic

ASK = {"model": "sim", "max_tokens": 4000}
MESSAGES_TOOL = {"name": "save", "input_schema": SCHEMA}


def anthropic(url, kind="Anthropic"):
    restitch = importlib.import_module("restitch.anthropic").Restitch()
    return getattr(importlib.import_module("anthropic"), kind)(base_url=url, api_key="key", middleware=[restitch])


@way("anthropic", "anthropic", "Messages", "`create`")
def _(url, prompt):
    message = anthropic(url).messages.create(**ASK, messages=messages(prompt))
    return read(message.content[0].text, message.stop_reason)


@way("anthropic", "anthropic", "Messages", "`stream`")
def _(url, prompt):
    with anthropic(url).messages.stream(**ASK, messages=messages(prompt)) as stream:
        return read(stream.get_final_text(), stream.get_final_message().stop_reason)


@way("anthropic", "anthropic", "Messages", "tools", "tool", passes=True)
def _(url, prompt):
    message = anthropic(url).messages.create(**ASK, messages=messages(prompt), tools=[MESSAGES_TOOL])
    return read(json.dumps(message.content[0].input), message.stop_reason)


@way("anthropic", "anthropic", "Messages", "streamed tools", "tool")
def _(url, prompt):
    with anthropic(url).messages.stream(**ASK, messages=messages(prompt), tools=[MESSAGES_TOOL]) as stream:
        message = stream.get_final_message()
    return read(json.dumps(message.content[0].input), message.stop_reason)


# google-genai


def genai(url):
    sdk, http = importlib.import_module("google.genai"), importlib.import_module("restitch.httpx2")
    return sdk.Client(api_key="key", http_options=sdk.types.HttpOptions(base_url=url, httpx_client=http.Client()))


@way("google-genai", "google-genai", "Gemini", "`generate_content`")
def _(url, prompt):
    answer = genai(url).models.generate_content(model="sim", contents=prompt)
    return read(answer.text, answer.candidates[0].finish_reason.value)


@way("google-genai", "google-genai", "Gemini", "`generate_content_stream`")
def _(url, prompt):
    chunks = list(genai(url).models.generate_content_stream(model="sim", contents=prompt))
    return read("".join(chunk.text or "" for chunk in chunks), chunks[-1].candidates[0].finish_reason.value)


# litellm


def litellm(url, prompt, **more):
    sdk, http = importlib.import_module("litellm"), importlib.import_module("restitch.httpx")
    ask = {"messages": messages(prompt), "api_key": "key", **more}
    if more["model"].startswith("openai/"):
        sdk.client_session = http.Client()
        ask["api_base"] = url + "/v1"
    else:
        handler = importlib.import_module("litellm.llms.custom_httpx.http_handler").HTTPHandler
        ask |= {"api_base": url, "client": handler(client=http.Client())}
    answer = sdk.completion(**ask)
    if not more.get("stream"):
        return read(answer.choices[0].message.content, answer.choices[0].finish_reason)
    choices = [chunk.choices[0] for chunk in answer if chunk.choices]
    finish = [choice.finish_reason for choice in choices if choice.finish_reason]
    return read("".join(choice.delta.content or "" for choice in choices), finish[-1])


for provider, api in (("openai/sim", "Chat"), ("anthropic/sim", "Messages")):
    for streamed in (False, True):

        @way("litellm", "litellm", api, "streamed `completion`" if streamed else "`completion`")
        def _(url, prompt, provider=provider, streamed=streamed):
            return litellm(url, prompt, model=provider, stream=streamed)


# LangChain


def chat_openai(url):
    http = importlib.import_module("restitch.httpx2")
    sdk = importlib.import_module("langchain_openai")
    return sdk.ChatOpenAI(base_url=url + "/v1", api_key="key", model="sim", http_client=http.Client())


def chat_anthropic(url):
    sdk = importlib.import_module("langchain_anthropic")
    chat = sdk.ChatAnthropic(base_url=url, api_key="key", model="sim", max_tokens=4000)
    chat.__dict__["_client"] = anthropic(url)
    return chat


for package, chat, api in (
    ("langchain-openai", chat_openai, "Chat"),
    ("langchain-anthropic", chat_anthropic, "Messages"),
):

    @way(package, package, api, "`invoke`")
    def _(url, prompt, chat=chat):
        message = chat(url).invoke(prompt)
        metadata = message.response_metadata
        return read(message.text, metadata.get("finish_reason") or metadata.get("stop_reason"))

    @way(package, package, api, "`stream`")
    def _(url, prompt, chat=chat):
        parts = list(chat(url).stream(prompt))
        metadata = {name: value for part in parts for name, value in part.response_metadata.items()}
        text = "".join(part.text for part in parts)
        return read(text, metadata.get("finish_reason") or metadata.get("stop_reason"))

    @way(package, package, api, "`with_structured_output`", "tool", passes=api == "Messages")
    def _(url, prompt, chat=chat):
        structured = chat(url).with_structured_output(model(), method="function_calling")
        notes = structured.invoke(prompt)
        return notes and notes.model_dump()


# pydantic-ai


def agent(url, api):
    kind = importlib.import_module("pydantic_ai")
    http = importlib.import_module("restitch.httpx2").AsyncClient()
    if api == "Messages":
        provider = importlib.import_module("pydantic_ai.providers.anthropic").AnthropicProvider
        made = importlib.import_module("pydantic_ai.models.anthropic").AnthropicModel
        of = provider(anthropic_client=anthropic(url, "AsyncAnthropic"))
    else:
        provider = importlib.import_module("pydantic_ai.providers.openai").OpenAIProvider
        module = importlib.import_module("pydantic_ai.models.openai")
        made = module.OpenAIChatModel if api == "Chat" else module.OpenAIResponsesModel
        sdk = importlib.import_module("openai").AsyncOpenAI
        of = provider(openai_client=sdk(base_url=url + "/v1", api_key="key", http_client=http))
    return kind.Agent(made("sim", provider=of), output_type=model(), retries=0)


for api in ("Chat", "Responses", "Messages"):

    @way("pydantic-ai", "pydantic-ai-slim", api, "`run`", "tool", passes=api == "Messages")
    def _(url, prompt, api=api):
        return asyncio.run(agent(url, api).run(prompt)).output.model_dump()

    @way("pydantic-ai", "pydantic-ai-slim", api, "`run_stream`", "tool")
    def _(url, prompt, api=api):
        async def run():
            async with agent(url, api).run_stream(prompt) as result:
                return await result.get_output()

        return asyncio.run(run()).model_dump()


# instructor


def instructor(url, api):
    sdk = importlib.import_module("instructor")
    return sdk.from_anthropic(anthropic(url)) if api == "Messages" else sdk.from_openai(openai(url))


for api in ("Chat", "Messages"):

    @way("instructor", "instructor", api, "`create`", "tool", passes=api == "Messages")
    def _(url, prompt, api=api):
        client = instructor(url, api)
        ask = {**ASK, "messages": messages(prompt), "response_model": model(), "max_retries": 0}
        return client.chat.completions.create(**ask).model_dump()

    @way("instructor", "instructor", api, "`create_partial`", "tool")
    def _(url, prompt, api=api):
        client = instructor(url, api)
        ask = {**ASK, "messages": messages(prompt), "response_model": model(), "max_retries": 0}
        *_, last = client.chat.completions.create_partial(**ask)
        return read(json.dumps(last.model_dump()), "partial")


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    path = tmp_path_factory.mktemp("sim") / "document.json"
    path.write_text(json.dumps(DOCUMENT, indent=1))
    return str(path)


def outcome(document, script, function):
    # Each answer has a server of its own, since a script counts the requests.
    with sim.running("--document", document, "--script", script) as url:
        try:
            value = function(url, "Notes on tides, as JSON")
        except Exception as error:
            return f"`{type(error).__name__}`"
    return "whole" if value == DOCUMENT else f"`{value}`"


SIGNS = {}
"""The APIs by client, version and sign of an answer that is given up, and by way."""


@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way.client} {way.api} {way.name}".replace("`", ""))
def test_a_way_to_ask(document, way):
    try:
        version = importlib.metadata.version(way.package)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{way.package} is not installed")
    cut, dropped, given_up = (outcome(document, script.format(way.kind), way.ask) for script in ENDS.values())
    assert (cut, dropped) == (given_up if way.passes else "whole", "whole")
    SIGNS.setdefault((way.client, version, given_up), {}).setdefault(way.name, []).append(way.api)


def test_the_page_has_the_outcomes():
    page = (Path(__file__).resolve().parents[3] / "docs" / "clients.md").read_text()
    rows = {}
    for (client, version, given_up), names in SIGNS.items():
        by_apis = {}
        for name, apis in names.items():
            by_apis.setdefault(", ".join(apis), []).append(name)
        has_one = len({way.api for way in WAYS if way.client == client}) == 1
        calls = [", ".join(names) + ("" if has_one else f" ({apis})") for apis, names in by_apis.items()]
        rows.setdefault(f"{client} {version}", []).append(f"{', '.join(calls)}: {given_up}")
    missing = [row for row in (f"| {client} | {'; '.join(calls)} |\n" for client, calls in rows.items()) if row not in page]
    assert rows
    assert not missing, "docs/clients.md: the rows are\n" + "".join(missing)
