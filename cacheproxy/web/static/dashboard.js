// The dashboard's page. Whatever comes from a client (its name, a model's) is set as text only.
"use strict";
(() => {
  const MOST_ROWS = 400;
  const LATEST = 80; // for the chart; the table begins with fewer
  const FIRST_ROWS = 30;
  const DEAR = 0.1; // share of the tokens, a request's or a bucket's: from here on a flag is due
  const AGAIN = 3000;
  const LENGTHS = { "15m": "15 minutes", "1h": "hour", "24h": "24 hours", "30d": "30 days" };
  const $ = (id) => document.getElementById(id);

  // -- words and numbers

  const whole = new Intl.NumberFormat("en");
  const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 });
  const known = (value) => value !== null && value !== undefined;
  const count = (value) => (known(value) ? whole.format(Math.round(value)) : "–");
  const compact = (value) => (known(value) ? short.format(value) : "–");
  const percent = (share) => {
    if (!known(share)) return "–";
    const value = 100 * share; // 99.96 % is not all of it
    return value > 99.9 && value < 100 ? "99.9 %" : `${value.toFixed(1).replace(/\.0$/, "")} %`;
  };
  const lasting = (seconds) => {
    if (!known(seconds)) return "–";
    if (!seconds) return "0 s";
    if (seconds < 0.0995) return `${(1000 * seconds).toFixed(seconds < 0.00995 ? 1 : 0)} ms`;
    if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
    if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
    return seconds < 172800 ? `${(seconds / 3600).toFixed(1)} h` : `${Math.round(seconds / 86400)} d`;
  };
  const rate = (value) => (value < 100 ? value.toFixed(1) : count(value));
  const speed = (value) => (known(value) ? `${rate(value)} tok/s` : "–");
  const two = (number) => String(number).padStart(2, "0");
  const clock = (at) => { const d = new Date(1000 * at); return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`; };
  const minute = (at) => clock(at).slice(0, 5);
  const month = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
  const day = (at) => month.format(new Date(1000 * at));
  const isToday = (at) => new Date(1000 * at).toDateString() === new Date().toDateString();
  const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;
  const shortly = (id) => (id && id.length > 12 ? id.slice(0, 8) + "…" : id || "");
  const agentOf = (row) => [row.client, shortly(row.session)].filter(Boolean).join("/") || "–";
  const shareOf = (row) => (known(row.prompt) && known(row.reused) && row.prompt ? row.reused / row.prompt : null);
  const speedOf = (row) => // an answer that came in one piece does not tell how fast it was made
    (row.speed_source === "estimated" && !(row.total_seconds - row.first_seconds > 0.2) ? null : row.speed);
  const isBreak = (row) => Boolean(row.reason) && !row.side;
  const isDear = (row) => isBreak(row) && (!known(row.lost) || row.lost >= DEAR * row.prompt);
  const phrase = (reason) => (data && data.reasons[reason]) || reason.replaceAll("_", " ");

  function el(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "text") made.textContent = value;
      else if (value !== null && value !== undefined) made.setAttribute(name, value);
    }
    made.append(...children.filter((child) => child !== null));
    return made;
  }
  const say = (id, text) => { const node = $(id); if (node.textContent !== text) node.textContent = text; };
  const show = (id, shown) => { $(id).hidden = !shown; };
  function cell(text, kind = "", label = "") {
    return el("td", { role: "cell", class: kind + (text === "–" ? " blank" : ""), "data-label": label || null, text });
  }
  function meter(share, label, kind = "") {
    const inner = el("span");
    inner.style.width = `${100 * Math.min(1, Math.max(0, share || 0))}%`;
    return el("span", { class: `meter ${kind}`, role: "img", "aria-label": label }, inner);
  }
  const code = (text) => el("code", { text });

  // -- what is shown

  let chosen = "1h";
  let stream = null;
  let again = 0;
  let latest = [];
  let data = null;
  let context = null;
  const table = { filter: "all", search: "", rows: [], next: null, asked: 0 };

  function connect() {
    clearTimeout(again);
    if (stream) stream.close();
    stream = new EventSource(`/_cacheproxy/live?window=${chosen}`);
    stream.addEventListener("data", (event) => { say("link", ""); show("link", false); showData(JSON.parse(event.data)); });
    stream.addEventListener("requests", (event) => { const said = JSON.parse(event.data); take(said.requests, said.all); });
    stream.addEventListener("trouble", (event) => { say("link", `no data: ${JSON.parse(event.data).why}`); show("link", true); });
    stream.addEventListener("error", trouble);
  }

  async function trouble() {
    say("link", "reconnecting …");
    show("link", true);
    if (stream.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
    let status = 0;
    try { status = (await fetch(`/_cacheproxy/data?window=${chosen}`)).status; } catch { /* not there */ }
    if (status === 401) askForToken();
    else again = setTimeout(connect, AGAIN);
  }

  function take(rows, all) {
    const had = new Set(all ? [] : latest.map((row) => row.id));
    const fresh = rows.filter((row) => !had.has(row.id));
    latest = [...fresh, ...(all ? [] : latest)].sort((a, b) => b.id - a.id).slice(0, LATEST);
    const plain = table.filter === "all" && !table.search;
    if (all && plain && table.rows.length <= FIRST_ROWS) {
      table.rows = latest.slice(0, FIRST_ROWS);
      table.next = latest.length > FIRST_ROWS ? table.rows[FIRST_ROWS - 1].id : null;
      drawRows();
    } else if (all && !plain) {
      ask();
    } else {
      const shown = new Set(table.rows.map((row) => row.id));
      add(rows.filter((row) => !shown.has(row.id) && matches(row)));
    }
    if (data) { drawPrompts(); drawSparks(); }
  }

  function matches(row) {
    if (table.filter === "breaks" && !isBreak(row)) return false;
    if (table.filter === "slow" && !(row.first_seconds >= 10)) return false;
    if (table.filter === "errors" && !row.failed) return false;
    const text = [row.client, row.session, row.asked, row.model].filter(Boolean).join("\n").toLowerCase();
    return text.includes(table.search.toLowerCase());
  }

  function showData(said) {
    data = said;
    $("main").removeAttribute("aria-busy");
    show("login", false);
    const total = said.lifetime.all.exchanges + said.lifetime.waiting.exchanges;
    const nothing = total === 0 && !said.overview.sums.requests && !said.prefills.length;
    show("empty", nothing);
    for (const panel of document.querySelectorAll("main > .panel:not(#login):not(#empty)")) panel.hidden = nothing;
    showUpstream(said.upstream, said.upstreams);
    showUpstreams(said.upstreams, said.routed, nothing);
    showVerdict(said);
    showSpeed(said);
    showSessions(said);
    showSlots(said.upstream);
    showPrefills(said.prefills);
    showBreaks(said.breaks);
    showLifetime(said);
    drawPrompts();
    const rules = said.rules.length ? `rules: ${said.rules.join(", ")}` : "no rules are on";
    say("about", `cacheproxy ${said.version} · ${rules}`);
  }

  function showUpstreams(upstreams, routed, nothing) {
    show("upstreams", upstreams.length > 0 && !nothing);
    $("upstreams-rows").replaceChildren(...upstreams.flatMap((each) => {
      const did = routed.filter((one) => one.upstream === each.url);
      return (did.length ? did : [null]).map((one) => el("tr", { role: "row" },
        el("td", { role: "cell", class: "name", text: each.name, title: each.url }),
        cell(one ? one.route || "–" : "–"), cell(each.state === "up" ? "up" : "does not answer"),
        cell(one ? count(one.requests) : "0", "n"), cell(one ? compact(one.prompt) : "–", "n"),
        cell(one && one.prompt ? percent(one.reused / one.prompt) : "–", "n"), cell(one && one.price ? one.price.toFixed(2) : "–", "n")));
    }));
  }

  function showUpstream(upstream, others) {
    const server = upstream.server;
    const states = { up: "up", down: "does not answer", loading: "loading its model", unknown: "not looked at" };
    $("upstream-dot").className = `dot ${upstream.state}`;
    say("upstream-name", `${server ? server.summary : upstream.url} · ${states[upstream.state]}`);
    say("upstream-says", Object.values(upstream.says || {}).join(" · "));
    const bad = (upstream.state === "down" || upstream.state === "loading") && !others.some((each) => each.state === "up");
    if (bad) {
      const down = upstream.state === "down";
      say("banner-title", down ? "The model server does not answer" : "The model server is loading its model");
      say("banner-text", down
        ? `Nothing answers at ${upstream.url}. Requests get an error until it does; this page sees by itself when it is back.`
        : `${upstream.url} is there, and answers when its model is loaded.`);
      $("banner-command").replaceChildren(...(down ? ["Start it, for example: ", code("llama-server -m MODEL.gguf --port " + portOf(upstream.url)), " or name another with ", code("--upstream URL"), "."] : []));
    }
    show("banner", bad);
  }

  function portOf(url) {
    try { return new URL(url).port || "80"; } catch { return "8080"; }
  }

  function showVerdict(said) {
    const { headline } = said;
    const measured = known(headline.share);
    say("share", percent(headline.share));
    if ($("standing").textContent !== headline.title) say("announce", `${headline.title}. ${headline.text}`);
    const tones = { working: "up", hitches: "loading", breaking: "down" };
    $("standing-dot").className = `dot ${tones[headline.standing] || ""}`;
    say("standing", headline.title);
    say("standing-text", headline.text);
    const bar = $("share-bar");
    bar.className = measured ? "bar" : "bar none";
    bar.firstElementChild.style.width = measured ? `${100 * headline.share}%` : "0";
    bar.setAttribute("aria-label", measured ? `${percent(headline.share)} reused` : "no data");
    say("reused", measured ? count(headline.reused) : "–");
    say("evaluated", measured ? count(headline.evaluated) : "–");
    const { points, seconds, source, unpriced } = headline.due;
    const about = said.rules.length || headline.due.tokens;
    say("points", !measured ? "–" : about ? `≈ ${(100 * points).toFixed(1)} points` : "no rules are on");
    say("spared", !measured || !about ? "–" : known(seconds) ? `≈ ${lasting(seconds)}` : "speed unknown");
    const without = unpriced && known(seconds) ? ` Not in it: ${count(unpriced)} tokens whose speed nobody knew.` : "";
    say("source", measured ? `Reused and evaluated: as the server says. ≈ ${source}.${without}` : "");
    document.title = measured ? `${percent(headline.share)} reused · cacheproxy` : "cacheproxy";
  }

  function showSpeed({ overview, upstream, speeds }) {
    const { sums } = overview;
    say("first", known(sums.first_median) ? `${lasting(sums.first_median)}` : "–");
    say("first-worst", known(sums.first_worst) ? `median · ${lasting(sums.first_worst)} worst` : "");
    say("prefill", speed(speeds.prefill));
    say("generation", speed(speeds.generation));
    say("added", known(sums.added) ? `${lasting(sums.added)} a request` : "–");
    const { running, waiting } = upstream;
    say("queue", known(running) ? `${count(running)} running · ${count(waiting || 0)} waiting` : "–");
    drawSparks();
  }

  function showSessions({ sessions, upstream }) {
    context = (upstream.slots[0] && upstream.slots[0].context) || (upstream.server && upstream.server.context) || context; // while it is down, as it was
    const shown = sessions.slice(0, 8);
    $("sessions").replaceChildren(...shown.map((each) => {
      const share = context && each.context ? each.context / context : null;
      const used = el("td", { role: "cell", class: "metered" });
      if (share === null) used.textContent = each.context ? `${compact(each.context)} tokens` : "–";
      else used.append(meter(share, `${count(each.context)} of ${count(context)} tokens`), el("b", { text: share < 0.01 ? "< 1 %" : `${Math.round(100 * share)} %`, "aria-hidden": "true" }));
      return el("tr", { role: "row" },
        cell(each.client, "name"), el("td", { role: "cell", class: "id", text: shortly(each.session), title: each.session }),
        cell(count(each.turns), "n"), used, cell(each.prompt ? percent(each.reused / each.prompt) : "–", "n"));
    }));
    const more = sessions.length - shown.length;
    say("sessions-more", !sessions.length ? "None in this window." : more > 0 ? `and ${sessions.length >= 50 ? "at least " : ""}${plural(more, "other")}` : "");
  }

  function showSlots(upstream) {
    $("slots").replaceChildren(...upstream.slots.slice(0, 12).map((slot) => el("li", {},
      el("span", { text: `slot ${slot.id}` }),
      el("i", { text: slot.busy ? "busy" : slot.used ? "idle, cached" : "idle" }),
      meter(slot.context ? slot.used / slot.context : 0, `${count(slot.used)} of ${count(slot.context)} tokens`),
      el("i", { text: `${count(slot.used)} / ${count(slot.context)}`, "aria-hidden": "true" }))));
    const source = upstream.kv_source === "metrics" ? "the server's own metric" : "/slots";
    const more = upstream.slots.length > 12 ? `and ${upstream.slots.length - 12} more slots · ` : "";
    say("slots-source", known(upstream.kv) ? `${more}KV cache in use: ${percent(upstream.kv)} · source: ${source}`
      : upstream.state === "unknown" ? "Nobody looks at the server: set --poll."
      : upstream.state === "down" ? "Unknown while the server is down." : "This server does not say how much of its cache is in use.");
  }

  function showPrefills(prefills) {
    show("prefills", prefills.length > 0);
    $("prefills").replaceChildren(...prefills.slice(0, 12).map((each) => {
      const said = `prefill ${count(each.done)} of ${count(each.total)} tokens`;
      return el("li", {}, el("span", { text: `${each.session} #${each.turn}` }),
        meter(each.done / each.total, `${said}, ${percent(each.done / each.total)}`),
        el("i", { text: `${said} · ${lasting(each.seconds)}`, "aria-hidden": "true" }));
    }));
  }

  function showBreaks(breaks) {
    show("breaks-table", breaks.length > 0);
    show("breaks-none", breaks.length === 0);
    $("breaks").replaceChildren(...breaks.slice(0, 12).map((each) => {
      const what = el("td", { role: "cell", class: "name" }, each.shape || "–", " ", each.place ? el("small", { text: each.place }) : "");
      const lost = cell(count(each.lost), "n", "tokens lost");
      if (each.seconds) lost.append(" ", el("small", { text: `≈ ${lasting(each.seconds)}` }));
      const share = each.share > 0 && each.share < 0.001 ? "< 0.1 %" : percent(each.share);
      return el("tr", { role: "row" },
        el("td", { role: "cell" }, phrase(each.reason)), what, cell(count(each.count), "n", "count"), lost, cell(share, "n", "of all"),
        el("td", { role: "cell", class: "do" }, ...advice(each)));
    }));
  }

  function advice(each) {
    if (each.reason === "model_changed") return ["nothing: another model has another cache"];
    if (!known(each.number)) return ["", code("cacheproxy inspect CAPTURE")];
    const button = el("button", { type: "button", class: "plain", text: `Diagnose request ${each.number}` });
    button.addEventListener("click", () => open({ number: each.number, client: each.client, session: each.session }));
    return [button, " ", code(command(each.number, each.reason, each.shape))];
  }

  // The same as in the log: with --propose where a rule may be found for what changed.
  function command(number, reason, shape) {
    const may = data && reason.endsWith("_changed") && data.shapes.includes(shape);
    const where = location.origin === "http://127.0.0.1:8081" ? "" : ` --proxy ${location.origin}`;
    return `cacheproxy diagnose ${number}${may ? " --propose" : ""}${where}`;
  }

  function showLifetime({ lifetime, kept }) {
    const { figures, spared, exchanges } = lifetime.all;
    const waiting = lifetime.waiting;
    const sum = (name) => (figures[name].value || 0) + (waiting[name] || 0);
    const parts = [[compact(sum("prompt")), "prompt tokens"], [compact(sum("reused")), "reused"],
      [compact(sum("generated")), "generated"], [count(exchanges + waiting.exchanges), exchanges + waiting.exchanges === 1 ? "request" : "requests"]];
    const saved = (spared.seconds || 0) + (waiting.spared.seconds || 0);
    if (saved > 0) parts.push([`≈ ${lasting(saved)}`, "of prefill saved"]);
    $("lifetime").replaceChildren(...parts.map(([value, name]) => el("div", {}, el("dt", { text: name }), el("dd", { text: value }))));
    const since = known(lifetime.since) ? new Intl.DateTimeFormat("en-GB", { dateStyle: "long" }).format(new Date(1000 * lifetime.since)) : null;
    const source = figures.prompt.source ? ` Prompt tokens: from ${figures.prompt.source}.` : " From responses.";
    say("lifetime-source", kept ? `${since ? `Since ${since}, over all restarts.` : "Kept over all restarts."}${source}`
      : "Since this proxy started, its last 500 requests: no totals are kept on disk (--state-dir).");
  }

  // -- charts

  const charts = new Map();
  let picked = null;
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function draw(id, key, options, values) {
    const holder = $(id);
    const width = Math.floor(holder.clientWidth);
    const height = Math.floor(holder.clientHeight);
    if (!width || !height || typeof uPlot === "undefined") return null;
    let chart = charts.get(id);
    if (!chart || chart.key !== key) {
      if (chart) chart.plot.destroy();
      const plot = new uPlot({ width, height, legend: { show: false }, ...options }, values, holder);
      charts.set(id, { plot, key });
      return plot;
    }
    chart = chart.plot;
    if (chart.width !== width || chart.height !== height) chart.setSize({ width, height });
    chart.setData(values);
    return chart;
  }

  const chartHasFocus = () => document.activeElement === $("prompts");
  let shownRows = [];
  let shownBuckets = [];

  function drawPrompts() {
    if (!data) return;
    const averaged = data.overview.window === "24h" || data.overview.window === "30d";
    if (averaged) drawAverages(); else drawRequests();
  }

  function drawRequests() {
    const since = data.overview.start;
    shownRows = latest.filter((row) => known(row.prompt) && row.at >= since).reverse();
    const count_ = shownRows.length;
    const all = data.overview.sums.requests;
    say("prompts-h", all > LATEST ? `Prompt tokens per request, the last ${count_}` : "Prompt tokens per request");
    const x = shownRows.map((_, index) => index);
    const total = shownRows.map((row) => row.prompt);
    const reused = shownRows.map((row) => row.reused || 0);
    const broken = shownRows.filter(isBreak).length;
    const known_ = shownRows.filter((row) => known(row.reused));
    const sum = (rows, name) => rows.reduce((so, row) => so + row[name], 0);
    say("prompts-text", count_ ? `${plural(count_, "request")}, the largest of ${count(Math.max(...total))} tokens; ${percent(sum(known_, "prompt") ? sum(known_, "reused") / sum(known_, "prompt") : null)} reused; ${plural(broken, "break")}. The table of requests has each.` : "No requests in this window.");
    const labels = (plot, splits) => {
      let last = "";
      return splits.map((index) => {
        const label = Number.isInteger(index) && shownRows[index] ? minute(shownRows[index].at) : "";
        const said = label === last ? "" : label;
        last = label || last;
        return said;
      });
    };
    bars("requests", [x, total, reused], { time: false, range: (plot) => [-0.7, Math.max(shownRows.length, 12) - 0.3] }, labels, 56,
      (index) => shownRows[index] && isDear(shownRows[index]));
    read(picked);
  }

  function drawAverages() {
    const { start, end, bucket, series } = data.overview;
    const found = new Map(series.map((each) => [each.at, each]));
    shownBuckets = [];
    for (let at = start; at < end; at += bucket) shownBuckets.push(found.get(at) || { at, requests: 0, prompt: 0, reused: 0, breaks: 0 });
    say("prompts-h", `Prompt tokens per request, mean of ${bucket >= 3600 ? plural(bucket / 3600, "hour") : plural(bucket / 60, "minute")}`);
    const mean = (name) => shownBuckets.map((each) => (each.requests ? each[name] / each.requests : null));
    say("prompts-text", `${plural(data.overview.sums.requests, "request")} and ${plural(data.overview.sums.breaks, "break")} in the last ${LENGTHS[data.overview.window]}; mean prompt ${count(data.overview.sums.prompt / Math.max(1, data.overview.sums.requests))} tokens.`);
    const days = data.overview.window === "30d";
    const labels = (plot, splits) => splits.map((at) => (days ? day(at) : minute(at)));
    bars(`buckets-${data.overview.window}`, [shownBuckets.map((each) => each.at + bucket / 2), mean("prompt"), mean("reused")],
      { time: true, range: () => [data.overview.start, data.overview.end] }, labels, days ? 64 : 56, (index) => shownBuckets[index] && shownBuckets[index].lost >= DEAR * shownBuckets[index].prompt && shownBuckets[index].breaks > 0);
    read(picked);
  }

  function bars(key, values, x, labels, space, flagged) {
    const paths = uPlot.paths.bars({ size: [0.78, 28], radius: 0.12 });
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif", gap: 6 };
    // uPlot keeps these functions: they are made once per kind of chart, and look at what is current
    draw("prompts", key, {
      padding: [14, 8, 0, 0],
      cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
      scales: { x, y: { range: (plot, low, high) => [0, Math.max(100, (high || 0) * 1.08)] } },
      axes: [
        { ...axis, grid: { show: false }, values: labels, space, size: 28, incrs: x.time ? undefined : [1, 2, 3, 5, 10, 15, 20] },
        { ...axis, values: (plot, splits) => splits.map((value) => compact(value)), size: 52, space: 42 },
      ],
      series: [{}, { fill: colour("--new"), width: 0, paths, points: { show: false } }, { fill: colour("--reused"), width: 0, paths, points: { show: false } }],
      hooks: {
        draw: [(plot) => {
          const at = plot.ctx;
          at.save();
          at.fillStyle = colour("--break");
          at.font = `${13 * devicePixelRatio}px system-ui, sans-serif`;
          at.textAlign = "center";
          plot.data[0].forEach((value, index) => {
            if (flagged(index)) at.fillText("⚑", plot.valToPos(value, "x", true), plot.valToPos(plot.data[1][index] || 0, "y", true) - 3 * devicePixelRatio);
          });
          at.restore();
        }],
        setCursor: [(plot) => { if (known(plot.cursor.idx) || !chartHasFocus()) { picked = plot.cursor.idx; read(picked); } }],
      },
    }, values);
  }

  function read(index) {
    const requests = data.overview.window === "15m" || data.overview.window === "1h";
    const each = known(index) ? (requests ? shownRows : shownBuckets)[index] : null;
    if (!each) { say("prompts-read", ""); return; }
    if (requests) {
      const share = shareOf(each);
      say("prompts-read", `${clock(each.at)}  ${agentOf(each)}  turn ${each.turn}: ${count(each.prompt)} tokens, ${known(share) ? `${percent(share)} reused` : "reuse unknown"}${isBreak(each) ? ` · break: ${phrase(each.reason).toLowerCase()}` : ""}`);
    } else {
      say("prompts-read", `${day(each.at)} ${minute(each.at)}: ${plural(each.requests, "request")}${each.requests ? `, ${percent(each.prompt ? each.reused / each.prompt : null)} reused, ${plural(each.breaks, "break")}` : ""}`);
    }
  }

  $("prompts").addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const chart = charts.get("prompts");
    if (!chart || !data) return;
    const requests = chart.key === "requests";
    const size = chart.plot.data[0].length;
    if (event.key === "Enter" && requests && known(picked) && shownRows[picked]) {
      event.preventDefault(); // else the key would close what it opens
      open(shownRows[picked]);
      return;
    }
    if (!step || !size) return;
    event.preventDefault();
    picked = known(picked) ? Math.min(size - 1, Math.max(0, picked + step)) : step < 0 ? size - 1 : 0;
    chart.plot.setCursor({ left: chart.plot.valToPos(chart.plot.data[0][picked], "x"), top: 0 });
    read(picked);
  });

  function drawSpark(id, name, field, ofRow) {
    const { window, start, end, bucket, server } = data.overview;
    const points_ = (list) => list.filter((each) => known(each[field])).length;
    const counted = points_(server) > 0 && points_(server) >= points_(data.overview.series); // its own counters
    const averaged = counted || window === "24h" || window === "30d";
    const series = counted ? server : data.overview.series;
    const found = averaged ? series.map((each) => [each.at + bucket / 2, each[field]])
      : latest.filter((row) => row.at >= start).reverse().map((row) => ofRow(row)).filter(known).map((value, index) => [index, value]);
    const points = found.filter(([, value]) => known(value));
    const numbers = points.map(([, value]) => value);
    $(id).setAttribute("aria-label", numbers.length ? `${name}: from ${speed(Math.min(...numbers))} to ${speed(Math.max(...numbers))}, last ${speed(numbers[numbers.length - 1])}` : `${name}: no data`);
    const line = colour("--reused");
    draw(id, averaged ? window + counted : "requests", {
      padding: [3, 1, 1, 1],
      cursor: { show: false },
      scales: { x: { time: false, range: (plot) => (averaged ? [data.overview.start, data.overview.end] : [-0.6, Math.max(plot.data[0].length, 24) - 0.4]) }, y: { range: (plot, low, high) => [0, high || 1] } },
      axes: [{ show: false }, { show: false }],
      series: [{}, { fill: line, width: 0, paths: uPlot.paths.bars({ size: [0.7, 14], radius: 0.15 }), points: { show: false } }],
    }, [points.map(([at]) => at), numbers]);
  }

  function drawSparks() {
    drawSpark("prefill-chart", "Prefill speed", "prefill_speed", (row) => row.prefill_speed);
    drawSpark("generation-chart", "Generation speed", "generation_speed", speedOf);
  }

  function redraw() {
    for (const { plot } of charts.values()) plot.destroy();
    charts.clear();
    if (data) { drawPrompts(); drawSparks(); }
  }
  let resizing = 0;
  addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(() => { if (data) { drawPrompts(); drawSparks(); } }, 80); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

  // -- the table of requests

  function rowOf(row) {
    const share = shareOf(row);
    const broken = isBreak(row);
    const button = el("button", { type: "button", class: "plain", text: isToday(row.at) ? clock(row.at) : `${day(row.at)} ${minute(row.at)}`, "aria-label": `Details of the request at ${clock(row.at)}` });
    const reuse = el("td", { role: "cell", class: "metered share" });
    if (share === null) { reuse.textContent = "–"; reuse.classList.add("blank"); }
    else reuse.append(meter(share, percent(share), "split"), el("b", { text: percent(share), "aria-hidden": "true" }));
    const what = el("td", { role: "cell", class: "what" });
    if (broken) what.append(el("span", { class: isDear(row) ? "flag" : "", text: `⚑ ${row.reason.replaceAll("_", " ")}` }), " ");
    if (row.failed) what.append(el("span", { class: "flag", text: known(row.status) ? `status ${row.status}` : row.outcome }), " ");
    else if (row.outcome !== "complete") what.append(el("small", { text: row.outcome }));
    if (row.side) what.append(el("small", { text: "side request" }));
    for (const rule of row.rules) what.append(el("small", { text: rule }));
    const made = el("tr", { role: "row", class: isDear(row) ? "broke" : null },
      el("td", { role: "cell" }, button),
      el("td", { role: "cell", class: "name", title: [row.asked, row.model].filter(Boolean).join(" → ") || null }, row.client || "–", el("span", { class: "id", text: row.session ? `/${shortly(row.session)}` : "" })),
      cell(row.turn ? count(row.turn) : "–", "n", "turn"), cell(count(row.prompt), "n", "prompt"), reuse,
      cell(count(row.evaluated), "n", "new"), cell(lasting(row.first_seconds), "n", "first"), cell(count(row.output), "n", "out"),
      cell(known(speedOf(row)) ? (row.speed_source === "estimated" ? "≈ " : "") + rate(row.speed) : "–", "n", "tok/s"), what);
    made.addEventListener("click", () => { if (!String(getSelection())) open(row); });
    return made;
  }

  function drawRows() {
    $("rows").replaceChildren(...table.rows.map(rowOf));
    rowsShown();
  }

  function add(rows) {
    if (rows.length) {
      table.rows = [...rows, ...table.rows].slice(0, MOST_ROWS);
      $("rows").prepend(...rows.map(rowOf));
      while ($("rows").children.length > MOST_ROWS) $("rows").lastElementChild.remove();
    }
    rowsShown();
  }

  function rowsShown() {
    show("older", table.next !== null && table.rows.length < MOST_ROWS);
    show("rows-none", table.rows.length === 0);
    const filtered = table.filter !== "all" || table.search;
    say("rows-none", filtered ? "No request is like that." : "None yet.");
  }

  async function ask(before = null) {
    const number = ++table.asked;
    const query = new URLSearchParams({ filter: table.filter, search: table.search });
    if (before !== null) query.set("before", before);
    try {
      const page = await (await fetch(`/_cacheproxy/requests?${query}`)).json();
      if (number !== table.asked || !page.requests) return;
      table.next = page.next;
      if (before === null) { table.rows = page.requests; drawRows(); return; }
      table.rows.push(...page.requests);
      $("rows").append(...page.requests.map(rowOf));
      rowsShown();
    } catch { /* the stream tells that the proxy is away */ }
  }

  $("filters").addEventListener("change", (event) => { table.filter = event.target.value; ask(); });
  let typing = 0;
  $("search").addEventListener("input", (event) => {
    clearTimeout(typing);
    typing = setTimeout(() => { table.search = event.target.value.trim(); ask(); }, 150);
  });
  $("older").addEventListener("click", () => ask(table.next));

  // -- one request

  async function open(row) {
    const dialog = $("detail");
    say("detail-h", `${known(row.number) ? `Request ${row.number}` : "Request"} · ${agentOf(row)}`);
    $("detail-body").replaceChildren(...facts(row, null));
    if (!dialog.open) dialog.showModal();
    if (!known(row.number)) return;
    try {
      const answer = await fetch(`/_cacheproxy/detail/${row.number}`);
      if (answer.ok) $("detail-body").replaceChildren(...facts(row, await answer.json()));
    } catch { /* what the row says is there */ }
  }

  function facts(row, more) {
    const listed = el("dl");
    const add = (name, ...said) => { if (said.some((each) => each !== null && each !== "" && each !== "–")) listed.append(el("dt", { text: name }), el("dd", {}, ...said.filter((each) => each !== null))); };
    const tokens = (value) => (value ? `${value.source === "estimated" ? "≈ " : ""}${count(value.tokens)} tokens` : null);
    const reason = (more && more.reason) || row.reason;
    const prompt = known(row.prompt) ? row.prompt : more && more.prompt ? more.prompt.tokens : null;
    const reused = known(row.reused) ? row.reused : more ? more.reused : null;
    const evaluated = known(row.evaluated) ? row.evaluated : more ? more.evaluated : null;
    const share = prompt && known(reused) ? reused / prompt : null;
    const top = el("p", { text: summary(row, more, share) });
    const bar = el("div", { class: "bar", role: "img", "aria-label": `${percent(share)} reused` }, el("span", { class: "reused" }));
    bar.firstElementChild.style.width = `${100 * (share || 0)}%`;
    if (known(row.at)) add("time", `${day(row.at)}, ${clock(row.at)}`);
    add("session", row.session || (more && more.session) || "");
    add("asked for", [row.asked, row.model].filter(Boolean).join(" → "), more && more.path_asked ? ` ${more.method} ${more.path_asked}` : "");
    add("prompt", known(prompt) ? `${count(prompt)} tokens` : "", known(reused) ? `: ${count(reused)} reused, ${count(evaluated)} new` : "");
    if (reason) add("reason", phrase(reason));
    if (more && more.path) add("where", code(more.path), known(more.byte) ? ` byte ${count(more.byte)}` : "");
    if (more && more.kind) add("what changed", [more.kind, more.frequency].filter(Boolean).join(", "));
    if (more && more.equal) add("equal until", tokens(more.equal));
    if (more && more.lost) add("cost", tokens(more.lost), known(more.seconds_lost) ? `, ${lasting(more.seconds_lost)}` : "");
    if (more && more.saved && more.saved.tokens) add("due to the rules", `≈ ${count(more.saved.tokens)} tokens reused`);
    if (known(row.first_seconds)) add("first token", lasting(row.first_seconds), known(row.total_seconds) ? `, all of it ${lasting(row.total_seconds)}` : "");
    if (known(row.output)) add("answer", `${plural(row.output, "token")}${known(speedOf(row)) ? `, ${speed(row.speed)}${row.speed_source === "estimated" ? " (estimated)" : ""}` : ""}`);
    if (known(row.added)) add("added here", lasting(row.added));
    add("ended", row.failed || row.outcome !== "complete" ? `${row.outcome || ""}${known(row.status) ? `, status ${row.status}` : ""}` : "", more && more.error ? ` ${more.error}` : "");
    if (more && more.edits) for (const edit of more.edits) add(edit.rule, `${plural(edit.count, "edit")}: ${edit.why}`);
    const found = [top, ...(share === null ? [] : [bar]), listed];
    if (more && more.advice && more.advice.length) {
      const list = el("dl");
      for (const each of more.advice) list.append(el("dt", { text: each.do }), el("dd", { text: each.why }));
      found.push(el("h2", { text: "What to do" }), list);
    }
    if (more && reason) found.push(el("p", { class: "note" }, "The words that changed are shown in the terminal only: ", code(command(more.number, reason, more.kind))));
    if (!more && !known(row.number)) found.push(el("p", { class: "note", text: "From before this proxy started: its comparison with the turn before is no longer known." }));
    return found;
  }

  function summary(row, more, share) {
    const judged = row.verdict || (more && more.judgement);
    if (row.failed) return "It failed.";
    if (row.side) return "A request beside the conversation, such as a title or a subagent's.";
    if (judged === "BREAK") return "Cache lost: the server recomputed tokens it had already processed.";
    if (judged === "compacted") return "The client summarised the conversation and began it anew: no break.";
    if (judged === "cold") return "The first turn of its conversation: there was nothing to reuse yet.";
    if (judged === "ok") return "It reused the turn before.";
    return share === null ? "The server does not say what it reused." : `${percent(share)} of its prompt was reused.`;
  }

  $("detail").addEventListener("click", (event) => { if (event.target === $("detail")) $("detail").close(); });

  // -- getting in

  function askForToken() {
    if (stream) stream.close();
    $("main").removeAttribute("aria-busy");
    for (const panel of document.querySelectorAll("main > section")) panel.hidden = panel.id !== "login";
    show("link", false);
    show("upstream", false);
    $("token").focus();
  }

  async function login(token) {
    const answer = await fetch("/_cacheproxy/login", { method: "POST", headers: { "X-Cacheproxy-Token": token } });
    return answer.ok || answer.status === 404; // 404: it asks for none
  }

  $("login-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    let good = false;
    try { good = await login($("token").value); } catch { /* a token is visible ASCII */ }
    say("login-error", good ? "" : "That is not the token this proxy was started with.");
    if (good) { $("token").value = ""; location.reload(); }
  });

  function clients() {
    const base = location.origin;
    const lines = [["Claude Code", 'eval "$(cacheproxy env claude)" && claude'], ["OpenClaw", "cacheproxy env openclaw"], ["Others", `base URL ${base}/v1`]];
    $("clients").replaceChildren(...lines.flatMap(([name, line]) => [el("dt", { text: name }), el("dd", {}, code(line))]));
  }

  function choose(window) {
    chosen = window;
    picked = null;
    try { localStorage.setItem("cacheproxy-window", window); } catch { /* a private window */ }
    connect();
  }

  async function begin() {
    clients();
    try { chosen = localStorage.getItem("cacheproxy-window") || chosen; } catch { /* a private window */ }
    if (!(chosen in LENGTHS)) chosen = "1h";
    document.querySelector(`#windows input[value="${chosen}"]`).checked = true;
    $("windows").addEventListener("change", (event) => choose(event.target.value));
    const given = /^#token=(.*)$/.exec(location.hash);
    if (given) {
      history.replaceState(null, "", location.pathname + location.search);
      try { await login(decodeURIComponent(given[1])); } catch { /* then it is asked for */ }
    }
    connect();
    document.addEventListener("visibilitychange", () => { // who does not look costs nothing
      if (document.hidden) { clearTimeout(again); stream.close(); } else if ($("login").hidden) connect();
    });
  }
  begin();
})();
