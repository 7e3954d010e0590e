// One request, in a dialog over the view it was opened from.
import { get } from "./ask.js";
import { $, code, el, say } from "./dom.js";
import { requestOf } from "./requests.js";
import { back, href, route } from "./route.js";
import {
  agentOf, clock, conversationOf, count, day, diagnose, isBreak, known, lasting, outcomeOf, percent, phrase, plural, speed, speedOf,
} from "./words.js";

export async function openRequest(id) {
  const dialog = $("detail");
  let row = null;
  try { row = await requestOf(id); } catch { /* said below */ }
  if (route.view !== "request" || route.id !== id) return; // left meanwhile
  say("detail-h", row ? `${known(row.number) ? `Request ${row.number}` : "Request"} · ${agentOf(row)}` : "No such request");
  $("detail-body").replaceChildren(...(row ? facts(row, null) : [el("p", { text: "The totals no longer have it." })]));
  if (!dialog.open) dialog.showModal();
  if (!row || !known(row.number)) return;
  try { $("detail-body").replaceChildren(...facts(row, await get(`detail/${row.number}`))); } catch { /* what the row says is there */ }
}

function facts(row, more) {
  const listed = el("dl");
  const add = (name, ...said) => { if (said.some((each) => each !== null && each !== "" && each !== "–")) listed.append(el("dt", { text: name }), el("dd", {}, ...said.filter((each) => each !== null))); };
  const tokens = (value) => (value ? `${value.source === "estimated" ? "≈ " : ""}${count(value.tokens)} tokens` : null);
  const { prompt, reused, evaluated } = row;
  const share = prompt && known(reused) ? reused / prompt : null;
  const bar = el("div", { class: "bar", role: "img", "aria-label": `${percent(share)} reused` }, el("span", { class: "reused" }));
  bar.firstElementChild.style.width = `${100 * (share || 0)}%`;
  add("time", `${day(row.at)}, ${clock(row.at)}`);
  if (row.client && row.session) add("conversation", el("a", { href: href("conversation", conversationOf(row)), text: `${row.client}/${row.session}` }));
  add("asked for", [row.asked, row.model].filter(Boolean).join(" → "), more && more.path_asked ? ` ${more.method} ${more.path_asked}` : "");
  add("prompt", known(prompt) ? `${count(prompt)} tokens` : "", known(reused) ? `: ${count(reused)} reused, ${count(evaluated)} new` : "");
  if (row.reason) add("reason", phrase(row.reason));
  if (more && more.path) add("where", code(more.path), known(more.byte) ? ` byte ${count(more.byte)}` : "");
  if (more && more.kind) add("what changed", [more.kind, more.frequency].filter(Boolean).join(", "));
  if (more && more.equal) add("equal until", tokens(more.equal));
  if (more && more.lost) add("cost", tokens(more.lost), known(more.seconds_lost) ? `, ${lasting(more.seconds_lost)}` : "");
  if (more && more.saved && more.saved.tokens) add("due to the rules", `≈ ${count(more.saved.tokens)} tokens reused`);
  if (known(row.first_seconds)) add("first token", lasting(row.first_seconds), known(row.total_seconds) ? `, all of it ${lasting(row.total_seconds)}` : "");
  if (known(row.output)) add("answer", `${plural(row.output, "token")}${known(speedOf(row)) ? `, ${speed(row.speed)}${row.speed_source === "estimated" ? " (estimated)" : ""}` : ""}`);
  if (known(row.added)) add("added here", lasting(row.added));
  add("ended", row.failed || row.outcome !== "complete" ? `${outcomeOf(row)}${known(row.status) ? `, status ${row.status}` : ""}` : "", more && more.error ? ` ${more.error}` : "");
  if (more && more.edits) for (const edit of more.edits) add(edit.rule, `${plural(edit.count, "edit")}: ${edit.why}`);
  const found = [el("p", { text: summary(row, share) }), ...(share === null ? [] : [bar]), listed];
  if (more && more.advice && more.advice.length) {
    const list = el("dl");
    for (const each of more.advice) list.append(el("dt", { text: each.do }), el("dd", { text: each.why }));
    found.push(el("h3", { text: "What to do" }), list);
  }
  if (isBreak(row) && known(row.number)) {
    found.push(el("p", { class: "actions" }, el("a", { class: "action", href: href("break", row.number), text: "What changed" })),
      el("p", { class: "note" }, "In the terminal: ", code(diagnose(row.number, row.reason, row.shape))));
  }
  if (!known(row.number)) found.push(el("p", { class: "note", text: "From before this proxy started: its comparison with the turn before is no longer known." }));
  return found;
}

function summary(row, share) {
  if (row.failed) return "It failed.";
  if (row.verdict === "cut") return "Cut: not all of the prompt and its answer had room in the server's context.";
  if (row.side) return "A request beside the conversation, such as a title or a subagent's.";
  if (row.verdict === "BREAK") return "Cache lost: the server recomputed tokens it had already processed.";
  if (row.verdict === "compacted") return "The client summarised the conversation and began it anew: no break.";
  if (row.verdict === "cold") return "The first turn of its conversation: there was no turn before it to reuse.";
  if (row.verdict === "ok") return "It reused the turn before.";
  return share === null ? "The server does not say what it reused." : `${percent(share)} of its prompt was reused.`;
}

$("detail").addEventListener("click", (event) => { if (event.target === $("detail")) $("detail").close(); });
$("detail").addEventListener("close", () => { if (route.view === "request") back(); });
