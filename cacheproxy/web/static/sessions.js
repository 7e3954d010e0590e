// The last conversations, each in a row; the list of them all is another view.
import { $, el, meter, refill, say, show } from "./dom.js";
import { href } from "./route.js";
import { headOf, nameOf, rowOf, td } from "./table.js";
import { compact, conversationOf, count, percent, plural } from "./words.js";

const MOST = 8;
let context = null;
const COLUMNS = [
  { head: "conversation", cell: (each, link) => td("name", link) },
  { head: "turns", kind: "n", label: "", text: (each) => count(each.turns) },
  { head: "context", cell: usedOf },
  { head: "reuse", kind: "n", label: "", text: (each) => (each.prompt ? percent(each.reused / each.prompt) : "–") },
];
$("sessions-head").append(headOf(COLUMNS));

export function showSessions({ sessions, upstream }) {
  context = (upstream.slots[0] && upstream.slots[0].context) || (upstream.server && upstream.server.context) || context; // while it is down, as it was
  const found = sessions.slice(0, MOST);
  refill($("sessions"), found.map((each) => (
    rowOf(COLUMNS, each, nameOf(each, { "data-key": `session-${conversationOf(each)}`, title: each.session })))));
  const more = sessions.length - found.length;
  show("sessions-more", more > 0);
  say("sessions-more", more > 0 ? `and ${sessions.length >= 50 ? "at least " : ""}${plural(more, "other")}` : "");
  show("sessions-none", !sessions.length);
  for (const id of ["sessions-more", "sessions-all"]) $(id).href = href("conversations");
}

function usedOf(each) {
  const share = context && each.context ? each.context / context : null;
  return share === null ? td("metered", each.context ? `${compact(each.context)} tokens` : "–")
    : td("metered", meter(share, `${count(each.context)} of ${count(context)} tokens`), el("b", { text: share < 0.01 ? "< 1 %" : `${Math.round(100 * share)} %`, "aria-hidden": "true" }));
}
