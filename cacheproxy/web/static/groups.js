// What broke, and who asked: the window's figures by cause, client, model and upstream.
import { $, cell, code, command, el, refill, show } from "./dom.js";
import { change, href, route } from "./route.js";
import { headOf, rowOf, td } from "./table.js";
import { count, diagnose, known, lasting, percent, phrase } from "./words.js";

const LINKS = {
  client: (each) => href("conversations", "", { search: each.name }),
  model: (each) => href("overview", "", { search: each.name, by: "model", from }),
  upstream: (each) => href("conversations", "", { search: each.name }),
};
const GROUP_COLUMNS = [
  { head: "name", cell: (each, link) => td("name", link || each.name || "–") },
  { head: "requests", kind: "n", text: (each) => count(each.requests) },
  { head: "prompt", kind: "n", text: (each) => count(each.prompt) },
  { head: "reused", kind: "n", text: (each) => (each.prompt ? percent(each.reused / each.prompt) : "–") },
  { head: "tokens lost", kind: "n", label: "lost", text: (each) => count(each.lost) },
  { head: "time lost", kind: "n", text: (each) => (known(each.seconds) ? lasting(each.seconds) : "–") },
];
const CAUSE_COLUMNS = [
  { head: "why the cache broke", cell: (each, link) => td(null, link) },
  { head: "what it was", cell: (each) => td("name", each.shape || "–", " ", each.place ? el("small", { text: each.place }) : "") },
  { head: "count", kind: "n", cell: counted },
  { head: "tokens lost", kind: "n", cell: lostOf },
  { head: "of all", kind: "n", text: ({ share }) => (share > 0 && share < 0.001 ? "< 0.1 %" : percent(share)) },
  { head: "in the terminal", cell: (each) => td("do", ...advice(each)) },
];
let from = 0; // what is counted began since then

export function showGroups(said) {
  const by = route.query.get("by") || "cause";
  for (const input of $("groups-by").querySelectorAll("input")) input.checked = input.value === by;
  const causes = by === "cause";
  show("breaks-table", causes && said.breaks.length > 0);
  show("breaks-none", causes && said.breaks.length === 0);
  show("groups-table", !causes);
  from = said.overview.start;
  if (causes) showBreaks(said.breaks); else showBy(by, (said.groups && said.groups[by]) || []);
  for (const name of ["requests", "conversations"]) $(`${name}-csv`).href = `/_cacheproxy/${name}.csv?window=${said.overview.window}`;
}

$("breaks-head").append(headOf(CAUSE_COLUMNS));
$("groups-by").addEventListener("change", (event) => change({ by: event.target.value === "cause" ? "" : event.target.value }));

function showBy(by, found) {
  $("groups-head").replaceChildren(headOf([{ ...GROUP_COLUMNS[0], head: by }, ...GROUP_COLUMNS.slice(1)]));
  refill($("groups"), found.slice(0, 24).map((each) => {
    const link = LINKS[by] && each.name ? el("a", { href: LINKS[by](each), "data-key": `${by}-${each.name}`, text: each.name }) : null;
    return rowOf(GROUP_COLUMNS, each, link);
  }));
}

function showBreaks(breaks) {
  refill($("breaks"), breaks.slice(0, 12).map((each) => {
    const link = el("a", { href: known(each.number) ? href("break", each.number) : href("overview", "", { filter: "breaks", from }), "data-key": `cause-${each.reason}-${each.shape}`, text: phrase(each.reason) });
    return rowOf(CAUSE_COLUMNS, each, link);
  }));
}

function lostOf(each) {
  const lost = cell(count(each.lost), "n", "tokens lost");
  if (each.seconds) lost.append(" ", el("small", { text: `≈ ${lasting(each.seconds)}` }));
  return lost;
}

// The requests that are counted.
function counted({ reason, shape, count: number }) {
  const made = cell("", "n", "count");
  const fields = { filter: "breaks", from, cause: [reason, shape].filter(Boolean).join(" ") };
  made.append(el("a", { href: href("overview", "", fields), "aria-label": `List ${number} of them`, text: count(number) }));
  return made;
}

function advice(each) {
  if (each.reason === "model_changed") return ["nothing: each model has its own cache"];
  return [known(each.number) ? command(diagnose(each.number, each.reason, each.shape)) : code("cacheproxy inspect CAPTURE")];
}
