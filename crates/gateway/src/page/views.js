// The views: what the admin API tells, as tables and bars.

import { get, post } from "./api.js";
import { count, duration, element, money, nothing, seconds, table, tag } from "./build.js";
import * as traffic from "./traffic.js";

const $ = (id) => document.getElementById(id);
/** Groups of a plot that have a colour of their own; further ones share the last. */
const COLOURS = 6;

function state(upstream) {
  const words = { ok: "ok", probe: "one request tries it", failing: "failing", throttled: "refuses (429)" };
  const left = Math.max(...upstream.targets.map((target) => target.changes_in_s ?? 0));
  const word = upstream.drained ? "drained" : words[upstream.state] ?? upstream.state;
  return [element("span", { class: `state ${upstream.drained ? "" : upstream.state}` }, word), left ? element("small", {}, `again in ${seconds(left)}`) : ""];
}

function drain(upstream, again) {
  const verb = upstream.drained ? "undrain" : "drain";
  const button = element("button", { type: "button", class: "quiet", onclick: async () => {
    button.disabled = true;
    await post(`/gateway/upstreams/${encodeURIComponent(upstream.name)}/${verb}`).catch(() => {});
    again();
  } }, upstream.drained ? "Take back" : "Drain");
  button.setAttribute("aria-label", `${button.textContent}: ${upstream.name}`);
  return button;
}

/** Upstreams, models and nodes, and tiles with the rates. */
export async function status(rates, again) {
  const told = await get("/gateway/status");
  const flying = told.upstreams.reduce((total, upstream) => total + upstream.in_flight, 0);
  const tile = ([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value));
  $("tiles").replaceChildren(...[
    ["requests a second", rates.requests === null ? "–" : rates.requests.toFixed(1)],
    ["first content, 95 %", seconds(rates.late)],
    ["under way", count(flying)],
    ["waiting", count(told.waiting ?? rates.waiting)],
    ["spent since the start", money(rates.cost, told.currency)],
    ["retries left", count(told.retries_left)],
  ].map(tile));
  $("upstreams").replaceChildren(table([
    ["Upstream", (u) => [element("b", {}, u.name), element("small", {}, `${u.tls ? "https" : "http"}, ${u.address}`)]],
    ["Tier", (u) => tag(u.tier, u.tier)],
    ["Gets up to", (u) => u.clearance],
    ["State", state],
    ["Under way", (u) => count(u.in_flight), true],
    ["Believed there", (u) => u.requests.toFixed(1), true],
    ["Off by", (u) => (u.prediction_error ? `${Math.round((Math.exp(u.prediction_error) - 1) * 100)} %` : "–"), true],
    ["", (u) => drain(u, again), true],
  ], told.upstreams));
  $("models").replaceChildren(table([
    ["Model", (m) => [element("b", {}, m.name), m.aliases.length ? element("small", {}, `also ${m.aliases.join(", ")}`) : ""]],
    ["Upstreams", (m) => m.upstreams.join(", ") || "none yet"],
    ["When these cannot", (m) => m.fallbacks.join(", then ") || "an error"],
  ], told.models));
  $("nodes-part").hidden = !told.nodes.length;
  $("nodes").replaceChildren(table([
    ["Node", (n) => [element("b", {}, n.upstream), element("small", {}, `${n.record.version}, ${n.record.tier}, up ${duration(n.record.uptime_s)}`)]],
    ["State", (n) => n.record.state],
    ["Running", (n) => count(n.record.load.running), true],
    ["Waiting", (n) => count(n.record.load.waiting), true],
    ["Backlog", (n) => `${count(n.record.load.backlog_tokens)} tokens`, true],
    ["Told", (n) => `${seconds(n.age_s)} ago`, true],
  ], told.nodes));
  return `${told.draining ? "stopping · " : ""}${told.version} · up ${duration(told.uptime_s)} · configuration ${duration(told.configuration_age_s)} old`;
}

