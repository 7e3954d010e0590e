// One conversation: a bar a turn, its prompt by part, reused and evaluated; breaks where they fell.
import { get } from "./ask.js";
import { $, button, el, refill, shape } from "./dom.js";
import { href, route } from "./route.js";
import { agentOf, compact, count, day, known, lasting, minute, percent, phrase, plural, when } from "./words.js";

const PARTS = { tools: "tools", system: "system", history: "history", thinking: "thinking", last: "last message" };
const CALM = 2000; // ms between two looks, while requests come in
const MOST_OF_BRANCH = 6; // turns shown under the root; the branch's own page has them all
let looked = -1; // at which of the breaks
const held = { id: "", conversation: null, turns: new Map(), branches: [], next: null, asked: 0, again: 0 };

export function open({ id }) {
  if (held.id !== id) {
    Object.assign(held, { id, conversation: null, branches: [], next: null });
    looked = -1;
    held.turns.clear();
    $("conversation").replaceChildren(el("p", { class: "quiet", text: "Reading …" }));
  }
  ask();
}

export function finished(rows) {
  const roots = new Set([held.id, ...held.branches.map((each) => each.conversation.id)]);
  if (held.again || !rows.some((row) => roots.has(`${row.client}/${row.session}`) || !row.turn || row.turn === 1)) return;
  held.again = setTimeout(() => { held.again = 0; if (route.view === "conversation") ask(); }, CALM);
}

async function ask(before = null) {
  const number = ++held.asked;
  let said;
  try {
    said = await get(`conversations/${encodeURIComponent(held.id)}${before === null ? "" : `?before=${encodeURIComponent(before)}`}`);
  } catch (error) {
    $("conversation").replaceChildren(el("p", { class: "error", role: "alert", text: error.message }), el("p", {}, el("a", { href: href("conversations"), text: "All conversations" })));
    return;
  }
  if (number !== held.asked) return;
  if (before !== null || !held.turns.size) held.next = said.next;
  held.conversation = said.conversation;
  if (before === null) held.branches = said.branches;
  for (const turn of said.turns) held.turns.set(turn.row, turn);
  draw();
}

function draw() {
  const turns = [...held.turns.values()].sort((a, b) => a.row - b.row);
  const rows = inOrder(turns, held.branches);
  const most = Math.max(1, ...rows.map(({ turn }) => (turn && turn.prompt) || 0));
  const slowest = Math.max(0.001, ...rows.map(({ turn }) => (turn && turn.first_seconds) || 0));
  const made = el("ol", { class: "turns", "aria-label": "Turns" }, ...rows.map((row) => rowOf(row, most, slowest)));
  const older = held.next === null ? null : button("Show earlier turns", () => ask(held.next));
  refill($("conversation"), [el("section", { class: "panel wide timeline", "aria-labelledby": "turns-h" }, ...headOf(held.conversation), legend(turns),
    older && el("p", {}, older), axisOf(most, slowest), made)]);
}

// The turns as they came; a branch stands behind the turn it began after.
function inOrder(turns, branches) {
  const found = turns.map((turn) => ({ at: turn.at, turn, depth: turn.kind === "side" ? 1 : 0, branch: null }));
  for (const { conversation, turns: own } of branches) {
    if (!own.length) continue;
    found.push({ at: own[0].at, turn: null, depth: 1, branch: conversation });
    for (const turn of own.slice(0, MOST_OF_BRANCH)) found.push({ at: own[0].at, turn, depth: 2, branch: conversation });
    if (own.length > MOST_OF_BRANCH) found.push({ at: own[0].at, turn: null, depth: 2, branch: conversation, left: own.length - MOST_OF_BRANCH });
  }
  return found.map((row, index) => ({ ...row, index })).sort((a, b) => a.at - b.at || a.index - b.index);
}

function headOf(each) {
  const told = each.reused + each.evaluated;
  const said = [
    `${plural(each.turns, "turn")}${each.side ? ` and ${plural(each.side, "side request")}` : ""}`,
    told ? `${percent(each.reused / told)} reused` : "reuse unknown",
    each.saved ? `saved ${compact(each.saved)} tokens${known(each.saved_seconds) ? `, ≈ ${lasting(each.saved_seconds)}` : ""}` : "",
  ];
  return [
    el("p", { class: "crumbs" }, el("a", { href: href("conversations"), text: "Conversations" }), each.root ? " / " : "",
      each.root ? el("a", { href: href("conversation", each.root), text: each.root }) : ""),
    el("h2", { id: "turns-h", class: "title", text: `${each.client}/${each.session}` }),
    el("p", {}, said.filter(Boolean).join(" · "), " · ", each.breaks ? button(`⚑ ${plural(each.breaks, "break")}: ${count(each.lost)} tokens lost${known(each.lost_seconds) ? `, ${lasting(each.lost_seconds)}` : ""}`, toBreak, { class: "plain", "data-key": "to-break" }) : "no breaks"),
    el("p", { class: "soft", text: [`${day(each.first)} ${minute(each.first)} to ${when(each.last)}`, each.model, each.upstream].filter(Boolean).join(" · ") }),
  ];
}

// To the next break, and from the last to the first.
function toBreak() {
  const broken = document.querySelectorAll("#conversation .broke a");
  if (!broken.length) return;
  looked = (looked + 1) % broken.length;
  broken[looked].focus({ preventScroll: true });
  broken[looked].scrollIntoView({ block: "center" });
}

