// The totals over all restarts.
import { $, el, say } from "./dom.js";
import { compact, count, known, lasting } from "./words.js";

export function showLifetime({ lifetime, unkept }) {
  const { figures, spared, exchanges } = lifetime.all;
  const waiting = lifetime.waiting;
  const sum = (name) => (figures[name].value || 0) + (waiting[name] || 0);
  const all = exchanges + waiting.exchanges;
  const parts = [[compact(sum("prompt")), "prompt tokens"], [compact(sum("reused")), "reused"],
    [compact(sum("generated")), "generated"], [count(all), all === 1 ? "request" : "requests"]];
  const saved = (spared.seconds || 0) + (waiting.spared.seconds || 0);
  if (saved > 0) parts.push([`≈ ${lasting(saved)}`, "of prefill saved"]);
  $("lifetime").replaceChildren(...parts.map(([value, name]) => el("div", {}, el("dt", { text: name }), el("dd", { text: value }))));
  const since = known(lifetime.since) ? new Intl.DateTimeFormat("en-GB", { dateStyle: "long" }).format(new Date(1000 * lifetime.since)) : null;
  const source = figures.prompt.source ? ` Prompt tokens: from ${figures.prompt.source}.` : " From responses.";
  say("lifetime-source", !unkept ? `${since ? `Since ${since}, over all restarts.` : "Kept over all restarts."}${source}`
    : `Not kept: ${unkept}. These are the last 500 requests since this proxy started.`);
}
