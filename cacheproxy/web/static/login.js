// The token, where the proxy asks for one.
import { $, say, show } from "./dom.js";

export function askForToken() {
  $("main").removeAttribute("aria-busy");
  for (const view of document.querySelectorAll(".view")) view.hidden = true;
  show("login", true);
  show("banner", false);
  show("link", false);
  show("upstream", false);
  $("token").focus();
}

async function login(token) {
  const answer = await fetch("/_cacheproxy/login", { method: "POST", headers: { "X-Cacheproxy-Token": token } });
  return answer.ok || answer.status === 404; // 404: it asks for none
}

// The token may stand in the address, for a moment: #token=…
export async function loginByAddress() {
  const given = /^#token=(.*)$/.exec(location.hash);
  if (!given) return;
  history.replaceState(null, "", location.pathname + location.search);
  try { await login(decodeURIComponent(given[1])); } catch { /* then it is asked for */ }
}

$("login-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  let good = false;
  try { good = await login($("token").value); } catch { /* a token is visible ASCII */ }
  say("login-error", good ? "" : "That is not the token this proxy was started with.");
  if (good) { $("token").value = ""; location.reload(); }
});
