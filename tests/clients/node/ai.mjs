// The Vercel AI SDK: `ai` with `@ai-sdk/openai`, `@ai-sdk/openai-compatible` and `@ai-sdk/anthropic`.
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { embed, generateText, Output, RetryError, streamText, tool } from "ai";
import { z } from "zod";
import { MAX_TOKENS, options, PROMPT, serve } from "./asked.mjs";

const providers = {
  chat: ({ url, key, model }) => createOpenAI({ baseURL: `${url}/v1`, apiKey: key }).chat(model),
  responses: ({ url, key, model }) => createOpenAI({ baseURL: `${url}/v1`, apiKey: key })(model),
  completions: ({ url, key, model }) => createOpenAI({ baseURL: `${url}/v1`, apiKey: key }).completion(model),
  compatible: ({ url, key, model }) =>
    createOpenAICompatible({ name: "pgbudget", baseURL: `${url}/v1`, apiKey: key, supportsStructuredOutputs: true })(model),
  messages: ({ url, key, model }) => createAnthropic({ baseURL: `${url}/v1`, apiKey: key })(model),
};

const TOOLS = { f: tool({ description: "Does f.", inputSchema: z.object({ text: z.string() }) }) };
const output = Output.object({ schema: z.object({ city: z.string() }) });

// Errors of a stream are parts of it; they are thrown on where its text is read.
const onError = () => {};

// Its calls are the same for all providers.
function callsOf(provider) {
  const asked = (ask) => ({
    model: provider(ask), prompt: PROMPT, maxOutputTokens: MAX_TOKENS, ...options(ask),
  });
  const tokens = (usage) => (usage.inputTokens === undefined ? undefined : [usage.inputTokens, usage.outputTokens]);
  const called = ([call]) => ({ tool: [call.toolName, call.input] });
  async function parts(result, each) {
    for await (const part of result.fullStream) {
      if (part.type === "error") throw part.error;
      if (each(part) === false) break;
    }
  }
  return {
    async whole(ask) {
      const result = await generateText(asked(ask));
      return { text: result.text, usage: tokens(result.usage) };
    },
    async stream(ask) {
      const texts = [];
      const result = streamText({ ...asked(ask), onError });
      await parts(result, (part) => { if (part.type === "text-delta") texts.push(part.text); });
      return { text: texts.join(""), pieces: texts.length, usage: tokens(await result.usage) };
    },
    async tool(ask) {
      return called((await generateText({ ...asked(ask), tools: TOOLS })).toolCalls);
    },
    async tool_streamed(ask) {
      const result = streamText({ ...asked(ask), tools: TOOLS, onError });
      await parts(result, () => {});
      return called(await result.toolCalls);
    },
    async value(ask) {
      return { value: (await generateText({ ...asked(ask), output })).output };
    },
    async leave(ask) {
      const abort = new AbortController();
      const result = streamText({ ...asked(ask), abortSignal: abort.signal, onError });
      await parts(result, (part) => part.type !== "text-delta");
      abort.abort();
      return {};
    },
  };
}

const embeddings = {
  async whole({ url, key, model, ...ask }) {
    const embedding = createOpenAI({ baseURL: `${url}/v1`, apiKey: key }).embedding(model);
    const result = await embed({ model: embedding, value: PROMPT, ...options(ask) });
    return { numbers: result.embedding.length, usage: [result.usage.tokens, 0] };
  },
};

await serve(
  { ...Object.fromEntries(Object.entries(providers).map(([route, provider]) => [route, callsOf(provider)])), embeddings },
  (error) => {
    // After tries of its own the last error is within another.
    const last = RetryError.isInstance(error) ? error.lastError : error;
    return {
      type: `ai.${error.name.replace("AI_", "")}`,
      status: last.statusCode,
      message: error.message,
      numbers: last.responseBody && JSON.parse(last.responseBody).error?.pgbudget,
    };
  },
);
