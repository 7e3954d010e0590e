// The live stream: figures and requests as they come, and what to do while it is away.
import { $, say, show } from "./dom.js";
import { askForToken } from "./login.js";

const AGAIN = 3000;
const PATIENCE = 4000; // a proxy that has read its settings again ends its streams, and is there
let stream = null;
let again = 0;
let asked = null; // {window, onData, onRequests}

export function connect(wanted = asked) {
  asked = wanted;
  close();
  stream = new EventSource(`/_cacheproxy/live?window=${asked.window}`);
  stream.addEventListener("data", (event) => { away(""); asked.onData(JSON.parse(event.data)); });
  stream.addEventListener("requests", (event) => { const said = JSON.parse(event.data); asked.onRequests(said.requests, said.all); });
  stream.addEventListener("trouble", (event) => away(`no data: ${JSON.parse(event.data).why}`));
  stream.addEventListener("error", trouble);
}

function close() {
  clearTimeout(again);
  if (stream) stream.close();
}

let late = 0;
function away(why) {
  clearTimeout(late);
  late = 0;
  say("link", why);
  show("link", why !== "");
}

async function trouble() {
  if (!late && $("link").hidden) late = setTimeout(away, PATIENCE, "reconnecting …");
  if (stream.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
  let status = 0;
  try { status = (await fetch(`/_cacheproxy/data?window=${asked.window}`)).status; } catch { /* not there */ }
  if (status === 401) { close(); askForToken(); } else again = setTimeout(connect, AGAIN);
}

document.addEventListener("visibilitychange", () => { // who does not look costs nothing
  if (!asked) return;
  if (document.hidden) close(); else if ($("login").hidden) connect();
});