function legend(turns) {
  const names = turns.some((turn) => turn.parts) ? Object.entries(PARTS) : [];
  const keys = [...names, ["", "solid: reused"], ["fresh", "hatched: evaluated"]];
  return el("p", { class: "legend" }, ...keys.map(([kind, name]) => el("span", { class: "legend-of" }, el("span", { class: `key part ${kind}`, "aria-hidden": "true" }), name)),
    el("span", { class: "flag", text: "⚑" }), "break");
}

function axisOf(most, slowest) {
  return el("div", { class: "turn axis", "aria-hidden": "true" }, el("span", { text: "turn" }),
    el("span", { class: "scale" }, ...[0, 0.25, 0.5, 0.75, 1].map((part) => el("span", { text: compact(Math.round(part * most)) }))),
    el("span", { class: "first-head", text: `first token (to ${lasting(slowest)})` }), el("span", {}));
}

function rowOf({ turn, depth, branch, left }, most, slowest) {
  if (!turn) {
    const own = `subagent ${agentOf(branch)}`;
    const name = left ? `${plural(left, "more turn")} of ${own}` : `${own}: ${plural(branch.turns, "turn")}`;
    return el("li", { class: `turn branch depth-${depth}` }, el("a", { href: href("conversation", branch.id), title: branch.id, "data-key": `${left ? "more" : "branch"}-${branch.id}`, text: `├─ ${name}` }));
  }
  const isBreak = Boolean(turn.reason) && turn.kind !== "side";
  const target = isBreak && known(turn.number) ? href("break", turn.number) : href("request", turn.row);
  const label = turn.kind === "side" ? "├─ side" : turn.kind === "failed" ? "✕" : `#${turn.turn}`;
  const link = el("a", { href: target, "data-key": `turn-${turn.row}`, "aria-label": describe(turn) },
    el("span", { class: "label", text: label }), barOf(turn, most),
    el("span", { class: "first" }, firstOf(turn, slowest), el("span", { text: known(turn.first_seconds) ? lasting(turn.first_seconds) : "–" })),
    noteOf(turn, isBreak));
  return el("li", { class: `turn depth-${depth}${isBreak ? " broke" : ""}` }, link);
}

function firstOf(turn, slowest) {
  const bar = el("i");
  bar.style.width = `${Math.max(1, (60 * (turn.first_seconds || 0)) / slowest)}%`;
  return bar;
}

function noteOf(turn, isBreak) {
  const said = isBreak ? [shape("⚑"), `${turn.reason.replaceAll("_", " ")} · ${compact(turn.lost)} tok${known(turn.lost_seconds) ? ` · ${lasting(turn.lost_seconds)}` : ""}`]
    : turn.waited ? [`client left ${turn.waited}`]
    : [turn.kind === "failed" ? `status ${known(turn.status) ? turn.status : "unknown"}` : turn.kind === "compacted" ? "compacted" : ""];
  return el("span", { class: `note-cell${isBreak ? " flag" : ""}` }, ...said);
}

// Each part of the prompt, cut where the reused tokens end.
function barOf(turn, most) {
  const bar = el("span", { class: "stack" });
  if (!turn.prompt) return bar;
  const inner = el("span", { class: "stacked" });
  inner.style.width = `${(100 * turn.prompt) / most}%`;
  const reused = known(turn.reused) ? turn.reused : 0;
  const parts = turn.parts ? (turn.order || Object.keys(PARTS)).map((part) => [part, turn.parts[part] || 0]) : [["", turn.prompt]];
  let at = 0;
  for (const [part, tokens] of parts) {
    const old = Math.min(tokens, Math.max(0, reused - at));
    for (const [size, kind] of [[old, ""], [tokens - old, known(turn.reused) ? "fresh" : "unknown"]]) {
      if (size <= 0) continue;
      const piece = el("span", { class: `part ${part} ${kind}` });
      piece.style.width = `${(100 * size) / turn.prompt}%`;
      inner.append(piece);
    }
    at += tokens;
  }
  if (turn.reason && turn.kind !== "side" && known(turn.breaks_at)) {
    const flag = el("span", { class: "at flag", text: "⚑" });
    flag.style.left = `${(100 * Math.min(turn.breaks_at, turn.prompt)) / turn.prompt}%`;
    inner.append(flag);
  }
  bar.append(inner);
  return bar;
}

function describe(turn) {
  const kinds = { side: "Side request", failed: "Failed request", compacted: "Compacted turn", turn: "Turn" };
  return [`${kinds[turn.kind] || "Turn"}${turn.turn ? ` ${turn.turn}` : ""}, ${when(turn.at)}`, known(turn.prompt) ? `${count(turn.prompt)} tokens` : "",
    turn.prompt && known(turn.reused) ? `${percent(turn.reused / turn.prompt)} reused` : "",
    turn.parts ? Object.entries(turn.parts).map(([part, tokens]) => `${PARTS[part]} ${count(tokens)}`).join(", ") : "",
    known(turn.first_seconds) ? `first token after ${lasting(turn.first_seconds)}` : "",
    turn.reason ? `break: ${phrase(turn.reason)}, ${count(turn.lost)} tokens lost` : ""].filter(Boolean).join("; ");
}
