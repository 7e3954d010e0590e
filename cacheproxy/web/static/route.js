// Where the page is: #/conversation/ID?window=1h. A link holds the view, and the back button works.

const VIEWS = ["overview", "conversations", "conversation", "break", "request"];
export const route = { view: "overview", id: "", query: new URLSearchParams() };
const heard = [];
let moves = 0; // made on this page: with none, "back" would leave it

function read() {
  const found = /^#\/([a-z]*)(?:\/([^?]*))?(?:\?(.*))?$/.exec(location.hash);
  if (!found && location.hash) return false;
  const [, view = "", id = "", query = ""] = found || [];
  route.view = VIEWS.includes(view) ? view : "overview";
  try { route.id = decodeURIComponent(id); } catch { route.id = ""; }
  route.query = new URLSearchParams(query);
  return true;
}

// The window is the same in each view, where the link names one.
export function href(view, id = "", fields = {}) {
  const query = new URLSearchParams();
  const all = { window: route.query.get("window"), ...fields };
  for (const [name, value] of Object.entries(all)) if (value) query.set(name, value);
  const path = view === "overview" ? "" : `${view}${id === "" ? "" : `/${encodeURIComponent(id)}`}`;
  return `#/${path}${String(query) && `?${query}`}`;
}

export function go(hash) {
  if (location.hash !== hash) location.hash = hash;
}

// Change fields of this view's query; `quietly`: without a step for the back button, as while typing.
export function change(fields, quietly = false) {
  const hash = href(route.view, route.id, { ...Object.fromEntries(route.query), ...fields });
  if (!quietly) { go(hash); return; }
  history.replaceState(null, "", hash);
  tell();
}

export function back(otherwise = href("overview")) {
  if (moves > 0) { moves -= 2; history.back(); } else go(otherwise);
}

export function onRoute(listener) { heard.push(listener); }

export function tell() {
  if (read()) for (const listener of heard) listener(route);
}

addEventListener("hashchange", () => { moves = Math.max(0, moves + 1); tell(); });
