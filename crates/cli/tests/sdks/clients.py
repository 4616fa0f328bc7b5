"""Asks through the official Python clients and the frameworks on top of them.

Usage: clients.py <cases >results. A case is a line of JSON with `url`, `api`, `prompt` and the names of `tools`, and
`timeout` where the client is to be impatient. A result is a line of JSON with what the client saw: `text`,
`arguments` (as they were streamed), `value` (as the client parsed them), `finish`, or `error` with the name of the
exception.
"""

import asyncio
import importlib.metadata
import json
import sys
from functools import cached_property
from typing import Any

import anthropic
import instructor
import openai
from pydantic import BaseModel
from pydantic_ai import Agent, ModelRequest
from pydantic_ai.direct import model_request_stream
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider


class Page(BaseModel):
    """The document that the model server writes."""

    title: str
    sections: list[dict[str, Any]]
    done: bool


SCHEMA = Page.model_json_schema()
CHAT_TOOLS = [{"type": "function", "function": {"name": "save", "parameters": SCHEMA}}]
RESPONSES_TOOLS = [{"type": "function", "name": "save", "parameters": SCHEMA, "strict": False}]
MESSAGES_TOOLS = [{"name": "save", "input_schema": SCHEMA}]


# What the clients take for "not given".
OPENAI_OMIT, ANTHROPIC_OMIT = openai.omit, anthropic.omit

# The asynchronous clients keep connections that belong to one loop.
LOOP = asyncio.new_event_loop()


def ask(prompt):
    return [{"role": "user", "content": prompt}]


