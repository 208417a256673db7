// A small line plot on a canvas: time runs to the right, the newest is at the right edge.

import { element } from "./markdown.js";

const LEFT = 50;
const BOTTOM = 18;
const TOP = 6;

export class Plot {
  /** `names` of the series, `say` a value as text, `most` the number of points, `top` a fixed upper end. */
  constructor({ title, unit, names, say, top }, most) {
    Object.assign(this, { title, names, say, top, most, span: most, series: names.map(() => []), cursor: null });
    this.values = names.map(() => element("b", {}, "–"));
    this.canvas = element("canvas", { role: "img", tabIndex: 0 });
    this.node = element("figure", { class: "plot" },
      element("figcaption", {}, title, element("span", { class: "unit" }, unit)),
      element("ul", {}, ...names.map((name, i) => element("li", {}, this.values[i], name))), this.canvas);
  }

  /** One value a series; null leaves a gap. */
  push(values) {
    values.forEach((value, i) => {
      this.series[i].push(value);
      if (this.series[i].length > this.most) this.series[i].shift();
    });
  }

  /** Which point a place on the canvas shows, counted from the newest. */
  back(x) {
    const share = (x - LEFT) / (this.canvas.clientWidth - LEFT);
    return Math.round((1 - Math.min(Math.max(share, 0), 1)) * (this.span - 1));
  }

  /** Draws; `cursor` is a point counted from the newest, or null. */
  draw(cursor) {
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    const [width, height, scale] = [this.canvas.clientWidth, this.canvas.clientHeight, devicePixelRatio || 1];
    if (!width) return;
    this.canvas.width = width * scale;
    this.canvas.height = height * scale;
    const pen = this.canvas.getContext("2d");
    pen.scale(scale, scale);
    pen.font = `11px ${style.getPropertyValue("--sans")}`;
    const top = this.top ?? nice(Math.max(...this.series.flat().filter((v) => v !== null), 0));
    this.span = [60, 120].find((span) => span >= this.series[0].length && span < this.most) ?? this.most;
    const x = (back) => LEFT + (width - LEFT - 1) * (1 - back / (this.span - 1));
    const y = (value) => TOP + (height - TOP - BOTTOM) * (1 - Math.min(value / top, 1));
    this.grid(pen, top, width, height, y, color);
    this.series.forEach((points, i) => this.line(pen, points, x, y, color(`--s${i + 1}`), i === 0));
    if (cursor !== null) {
      pen.strokeStyle = color("--faint");
      pen.lineWidth = 1;
      pen.beginPath(); pen.moveTo(x(cursor), TOP); pen.lineTo(x(cursor), height - BOTTOM); pen.stroke();
    }
    this.tell(cursor ?? 0);
  }

  grid(pen, top, width, height, y, color) {
    pen.lineWidth = 1;
    pen.textBaseline = "middle";
    for (const value of [0, top / 2, top]) {
      const at = Math.round(y(value)) + 0.5;
      pen.strokeStyle = color("--line");
      pen.beginPath(); pen.moveTo(LEFT, at); pen.lineTo(width, at); pen.stroke();
      pen.fillStyle = color("--faint");
      pen.textAlign = "right";
      pen.fillText(this.say(value), LEFT - 7, Math.max(at, 7));
    }
    pen.textBaseline = "alphabetic";
    pen.textAlign = "left";
    pen.fillText(`${Math.round(this.span / 60)} min ago`, LEFT, height - 3);
    pen.textAlign = "right";
    pen.fillText("now", width, height - 3);
  }

  line(pen, points, x, y, color, filled) {
    pen.lineWidth = 1.75;
    pen.lineJoin = "round";
    pen.strokeStyle = pen.fillStyle = color;
    let begin = null;
    const path = new Path2D();
    const end = (last) => {
      if (begin === null || !filled) return;
      const area = new Path2D(run);
      area.lineTo(x(last), y(0)); area.lineTo(x(begin), y(0));
      pen.globalAlpha = 0.1; pen.fill(area); pen.globalAlpha = 1;
    };
    let run = null;
    points.forEach((value, i) => {
      const back = points.length - 1 - i;
      if (value === null) { end(back + 1); begin = run = null; return; }
      if (begin === null) { begin = back; run = new Path2D(); run.moveTo(x(back), y(value)); path.moveTo(x(back) - 0.5, y(value)); }
      run.lineTo(x(back), y(value));
      path.lineTo(x(back), y(value));
    });
    end(0);
    pen.stroke(path);
  }

  /** The values under the cursor, as text; to those who do not see the lines too. */
  tell(back) {
    const said = this.series.map((points) => points[points.length - 1 - back] ?? null).map((v) => (v === null ? "–" : this.say(v)));
    said.forEach((text, i) => { this.values[i].textContent = text; });
    this.canvas.setAttribute("aria-label", `${this.title}${back ? `, ${back} s ago` : ""}: ${this.names.map((name, i) => `${name} ${said[i]}`).join(", ")}`);
  }
}

/** The next of 1, 2, 5 times a power of ten. */
function nice(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return power * ([1, 2, 5].find((step) => step * power >= value * 1.001) ?? 10);
}
