// Plots of the traffic: lines over the last five minutes, and bars by day.

import { histogram, quantile, sum } from "./api.js";
import { element, seconds } from "./build.js";

const LEFT = 50, BOTTOM = 18, TOP = 6;
/** Looks that are kept: five minutes at one every two seconds. */
const MOST = 150;
/** Looks back of a quantile: thirty seconds. */
const WINDOW = 15;

const looks = [];
const plots = [
  { title: "Requests", unit: "a second", names: ["ended", "failed or refused"], say: (v) => v.toFixed(v < 10 ? 1 : 0) },
  { title: "First content", unit: "of the last 30 s", names: ["median", "95 %"], say: seconds },
  { title: "Attempts at upstreams", unit: "a second", names: ["all", "not the first", "failed"], say: (v) => v.toFixed(v < 10 ? 1 : 0) },
];

function nice(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return power * ([1, 2, 5].find((step) => step * power >= value * 1.001) ?? 10);
}

function canvas(node, draw) {
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(name).trim();
  const [width, height, scale] = [node.clientWidth, node.clientHeight, devicePixelRatio || 1];
  if (!width) return;
  node.width = width * scale;
  node.height = height * scale;
  const pen = node.getContext("2d");
  pen.scale(scale, scale);
  pen.font = `11px ${color("--sans")}`;
  draw(pen, width, height, color);
}

function grid(pen, top, width, height, color, say) {
  const y = (value) => TOP + (height - TOP - BOTTOM) * (1 - Math.min(value / top, 1));
  for (const value of [0, top / 2, top]) {
    const at = Math.round(y(value)) + 0.5;
    pen.strokeStyle = color("--line");
    pen.beginPath(); pen.moveTo(LEFT, at); pen.lineTo(width, at); pen.stroke();
    pen.fillStyle = color("--faint");
    pen.textAlign = "right"; pen.textBaseline = "middle";
    pen.fillText(say(value), LEFT - 7, Math.max(at, 7));
  }
  pen.textBaseline = "alphabetic";
  return y;
}

function figure(title, unit, names) {
  const values = names.map(() => element("b", {}, "–"));
  const node = element("canvas", { role: "img" });
  return { values, canvas: node, figure: element("figure", { class: "plot" },
    element("figcaption", {}, title, element("span", { class: "unit" }, unit)),
    element("ul", {}, ...names.map((name, at) => element("li", {}, values[at], name))), node) };
}

export function start(parent) {
  for (const plot of plots) {
    Object.assign(plot, figure(plot.title, plot.unit, plot.names), { series: plot.names.map(() => []) });
    parent.append(plot.figure);
  }
  addEventListener("resize", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}

/** Takes a look at /metrics; gives back the rates since the one before. */
export function look(families) {
  const now = {
    at: performance.now() / 1e3,
    ended: sum(families, "gristmill_gateway_requests_total"),
    bad: sum(families, "gristmill_gateway_requests_total", ({ outcome }) => outcome === "error" || outcome === "refused"),
    attempts: sum(families, "gristmill_gateway_attempts_total"),
    again: sum(families, "gristmill_gateway_attempts_total", ({ why }) => why !== "first"),
    failed: sum(families, "gristmill_gateway_attempts_total", ({ result }) => result !== "ok" && result !== "cancelled"),
    cost: sum(families, "gristmill_gateway_cost_total"),
    waiting: sum(families, "gristmill_gateway_requests_waiting"),
    first: histogram(families, "gristmill_gateway_first_content_seconds"),
  };
  const before = looks.at(-1);
  looks.push(now);
  if (looks.length > MOST) looks.shift();
  // A counter that fell belongs to a gateway that was started again.
  const rate = (name) => (before && now[name] >= before[name] ? (now[name] - before[name]) / (now.at - before.at) : null);
  const old = looks[Math.max(looks.length - 1 - WINDOW, 0)];
  const since = old === now || old.ended > now.ended ? null : old.first;
  const told = {
    requests: rate("ended"), bad: rate("bad"), cost: now.cost, waiting: now.waiting,
    median: quantile(now.first, since, 0.5), late: quantile(now.first, since, 0.95),
  };
  [[told.requests, told.bad], [told.median, told.late], [rate("attempts"), rate("again"), rate("failed")]].forEach((values, at) => {
    values.forEach((value, line) => {
      const points = plots[at].series[line];
      points.push(value);
      if (points.length > MOST) points.shift();
    });
  });
  draw();
  return told;
}

function draw() {
  for (const plot of plots) {
    canvas(plot.canvas, (pen, width, height, color) => {
      const top = nice(Math.max(...plot.series.flat().filter((value) => value !== null), 0));
      const y = grid(pen, top, width, height, color, plot.say);
      pen.fillStyle = color("--faint");
      pen.textAlign = "left"; pen.fillText("5 min ago", LEFT, height - 3);
      pen.textAlign = "right"; pen.fillText("now", width, height - 3);
      plot.series.forEach((points, line) => {
        pen.strokeStyle = color(`--s${line + 1}`);
        pen.lineWidth = 1.75; pen.lineJoin = "round";
        pen.beginPath();
        let down = false;
        points.forEach((value, at) => {
          const x = LEFT + (width - LEFT - 1) * (1 - (points.length - 1 - at) / (MOST - 1));
          if (value !== null) down ? pen.lineTo(x, y(value)) : pen.moveTo(x, y(value));
          down = value !== null;
        });
        pen.stroke();
      });
    });
    const said = plot.series.map((points) => points.at(-1) ?? null).map((value) => (value === null ? "–" : plot.say(value)));
    said.forEach((text, at) => { plot.values[at].textContent = text; });
    plot.canvas.setAttribute("aria-label", `${plot.title}: ${plot.names.map((name, at) => `${name} ${said[at]}`).join(", ")}`);
  }
}

/** Stacked bars: `days` in order, `groups` of names with a value for each day. */
export function bars(parent, title, unit, days, groups, say) {
  const names = groups.map(([name]) => name);
  const made = figure(title, unit, names);
  groups.forEach(([, values], at) => { made.values[at].textContent = say(values.reduce((a, b) => a + b, 0)); });
  parent.replaceChildren(made.figure);
  canvas(made.canvas, (pen, width, height, color) => {
    const sums = days.map((_, at) => groups.reduce((total, [, values]) => total + values[at], 0));
    const y = grid(pen, nice(Math.max(...sums, 0)), width, height, color, say);
    const step = (width - LEFT) / days.length;
    days.forEach((day, at) => {
      let below = 0;
      groups.forEach(([, values], group) => {
        pen.fillStyle = color(`--s${group + 1}`);
        const [low, high] = [y(below), y(below + values[at])];
        if (low > high) pen.fillRect(LEFT + at * step + Math.min(step * 0.15, 4), high, Math.max(step - Math.min(step * 0.3, 8), 1), low - high);
        below += values[at];
      });
    });
    pen.fillStyle = color("--faint");
    pen.textAlign = "left"; pen.fillText(days[0], LEFT, height - 3);
    pen.textAlign = "right"; pen.fillText(days.at(-1), width, height - 3);
  });
  made.canvas.setAttribute("aria-label", `${title}, by day: the table below has the numbers`);
}
