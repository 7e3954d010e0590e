// The first three answers: does it work, what broke last, what is to do.
import { $, command, el, refill, say, shape, show } from "./dom.js";
import { href } from "./route.js";
import { ago, agentOf, conversationOf, count, known, lasting, percent, phrase, plural, proxyOption } from "./words.js";

const STANDINGS = { // the shape says what the colour does
  failing: ["✕", "bad"], working: ["✓", "good"], hitches: ["▲", "fair"], breaking: ["✕", "bad"],
  cold: ["○", ""], unmeasured: ["?", ""], empty: ["○", ""],
};

export function showCards(said) {
  showWorks(said);
  showLast(said.last_break, said);
  if (said.last_failure && !said.last_break) showFailure(said.last_failure);
  showTodo(said.todo || []);
}

function showWorks({ headline, overview, rules, without }) {
  const measured = known(headline.share);
  if ($("standing").textContent !== headline.title) say("announce", `${headline.title}. ${headline.text}`);
  const [sign, tone] = STANDINGS[headline.standing] || ["○", ""];
  say("standing-shape", sign);
  $("works").className = `panel card ${tone}`;
  say("standing", headline.title);
  const text = $("standing-text");
  text.textContent = headline.text;
  text.href = overview.sums.breaks ? href("overview", "", { filter: "breaks", from: overview.start }) : href("conversations");
  for (const id of ["reused", "evaluated"]) $(id).href = href("conversations");
  say("share", percent(headline.share));
  say("without", known(without) ? `without cacheproxy: ${percent(without)}` : "");
  const bar = $("share-bar");
  bar.className = measured ? "bar" : "bar none";
  bar.firstElementChild.style.width = measured ? `${100 * headline.share}%` : "0";
  bar.lastElementChild.hidden = !known(without);
  bar.lastElementChild.style.left = `${100 * (without || 0)}%`;
  bar.setAttribute("aria-label", measured ? `${percent(headline.share)} reused${known(without) ? `, without the proxy ${percent(without)}` : ""}` : "no data");
  say("reused", measured ? count(headline.reused) : "–");
  say("evaluated", measured ? count(headline.evaluated) : "–");
  const { tokens, seconds, source, unpriced } = headline.due;
  say("spared", !measured ? "–" : !rules.length && !tokens ? "no rules are on" : known(seconds) ? `≈ ${lasting(seconds)}` : "speed unknown");
  const left = unpriced && known(seconds) ? ` Not in it: ${count(unpriced)} tokens whose speed nobody knew.` : "";
  $("sources").title = `Reused and new: as the server says. ≈ ${source}.${left}`;
  document.title = measured ? `${percent(headline.share)} reused · cacheproxy` : "cacheproxy";
}

function showFailure(text) {
  $("last").classList.remove("good");
  say("last-shape", "✕");
  say("last-name", "Last failure");
  say("last-none", `${text}.`);
}

function showLast(last, { now }) {
  show("last-none", !last);
  say("last-name", "Last break");
  say("last-none", "Nothing has broken the cache in this window.");
  show("last-some", Boolean(last));
  const over = !last || last.cured;
  $("last").classList.toggle("good", over);
  say("last-shape", over ? "✓" : "⚑");
  if (!last) return;
  say("last-phrase", last.phrase || phrase(last.reason));
  const time = el("time", { datetime: new Date(1000 * last.at).toISOString(), text: ago(last.at, now) });
  refill($("last-who"), [
    el("a", { href: href("conversation", conversationOf(last)), "data-key": "last-conversation", text: `${agentOf(last)} #${last.turn}` }), " · ", time]);
  say("last-cost", `${plural(last.lost || 0, "token")} read again${known(last.lost_seconds) ? ` · ${lasting(last.lost_seconds)}` : ""}`);
  show("last-what", known(last.number)); // else it was before the proxy started
  show("last-cure", last.cure);
  say("last-cure", last.cured ? "Cured. Undo …" : "Apply the cure …");
  $("last-what").href = href("break", last.number);
  $("last-cure").href = href("break", last.number, { at: "cure" });
}

// What is open stays open while the figures change; where there is room, the first begins so.
const seen = new Set();
function showTodo(todo) {
  const open = new Set([...$("todo-list").querySelectorAll("details[open]")].map((each) => each.dataset.id));
  show("todo-none", todo.length === 0);
  $("todo").classList.toggle("good", todo.length === 0);
  say("todo-shape", todo.length ? "→" : "✓");
  say("todo-count", todo.length > 1 ? String(todo.length) : "");
  refill($("todo-list"), todo.map((each, index) => {
    const more = el("details", { "data-id": each.id },
      el("summary", { "data-key": `todo-${each.id}`, text: each.title }), each.command && each.why.endsWith(each.command) ? null : el("p", { text: each.why }),
      each.command ? el("p", {}, command(each.command + proxyOption())) : null);
    more.open = open.has(each.id) || (index === 0 && !seen.has(each.id) && innerWidth >= 900);
    seen.add(each.id);
    return el("li", {}, more);
  }));
}
