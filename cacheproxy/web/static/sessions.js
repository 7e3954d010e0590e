// The last conversations, each in a row; the list of them all is another view.
import { $, cell, el, leads, meter, refill, say, show } from "./dom.js";
import { href } from "./route.js";
import { compact, conversationOf, count, percent, plural, shortly } from "./words.js";

const MOST = 8;
let context = null;

export function showSessions({ sessions, upstream }) {
  context = (upstream.slots[0] && upstream.slots[0].context) || (upstream.server && upstream.server.context) || context; // while it is down, as it was
  const found = sessions.slice(0, MOST);
  refill($("sessions"), found.map((each) => {
    const share = context && each.context ? each.context / context : null;
    const used = el("td", { role: "cell", class: "metered" });
    if (share === null) used.textContent = each.context ? `${compact(each.context)} tokens` : "–";
    else used.append(meter(share, `${count(each.context)} of ${count(context)} tokens`), el("b", { text: share < 0.01 ? "< 1 %" : `${Math.round(100 * share)} %`, "aria-hidden": "true" }));
    const id = conversationOf(each);
    const link = el("a", { href: href("conversation", id), "data-key": `session-${id}`, title: each.session }, each.client, el("span", { class: "id", text: `/${shortly(each.session)}` }));
    return leads(el("tr", { role: "row" }, el("td", { role: "cell", class: "name" }, link),
      cell(count(each.turns), "n"), used, cell(each.prompt ? percent(each.reused / each.prompt) : "–", "n")), link);
  }));
  const more = sessions.length - found.length;
  show("sessions-more", more > 0);
  say("sessions-more", more > 0 ? `and ${sessions.length >= 50 ? "at least " : ""}${plural(more, "other")}` : "");
  show("sessions-none", !sessions.length);
  for (const id of ["sessions-more", "sessions-all"]) $(id).href = href("conversations");
}
