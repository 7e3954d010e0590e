// Asks with the official SDKs. Arguments: the proxy's URL. Standard input: a JSON list of
// {api, how, model, retries}. Standard output: a JSON list of {value} or {error}, in its order.
// how: "events" (a raw stream), "helper" (the SDK's own accumulation), "leave" (after two events).
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const url = process.argv[2];
const said = [{ role: "user", content: "hi" }];

const anthropic = (retries) =>
  new Anthropic({ baseURL: url, apiKey: "none", maxRetries: retries, timeout: 20_000 });
const openai = (retries) =>
  new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: retries, timeout: 20_000 });

const apis = {
  messages: {
    client: anthropic,
    body: (model) => ({ model, max_tokens: 9, messages: said }),
    create: (client, body) => client.messages.create({ ...body, stream: true }),
    helper: (client, body) => client.messages.stream(body).finalMessage(),
  },
  chat: {
    client: openai,
    body: (model) => ({ model, messages: said }),
    create: (client, body) => client.chat.completions.create({ ...body, stream: true }),
    helper: (client, body) => client.chat.completions.stream(body).finalChatCompletion(),
  },
  responses: {
    client: openai,
    body: (model) => ({ model, input: said }),
    create: (client, body) => client.responses.create({ ...body, stream: true }),
    helper: (client, body) => client.responses.stream(body).finalResponse(),
  },
};

async function ask({ api, how, model, retries = 0 }) {
  const { client, body, create, helper } = apis[api];
  const events = [];
  try {
    if (how === "helper") return { value: await helper(client(retries), body(model)) };
    for await (const event of await create(client(retries), body(model))) {
      events.push(event);
      if (how === "leave" && events.length === 2) break;
    }
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
const answers = await Promise.all(JSON.parse(input).map(ask));
process.stdout.write(JSON.stringify(answers));
