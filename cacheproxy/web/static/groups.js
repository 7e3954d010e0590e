// What broke, and who asked: the window's figures by cause, client, model and upstream.
import { $, cell, command, el, leads, refill, say, show } from "./dom.js";
import { change, href, route } from "./route.js";
import { count, diagnose, known, lasting, percent, phrase } from "./words.js";

const LINKS = {
  client: (each) => href("conversations", "", { search: each.name }),
  model: (each, from) => href("overview", "", { search: each.name, by: "model", from }),
  upstream: (each) => href("conversations", "", { search: each.name }),
};
const NAMES = { client: "client", model: "model", upstream: "upstream" };

export function showGroups(said) {
  const by = route.query.get("by") || "cause";
  for (const input of $("groups-by").querySelectorAll("input")) input.checked = input.value === by;
  const causes = by === "cause";
  show("breaks-table", causes && said.breaks.length > 0);
  show("breaks-none", causes && said.breaks.length === 0);
  show("groups-table", !causes);
  const { start } = said.overview; // what is counted began since then
  if (causes) showBreaks(said.breaks, start); else showBy(by, (said.groups && said.groups[by]) || [], start);
  for (const name of ["requests", "conversations"]) $(`${name}-csv`).href = `/_cacheproxy/${name}.csv?window=${said.overview.window}`;
}

$("groups-by").addEventListener("change", (event) => change({ by: event.target.value === "cause" ? "" : event.target.value }));

function showBy(by, found, from) {
  say("groups-name", NAMES[by] || by);
  refill($("groups"), found.slice(0, 24).map((each) => {
    const name = each.name || "–";
    const link = LINKS[by] && each.name ? el("a", { href: LINKS[by](each, from), "data-key": `${by}-${name}`, text: name }) : null;
    const row = el("tr", { role: "row" }, el("td", { role: "cell", class: "name" }, link || name),
      cell(count(each.requests), "n", "requests"), cell(count(each.prompt), "n", "prompt"),
      cell(each.prompt ? percent(each.reused / each.prompt) : "–", "n", "reused"),
      cell(count(each.lost), "n", "lost"), cell(known(each.seconds) ? lasting(each.seconds) : "–", "n", "time lost"));
    return link ? leads(row, link) : row;
  }));
}

function showBreaks(breaks, from) {
  refill($("breaks"), breaks.slice(0, 12).map((each) => {
    const lost = cell(count(each.lost), "n", "tokens lost");
    if (each.seconds) lost.append(" ", el("small", { text: `≈ ${lasting(each.seconds)}` }));
    const share = each.share > 0 && each.share < 0.001 ? "< 0.1 %" : percent(each.share);
    const link = el("a", { href: known(each.number) ? href("break", each.number) : href("overview", "", { filter: "breaks", from }), "data-key": `cause-${each.reason}-${each.shape}`, text: phrase(each.reason) });
    return leads(el("tr", { role: "row" }, el("td", { role: "cell" }, link),
      el("td", { role: "cell", class: "name" }, each.shape || "–", " ", each.place ? el("small", { text: each.place }) : ""),
      counted(each, from), lost, cell(share, "n", "of all"),
      el("td", { role: "cell", class: "do" }, ...advice(each))), link);
  }));
}

// The requests that are counted.
function counted({ reason, shape, count: number }, from) {
  const made = cell("", "n", "count");
  const fields = { filter: "breaks", from, cause: [reason, shape].filter(Boolean).join(" ") };
  made.append(el("a", { href: href("overview", "", fields), "aria-label": `List ${number} of them`, text: count(number) }));
  return made;
}

function advice(each) {
  if (each.reason === "model_changed") return ["nothing: each model has its own cache"];
  return [command(known(each.number) ? diagnose(each.number, each.reason, each.shape) : "cacheproxy inspect CAPTURE")];
}
