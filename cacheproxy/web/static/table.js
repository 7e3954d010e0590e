// Tables: what their columns, which are data, make of rows; and the cells that several have.
import { cell, el, leads, meter } from "./dom.js";
import { href } from "./route.js";
import { agentOf, conversationOf, percent } from "./words.js";

// A column: { head, kind, text } or, where a cell is more than its text, { head, kind, cell }. `label` is what narrow
// screens have instead of the head.
export const headOf = (columns) => el("tr", { role: "row" }, ...columns.map(({ head, kind }) => el("th", { role: "columnheader", scope: "col", class: kind, text: head })));

// One row; `link`, if there is one, is where it leads, and stands in one of its cells.
export function rowOf(columns, row, link = null, kind = null) {
  const made = el("tr", { role: "row", class: kind }, ...columns.map((column) => (
    column.cell ? column.cell(row, link) : cell(column.text(row), column.kind, column.label ?? column.head))));
  return link ? leads(made, link) : made;
}

export const td = (kind, ...children) => el("td", { role: "cell", class: kind }, ...children);

// A conversation's name, which leads there.
export const nameOf = (row, more = {}) => el("a", { href: href("conversation", conversationOf(row)), ...more },
  row.client, el("span", { class: "id", text: agentOf(row).slice(row.client.length) }));

export const reuseOf = (share, label = percent(share), blank = "") => (share === null ? td(`metered share${blank}`, "–")
  : td("metered share", meter(share, label, "split"), el("b", { text: percent(share), "aria-hidden": "true" })));
