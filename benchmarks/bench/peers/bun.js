// The Bun variant: Bun.serve in front, fetch behind, a regex in between.
//
// Bun keeps upstream connections by itself. The body is text while the regex runs, as in the published
// ones; text that is not all ASCII costs about half as much again, and a detour over latin1 more still.
// `decompress: false` passes a compressed answer as it is; `signal` ends the upstream request when the
// client leaves. fetch runs on a thread of its own, on the same core. Run: bun bun.js PORT UPSTREAM

const [port, upstream] = process.argv.slice(2).map(Number);
const BILLING = /x-anthropic-billing-header:[^"]*?cch=[0-9a-f]+;/;
const CONSTANT = "x-anthropic-billing-header: cc_version=0; cc_entrypoint=cli; cch=00000;";
const HOP = [
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
];

Bun.serve({
  port,
  hostname: "127.0.0.1",
  idleTimeout: 0, // a prompt's evaluation is longer than the default of 10 seconds
  maxRequestBodySize: 64 * 1024 * 1024,
  async fetch(request) {
    const { pathname, search } = new URL(request.url);
    const headers = new Headers(request.headers);
    for (const name of HOP) headers.delete(name);
    headers.delete("host");
    headers.delete("content-length"); // fetch sets it
    let body;
    if (request.method !== "GET" && request.method !== "HEAD") {
      body = (await request.text()).replace(BILLING, CONSTANT);
    }
    const answer = await fetch(`http://127.0.0.1:${upstream}${pathname}${search}`, {
      method: request.method,
      headers,
      body,
      signal: request.signal,
      redirect: "manual",
      decompress: false,
      timeout: false,
    });
    const back = new Headers(answer.headers);
    for (const name of HOP) back.delete(name);
    return new Response(answer.body, {
      status: answer.status,
      statusText: answer.statusText,
      headers: back,
    });
  },
  error() {
    return new Response("upstream failed", { status: 502 });
  },
});
