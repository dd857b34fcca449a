// The `openai` package.
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";
import { MAX_TOKENS, MESSAGES, options, PROMPT, serve } from "./asked.mjs";

const TOOLS = [
  { type: "function", function: { name: "f", parameters: { type: "object", properties: { text: { type: "string" } } } } },
];
const City = z.object({ city: z.string() });

const client = (ask) => new OpenAI({ baseURL: `${ask.url}/v1`, apiKey: ask.key, ...options(ask) });
const asked = (ask) => ({ model: ask.model, messages: MESSAGES, max_tokens: MAX_TOKENS });
const tokens = (usage) => usage && [usage.prompt_tokens, usage.completion_tokens];
const called = ([call]) => ({ tool: [call.function.name, call.function.arguments] });

const chat = {
  async whole(ask) {
    const answer = await client(ask).chat.completions.create(asked(ask));
    return { text: answer.choices[0].message.content, usage: tokens(answer.usage) };
  },
  async stream(ask) {
    const texts = [];
    let usage;
    for await (const chunk of await client(ask).chat.completions.create({ ...asked(ask), stream: true })) {
      for (const choice of chunk.choices) if (choice.delta.content) texts.push(choice.delta.content);
      usage = tokens(chunk.usage) ?? usage;
    }
    return { text: texts.join(""), pieces: texts.length, usage };
  },
  async tool(ask) {
    const answer = await client(ask).chat.completions.create({ ...asked(ask), tools: TOOLS });
    return called(answer.choices[0].message.tool_calls);
  },
  async tool_streamed(ask) {
    const answer = await client(ask).chat.completions.stream({ ...asked(ask), tools: TOOLS }).finalChatCompletion();
    return called(answer.choices[0].message.tool_calls);
  },
  async value(ask) {
    const format = zodResponseFormat(City, "city");
    const answer = await client(ask).chat.completions.parse({ ...asked(ask), response_format: format });
    return { value: answer.choices[0].message.parsed };
  },
  async leave(ask) {
    const stream = await client(ask).chat.completions.create({ ...asked(ask), stream: true });
    for await (const _ of stream) break;
    return {};
  },
};

const input = (ask) => ({ model: ask.model, input: PROMPT, max_output_tokens: MAX_TOKENS });
const FLAT_TOOLS = [{ type: "function", ...TOOLS[0].function }];

function responded(response) {
  const call = response.output.find((item) => item.type === "function_call");
  return {
    text: response.output.flatMap((item) => item.content ?? []).map((part) => part.text).join(""),
    usage: [response.usage.input_tokens, response.usage.output_tokens],
    tool: call && [call.name, call.arguments],
  };
}

const responses = {
  whole: async (ask) => responded(await client(ask).responses.create(input(ask))),
  async stream(ask) {
    const texts = [];
    const stream = client(ask).responses.stream(input(ask));
    stream.on("response.output_text.delta", (event) => texts.push(event.delta));
    return { ...responded(await stream.finalResponse()), text: texts.join(""), pieces: texts.length };
  },
  tool: async (ask) => responded(await client(ask).responses.create({ ...input(ask), tools: FLAT_TOOLS })),
  tool_streamed: async (ask) =>
    responded(await client(ask).responses.stream({ ...input(ask), tools: FLAT_TOOLS }).finalResponse()),
  async value(ask) {
    const answer = await client(ask).responses.parse({ ...input(ask), text: { format: zodTextFormat(City, "city") } });
    return { value: answer.output_parsed };
  },
};

const text = (ask) => ({ model: ask.model, prompt: PROMPT, max_tokens: MAX_TOKENS });

const completions = {
  async whole(ask) {
    const answer = await client(ask).completions.create(text(ask));
    return { text: answer.choices[0].text, usage: tokens(answer.usage) };
  },
  async stream(ask) {
    const texts = [];
    for await (const chunk of await client(ask).completions.create({ ...text(ask), stream: true })) {
      for (const choice of chunk.choices) if (choice.text) texts.push(choice.text);
    }
    return { text: texts.join(""), pieces: texts.length };
  },
};

const embeddings = {
  async whole(ask) {
    const answer = await client(ask).embeddings.create({ model: ask.model, input: PROMPT });
    return { numbers: answer.data[0].embedding.length, usage: [answer.usage.prompt_tokens, 0] };
  },
};

await serve({ chat, responses, completions, embeddings }, (error) => ({
  type: `openai.${error.constructor.name}`,
  status: error.status,
  message: error.message,
  numbers: error.error?.pgbudget,
}));
