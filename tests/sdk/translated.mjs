// Asks with the official SDKs, one job after another. Standard input: a JSON list of {url, api, how,
// body, extra, results, first}. Standard output: a JSON list of {value} or {error, events}, in its order.
// api: "messages" or "chat". how: "create" (at once), "events" (a raw stream), "helper" (the SDK's
// own accumulation), "turns" (the same twice: the second time with the answer and `results` behind
// it), "count", "models". extra: what the body has besides. first: a URL to POST to before.
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const plain = { apiKey: "none", maxRetries: 0, timeout: 60_000 };

const apis = {
  messages: {
    client: (url) => new Anthropic({ baseURL: url, ...plain }),
    create: (client, body) => client.messages.create(body),
    helper: (client, body) => client.messages.stream(body).finalMessage(),
    count: (client, body) => client.messages.countTokens(body),
    answered: (message) => ({ role: "assistant", content: message.content }),
  },
  chat: {
    client: (url) => new OpenAI({ baseURL: `${url}/v1`, ...plain }),
    create: (client, body) => client.chat.completions.create(body),
    helper: (client, body) => client.chat.completions.stream(body).finalChatCompletion(),
    answered: (completion) => completion.choices[0].message,
  },
};

async function ask({ url, api, how, body: known, extra, results, first }) {
  const body = { ...known, ...extra };
  const { client: make, create, helper, count, answered } = apis[api];
  const events = [];
  try {
    if (first) await fetch(first, { method: "POST", body: "{}" });
    const client = make(url);
    if (how === "create") return { value: await create(client, body) };
    if (how === "helper") return { value: await helper(client, body) };
    if (how === "count") return { value: await count(client, body) };
    if (how === "models") return { value: (await client.models.list()).data };
    if (how === "turns") {
      const messages = [...body.messages, answered(await helper(client, body)), ...results];
      return { value: await helper(client, { ...body, messages }) };
    }
    for await (const event of await create(client, { ...body, stream: true })) events.push(event);
    return { value: events };
  } catch (error) {
    const chain = [];
    for (let one = error; one; one = one.cause) chain.push(`${one.constructor.name}: ${one.message}`);
    const after = error.headers?.get?.("retry-after") ?? null;
    return { error: { chain, status: error.status ?? null, after, body: error.error ?? null }, events };
  }
}

let input = "";
for await (const piece of process.stdin) input += piece;
const answers = [];
for (const job of JSON.parse(input)) answers.push(await ask(job));
process.stdout.write(JSON.stringify(answers));
