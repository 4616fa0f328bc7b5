// Asks through the official JavaScript clients.
//
// Usage: node clients.mjs <cases >results. Cases and results are those of clients.py.
//
// The packages are looked up from the working folder, where the test has put them.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const packages = createRequire(`${process.cwd()}/package.json`);
const load = (name) => import(pathToFileURL(packages.resolve(name)).href);

const { default: OpenAI } = await load("openai");
const { default: Anthropic } = await load("@anthropic-ai/sdk");
const { jsonSchema, streamObject, streamText, tool } = await load("ai");
const { createOpenAI } = await load("@ai-sdk/openai");
const { createAnthropic } = await load("@ai-sdk/anthropic");

globalThis.AI_SDK_LOG_WARNINGS = false;

const SCHEMA = {
  type: "object",
  properties: {
    title: { type: "string" },
    sections: { type: "array", items: { type: "object" } },
    done: { type: "boolean" },
  },
  required: ["title", "sections", "done"],
};

// Of recorded calls, whose own schemas are not known: arguments without what a tool requires are not complete.
const ANY = { type: "object" };

let openai, anthropic, aiOpenai, aiAnthropic;

function connect(url) {
  openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: "any", maxRetries: 0 });
  anthropic = new Anthropic({ baseURL: url, apiKey: "any", maxRetries: 0 });
  aiOpenai = createOpenAI({ baseURL: `${url}/v1`, apiKey: "any" });
  aiAnthropic = createAnthropic({ baseURL: `${url}/v1`, apiKey: "any" });
}

const ask = (prompt) => [{ role: "user", content: prompt }];

function assert(holds, what) {
  if (!holds) throw new Error(`the stream is not well-formed: ${what}`);
}

// A stream that the `ai` package reads, with tools of these names.
async function aiText(model, prompt, names) {
  const errors = [];
  const result = streamText({
    model,
    prompt,
    maxRetries: 0,
    tools: Object.fromEntries(names.map((name) => [name, tool({ inputSchema: jsonSchema(ANY) })])),
    onError: ({ error }) => errors.push(error),
  });
  const deltas = new Map();
  for await (const part of result.fullStream) {
    if (part.type === "tool-input-delta") deltas.set(part.id, (deltas.get(part.id) ?? "") + part.delta);
  }
  if (errors.length > 0) throw errors[0];
  const calls = (await result.toolCalls).filter((call) => !call.invalid);
  return {
    text: await result.text,
    arguments: [...deltas.values()],
    value: calls.map((call) => call.input),
    finish: await result.finishReason,
  };
}

// A stream of one object.
async function aiObject(model, prompt) {
  const errors = [];
  const onError = ({ error }) => errors.push(error);
  const result = streamObject({ model, prompt, maxRetries: 0, schema: jsonSchema(SCHEMA), onError });
  let text = "";
  // The object's promise rejects before the stream is at its end.
  const object = result.object.catch((error) => errors.push(error));
  for await (const part of result.textStream) text += part;
  const value = await object;
  if (errors.length > 0) throw errors[0];
  return { text, value };
}

