// The `@anthropic-ai/sdk` package.
import Anthropic from "@anthropic-ai/sdk";
import { zodOutputFormat } from "@anthropic-ai/sdk/helpers/zod";
import { z } from "zod";
import { MAX_TOKENS, MESSAGES, options, serve } from "./asked.mjs";

const TOOLS = [{ name: "f", input_schema: { type: "object", properties: { text: { type: "string" } } } }];
const City = z.object({ city: z.string() });

const client = (ask) => new Anthropic({ baseURL: ask.url, apiKey: ask.key, ...options(ask) });
const asked = (ask) => ({ model: ask.model, messages: MESSAGES, max_tokens: MAX_TOKENS });

function answered(message) {
  const of = (type) => message.content.filter((block) => block.type === type);
  const [tool] = of("tool_use");
  return {
    text: of("text").map((block) => block.text).join(""),
    usage: [message.usage.input_tokens, message.usage.output_tokens],
    tool: tool && [tool.name, tool.input],
  };
}

const messages = {
  whole: async (ask) => answered(await client(ask).messages.create(asked(ask))),
  async stream(ask) {
    const texts = [];
    const stream = client(ask).messages.stream(asked(ask)).on("text", (text) => texts.push(text));
    return { ...answered(await stream.finalMessage()), text: texts.join(""), pieces: texts.length };
  },
  tool: async (ask) => answered(await client(ask).messages.create({ ...asked(ask), tools: TOOLS })),
  tool_streamed: async (ask) => answered(await client(ask).messages.stream({ ...asked(ask), tools: TOOLS }).finalMessage()),
  async value(ask) {
    const format = zodOutputFormat(City);
    const message = await client(ask).messages.parse({ ...asked(ask), output_config: { format } });
    return { value: message.parsed_output };
  },
  async leave(ask) {
    const stream = await client(ask).messages.create({ ...asked(ask), stream: true });
    for await (const event of stream) if (event.type === "content_block_delta") break;
    return {};
  },
};

const count = {
  async whole(ask) {
    const { input_tokens } = await client(ask).messages.countTokens({ model: ask.model, messages: MESSAGES });
    return { usage: [input_tokens, 0] };
  },
};

await serve({ messages, count }, (error) => ({
  type: `anthropic.${error.constructor.name}`,
  status: error.status,
  message: error.message,
  numbers: error.error?.error?.pgbudget,
}));
