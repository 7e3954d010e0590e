// The list of conversations, by the page.
import { get } from "./ask.js";
import { $, button, cell, el, refill, shape } from "./dom.js";
import { change, route } from "./route.js";
import { headOf, nameOf, reuseOf, rowOf, td } from "./table.js";
import { LENGTHS, compact, count, known, lasting, percent, plural, when } from "./words.js";

const CALM = 3000; // ms between two looks, while requests come in
const SVG = "http://www.w3.org/2000/svg";
const list = { key: "", window: "1h", found: [], next: null, count: 0, asked: 0, again: 0 };
const parts = {};
const COLUMNS = [
  { head: "conversation", cell: whoOf },
  { head: "first seen", text: (each) => when(each.first) },
  { head: "turns", kind: "n", cell: turnsOf },
  { head: "prompts", cell: (each) => td("spark-cell", spark(each.recent || [])) },
  { head: "reuse", cell: shareOf },
  { head: "saved", kind: "n", cell: savedOf },
  { head: "lost", kind: "n", cell: lostOf },
  { head: "upstream", cell: (each) => td("name id", each.upstream || "") },
];

function build() {
  parts.title = el("h2", { id: "list-h", class: "title", text: "Conversations" });
  parts.search = el("input", { type: "search", placeholder: "client, conversation, model", autocomplete: "off", spellcheck: "false" });
  parts.sort = el("select", {}, el("option", { value: "", text: "the last first" }), el("option", { value: "cost", text: "the dearest first" }));
  parts.count = el("p", { class: "note", role: "status" });
  parts.rows = el("tbody", { role: "rowgroup" });
  parts.error = el("p", { class: "error", role: "alert" });
  parts.more = button("Show more", () => ask(list.next), { class: "more" });
  let typing = 0;
  parts.search.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => change({ search: parts.search.value.trim() }, true), 150);
  });
  parts.sort.addEventListener("change", () => change({ sort: parts.sort.value }));
  $("conversations").replaceChildren(el("section", { class: "panel wide", "aria-labelledby": "list-h" },
    el("div", { class: "head" }, parts.title,
      el("label", { class: "search" }, el("span", { class: "unseen", text: "Search client, conversation or model" }), parts.search),
      el("label", {}, el("span", { class: "unseen", text: "Order" }), parts.sort)),
    parts.count,
    el("table", { class: "requests conversations", role: "table", "aria-labelledby": "list-h" },
      el("thead", { role: "rowgroup" }, headOf(COLUMNS)),
      parts.rows),
    parts.error, parts.more));
}

export function open({ query }, window) {
  if (!parts.rows) build();
  const [search, sort] = [query.get("search") || "", query.get("sort") || ""];
  if (document.activeElement !== parts.search) parts.search.value = search;
  parts.sort.value = sort;
  const key = [window, search, sort].join("\n");
  if (key !== list.key) Object.assign(list, { key, window, found: [], next: null });
  ask();
}

export function finished() {
  if (list.again || list.found.length > 50) return; // who has gone further down is not disturbed
  list.again = setTimeout(() => { list.again = 0; if (route.view === "conversations") ask(); }, CALM);
}

async function ask(before = null) {
  const number = ++list.asked;
  const query = new URLSearchParams({ window: list.window, search: route.query.get("search") || "", sort: route.query.get("sort") || "last" });
  if (before !== null) query.set("before", before);
  let page;
  try { page = await get(`conversations?${query}`); } catch (error) { parts.error.textContent = error.message; return; }
  if (number !== list.asked) return;
  parts.error.textContent = "";
  list.next = page.next;
  parts.count.textContent = `${plural(page.count, "conversation")} in the last ${LENGTHS[list.window]}`;
  if (before === null) {
    list.found = page.conversations;
    refill(parts.rows, list.found.map(lineOf));
  } else {
    list.found.push(...page.conversations);
    parts.rows.append(...page.conversations.map(lineOf));
  }
  parts.more.hidden = page.next === null;
}

function lineOf(each) {
  return rowOf(COLUMNS, each, nameOf(each, { "data-key": each.id, title: each.session }));
}

function whoOf(each, link) {
  const said = [each.root ? "subagent" : "", each.branches ? plural(each.branches, "branch").replace("branchs", "branches") : ""];
  return td("name", link, " ", el("small", { text: said.filter(Boolean).join(" · ") }));
}

function turnsOf(each) {
  const turns = cell(count(each.turns), "n", "turns");
  if (each.side) turns.append(" ", el("small", { text: `+ ${count(each.side)} beside` }));
  return turns;
}

function shareOf(each) {
  const share = each.reused + each.evaluated ? each.reused / (each.reused + each.evaluated) : null;
  return reuseOf(share, `${percent(share)} reused`);
}

function savedOf(each) {
  const saved = cell(each.saved ? compact(each.saved) : "–", "n", "saved");
  if (known(each.saved_seconds) && each.saved) saved.append(" ", el("small", { text: `≈ ${lasting(each.saved_seconds)}` }));
  return saved;
}

function lostOf(each) {
  if (!each.breaks) return cell("–", "n", "lost");
  const said = [plural(each.breaks, "break"), known(each.lost_seconds) ? lasting(each.lost_seconds) : ""];
  return el("td", { role: "cell", class: "n", "data-label": "lost" }, shape("⚑"), `${compact(each.lost)} `, el("small", { text: said.filter(Boolean).join(" · ") }));
}

// The last prompts, a bar each, as one path.
function spark(prompts) {
  const most = Math.max(1, ...prompts);
  const drawn = document.createElementNS(SVG, "svg");
  for (const [name, value] of Object.entries({ viewBox: "0 0 96 20", width: 96, height: 20, role: "img", class: "spark-line",
    "aria-label": prompts.length ? `Prompts from ${count(prompts[0])} to ${count(prompts[prompts.length - 1])} tokens` : "no prompts" })) drawn.setAttribute(name, value);
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", prompts.map((tokens, index) => `M${4 * index + 2} 20v-${Math.max(1, (20 * tokens) / most).toFixed(1)}`).join(""));
  drawn.append(path);
  return drawn;
}
