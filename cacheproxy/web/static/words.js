// Numbers, times and names as people read them.
import { shown } from "./shown.js";

export const LENGTHS = { "15m": "15 minutes", "1h": "hour", "24h": "24 hours", "30d": "30 days" };
const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 });
const month = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const two = (number) => String(number).padStart(2, "0");
const DEAR = 0.1; // share of a prompt: from here on a flag is due

export const known = (value) => value !== null && value !== undefined;
export const count = (value) => (known(value) ? whole.format(Math.round(value)) : "–");
export const compact = (value) => (known(value) ? short.format(value) : "–");
export const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

export function percent(share, digits = 1) {
  if (!known(share)) return "–";
  const value = 100 * share; // 99.96 % is not all of it
  if (value > 99.9 && value < 100) return "99.9 %";
  return `${value.toFixed(digits).replace(/\.0$/, "")} %`;
}

export function lasting(seconds) {
  if (!known(seconds)) return "–";
  if (!seconds) return "0 s";
  if (seconds < 0) return `−${lasting(-seconds)}`;
  if (seconds < 0.0995) return `${(1000 * seconds).toFixed(seconds < 0.00995 ? 1 : 0)} ms`;
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${(seconds / 3600).toFixed(1)} h` : `${Math.round(seconds / 86400)} d`;
}

export const rate = (value) => (value < 100 ? value.toFixed(1) : count(value));
export const speed = (value) => (known(value) ? `${rate(value)} tok/s` : "–");

export function clock(at) {
  const date = new Date(1000 * at);
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}
export const minute = (at) => clock(at).slice(0, 5);
export const day = (at) => month.format(new Date(1000 * at));
const isToday = (at) => new Date(1000 * at).toDateString() === new Date().toDateString();
export const when = (at) => (isToday(at) ? clock(at) : `${day(at)} ${minute(at)}`);

// From when until when, where the days are named that are not today's; 0 for an open end.
export function period(from, to) {
  if (!(from < 1e12 && to < 1e12)) return "no time"; // no Date can be made of it
  const time = (at) => (at % 60 ? clock(at) : minute(at));
  const name = (at) => (isToday(at) ? time(at) : `${day(at)} ${time(at)}`);
  if (!from || !to) return from ? `since ${name(from)}` : `until ${name(to)}`;
  return `${name(from)} – ${day(from) === day(to) ? time(to) : name(to)}`;
}

export function ago(at, now = shown.data ? shown.data.now : Date.now() / 1000) {
  const seconds = Math.max(0, now - at);
  return seconds < 60 ? "just now" : `${lasting(seconds)} ago`;
}

export const agentOf = (row) => row.label || row.client || "–"; // as the log calls it
export const conversationOf = (row) => `${row.client}/${row.session}`; // as /_cacheproxy/conversations/ID calls it
export const shareOf = (row) => (known(row.prompt) && known(row.reused) && row.prompt ? row.reused / row.prompt : null);
export const outcomeOf = (row) => (row.waited ? `${row.outcome} ${row.waited}` : row.outcome || "");
export const speedOf = (row) => // an answer that came in one piece does not tell how fast it was made
  (row.speed_source === "estimated" && !(row.total_seconds - row.first_seconds > 0.2) ? null : row.speed);
export const isBreak = (row) => Boolean(row.reason) && !row.side;
export const isDear = (row) => isBreak(row) && (!known(row.lost) || row.lost >= DEAR * row.prompt);
export const areDear = (sums) => sums.breaks > 0 && sums.lost >= DEAR * sums.prompt;
export const phrase = (reason) => (shown.data && shown.data.reasons[reason]) || reason.replaceAll("_", " ");

// What commands need beside them to find this proxy; "" where they look by themselves.
export const proxyOption = () => (location.origin === "http://127.0.0.1:8081" ? "" : ` --proxy ${location.origin}`);

// The same as in the log: with --propose where a rule may be found for what changed.
export function diagnose(number, reason, shape) {
  const may = shown.data && ["system_changed", "tools_changed"].includes(reason) && shown.data.shapes.includes(shape);
  return `cacheproxy diagnose ${number}${may ? " --propose" : ""}${proxyOption()}`;
}
