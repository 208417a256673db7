// The live view: /metrics once a second, as plots.

import { ask } from "./api.js";
import { element } from "./markdown.js";
import { between, growth, histogram, largest, parse, quantile, sum } from "./metrics.js";
import { Plot } from "./plot.js";

const EVERY_MS = 1000;
/** Points of a plot. */
const POINTS = 300;
/** Looks back that rates and percentiles are over. */
const RATE = 4;
const WINDOW = 30;

const count = (n) => (n >= 1e4 ? `${(n / 1000).toFixed(0)}k` : n >= 100 || Number.isInteger(n) ? n.toFixed(0) : n.toPrecision(2));
const time = (s) => (s === 0 ? "0" : s >= 1 ? `${+s.toPrecision(3)} s` : s >= 1e-3 ? `${+(s * 1e3).toPrecision(3)} ms` : `${+(s * 1e6).toPrecision(3)} µs`);
const percent = (share) => `${+(share * 100).toPrecision(3)} %`;
const bytes = (n) => {
  const unit = Math.min(Math.floor(Math.log10(Math.max(n, 1)) / 3 + 1e-9), 4);
  return `${+(n / 1000 ** unit).toPrecision(3)} ${["B", "kB", "MB", "GB", "TB"][unit]}`;
};

/** Each plot's values come from the newest look, one {@link RATE} looks ago and one {@link WINDOW} looks ago. */
const PLOTS = [
  { title: "Tokens", unit: "a second", names: ["written", "read"], say: count,
    of: (now, rate) => [rate("generated"), rate("prefilled")] },
  { title: "Requests", unit: "now", names: ["running", "queued"], say: count, of: (now) => [now.running, now.waiting] },
  { title: "Time to first token", unit: "30 s window", names: ["median", "95 %"], say: time,
    of: (now, rate, window) => quantiles(window("firstToken")) },
  { title: "Between tokens", unit: "30 s window", names: ["median", "95 %"], say: time,
    of: (now, rate, window) => quantiles(window("interToken")) },
  { title: "KV cache", unit: "of the pool", names: ["in use"], say: percent, top: 1, of: (now) => [now.kv] },
  { title: "Memory", unit: "of this process", names: ["resident", "anonymous"], say: bytes, of: (now) => [now.resident, now.anonymous] },
  { title: "Step", unit: "30 s window", names: ["median", "95 %"], say: time,
    of: (now, rate, window) => quantiles(window("step")) },
  { title: "CPU", unit: "cores", names: ["busy", "throttled"], say: count, of: (now, rate) => [rate("cpu"), rate("throttled")] },
  { title: "Weights read", unit: "while steps run", names: ["a second"], say: bytes,
    of: (now, rate) => [rate("stepping") ? rate("weights") / rate("stepping") : null] },
];

const quantiles = (seen) => [quantile(seen, 0.5), quantile(seen, 0.95)];

/** What is kept of a look; older ones must not pile up whole. */
function digest(families, at) {
  const one = (name) => sum(families, name);
  return {
    at,
    generated: one("vllm:generation_tokens_total"), prefilled: one("gristmill_prefill_rows_total"),
    running: one("vllm:num_requests_running"), waiting: one("vllm:num_requests_waiting"), kv: largest(families, "vllm:kv_cache_usage_perc"),
    resident: one("process_resident_memory_bytes"), anonymous: one("gristmill_process_anonymous_memory_bytes"),
    cpu: one("process_cpu_seconds_total"), throttled: one("gristmill_cpu_throttled_seconds_total"),
    weights: one("gristmill_weight_read_bytes_total"), stepping: one("gristmill_step_seconds_sum"),
    firstToken: histogram(families, "vllm:time_to_first_token_seconds"),
    interToken: histogram(families, "vllm:inter_token_latency_seconds"),
    step: histogram(families, "gristmill_step_seconds"),
  };
}

const ratio = (part, whole) => (part === null || !whole ? null : percent(part / whole));

