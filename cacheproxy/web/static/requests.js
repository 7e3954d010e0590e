// The table of requests: the last as they come, older ones by the page, cut down by filter, search and time.
import { get } from "./ask.js";
import { $, el, say, show } from "./dom.js";
import { change, go, href, route } from "./route.js";
import { LATEST, shown } from "./shown.js";
import { headOf, nameOf, reuseOf, rowOf, td } from "./table.js";
import {
  count, isBreak, isDear, known, lasting, outcomeOf, period, rate, shareOf, speedOf, when,
} from "./words.js";

const MOST_ROWS = 400;
const FIRST_ROWS = 30;
const ALL = { filter: "all", search: "", cause: "", from: "", to: "" }; // what the link may name
const table = { ...ALL, rows: [], next: null, asked: 0 };
const isPlain = () => Object.entries(ALL).every(([name, value]) => table[name] === value);

// Take requests that have finished; `all`: they are the last ones, whatever was shown before.
export function take(rows, all) {
  const had = new Set(all ? [] : shown.latest.map((row) => row.id));
  shown.latest = [...rows.filter((row) => !had.has(row.id)), ...(all ? [] : shown.latest)].sort((a, b) => b.id - a.id).slice(0, LATEST);
  const plain = isPlain();
  const newest = table.rows.length ? table.rows[0].id : 0;
  if (all && plain && table.rows.length <= FIRST_ROWS) {
    table.rows = shown.latest.slice(0, FIRST_ROWS);
    table.next = shown.latest.length > FIRST_ROWS ? table.rows[FIRST_ROWS - 1].id : null;
    drawRows();
  } else if (all && !(plain && rows.some((row) => row.id === newest))) {
    ask(); // some came meanwhile that are not among these, or another proxy counts from 1
  } else {
    add(rows.filter((row) => row.id > newest && matches(row))); // older ones have their place below
  }
}

// Filter, search and time are those of the link.
export function showTable() {
  const wanted = Object.fromEntries(Object.entries(ALL).map(([name, value]) => [name, route.query.get(name) || value]));
  const { filter, search, cause, from, to } = wanted;
  const input = $("filters").querySelector(`input[value="${CSS.escape(filter)}"]`);
  if (input) input.checked = true;
  if (document.activeElement !== $("search")) $("search").value = search;
  const only = [cause.replaceAll("_", " "), from || to ? period(Number(from), Number(to)) : ""].filter(Boolean).join(", ");
  show("period", only !== "");
  say("period-text", only);
  if (Object.keys(ALL).every((name) => wanted[name] === table[name])) return;
  Object.assign(table, wanted);
  ask();
  const head = $("requests-h").parentElement;
  const { top } = head.getBoundingClientRect();
  if (top < 0 || top > 0.7 * innerHeight) head.scrollIntoView();
  if (document.activeElement.matches(".chart")) $("period").focus({ preventScroll: true }); // a bar was opened
}

// List the requests that a bar of a chart over time counts.
export function listBucket(each) {
  if (each && each.requests) go(href("overview", "", { from: each.at, to: each.at + shown.data.overview.bucket }));
}

// The request with this id in the totals, or null.
export async function requestOf(id) {
  const row = [...shown.latest, ...table.rows].find((each) => String(each.id) === id);
  if (row || !/^\d{1,14}$/.test(id)) return row || null;
  const [first] = (await get(`requests?before=${Number(id) + 1}`)).requests;
  return first && String(first.id) === id ? first : null;
}

function matches(row) {
  if (table.filter === "breaks" && !isBreak(row)) return false;
  if (table.cause && table.cause !== [row.reason, row.shape].filter(Boolean).join(" ")) return false;
  if (table.filter === "slow" && !(row.first_seconds >= 10)) return false;
  if (table.filter === "errors" && !row.failed) return false;
  if (row.at < Number(table.from) || (table.to && row.at >= Number(table.to))) return false;
  const text = [row.client, row.session, row.asked, row.model].filter(Boolean).join("\n").toLowerCase();
  return text.includes(table.search.toLowerCase());
}

