// The page: puts its parts together, and shows the view that the address names.
import { showCards } from "./cards.js";
import { forget } from "./chart.js";
import { $, say, show } from "./dom.js";
import { showEmpty } from "./empty.js";
import { showGroups } from "./groups.js";
import "./keys.js";
import { showLifetime } from "./lifetime.js";
import { loginByAddress } from "./login.js";
import { drawPrompts } from "./prompts.js";
import { showTable, take } from "./requests.js";
import { change, href, onRoute, route, tell } from "./route.js";
import { drawSeries } from "./series.js";
import { showServer } from "./server.js";
import { showSessions } from "./sessions.js";
import { shown } from "./shown.js";
import { connect } from "./stream.js";
import { LENGTHS, plural } from "./words.js";

const LATER = { // views that are fetched when they are first looked at
  conversations: () => import("./conversations.js"),
  conversation: () => import("./timeline.js"),
  break: () => import("./broken.js"),
};
const openRequest = async (id) => (await import("./request.js")).openRequest(id);
const TITLES = { conversations: "Conversations", conversation: "Conversation", break: "Break" };
let view = null; // the one that is shown; a request is shown above it
let part = null; // its module

function chosen() {
  const asked = route.query.get("window");
  if (asked in LENGTHS) return asked;
  try { const kept = localStorage.getItem("cacheproxy-window"); if (kept in LENGTHS) return kept; } catch { /* a private window */ }
  return "1h";
}

function onData(said) {
  shown.data = said;
  $("main").removeAttribute("aria-busy");
  if (!$("login").hidden) { show("login", false); show("upstream", true); show(view || "overview", true); }
  showServer(said);
  say("about", `cacheproxy ${said.version} · ${said.rules.length ? `${plural(said.rules.length, "rule")} on` : "no rules are on"}`);
  say("rules", said.rules.join(", "));
  showOverview();
  if (part && part.update) part.update();
}

function showOverview() {
  if (view !== "overview" || !shown.data) return;
  showEmpty(shown.data);
  showCards(shown.data);
  showSessions(shown.data);
  showGroups(shown.data);
  showLifetime(shown.data);
  drawCharts();
}

// One chart at a time: between them the browser answers whoever clicks.
let drawing = 0;
function drawCharts() {
  const todo = [drawPrompts, ...drawSeries()];
  const next = () => {
    const draw = todo.shift();
    if (draw && view === "overview") { draw(); drawing = setTimeout(next); }
  };
  clearTimeout(drawing);
  drawing = setTimeout(next);
}

function onRequests(rows, all) {
  take(rows, all);
  if (view === "overview") drawPrompts();
  if (part && part.finished) part.finished(rows);
}

let connected = "";
async function look() {
  const window = chosen();
  document.querySelector(`#windows input[value="${window}"]`).checked = true;
  if (connected !== window) { connected = window; connect({ window, onData, onRequests }); }
  for (const name of ["overview", "conversations"]) {
    $(`to-${name}`).href = href(name);
    $(`to-${name}`).setAttribute("aria-current", route.view === name ? "page" : "false");
  }
  if (route.view === "request" && view) { openRequest(route.id); return; }
  if ($("detail").open) $("detail").close();
  const wanted = route.view === "request" ? "overview" : route.view;
  if (view !== wanted) {
    for (const each of document.querySelectorAll(".view")) each.hidden = each.id !== wanted || !$("login").hidden;
    if (view) { scrollTo(0, 0); $("main").focus({ preventScroll: true }); }
    view = wanted;
    document.body.dataset.view = wanted;
  }
  if (TITLES[wanted]) document.title = `${TITLES[wanted]} · cacheproxy`;
  const load = LATER[wanted];
  if (!load) part = null;
  else {
    const made = await load();
    if (view !== wanted) return; // left meanwhile
    part = made;
    part.open(route, window);
  }
  if (view === "overview") showTable(); // other views have searches of their own
  showOverview();
  if (route.view === "request") openRequest(route.id);
}

function redraw() {
  if (view === "overview" && shown.data) drawCharts();
}

$("windows").addEventListener("change", (event) => {
  try { localStorage.setItem("cacheproxy-window", event.target.value); } catch { /* a private window */ }
  if (route.query.get("window")) change({ window: event.target.value }); else tell();
});
let resizing = 0;
addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(redraw, 80); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { forget(); redraw(); });
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); $("main").focus(); });

await loginByAddress();
onRoute(look);
tell();
