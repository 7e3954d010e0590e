// The model servers: their state, what is known of them and of their clients in words, what they do now.
import { $, code, copyButton, el, meter, refill, say, show } from "./dom.js";
import { href } from "./route.js";
import { count, known, lasting, percent, plural, speed } from "./words.js";

const STATES = { up: "up", down: "does not answer", loading: "loading its model", strange: "is no model server", unknown: "not looked at" };
const LABELS = { placement: "template", rendering: "template", thinking: "thinking", memory: "memory" };
const SHAPES = { up: "●", down: "✕", loading: "◐", strange: "✕", unknown: "○" };

export function showServer(said) {
  showHead(said.upstream, said.upstreams);
  showProfiles(said);
  showSlots(said.upstream);
  showPrefills(said.prefills);
  showSpeed(said);
}

function showHead(upstream, others) {
  const server = upstream.server;
  $("upstream-dot").className = `state ${upstream.state}`;
  say("upstream-dot", SHAPES[upstream.state]);
  say("upstream-name", `${server ? server.summary : upstream.url} · ${STATES[upstream.state]}`);
  const down = upstream.state === "down";
  const bad = (down || upstream.state === "loading") && !others.some((each) => each.state === "up");
  if (bad) {
    say("banner-title", down ? "The model server does not answer" : "The model server is loading its model");
    say("banner-text", upstream.silent
      ? `${upstream.url} takes connections, and answers none: restart it. Requests wait until it does; this page sees by itself when it is back.`
      : down
      ? `Nothing answers at ${upstream.url}. Requests get an error until it does; this page sees by itself when it is back.`
      : `${upstream.url} is there, and answers when its model is loaded.`);
    const start = `llama-server -m MODEL.gguf --port ${portOf(upstream.url)}`;
    $("banner-command").replaceChildren(...(down && !upstream.silent ? ["Start it, for example: ", code(start), copyButton(start), " or name another with ", code("--upstream URL"), "."] : []));
  }
  show("banner", bad);
}

function portOf(url) {
  try { return new URL(url).port || "80"; } catch { return "8080"; }
}

// One server, or each of several.
function showProfiles({ upstream, upstreams, routed, clients }) {
  const all = upstreams.length ? upstreams : [{ ...upstream, name: upstream.server ? upstream.server.summary : upstream.url }];
  $("profiles").replaceChildren(...all.map((each) => el("li", { class: "profile" },
    el("p", { class: "name", title: each.url }, el("span", { class: `state ${each.state}`, "aria-hidden": "true", text: SHAPES[each.state] || "○" }), " ",
      el("b", { text: each.name }), ` · ${STATES[each.state] || each.state}`),
    facts([...(each.says ? [["server", each.says]] : []),
      ...Object.keys(LABELS).filter((name) => each.words[name]).map((name) => [LABELS[name], each.words[name]]),
      ...routed.filter((one) => upstreams.length && one.upstream === each.url).map((one) => [one.route ? `route ${one.route}` : "no route", did(one)])]))));
  $("clients-seen").replaceChildren(facts(clients ? [["clients", clients]] : []));
  say("profiles-note", upstreams.length ? "Requests and prices: over all restarts." : "");
}

const did = (one) =>
  `${plural(one.requests, "request")}${one.prompt ? `, ${percent(one.reused / one.prompt)} reused` : ""}${one.price ? `, price ${one.price.toFixed(2)}` : ""}`;

// A name is said once, whatever is said of it.
const facts = (said) => el("dl", { class: "facts" }, ...said.flatMap(([name, text], index) =>
  [index && said[index - 1][0] === name ? null : el("dt", { text: name }), el("dd", { text })]));

function showSlots(upstream) {
  $("slots").replaceChildren(...upstream.slots.slice(0, 12).map((slot) => el("li", {},
    el("span", { text: `slot ${slot.id}` }),
    el("i", { text: slot.busy ? "busy" : slot.used ? "idle, cached" : "idle" }),
    meter(slot.context ? slot.used / slot.context : 0, `${count(slot.used)} of ${count(slot.context)} tokens`),
    el("i", { text: `${count(slot.used)} / ${count(slot.context)}`, "aria-hidden": "true" }))));
  const source = upstream.kv_source === "metrics" ? "the server's own metric" : "/slots";
  const more = upstream.slots.length > 12 ? `and ${upstream.slots.length - 12} more slots · ` : "";
  say("slots-source", known(upstream.kv) ? `${more}KV cache in use: ${percent(upstream.kv)} · source: ${source}`
    : upstream.state === "unknown" ? "Nobody looks at the server: set --poll."
    : upstream.state === "down" ? "Unknown while the server is down." : "This server does not say how much of its cache is in use.");
}

function showPrefills(prefills) {
  show("prefills", prefills.length > 0);
  refill($("prefills"), prefills.slice(0, 12).map((each) => {
    const reads = known(each.total); // else the server does not say how far it is, or answers
    const said = `${reads ? `prefill ${count(each.done)} of ${count(each.total)} tokens` : each.waits_for ? `waits for ${each.waits_for}` : "running"}${each.held ? " · held for a retry" : ""}`;
    const name = `${each.session} #${each.turn}`; // before its first turn is over, a conversation has no page
    return el("li", {}, each.turn > 1 ? el("a", { href: href("conversation", each.conversation), "data-key": `prefill-${each.conversation}`, text: name }) : el("span", { text: name }),
      reads ? meter(each.done / each.total, `${said}, ${percent(each.done / each.total)}`) : el("span"),
      el("i", { text: `${said} · ${lasting(each.seconds)}${known(each.to_go) ? ` · ≈ ${lasting(each.to_go)} to go` : ""}`, "aria-hidden": reads ? "true" : null }));
  }));
}

function showSpeed({ overview, upstream, speeds, prefills }) {
  const { sums } = overview;
  say("first", known(sums.first_median) ? lasting(sums.first_median) : "–");
  say("first-worst", known(sums.first_worst) ? `median · ${lasting(sums.first_worst)} worst` : "");
  say("prefill", speed(speeds.prefill));
  say("generation", speed(speeds.generation));
  say("added", known(sums.added) ? `${lasting(sums.added)} a request` : "–");
  const { running, waiting } = upstream; // of a look that may be seconds old
  say("queue", known(running) ? `${count(Math.max(running, prefills.length - (waiting || 0)))} running · ${count(waiting || 0)} waiting` : "–");
}
