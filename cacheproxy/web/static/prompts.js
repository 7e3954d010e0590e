// The chart of prompts: one bar a request, or a bucket's mean; reused below, new above, breaks flagged.
import { axis, colour, draw, hatched } from "./chart.js";
import { $, say } from "./dom.js";
import { listBucket } from "./requests.js";
import { go, href } from "./route.js";
import { LATEST, shown } from "./shown.js";
import {
  LENGTHS, agentOf, areDear, clock, compact, count, day, isBreak, isDear, known, lasting, minute, percent, phrase, plural, shareOf,
} from "./words.js";

const PAUSE = 600; // seconds between two requests from which on the chart marks a gap
let rows = [];
let buckets = [];

export function drawPrompts() {
  if (!shown.data) return;
  const { window } = shown.data.overview;
  if (window === "24h" || window === "30d") drawAverages(window); else drawRequests();
}

function drawRequests() {
  const { start, sums } = shown.data.overview;
  rows = shown.latest.filter((row) => known(row.prompt) && row.at >= start).reverse();
  say("prompts-h", sums.requests > LATEST ? `Prompt tokens per request, the last ${rows.length}` : "Prompt tokens per request");
  const told = rows.filter((row) => known(row.reused));
  const sum = (name) => told.reduce((so, row) => so + row[name], 0);
  say("prompts-text", !rows.length ? "No requests in this window."
    : `${plural(rows.length, "request")}, the largest of ${count(Math.max(...rows.map((row) => row.prompt)))} tokens; `
      + `${percent(sum("prompt") ? sum("reused") / sum("prompt") : null)} reused; ${plural(rows.filter(isBreak).length, "break")}. The table of requests has each.`);
  const labels = (plot, splits) => {
    let last = "";
    return splits.map((index) => {
      const label = Number.isInteger(index) && rows[index] ? minute(rows[index].at) : "";
      const said = label === last ? "" : label;
      last = label || last;
      return said;
    });
  };
  $("prompts").onPick = (index) => { if (rows[index]) go(href("request", rows[index].id)); };
  bars("requests", [rows.map((_, index) => index), rows.map((row) => row.prompt), rows.map((row) => row.reused || 0)],
    { time: false, range: () => [-0.7, Math.max(rows.length, 12) - 0.3] }, labels, 56, (index) => rows[index] && isDear(rows[index]), readRow);
}

function drawAverages(window) {
  const { start, end, bucket, series, sums } = shown.data.overview;
  const found = new Map(series.map((each) => [each.at, each]));
  buckets = [];
  for (let at = start; at < end; at += bucket) buckets.push(found.get(at) || { at, requests: 0, prompt: 0, reused: 0, breaks: 0 });
  say("prompts-h", `Prompt tokens per request, mean of ${bucket >= 3600 ? plural(bucket / 3600, "hour") : plural(bucket / 60, "minute")}`);
  const mean = (name) => buckets.map((each) => (each.requests ? each[name] / each.requests : null));
  say("prompts-text", `${plural(sums.requests, "request")} and ${plural(sums.breaks, "break")} in the last ${LENGTHS[window]}; mean prompt ${count(sums.prompt / Math.max(1, sums.requests))} tokens.`);
  const days = window === "30d";
  const labels = (plot, splits) => splits.map((at) => (days ? day(at) : minute(at)));
  $("prompts").onPick = (index) => listBucket(buckets[index]);
  bars(window, [buckets.map((each) => each.at + bucket / 2), mean("prompt"), mean("reused")],
    { time: true, range: () => [shown.data.overview.start, shown.data.overview.end] }, labels, days ? 64 : 56,
    (index) => buckets[index] && areDear(buckets[index]), readBucket);
}

function bars(key, values, x, labels, space, flagged, read) {
  draw("prompts", key, () => {
    const paths = uPlot.paths.bars({ size: [0.78, 28], radius: 0.12 });
    return {
      padding: [14, 8, 0, 0],
      scales: { x, y: { range: (plot, low, high) => [0, Math.max(100, (high || 0) * 1.08)] } },
      axes: [
        axis({ grid: { show: false }, values: labels, space, size: 28, incrs: x.time ? undefined : [1, 2, 3, 5, 10, 15, 20] }),
        axis({ values: (plot, splits) => splits.map((value) => compact(value)), size: 52, space: 42 }),
      ],
      series: [{}, { fill: hatched("--new"), width: 0, paths, points: { show: false } }, { fill: colour("--reused"), width: 0, paths, points: { show: false } }],
      hooks: { draw: [(plot) => { flags(plot, flagged); if (!x.time) pauses(plot); }] },
    };
  }, values, read);
}

function flags(plot, flagged) {
  const at = plot.ctx;
  at.save();
  at.fillStyle = colour("--break");
  at.font = `${13 * devicePixelRatio}px system-ui, sans-serif`;
  at.textAlign = "center";
  plot.data[0].forEach((value, index) => {
    if (flagged(index)) at.fillText("⚑", plot.valToPos(value, "x", true), plot.valToPos(plot.data[1][index] || 0, "y", true) - 3 * devicePixelRatio);
  });
  at.restore();
}

// Bars stand side by side, whatever lies between them: a dashed line says how long nothing came.
function pauses(plot) {
  const at = plot.ctx;
  const { top, height } = plot.bbox;
  at.save();
  at.strokeStyle = at.fillStyle = colour("--soft");
  at.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
  at.font = `${10 * devicePixelRatio}px system-ui, sans-serif`;
  rows.forEach((row, index) => {
    const length = index ? row.at - rows[index - 1].at : 0;
    if (length < PAUSE) return;
    const x = plot.valToPos(index - 0.5, "x", true);
    at.beginPath();
    at.moveTo(x, top);
    at.lineTo(x, top + height);
    at.stroke();
    at.save();
    at.translate(x + 11 * devicePixelRatio, top + 4 * devicePixelRatio);
    at.rotate(Math.PI / 2);
    at.fillText(lasting(length), 0, 0);
    at.restore();
  });
  at.restore();
}

function readRow(index) {
  const row = index === null ? null : rows[index];
  if (!row) { say("prompts-read", ""); return; }
  const share = shareOf(row);
  say("prompts-read", `${clock(row.at)}  ${agentOf(row)}  turn ${row.turn}: ${count(row.prompt)} tokens, ${known(share) ? `${percent(share)} reused` : "reuse unknown"}${isBreak(row) ? ` · break: ${phrase(row.reason).toLowerCase()}` : ""}`);
}

function readBucket(index) {
  const each = index === null ? null : buckets[index];
  if (!each) { say("prompts-read", ""); return; }
  say("prompts-read", `${day(each.at)} ${minute(each.at)}: ${plural(each.requests, "request")}${each.requests ? `, ${percent(each.prompt ? each.reused / each.prompt : null)} reused, ${plural(each.breaks, "break")}` : ""}`);
}
