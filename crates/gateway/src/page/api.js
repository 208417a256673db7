// The admin API: requests that carry the key, and the numbers of /metrics.

const KEY = "gristmill.gateway.key";

export const key = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (value) => (value ? sessionStorage.setItem(KEY, value) : sessionStorage.removeItem(KEY)),
};

/** An answer that is an error; `status` is 0 when there was none. */
export class Refusal extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

async function ask(path, method = "GET") {
  const headers = key.get() ? { authorization: `Bearer ${key.get()}` } : {};
  let answer;
  try {
    answer = await fetch(path, { method, headers, cache: "no-store", credentials: "omit" });
  } catch {
    throw new Refusal("The gateway cannot be reached.");
  }
  if (answer.ok) return answer;
  const text = await answer.text().catch(() => "");
  let said = null;
  try { said = JSON.parse(text).error; } catch { /* not ours: a proxy's page perhaps */ }
  throw new Refusal(said?.message ?? `The gateway answered ${answer.status}.`, answer.status);
}

export const get = async (path) => (await ask(path)).json();
export const post = async (path) => (await ask(path, "POST")).json();
export const metrics = async () => parse(await (await ask("/metrics")).text());

const LINE = /^([A-Za-z_:][\w:]*)(\{.*\})?\s+(\S+)/;
const LABEL = /([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"/g;

/** Prometheus text as name → `[{labels, value}]`. */
function parse(text) {
  const families = new Map();
  for (const line of text.split("\n")) {
    const match = line && line[0] !== "#" ? LINE.exec(line) : null;
    if (!match) continue;
    const labels = {};
    for (const [, name, value] of (match[2] ?? "").matchAll(LABEL)) labels[name] = value.replace(/\\(.)/g, (_, c) => (c === "n" ? "\n" : c));
    if (!families.has(match[1])) families.set(match[1], []);
    families.get(match[1]).push({ labels, value: /inf/i.test(match[3]) ? Infinity : Number(match[3]) });
  }
  return families;
}

/** The sum of a counter over the label sets that `where` takes. */
export function sum(families, name, where = () => true) {
  return (families.get(name) ?? []).filter((sample) => where(sample.labels)).reduce((total, sample) => total + sample.value, 0);
}

/** The cumulative counts of a histogram by bound, over all label sets. */
export function histogram(families, name) {
  const by = new Map();
  for (const { labels, value } of families.get(`${name}_bucket`) ?? []) {
    const bound = /inf/i.test(labels.le) ? Infinity : Number(labels.le);
    by.set(bound, (by.get(bound) ?? 0) + value);
  }
  return new Map([...by].sort(([a], [b]) => a - b));
}

/** The `q`-quantile of what came between two looks, by Prometheus' rule; null of nothing. */
export function quantile(now, before, q) {
  const bounds = [...now.keys()];
  const counts = bounds.map((bound) => now.get(bound) - (before?.get(bound) ?? 0));
  const all = counts.at(-1);
  if (!(all > 0)) return null;
  const at = counts.findIndex((count) => count >= q * all);
  if (bounds[at] === Infinity) return bounds.at(-2) ?? null;
  const [low, below] = at > 0 ? [bounds[at - 1], counts[at - 1]] : [0, 0];
  return low + (bounds[at] - low) * (q * all - below) / Math.max(counts[at] - below, 1e-9);
}