/** Money by day and group. */
export async function cost() {
  const by = $("by").value;
  const days = Number($("days").value);
  const first = new Date(Date.now() - (days - 1) * 864e5).toISOString().slice(0, 10);
  const told = await get(`/gateway/report?from=${first}&by=day,${by}`);
  const names = [...new Set(told.rows.map((row) => row[by] || "none"))];
  const sums = names.map((name) => {
    const rows = told.rows.filter((row) => (row[by] || "none") === name);
    const add = (field) => rows.reduce((total, row) => total + Number(row[field]), 0);
    return { name, rows, requests: add("requests"), input: add("input_tokens"), output: add("output_tokens"),
      own: add("own_ms"), invoice: add("invoice"), possibly: add("possibly"), saved: add("saved") };
  }).sort((a, b) => b.invoice - a.invoice || b.requests - a.requests);
  if (!sums.length) {
    $("days-plot").replaceChildren();
    $("report").replaceChildren(nothing("No receipts in these days."));
    return;
  }
  const dates = Array.from({ length: days }, (_, at) => new Date(Date.now() - (days - 1 - at) * 864e5).toISOString().slice(0, 10));
  const priced = sums.some((group) => group.invoice > 0);
  const value = (row) => (priced ? Number(row.invoice) : row.requests);
  const daily = (groups) => dates.map((date) => groups.flatMap((g) => g.rows).filter((row) => row.day === date).reduce((total, row) => total + value(row), 0));
  const groups = sums.slice(0, COLOURS - 1).map((group) => [group.name, daily([group])]);
  if (sums.length >= COLOURS) groups.push(["others", daily(sums.slice(COLOURS - 1))]);
  const say = (v) => (priced ? v.toLocaleString("en", { maximumSignificantDigits: 3 }) : count(v));
  traffic.bars($("days-plot"), priced ? "Invoices" : "Requests", priced ? told.currency : "none of them priced", dates, groups, say);
  $("report").replaceChildren(table([
    [by[0].toUpperCase() + by.slice(1), (g) => element("b", {}, g.name)],
    ["Requests", (g) => count(g.requests), true],
    ["Tokens in", (g) => count(g.input), true],
    ["Tokens out", (g) => count(g.output), true],
    ["Own time", (g) => seconds(g.own / 1e3), true],
    ["Invoices", (g) => money(g.invoice, told.currency), true],
    ["Possibly", (g) => money(g.possibly, told.currency), true],
    ["Saved", (g) => money(g.saved, told.currency), true],
  ], sums));
}

/** Each cap as a bar. */
export async function budgets() {
  const told = await get("/gateway/budgets");
  if (!told.budgets.length) return $("caps").replaceChildren(nothing("The configuration caps nothing."));
  const say = (cap, value) => (cap.unit === "money" ? money(value, told.currency) : `${count(value)} ${cap.unit}`);
  const rows = told.budgets.sort((a, b) => b.share - a.share).map((cap) => {
    const name = cap.scope === "everything" ? "all requests" : `${cap.scope} ${cap.name}`;
    const used = cap.unit === "money" ? `${say(cap, cap.used)} of ${say(cap, cap.limit)}` : `${count(cap.used)} of ${say(cap, cap.limit)}`;
    const meter = element("meter", { min: 0, max: 1, low: 0.75, high: 0.95, optimum: 0, value: Math.min(cap.share, 1), "aria-label": `${name}: ${used}` });
    const ends = cap.resets ? `anew ${cap.resets.slice(0, 10)}` : cap.window === "total" ? "never anew" : `a ${cap.window}`;
    return element("div", { class: "cap" },
      element("div", {}, element("b", {}, name), element("small", {}, `${cap.unit} a ${cap.window}`.replace("a total", "in total"))), meter,
      element("div", {}, used, element("small", {}, `${cap.unit === "money" ? say(cap, cap.reserved) : count(cap.reserved)} reserved, ${ends}`)));
  });
  $("caps").replaceChildren(...rows);
}

/** Keys: what is known of them, never themselves. */
export async function keys() {
  const told = await get("/gateway/keys");
  if (!told.keys.length) return $("key-table").replaceChildren(nothing("There are no keys: whoever is on this machine may ask."));
  const limits = (key) => [
    key.requests_per_minute && `${count(key.requests_per_minute)} requests a minute`,
    key.tokens_per_minute && `${count(key.tokens_per_minute)} tokens a minute`,
    key.concurrent && `${count(key.concurrent)} at once`,
  ].filter(Boolean).join(", ") || "none";
  $("key-table").replaceChildren(table([
    ["Key", (key) => [element("b", {}, key.name), " ", key.admin ? tag("admin", "own") : ""]],
    ["Team", (key) => key.team],
    ["Class", (key) => key.class],
    ["Label at least", (key) => key.label],
    ["Models", (key) => key.models?.join(", ") ?? "all"],
    ["Limits", limits],
  ], told.keys));
}
