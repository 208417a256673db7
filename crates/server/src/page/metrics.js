// Prometheus text to numbers: samples, rates of counters, quantiles of histograms.

const LINE = /^([A-Za-z_:][\w:]*)(\{.*\})?\s+(\S+)/;
const LABEL = /([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"/g;

/** Name → `[{labels, value}]`. */
export function parse(text) {
  const families = new Map();
  for (const line of text.split("\n")) {
    if (!line || line[0] === "#") continue;
    const match = LINE.exec(line);
    if (!match) continue;
    const labels = {};
    for (const [, name, value] of (match[2] ?? "").matchAll(LABEL)) {
      labels[name] = value.replace(/\\(.)/g, (_, c) => (c === "n" ? "\n" : c));
    }
    if (!families.has(match[1])) families.set(match[1], []);
    families.get(match[1]).push({ labels, value: number(match[3]) });
  }
  return families;
}

function number(text) {
  if (/^[+-]?inf/i.test(text)) return text[0] === "-" ? -Infinity : Infinity;
  return Number(text);
}

/** The sum over a name's label sets; null if there are none. */
export function sum(families, name) {
  const samples = families.get(name);
  return samples ? samples.reduce((total, sample) => total + sample.value, 0) : null;
}

/** The largest of a name's label sets; null if there are none. */
export function largest(families, name) {
  const samples = families.get(name);
  return samples ? Math.max(...samples.map((sample) => sample.value)) : null;
}

/** A histogram: `{bounds, counts}` (cumulative, the last bound is infinite), `sum` and `count`; null if it is not there. */
export function histogram(families, name) {
  const samples = families.get(`${name}_bucket`);
  if (!samples) return null;
  const by = new Map();
  for (const { labels, value } of samples) by.set(number(labels.le), (by.get(number(labels.le)) ?? 0) + value);
  const bounds = [...by.keys()].sort((a, b) => a - b);
  return { bounds, counts: bounds.map((bound) => by.get(bound)), sum: sum(families, `${name}_sum`), count: sum(families, `${name}_count`) };
}

/** How much a counter grew; one that fell was restarted from zero. */
export function growth(now, before) {
  if (now === null || now === undefined) return null;
  return before === null || before === undefined || now < before ? now : now - before;
}

/** What was observed between two looks at a histogram. */
export function between(now, before) {
  if (!now) return null;
  if (!before || now.count < before.count || now.bounds.length !== before.bounds.length) return now;
  return {
    bounds: now.bounds, counts: now.counts.map((count, i) => count - before.counts[i]),
    sum: now.sum - before.sum, count: now.count - before.count,
  };
}

/** The `q`-quantile, by Prometheus' rule: linear inside the bucket, the last finite bound past it. Null of nothing. */
export function quantile(histogram, q) {
  if (!histogram || !(histogram.count > 0)) return null;
  const { bounds, counts } = histogram;
  const rank = q * counts.at(-1);
  const at = counts.findIndex((count) => count >= rank);
  if (at === bounds.length - 1) return bounds.at(-2) ?? null;
  const [low, below] = at > 0 ? [bounds[at - 1], counts[at - 1]] : [0, 0];
  const inside = counts[at] - below;
  return inside > 0 ? low + (bounds[at] - low) * (rank - below) / inside : bounds[at];
}