// One function an API.
const apis = {
  async chat_tools(prompt) {
    const tools = [{ type: "function", function: { name: "save", parameters: SCHEMA } }];
    const stream = openai.chat.completions.stream({ model: "sim", messages: ask(prompt), tools });
    const calls = [];
    for await (const chunk of stream) {
      for (const call of chunk.choices[0]?.delta.tool_calls ?? []) {
        calls[call.index] = (calls[call.index] ?? "") + (call.function?.arguments ?? "");
      }
    }
    const { message, finish_reason } = (await stream.finalChatCompletion()).choices[0];
    const made = (message.tool_calls ?? []).map((call) => call.function.arguments);
    assert(JSON.stringify(made) === JSON.stringify(calls), "accumulated arguments");
    return { text: message.content ?? "", arguments: made, finish: finish_reason };
  },

  async responses_tools(prompt) {
    const tools = [{ type: "function", name: "save", parameters: SCHEMA, strict: false }];
    const stream = openai.responses.stream({ model: "sim", input: prompt, tools });
    const deltas = new Map();
    let last = -1;
    let text = "";
    let whole;
    for await (const event of stream) {
      assert(last === -1 || event.sequence_number === last + 1, `${event.sequence_number} after ${last}`);
      last = event.sequence_number;
      if (event.type === "response.output_text.delta") text += event.delta;
      if (event.type === "response.function_call_arguments.delta") {
        deltas.set(event.output_index, (deltas.get(event.output_index) ?? "") + event.delta);
      }
      if (["response.completed", "response.incomplete", "response.failed"].includes(event.type)) {
        whole = event.response;
      }
    }
    const made = whole.output.filter((item) => item.type === "function_call").map((item) => item.arguments);
    assert(JSON.stringify(made) === JSON.stringify([...deltas.values()]), "arguments in the last event");
    const messages = whole.output.filter((item) => item.type === "message").flatMap((item) => item.content);
    assert(messages.map((part) => part.text).join("") === text, "text in the last event");
    const finish = whole.incomplete_details?.reason ?? whole.status;
    return { text, arguments: made, finish };
  },

  // Leaves after two events, and comes back for the rest.
  async responses_resumed(prompt) {
    const headers = { "x-restitch-keep": "60" };
    const numbers = [];
    let name;
    for await (const event of await openai.responses.create({ model: "sim", input: prompt, stream: true }, { headers })) {
      numbers.push(event.sequence_number);
      if (event.type === "response.created") name = event.response.id;
      if (numbers.length === 2) break;
    }
    let text = "";
    let whole;
    const after = { stream: true, starting_after: numbers.at(-1) };
    for await (const event of await openai.responses.retrieve(name, after)) {
      numbers.push(event.sequence_number);
      if (event.type === "response.output_text.delta") text += event.delta;
      if (["response.completed", "response.incomplete", "response.failed"].includes(event.type)) whole = event.response;
    }
    numbers.forEach((number, at) => assert(number === numbers[0] + at, `${number} at ${at}`));
    const messages = whole.output.filter((item) => item.type === "message").flatMap((item) => item.content);
    assert(messages.map((part) => part.text).join("") === text, "text in the last event");
    return { text, arguments: [], finish: whole.incomplete_details?.reason ?? whole.status };
  },

  async messages_tools(prompt) {
    const tools = [{ name: "save", input_schema: SCHEMA }];
    const stream = anthropic.messages.stream({ model: "sim", max_tokens: 999, messages: ask(prompt), tools });
    const parts = [];
    stream.on("streamEvent", (event) => {
      if (event.delta?.type === "input_json_delta") {
        parts[event.index] = (parts[event.index] ?? "") + event.delta.partial_json;
      }
    });
    const message = await stream.finalMessage();
    const of = (type) => message.content.filter((block) => block.type === type);
    return {
      text: of("text").map((block) => block.text).join(""),
      arguments: parts.filter((part) => part !== undefined),
      value: of("tool_use").map((block) => block.input),
      finish: message.stop_reason,
      blocks: message.content.map((block) => block.type),
      signed: of("thinking").every((block) => block.signature !== ""),
    };
  },

  ai_chat: (prompt, names) => aiText(aiOpenai.chat("sim"), prompt, names),
  ai_responses: (prompt, names) => aiText(aiOpenai.responses("sim"), prompt, names),
  ai_messages: (prompt, names) => aiText(aiAnthropic("sim"), prompt, names),
  ai_chat_object: (prompt) => aiObject(aiOpenai.chat("sim"), prompt),
  ai_responses_object: (prompt) => aiObject(aiOpenai.responses("sim"), prompt),
  ai_messages_object: (prompt) => aiObject(aiAnthropic("sim"), prompt),
};

function write(result) {
  console.log(JSON.stringify(result));
}

const { dependencies } = JSON.parse(readFileSync(`${process.cwd()}/package.json`, "utf8"));
write({ versions: dependencies });
for await (const line of createInterface({ input: process.stdin })) {
  const { url, api, prompt, tools } = JSON.parse(line);
  connect(url);
  try {
    write(await apis[api](prompt, tools));
  } catch (error) {
    write({ error: error.name, message: String(error.message).slice(0, 2000) });
  }
}
process.exit(0);
