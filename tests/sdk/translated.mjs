// Asks with Anthropic's SDK, one job after another. Standard input: a JSON list of {url, how, body,
// results}. Standard output: a JSON list of {value} or {error, events}, in its order.
// how: "create" (at once), "events" (a raw stream), "helper" (the SDK's own accumulation), "turns" (the
// same twice: the second time with the answer and `results` behind it).
import Anthropic from "@anthropic-ai/sdk";

async function ask({ url, how, body, results }) {
  const events = [];
  try {
    const client = new Anthropic({ baseURL: url, apiKey: "none", maxRetries: 0, timeout: 60_000 });
    const helper = (body) => client.messages.stream(body).finalMessage();
    if (how === "create") return { value: await client.messages.create(body) };
    if (how === "helper") return { value: await helper(body) };
    if (how === "turns") {
      const { content } = await helper(body);
      const messages = [...body.messages, { role: "assistant", content }, ...results];
      return { value: await helper({ ...body, messages }) };
    }
    for await (const event of await client.messages.create({ ...body, stream: true })) events.push(event);
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
