// The keyboard: through the rows, in, out, to the search. Single keys can be switched off (WCAG 2.1.4).
import { $ } from "./dom.js";
import { back, go, href, route } from "./route.js";

const STORED = "cacheproxy-keys";
const parents = { break: "overview", conversation: "conversations", conversations: "overview" };

function stored() {
  try { return localStorage.getItem(STORED) !== "off"; } catch { return true; }
}

function step(by) {
  const rows = [...document.querySelectorAll(".view:not([hidden]) [data-key]")];
  const from = rows.indexOf(document.activeElement);
  let at = from < 0 && by < 0 ? rows.length - 1 : from + by;
  while (rows[at] && !rows[at].checkVisibility()) at += by;
  const next = rows[at];
  if (next) {
    next.focus({ preventScroll: true });
    (next.closest("tr, li") || next).scrollIntoView({ block: "nearest" });
  } else if (by > 0) document.querySelector(".view:not([hidden]) .more:not([hidden])")?.click();
}

const ACTS = {
  j: () => step(1),
  k: () => step(-1),
  o: () => go(href("overview")),
  c: () => go(href("conversations")),
  "/": () => document.querySelector(".view:not([hidden]) input[type=search]")?.focus(),
  "?": () => $("help").showModal(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !$("login").hidden || document.querySelector("dialog[open]")) return;
  if (event.key === "Escape") {
    if (event.target.matches("input, select")) event.target.blur();
    else if (parents[route.view]) back(href(parents[route.view]));
    return;
  }
  if (event.target.matches("input:not([type=radio]), select, textarea") || !$("keys-on").checked || !ACTS[event.key]) return;
  event.preventDefault();
  ACTS[event.key]();
});
$("keys-on").checked = stored();
$("keys-on").addEventListener("change", (event) => {
  try { localStorage.setItem(STORED, event.target.checked ? "on" : "off"); } catch { /* a private window */ }
});
$("help-open").addEventListener("click", () => $("help").showModal());
$("help").addEventListener("click", (event) => { if (event.target === $("help")) $("help").close(); });
