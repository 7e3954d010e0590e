// Small charts over time: reuse, speeds, waits, the longest prompt.
import { axis, colour, draw } from "./chart.js";
import { $, el } from "./dom.js";
import { listBucket } from "./requests.js";
import { shown } from "./shown.js";
import { compact, count, day, known, lasting, minute, percent, speed } from "./words.js";

const share = (value) => percent(value, 0);
const CHARTS = [
  { id: "reuse", name: "Reuse", of: (each) => (each.reused + each.evaluated ? each.reused / (each.reused + each.evaluated) : null), say: percent, tick: share, most: 1 },
  { id: "generation", name: "Generation", field: "generation_speed", say: speed, tick: compact, cut: true },
  { id: "prefill", name: "Prefill", field: "prefill_speed", say: speed, tick: compact, cut: true },
  { id: "wait", name: "Longest wait for a first token", field: "first_worst", say: lasting, tick: lasting },
  { id: "context", name: "Longest prompt", field: "context", say: (value) => `${count(value)} tokens`, tick: compact },
];

const latest = new Map(); // points and words of each, for the functions that uPlot keeps
const reads = new Map();

$("series").replaceChildren(...CHARTS.map(({ id, name }) => el("div", { class: "small" },
  el("h3", { id: `${id}-h` }, name, " ", el("small", { id: `${id}-last` })),
  el("div", { id: `${id}-chart`, class: "chart", tabindex: "0", role: "group", "aria-label": `Chart of ${name}. Left and right arrow keys read single values, Enter lists their requests.`, "aria-describedby": `${id}-text` }),
  el("p", { id: `${id}-read`, class: "unseen", "aria-live": "polite" }),
  el("p", { id: `${id}-text`, class: "unseen" }))));

// What draws each of them.
export const drawSeries = () => CHARTS.map((chart) => () => drawOne(chart, pointsOf(chart)));

// One value a bucket, null where nothing was recorded.
function pointsOf({ field, of }) {
  const { start, end, bucket, series } = shown.data.overview;
  const valueOf = of || ((each) => each[field]);
  const found = new Map(series.map((each) => [each.at, valueOf(each)]));
  const points = [[], []];
  for (let at = start; at < end; at += bucket) {
    points[0].push(at + bucket / 2);
    points[1].push(found.get(at) ?? null);
  }
  return points;
}

// One wild speed, of a short answer, must not flatten the others: it is cut off, and marked.
function ceiling(values, cut) {
  const sorted = values.filter(known).sort((a, b) => a - b);
  const usual = sorted[Math.floor(0.9 * (sorted.length - 1))] || 0;
  const most = sorted[sorted.length - 1] || 0;
  return cut && most > 4 * usual && usual > 0 ? 2 * usual : most * 1.08 || 1;
}

function drawOne({ id, say: words, tick, most, cut }, points) {
  const { window, bucket } = shown.data.overview;
  const values = points[1].filter(known);
  const last = values[values.length - 1];
  $(`${id}-text`).textContent = values.length ? `From ${words(Math.min(...values))} to ${words(Math.max(...values))}, last ${words(last)}.` : "No data in this window.";
  const when = (at) => (window === "30d" ? `${day(at)} ${minute(at)}` : minute(at));
  const read = (index) => {
    const at = index === null ? null : points[0][index];
    const told = at === null || at === undefined ? "" : `${when(at - bucket / 2)}: ${known(points[1][index]) ? words(points[1][index]) : "nothing recorded"}`;
    $(`${id}-read`).textContent = told;
    $(`${id}-last`).textContent = told || (values.length ? words(last) : "no data");
  };
  latest.set(id, points);
  reads.set(id, read);
  $(`${id}-chart`).onPick = (index) => {
    const at = points[0][index] - bucket / 2;
    listBucket(shown.data.overview.series.find((each) => each.at === at));
  };
  draw(`${id}-chart`, window, () => ({
    padding: [8, 20, 0, 0],
    cursor: { sync: { key: "series", scales: ["x", null] } },
    scales: {
      x: { range: () => [shown.data.overview.start, shown.data.overview.end] },
      y: { range: () => [0, most || ceiling(latest.get(id)[1], cut)] },
    },
    axes: [
      axis({ grid: { show: false }, size: 26, space: 60, values: (plot, splits) => splits.map((at) => (window === "30d" ? day(at) : minute(at))) }),
      axis({ size: 46, space: 30, values: (plot, splits) => splits.map((value) => tick(value)) }),
    ],
    series: [{}, { fill: colour("--reused"), width: 0, paths: uPlot.paths.bars({ size: [0.8, 14], align: 0 }), points: { show: false } }],
    hooks: { draw: [(plot) => marks(plot)] },
  }), points, (index) => reads.get(id)(index));
}
// A dotted line where nothing was recorded between two values, an arrow on what is cut off.
function marks(plot) {
  const at = plot.ctx;
  const { top, height } = plot.bbox;
  const [xs, ys] = plot.data;
  at.save();
  at.fillStyle = colour("--ink");
  at.strokeStyle = colour("--soft");
  at.textAlign = "center";
  at.font = `${10 * devicePixelRatio}px system-ui, sans-serif`;
  at.setLineDash([1 * devicePixelRatio, 3 * devicePixelRatio]);
  let before = null;
  ys.forEach((value, index) => {
    if (value === null) return;
    if (before !== null && index - before > 1) {
      at.beginPath();
      at.moveTo(plot.valToPos(xs[before + 1], "x", true), top + height - devicePixelRatio);
      at.lineTo(plot.valToPos(xs[index - 1], "x", true), top + height - devicePixelRatio);
      at.stroke();
    }
    before = index;
    if (value > plot.scales.y.max) at.fillText("▲", plot.valToPos(xs[index], "x", true), top + 9 * devicePixelRatio);
  });
  at.restore();
}
