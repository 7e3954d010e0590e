// Elements. Whatever comes from a client (its name, a model's, a prompt) is set as text only.

export const $ = (id) => document.getElementById(id);

export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") made.textContent = value;
    else if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

export function say(id, text) {
  const node = $(id);
  if (node.textContent !== text) node.textContent = text;
}

export const show = (id, isShown) => { $(id).hidden = !isShown; };
export const code = (text) => el("code", { text });
export const shape = (text) => el("span", { class: "shape", "aria-hidden": "true", text });

export function button(text, act, more = {}) {
  const made = el("button", { type: "button", text, ...more });
  made.addEventListener("click", act);
  return made;
}

export function cell(text, kind = "", label = "") {
  return el("td", { role: "cell", class: kind + (text === "–" ? " blank" : ""), "data-label": label || null, text });
}

export function meter(share, label, kind = "") {
  const inner = el("span");
  inner.style.width = `${100 * Math.min(1, Math.max(0, share || 0))}%`;
  return el("span", { class: `meter ${kind}`, role: "img", "aria-label": label }, inner);
}

// Put `nodes` into `container`; the focus stays on what has the same data-key.
export function refill(container, nodes) {
  const focused = container.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  container.replaceChildren(...nodes);
  if (focused !== undefined) container.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}

// A row that leads where its link does, wherever it is clicked.
export function leads(row, link) {
  row.classList.add("leads");
  row.addEventListener("click", (event) => {
    if (!event.target.closest("a, button") && !String(getSelection())) location.hash = link.hash;
  });
  return row;
}

async function toClipboard(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const held = el("textarea", { "aria-hidden": "true" }); // no clipboard over plain http from elsewhere
  held.value = text;
  document.body.append(held);
  held.select();
  const done = document.execCommand("copy");
  held.remove();
  if (!done) throw new Error("not allowed");
}

export function copyButton(text, name = "Copy") {
  const made = button(name, async () => {
    try { await toClipboard(text); made.textContent = "Copied ✓"; } catch { made.textContent = "Select it by hand"; }
    setTimeout(() => { made.textContent = name; }, 2000);
  }, { class: "copy", "aria-label": `${name}: ${text}` });
  return made;
}

export const command = (text) => el("span", { class: "command" }, code(text), copyButton(text));
