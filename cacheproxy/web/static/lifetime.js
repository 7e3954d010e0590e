// The totals over all restarts.
import { $, el, say } from "./dom.js";
import { compact, count, known, lasting } from "./words.js";

export function showLifetime({ lifetime, unkept }) {
  const parts = [[compact(lifetime.prompt), "prompt tokens"], [compact(lifetime.reused), "reused"],
    [compact(lifetime.output), "generated"], [count(lifetime.requests), lifetime.requests === 1 ? "request" : "requests"]];
  if (lifetime.spared_seconds > 0) parts.push([`≈ ${lasting(lifetime.spared_seconds)}`, "of prefill saved"]);
  $("lifetime").replaceChildren(...parts.map(([value, name]) => el("div", {}, el("dt", { text: name }), el("dd", { text: value }))));
  const since = known(lifetime.since) ? new Intl.DateTimeFormat("en-GB", { dateStyle: "long" }).format(new Date(1000 * lifetime.since)) : null;
  say("lifetime-source", !unkept ? `${since ? `Since ${since}, over` : "Over"} all restarts: what passed through this proxy, as its answers told.`
    : `Not kept: ${unkept}. These are counted in memory alone.`);
}
