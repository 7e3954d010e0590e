// One break: what was and what is, where, why, its cost, and what cures it.
import { get, post } from "./ask.js";
import { $, button, code, command, copyButton, el, refill } from "./dom.js";
import { href, route } from "./route.js";
import { agentOf, conversationOf, count, day, diagnose, known, lasting, minute, percent, phrase, plural } from "./words.js";

const held = { id: "", said: null, told: "", busy: false };

export function open({ id, query }) {
  if (held.id !== id) Object.assign(held, { id, said: null, told: "" });
  if (!held.said) $("break").replaceChildren(el("p", { class: "quiet", text: "Reading …" }));
  ask(query.get("at") === "cure");
}

async function ask(toCure = false) {
  const { id } = held;
  let said;
  try { said = await get(`break/${encodeURIComponent(id || "last")}`); } catch (error) {
    if (id === held.id) $("break").replaceChildren(el("section", { class: "panel wide" }, el("p", { class: "error", role: "alert", text: error.message }), el("p", {}, el("a", { href: href("overview"), text: "Overview" }))));
    return;
  }
  if (id !== held.id || route.view !== "break") return;
  held.said = said;
  draw();
  if (toCure) {
    $("cure").scrollIntoView({ block: "center" });
    $("cure").querySelector("button:not(:disabled)")?.focus({ preventScroll: true });
  }
}

function draw() {
  const each = held.said;
  const who = { client: each.client, session: each.session, label: each.label };
  refill($("break"), [
    el("section", { class: "panel wide", "aria-labelledby": "break-h" },
      el("p", { class: "crumbs" }, el("a", { href: href("conversation", conversationOf(who)), text: agentOf(who) }), ` #${each.turn} · request ${each.number} · ${day(each.at)} ${minute(each.at)}`),
      el("h2", { id: "break-h", class: "title" }, el("span", { class: "flag", "aria-hidden": "true", text: "⚑ " }), each.phrase || phrase(each.reason)),
      el("p", { class: "lead", text: leadOf(each) }),
      ...wordsOf(each), facts(each)),
    cureOf(each), ...advice(each),
  ]);
}

function leadOf(each) {
  const lost = `${plural(each.lost || 0, "token")} read again${known(each.lost_seconds) ? `, ${lasting(each.lost_seconds)}` : ""}.`;
  if (each.reason === "cut") return `${each.says[0].toUpperCase()}${each.says.slice(1)}.${each.lost ? ` ${lost}` : ""}`;
  return `${lost} The prompts are equal for ${count(each.equal)} of ${count(each.prompt)} tokens${each.prompt && known(each.equal) ? ` (${percent(each.equal / each.prompt)})` : ""}.`;
}

function wordsOf(each) {
  const { on, allowed } = each.show_prompts;
  if (each.texts) {
    return [el("div", { class: "texts" }, side("was", "Before", each.texts.was), side("now", "Now", each.texts.now)),
      el("p", { class: "note" }, "Changed words: struck out before, underlined now. ", button("Hide the words", () => showPrompts(false), { class: "plain" }))];
  }
  const asking = allowed && !on;
  return [el("div", { class: "hidden-words" }, el("p", { text: asking ? "Show words of your prompts on this page? They come from the proxy's memory, and are stored nowhere. They are shown until you hide them, or the proxy ends." : each.hidden }),
    asking ? el("p", { class: "actions" }, button("Show the words", () => showPrompts(true), { class: "action", "data-key": "show" })) : null)];
}

function side(kind, name, lines) {
  return el("section", { class: `side ${kind}`, "aria-label": name }, el("h3", { text: name }),
    el("ol", {}, ...lines.map((line) => el("li", {}, el("span", { class: "line-number", text: line.n === null ? "" : String(line.n) }),
      el("span", { class: "line" }, ...line.parts.map(([text, changed]) => (changed ? el(kind === "was" ? "del" : "ins", { text }) : text)))))));
}

async function showPrompts(show) {
  await doing(async () => { await post("show-prompts", { show }); return ""; });
}

function facts(each) {
  const listed = el("dl", { class: "facts" });
  const add = (name, ...said) => { if (said.some((one) => one)) listed.append(el("dt", { text: name }), el("dd", {}, ...said.filter((one) => one))); };
  add("where", each.path && code(each.path), known(each.byte) && ` byte ${count(each.byte)}`);
  add("class", [each.kind, each.frequency].filter(Boolean).join(", "));
  add("proof", each.proof);
  return listed;
}

function cureOf({ number, reason, kind, cure, no_cure: why }) {
  const parts = [el("h2", { id: "cure-h", text: "The cure" })];
  const told = held.told || (cure && cure.applied ? `✓ Applied: it stands in ${cure.file}.` : "");
  const said = el("p", { role: "status", class: told.startsWith("✓") ? "said done" : "said", text: told });
  if (!cure) parts.push(el("p", { text: why || "No rule cures this one." }), ...(why ? [] : [el("p", {}, command(diagnose(number, reason, kind)))]));
  else {
    parts.push(el("p", {}, "Rule ", code(cure.rule), ...(cure.tried ? [": ", cure.tried] : ["."])));
    if (cure.toml) parts.push(el("pre", { tabindex: "0", "aria-label": "The rule as TOML", text: cure.toml }));
    const actions = [];
    if (cure.applied) actions.push(button("Undo", () => act("undo"), { "data-key": "cure" }));
    else if (cure.applicable) actions.push(button("Apply", () => act("apply"), { class: "action", "data-key": "cure" }));
    if (cure.toml) actions.push(copyButton(cure.toml, "Copy the rule"));
    if (cure.command && !cure.applied) actions.push(copyButton(cure.command, "Copy command"));
    parts.push(el("p", { class: "actions" }, ...actions));
    if (cure.applied) return el("section", { id: "cure", class: "panel wide", "aria-labelledby": "cure-h" }, ...parts, said);
    if (!cure.applicable && cure.why_not) parts.push(el("p", { class: "soft", text: cure.why_not }));
    else if (cure.file) parts.push(el("p", { class: "soft" }, "Apply writes it to ", code(cure.file), ", and the proxy reads it at once."));
    if (cure.command) parts.push(el("p", { class: "soft" }, "In the terminal: ", code(cure.command)));
  }
  return el("section", { id: "cure", class: "panel wide", "aria-labelledby": "cure-h" }, ...parts, said);
}

const act = (what) => doing(async () => {
  const { said } = await post(`cure/${held.said.number}/${what}`);
  return what === "apply" ? `✓ ${said}` : said;
});

// Do one thing at a time, say what came of it, and look again.
async function doing(work) {
  if (held.busy) return;
  held.busy = true;
  const { id } = held;
  let told;
  try { told = await work(); } catch (error) { told = error.message; }
  held.busy = false;
  if (id === held.id) held.told = told;
  await ask();
}

function advice({ advice: all, cure }) {
  const found = all.filter((each) => !each.why.includes("--propose")); // this view has just tried that
  if (!found.length) return [];
  const list = el("dl", { class: "facts" });
  for (const each of found) list.append(el("dt", { text: each.do }), el("dd", { text: each.why }));
  return [el("section", { class: "panel wide", "aria-labelledby": "advice-h" }, el("h2", { id: "advice-h", text: cure ? "What else to do" : "What to do" }), list)];
}
