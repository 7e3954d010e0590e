// A chart: axes, what is under the cursor in words, by mouse and by arrow keys.
import { $ } from "./dom.js";

const charts = new Map();
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// The same stripes as in the page's style, for who cannot tell colours apart.
export function hatched(name) {
  const size = 7 * devicePixelRatio;
  const tile = Object.assign(document.createElement("canvas"), { width: size, height: size });
  const at = tile.getContext("2d");
  at.fillStyle = colour(name);
  at.fillRect(0, 0, size, size);
  at.strokeStyle = colour("--hatch");
  at.lineWidth = size / 3.5;
  for (const shift of [-size, 0, size]) {
    at.beginPath();
    at.moveTo(shift - 1, size + 1);
    at.lineTo(shift + size + 1, -1);
    at.stroke();
  }
  return at.createPattern(tile, "repeat");
}

export const axis = (more) => ({
  stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false },
  font: "12px system-ui, sans-serif", gap: 6, ...more,
});

// uPlot keeps the functions in `options`: they are made once per `key`, and look at what is current.
export function draw(id, key, options, values, read) {
  const holder = $(id);
  const width = Math.floor(holder.clientWidth);
  const height = Math.floor(holder.clientHeight);
  if (!width || !height || typeof uPlot === "undefined") return;
  let chart = charts.get(id);
  if (!chart || chart.key !== key) {
    if (chart) chart.plot.destroy();
    else listen(holder, id);
    chart = { key, read, picked: null };
    charts.set(id, chart);
    const { hooks = {}, cursor = {}, ...others } = options();
    chart.plot = new uPlot({
      width, height, legend: { show: false }, ...others,
      cursor: { y: false, points: { show: false }, drag: { x: false, y: false }, ...cursor },
      hooks: { ...hooks, setCursor: [(plot) => {
        if (plot.cursor.idx === null && document.activeElement === holder) return; // read by keyboard
        chart.picked = plot.cursor.idx ?? null;
        read(chart.picked);
      }] },
    }, values, holder);
    return;
  }
  if (chart.plot.width !== width || chart.plot.height !== height) chart.plot.setSize({ width, height });
  chart.plot.setData(values);
  read(chart.picked);
}

function listen(holder, id) {
  holder.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const chart = charts.get(id);
    const size = chart ? chart.plot.data[0].length : 0;
    if (event.key === "Enter" && chart && chart.picked !== null && holder.onPick) {
      event.preventDefault(); // else the key would close what it opens
      holder.onPick(chart.picked);
    }
    if (!step || !size) return;
    event.preventDefault();
    chart.picked = chart.picked !== null ? Math.min(size - 1, Math.max(0, chart.picked + step)) : step < 0 ? size - 1 : 0;
    chart.plot.setCursor({ left: chart.plot.valToPos(chart.plot.data[0][chart.picked], "x"), top: 0 });
    chart.read(chart.picked);
  });
  holder.addEventListener("click", () => {
    const chart = charts.get(id);
    if (chart && chart.picked !== null && holder.onPick) holder.onPick(chart.picked);
  });
}

// The colours have changed: each is made anew when it is drawn next.
export function forget() {
  for (const chart of charts.values()) chart.key = null;
}