const COLUMNS = [
  { head: "time", cell: (row, link) => td(null, link) },
  { head: "conversation", cell: whoOf },
  { head: "turn", kind: "n", text: (row) => (row.turn ? count(row.turn) : "–") },
  { head: "prompt", kind: "n", text: (row) => count(row.prompt) },
  { head: "reused", cell: (row) => reuseOf(shareOf(row), undefined, " blank") },
  { head: "new", kind: "n", text: (row) => count(row.evaluated) },
  { head: "first", kind: "n", text: (row) => lasting(row.first_seconds) },
  { head: "out", kind: "n", text: (row) => count(row.output) },
  { head: "tok/s", kind: "n", text: (row) => (known(speedOf(row)) ? (row.speed_source === "estimated" ? "≈ " : "") + rate(row.speed) : "–") },
  { head: "verdict", cell: endOf },
  { head: "rules that edited", cell: ({ rules }) => td(`what${rules.length ? "" : " blank"}`, ...rules.map((rule) => el("small", { text: rule }))) },
];

function lineOf(row) {
  const link = el("a", { href: href("request", row.id), "data-key": `row-${row.id}`, text: when(row.at), "aria-label": `Details of the request at ${when(row.at)}` });
  return rowOf(COLUMNS, row, link, isDear(row) ? "broke" : null);
}

function whoOf(row) {
  const models = [row.asked, row.model].filter(Boolean).join(" → ") || null;
  return el("td", { role: "cell", class: "name", title: models }, row.client && row.session ? nameOf(row) : row.client || "–");
}

function endOf(row) {
  const told = [];
  if (isBreak(row)) {
    const text = `⚑ ${row.reason.replaceAll("_", " ")}`;
    const kind = isDear(row) ? "flag" : "";
    told.push(known(row.number) ? el("a", { class: kind, href: href("break", row.number), text }) : el("span", { class: kind, text }));
  }
  if (row.failed) told.push(el("span", { class: "flag", text: `✕ ${row.status >= 400 ? `status ${row.status}` : row.outcome}` }));
  else if (row.outcome !== "complete") told.push(el("small", { text: outcomeOf(row) }));
  if (row.side) told.push(el("small", { text: row.verdict === "cut" ? "side request, cut" : "side request" }));
  if (!told.length) told.push(el("small", { text: row.verdict || "" }));
  return td("end", ...told.flatMap((each) => [each, " "]));
}

function drawRows() {
  $("rows").replaceChildren(...table.rows.map(lineOf));
  rowsShown();
}

function add(rows) {
  if (rows.length) {
    table.rows = [...rows, ...table.rows].slice(0, MOST_ROWS);
    $("rows").prepend(...rows.map(lineOf));
    while ($("rows").children.length > MOST_ROWS) $("rows").lastElementChild.remove();
  }
  rowsShown();
}

function rowsShown() {
  show("older", table.next !== null && table.rows.length < MOST_ROWS);
  show("rows-none", table.rows.length === 0);
  say("rows-none", isPlain() ? "None yet." : "No request is like that.");
}

async function ask(before = null) {
  const number = ++table.asked;
  const query = new URLSearchParams(Object.keys(ALL).map((name) => [name, table[name]]));
  if (before !== null) query.set("before", before);
  let page;
  try { page = await get(`requests?${query}`); } catch (error) { say("rows-none", error.message); show("rows-none", true); return; }
  if (number !== table.asked) return;
  table.next = page.next;
  if (before === null) { table.rows = page.requests; drawRows(); return; }
  table.rows.push(...page.requests);
  $("rows").append(...page.requests.map(lineOf));
  rowsShown();
}

$("rows-head").append(headOf(COLUMNS));
$("filters").addEventListener("change", (event) => change({ filter: event.target.value === "all" ? "" : event.target.value }));
$("period").addEventListener("click", () => {
  $("filters").querySelector("input:checked")?.focus({ preventScroll: true });
  change({ cause: "", from: "", to: "" });
});
let typing = 0;
$("search").addEventListener("input", (event) => {
  clearTimeout(typing);
  typing = setTimeout(() => change({ search: event.target.value.trim() }, true), 150);
});
$("older").addEventListener("click", () => ask(table.next));