/** Totals since the start, as far as the server counts them. */
function tiles(families) {
  const one = (name) => sum(families, name);
  const whole = (name) => { const n = one(name); return n === null ? null : n.toLocaleString("en"); };
  const uptime = one("process_start_time_seconds");
  return {
    "Up for": uptime === null ? null : span(Date.now() / 1000 - uptime),
    "Answers": whole("vllm:request_success_total"),
    "Tokens written": whole("vllm:generation_tokens_total"),
    "Prompt tokens": whole("vllm:prompt_tokens_total"),
    "Turned away": whole("gristmill_requests_rejected_total"),
    "Preemptions": whole("vllm:num_preemptions_total"),
    "Prefix cache hits": ratio(one("vllm:prefix_cache_hits_total"), one("vllm:prefix_cache_queries_total")),
    "Guesses right": ratio(one("vllm:spec_decode_num_accepted_tokens_total"), one("vllm:spec_decode_num_draft_tokens_total")),
  };
}

function span(seconds) {
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const at = Math.max(parts.findIndex(([size]) => seconds >= size), 0);
  const [size, name] = seconds < 1 ? [1, "s"] : parts[at];
  const rest = parts[at + 1] && Math.floor((seconds % size) / parts[at + 1][0]);
  return `${Math.floor(seconds / size)} ${name}${rest ? ` ${rest} ${parts[at + 1][1]}` : ""}`;
}

const $ = (id) => document.getElementById(id);
const plots = PLOTS.map((plot) => new Plot(plot, POINTS));
let looks = [];
let paused = false;
let cursor = null;
let running = false;

/** Begins to look, once; from then on for as long as the page is seen. */
export function watch() {
  if (running) return draw();
  running = true;
  $("plots").replaceChildren(...plots.map((plot) => plot.node));
  for (const plot of plots) follow(plot);
  $("pause").addEventListener("click", (event) => {
    paused = !paused;
    event.currentTarget.setAttribute("aria-pressed", String(paused));
    event.currentTarget.textContent = paused ? "Go on" : "Pause";
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  new ResizeObserver(draw).observe($("plots"));
  look();
}

/** The pointer and the arrow keys move one cursor through all plots. */
function follow(plot) {
  const move = (to) => { cursor = to === null ? null : Math.min(Math.max(to, 0), POINTS - 1); draw(); };
  plot.canvas.addEventListener("pointermove", (event) => move(plot.back(event.offsetX)));
  plot.canvas.addEventListener("pointerleave", () => move(null));
  plot.canvas.addEventListener("blur", () => move(null));
  plot.canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: 1, ArrowRight: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    move((cursor ?? 0) + step * (event.shiftKey ? 10 : 1));
  });
}

async function look() {
  const began = performance.now();
  if (!paused && document.visibilityState === "visible") {
    try {
      const text = await (await ask("/metrics")).text();
      take(parse(text));
      note(`looked at ${new Date().toLocaleTimeString("en", { hour12: false })}`);
    } catch (error) {
      note(error.status === 401 ? "an API key is needed: see the settings" : error.message, true);
    }
  }
  setTimeout(look, Math.max(EVERY_MS - (performance.now() - began), 100));
}

function note(text, bad = false) {
  $("live-note").textContent = text;
  $("live-note").classList.toggle("bad", bad);
}

function take(families) {
  const now = digest(families, performance.now() / 1000);
  looks.push(now);
  if (looks.length > WINDOW + 1) looks.shift();
  const before = (n) => looks[Math.max(looks.length - 1 - n, 0)];
  const rate = (name) => {
    const then = before(RATE);
    if (then === now || now[name] === null || now[name] === undefined) return null;
    return growth(now[name], then[name]) / (now.at - then.at);
  };
  const window = (name) => between(now[name], before(WINDOW)[name]);
  PLOTS.forEach((plot, i) => plots[i].push(plot.of(now, rate, window)));
  const told = Object.entries(tiles(families)).filter(([, value]) => value !== null);
  $("tiles").replaceChildren(...told.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));
  draw();
}

function draw() {
  if ($("live").hidden) return;
  for (const plot of plots) plot.draw(cursor);
}