class Clients:
    """One method an API; `run` calls the one that a case names."""

    def __init__(self, url, timeout):
        self.url, self.options = url, {"api_key": "any", "max_retries": 0, "timeout": timeout}

    @cached_property
    def openai(self):
        return openai.OpenAI(base_url=f"{self.url}/v1", **self.options)

    @cached_property
    def anthropic(self):
        return anthropic.Anthropic(base_url=self.url, **self.options)

    @cached_property
    def async_openai(self):
        return openai.AsyncOpenAI(base_url=f"{self.url}/v1", **self.options)

    @cached_property
    def async_anthropic(self):
        return anthropic.AsyncAnthropic(base_url=self.url, **self.options)

    def chat(self, prompt, tools=OPENAI_OMIT):
        """The events, and then what the client's own accumulator made of them."""
        calls, text, finishes = {}, "", []
        options = {"model": "sim", "messages": ask(prompt), "tools": tools, "stream_options": {"include_usage": True}}
        with self.openai.chat.completions.stream(**options) as stream:
            for event in stream:
                if event.type != "chunk":
                    continue
                for choice in event.chunk.choices:
                    text += choice.delta.content or ""
                    finishes += [choice.finish_reason] if choice.finish_reason else []
                    for call in choice.delta.tool_calls or []:
                        known = calls.setdefault(call.index, {"ids": [], "names": [], "arguments": ""})
                        known["ids"] += [call.id] if call.id else []
                        known["names"] += [call.function.name] if call.function.name else []
                        known["arguments"] += call.function.arguments or ""
            whole = stream.get_final_completion()
        message = whole.choices[0].message
        made = [call.function.arguments for call in message.tool_calls or []]
        assert made == [call["arguments"] for call in calls.values()], (made, calls)
        assert all(len(call["names"]) == len(call["ids"]) == 1 for call in calls.values()), calls
        assert finishes == [whole.choices[0].finish_reason], finishes
        assert text == (message.content or ""), text
        names = [name for call in calls.values() for name in call["names"]]
        has_usage = whole.usage is not None and whole.usage.total_tokens > 0
        return {"text": text, "arguments": made, "finish": finishes[0], "names": names, "has_usage": has_usage}

    def chat_tools(self, prompt):
        return self.chat(prompt, CHAT_TOOLS)

    def chat_body(self, prompt):
        whole = self.openai.chat.completions.create(model="sim", messages=ask(prompt), tools=CHAT_TOOLS)
        choice = whole.choices[0]
        made = [call.function.arguments for call in choice.message.tool_calls or []]
        return {"text": choice.message.content, "arguments": made, "finish": choice.finish_reason}

    def completions(self, prompt):
        text, finish = "", set()
        for chunk in self.openai.completions.create(model="sim", prompt=prompt, stream=True):
            for choice in chunk.choices:
                text += choice.text
                finish |= {choice.finish_reason} if choice.finish_reason else set()
        return {"text": text, "finish": "+".join(sorted(finish))}

    def responses(self, prompt, tools=OPENAI_OMIT):
        numbers, text, arguments = [], "", {}
        with self.openai.responses.stream(model="sim", input=prompt, tools=tools) as stream:
            for event in stream:
                numbers.append(event.sequence_number)
                if event.type == "response.output_text.delta":
                    text += event.delta
                if event.type == "response.function_call_arguments.delta":
                    arguments[event.output_index] = arguments.get(event.output_index, "") + event.delta
                # `get_final_response` knows no other end than `response.completed`.
                if event.type in ("response.completed", "response.incomplete", "response.failed"):
                    whole = event.response
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), numbers
        made = [item.arguments for item in whole.output if item.type == "function_call"]
        assert made == [arguments[index] for index in sorted(arguments)], (made, arguments)
        assert whole.output_text == text, (whole.output_text, text)
        reason = whole.incomplete_details.reason if whole.incomplete_details else None
        items = [item.status for item in whole.output if item.type == "function_call"]
        return {"text": text, "arguments": made, "finish": reason or whole.status, "items": items}

    def responses_resumed(self, prompt):
        """Leaves after two events, and comes back for the rest."""
        kept = {"x-restitch-keep": "60"}
        numbers, text, whole = [], "", None
        with self.openai.responses.create(model="sim", input=prompt, stream=True, extra_headers=kept) as stream:
            for event in stream:
                numbers.append(event.sequence_number)
                if event.type == "response.created":
                    name = event.response.id
                if len(numbers) == 2:
                    break
        with self.openai.responses.retrieve(name, stream=True, starting_after=numbers[-1]) as stream:
            for event in stream:
                numbers.append(event.sequence_number)
                if event.type == "response.output_text.delta":
                    text += event.delta
                if event.type in ("response.completed", "response.incomplete", "response.failed"):
                    whole = event.response
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), numbers
        assert whole.output_text == text, (whole.output_text, text)
        reason = whole.incomplete_details.reason if whole.incomplete_details else None
        return {"text": text, "arguments": [], "finish": reason or whole.status}

    def responses_tools(self, prompt):
        return self.responses(prompt, RESPONSES_TOOLS)

    def messages(self, prompt, tools=ANTHROPIC_OMIT):
        parts = {}
        with self.anthropic.messages.stream(model="sim", max_tokens=999, messages=ask(prompt), tools=tools) as stream:
            for event in stream:
                if event.type == "content_block_delta" and event.delta.type == "input_json_delta":
                    parts[event.index] = parts.get(event.index, "") + event.delta.partial_json
            whole = stream.get_final_message()
        blocks = [block.type for block in whole.content]
        made = [parts[index] for index in sorted(parts)]
        return {
            "text": "".join(block.text for block in whole.content if block.type == "text"),
            "arguments": made,
            "value": [block.input for block in whole.content if block.type == "tool_use"],
            "finish": whole.stop_reason,
            "blocks": blocks,
            "signed": all(block.signature for block in whole.content if block.type == "thinking"),
        }

    def messages_tools(self, prompt):
        return self.messages(prompt, MESSAGES_TOOLS)

    def agent(self, model, prompt):
        """The whole body, in the mode that pydantic-ai takes by default: the output is the arguments of a call."""
        return {"value": LOOP.run_until_complete(Agent(model, output_type=Page, retries=0).run(prompt)).output.model_dump()}

    def agent_stream(self, model, prompt):
        async def run():
            async with Agent(model, output_type=Page, retries=0).run_stream(prompt) as stream:
                return (await stream.get_output()).model_dump()

        return {"value": LOOP.run_until_complete(run())}

    def chat_model(self):
        return OpenAIChatModel("sim", provider=OpenAIProvider(openai_client=self.async_openai))

    def responses_model(self):
        return OpenAIResponsesModel("sim", provider=OpenAIProvider(openai_client=self.async_openai))

    def messages_model(self):
        return AnthropicModel("sim", provider=AnthropicProvider(anthropic_client=self.async_anthropic))

    def pydantic_chat(self, prompt):
        return self.agent(self.chat_model(), prompt)

    def pydantic_chat_stream(self, prompt):
        return self.agent_stream(self.chat_model(), prompt)

    def pydantic_responses(self, prompt):
        return self.agent(self.responses_model(), prompt)

    def pydantic_responses_stream(self, prompt):
        return self.agent_stream(self.responses_model(), prompt)

    def pydantic_messages(self, prompt):
        return self.agent(self.messages_model(), prompt)

    def pydantic_messages_stream(self, prompt):
        return self.agent_stream(self.messages_model(), prompt)

    def parts(self, model, prompt):
        """The stream of one response, without the loop of an agent."""

        async def run():
            async with model_request_stream(model, [ModelRequest.user_text_prompt(prompt)]) as stream:
                async for _ in stream:
                    pass
                return stream.get()

        whole = LOOP.run_until_complete(run())
        calls = [part for part in whole.parts if part.part_kind.endswith("tool-call")]
        text = "".join(part.content for part in whole.parts if part.part_kind == "text")
        return {"text": text, "arguments": [call.args for call in calls]}

    def pydantic_chat_parts(self, prompt):
        return self.parts(self.chat_model(), prompt)

    def pydantic_responses_parts(self, prompt):
        return self.parts(self.responses_model(), prompt)

    def pydantic_messages_parts(self, prompt):
        return self.parts(self.messages_model(), prompt)

    def instructor(self, prompt):
        client = instructor.from_openai(self.openai)
        page = client.chat.completions.create(model="sim", messages=ask(prompt), response_model=Page, max_retries=0)
        return {"value": page.model_dump()}

    def instructor_stream(self, prompt):
        client = instructor.from_openai(self.openai)
        pages = client.chat.completions.create_partial(
            model="sim", messages=ask(prompt), response_model=Page, max_retries=0
        )
        return {"value": [page.model_dump() for page in pages][-1]}

    def instructor_messages(self, prompt):
        client = instructor.from_anthropic(self.anthropic)
        page = client.messages.create(
            model="sim", max_tokens=999, messages=ask(prompt), response_model=Page, max_retries=0
        )
        return {"value": page.model_dump()}


def main():
    names = ["openai", "anthropic", "pydantic-ai-slim", "instructor"]
    print(json.dumps({"versions": {name: importlib.metadata.version(name) for name in names}}), flush=True)
    for line in sys.stdin:
        case = json.loads(line)
        clients = Clients(case["url"], case.get("timeout", 20))
        try:
            result = getattr(clients, case["api"])(case["prompt"])
        except Exception as error:  # What a client raises is a result.
            result = {"error": type(error).__name__, "message": str(error)[:2000]}
        print(json.dumps(result), flush=True)


main()
