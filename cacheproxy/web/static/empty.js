// What to do before the first request.
import { $, code, command, el, show } from "./dom.js";
import { proxyOption } from "./words.js";

const BASE = "base URL "; // what stands behind it is to be copied

function isEmpty({ lifetime, prefills }) {
  return !lifetime.requests && !prefills.length;
}

export function showEmpty(said) {
  const nothing = isEmpty(said);
  show("empty", nothing);
  for (const part of document.querySelectorAll("#overview > :not(#empty)")) part.hidden = nothing;
  if (nothing && !$("clients").children.length) showStarts(said.starts);
}

function showStarts(starts) {
  const here = (line) => line.replaceAll("{url}", location.origin).replaceAll("{option}", proxyOption());
  const lines = [
    ...Object.entries(starts).map(([names, line]) => [names, here(line)]),
    ["Other clients", "cacheproxy env --help"],
    ["By hand", `base URL ${location.origin}/v1`],
  ].map(([names, line]) => (line.startsWith(BASE) ? [`${names}: ${BASE}`, line.slice(BASE.length)] : [names, line]));
  $("clients").replaceChildren(...lines.flatMap(([name, line]) => [el("dt", { text: name }), el("dd", {}, command(line))]));
}

$("clients-note").replaceChildren("Was the proxy started with a token? Then the client needs it too, as its API key: ",
  code("export CACHEPROXY_TOKEN=…"), " before these commands.");
