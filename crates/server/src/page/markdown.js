// Markdown as DOM nodes, for text that nobody vouches for.
//
// Text only ever becomes text nodes: there is no HTML parsing here, and the page's Content-Security-Policy (Trusted
// Types) forbids it besides. Links go to http and https only; images become links, since nothing is loaded from elsewhere.
// Every search looks ahead a bounded distance and nesting is bounded, so time is linear in the text, whatever it is.

const DEEPEST = 8;
const FAR = 4000;

/** A new element; strings become text. */
export function element(name, properties = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "class") node.className = value;
    else if (key in node && !key.startsWith("aria")) node[key] = value;
    else node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

/** One of the page's icons. */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#i-${name}`);
  svg.setAttribute("aria-hidden", "true");
  svg.append(use);
  return svg;
}

/** Shows `text` in `host`, keeping the nodes of blocks that did not change since the last time. */
export function show(host, text) {
  const blocks = split(text.split("\n"));
  const old = host.blocks ?? [];
  let same = 0;
  while (same < old.length && same < blocks.length && old[same] === blocks[same].key) same += 1;
  while (host.childNodes.length > same) host.lastChild.remove();
  for (const block of blocks.slice(same)) host.append(render(block, 0));
  host.blocks = blocks.map((block) => block.key);
}

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+(.*))?$/;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const ITEM = /^([ \t]{0,12})([-*+]|\d{1,9}[.)])(?:[ \t]+(.*)|)$/;
const DIVIDER = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;

/** Lines as blocks: `{kind, lines, key}` and what the kind needs. The key is equal when the block would look the same. */
function split(lines) {
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    if (!lines[at].trim()) { at += 1; continue; }
    const begin = at;
    const block = take(lines, at);
    at = block.end;
    block.key = `${block.kind}${block.open ? "…" : ""}\n${lines.slice(begin, at).join("\n")}`;
    blocks.push(block);
  }
  return blocks;
}

function take(lines, at) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence) return takeFence(lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading) {
    const text = (heading[2] ?? "").replace(/[ \t]#{1,99}[ \t]*$/, "");
    return { kind: "heading", level: heading[1].length, text, end: at + 1 };
  }
  if (RULE.test(line)) return { kind: "rule", end: at + 1 };
  if (/^ {0,3}>/.test(line)) {
    let end = at;
    while (end < lines.length && /^ {0,3}>/.test(lines[end])) end += 1;
    return { kind: "quote", lines: lines.slice(at, end).map((l) => l.replace(/^ {0,3}> ?/, "")), end };
  }
  if (ITEM.test(line)) return takeList(lines, at);
  if (isTable(lines, at)) return takeTable(lines, at);
  let end = at + 1;
  while (end < lines.length && lines[end].trim() && !interrupts(lines, end)) end += 1;
  return { kind: "paragraph", text: lines.slice(at, end).join("\n"), end };
}

function interrupts(lines, at) {
  const line = lines[at];
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || /^ {0,3}>/.test(line) || ITEM.test(line) || isTable(lines, at);
}

function takeFence(lines, at, fence) {
  const indent = /^ */.exec(lines[at])[0].length;
  const [mark, count] = [fence[1][0], fence[1].length];
  let end = at + 1;
  const closes = (line) => {
    const bare = line.trim();
    return bare.length >= count && bare.split(mark).join("") === "";
  };
  while (end < lines.length && !closes(lines[end])) end += 1;
  const strip = (line) => line.slice(Math.min(indent, /^ */.exec(line)[0].length));
  const open = end >= lines.length;
  const code = lines.slice(at + 1, end).map(strip).join("\n");
  return { kind: "code", language: fence[2].trim().split(/\s/)[0].slice(0, 40), code, open, end: open ? end : end + 1 };
}

const width = (blank) => [...blank].reduce((n, c) => n + (c === "\t" ? 4 : 1), 0);

/** A list ends at a line that is not indented below an item and is no item, after a blank line or at another kind of block. */
function takeList(lines, at) {
  const first = ITEM.exec(lines[at]);
  const base = width(first[1]);
  const ordered = /\d/.test(first[2]);
  const items = [];
  let end = at;
  let blank = false;
  let content = 0;
  while (end < lines.length) {
    const line = lines[end];
    if (!line.trim()) { blank = true; if (items.length) items.at(-1).push(""); end += 1; continue; }
    const indent = width(/^[ \t]*/.exec(line)[0]);
    const item = ITEM.exec(line);
    if (item && indent < base + 2 && indent >= base - 1 && /\d/.test(item[2]) === ordered && !RULE.test(line)) {
      items.push([item[3] ?? ""]);
      content = indent + item[2].length + 1;
    } else if (indent > base && indent >= Math.min(content, base + 2)) {
      items.at(-1).push(dedent(line, content));
    } else if (!blank && !interrupts(lines, end)) {
      items.at(-1).push(line.trim());
    } else break;
    blank = false;
    end += 1;
  }
  return { kind: "list", ordered, start: ordered ? parseInt(first[2], 10) : 1, items, end };
}

function dedent(line, count) {
  let [seen, at] = [0, 0];
  while (at < line.length && seen < count && (line[at] === " " || line[at] === "\t")) seen += line[at++] === "\t" ? 4 : 1;
  return line.slice(at);
}

function isTable(lines, at) {
  return lines[at].includes("|") && at + 1 < lines.length && lines[at + 1].length < FAR && lines[at + 1].includes("-")
    && DIVIDER.test(lines[at + 1]) && cells(lines[at]).length === cells(lines[at + 1]).length;
}

/** The cells of a table's row; a bar behind a backslash or inside a code span is text. */
function cells(line) {
  const row = line.trim().replace(/^\|/, "");
  const out = [""];
  let code = false;
  for (let i = 0; i < row.length; i += 1) {
    if (row[i] === "\\" && row[i + 1] === "|") { out[out.length - 1] += "|"; i += 1; continue; }
    if (row[i] === "`") code = !code && row.indexOf("`", i + 1) > 0;
    if (row[i] === "|" && !code) out.push("");
    else out[out.length - 1] += row[i];
  }
  if (out.length > 1 && !out.at(-1).trim()) out.pop();
  return out.map((cell) => cell.trim());
}

function takeTable(lines, at) {
  const align = cells(lines[at + 1]).map((c) => (/^:.*:$/.test(c) ? "center" : c.endsWith(":") ? "right" : ""));
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|") && lines[end].trim()) end += 1;
  return { kind: "table", align, head: cells(lines[at]), rows: lines.slice(at + 2, end).map(cells), end };
}

function render(block, depth) {
  switch (block.kind) {
    case "heading": return element(`h${block.level}`, {}, ...inline(block.text));
    case "rule": return element("hr");
    case "code": return code(block);
    case "quote": return element("blockquote", {}, ...nested(block.lines, depth));
    case "list": return list(block, depth);
    case "table": return table(block);
    default: return element("p", {}, ...inline(block.text));
  }
}

function nested(lines, depth) {
  if (depth >= DEEPEST) return [element("p", {}, lines.join("\n"))];
  return split(lines).map((block) => render(block, depth + 1));
}

function code(block) {
  const copy = element("button", { type: "button", class: "icon copy-code", title: "Copy", "aria-label": "Copy this code" }, icon("copy"));
  const pre = element("pre", { tabIndex: 0 }, element("code", {}, block.code));
  return element("div", { class: "block" }, element("header", {}, element("span", {}, block.language || "text"), copy), pre);
}

function list(block, depth) {
  const node = element(block.ordered ? "ol" : "ul");
  if (block.ordered && block.start !== 1) node.start = block.start;
  for (const lines of block.items) {
    while (lines.length && !lines.at(-1).trim()) lines.pop();
    const task = /^\[([ xX])\] +/.exec(lines[0] ?? "");
    if (task) lines[0] = lines[0].slice(task[0].length);
    const parts = nested(lines, depth);
    // A tight item has its text without a paragraph around it.
    if (parts[0]?.tagName === "P") parts.splice(0, 1, ...parts[0].childNodes);
    const item = element("li", {}, ...parts);
    if (task) {
      item.className = "task";
      item.prepend(element("input", { type: "checkbox", checked: task[1] !== " ", disabled: true, "aria-label": task[1] === " " ? "open" : "done" }));
    }
    node.append(item);
  }
  return node;
}

function table(block) {
  const row = (name, texts) => element("tr", {}, ...block.head.map((_, i) =>
    element(name, { class: block.align[i] ?? "" }, ...inline(texts[i] ?? ""))));
  const body = element("tbody", {}, ...block.rows.map((texts) => row("td", texts)));
  return element("div", { class: "table", tabIndex: 0 }, element("table", {}, element("thead", {}, row("th", block.head)), body));
}

/** Where `what` is next at or after `from`, no farther than {@link FAR}; -1 if it is not there. */
function find(text, what, from) {
  const at = text.slice(from, from + FAR).indexOf(what);
  return at < 0 ? -1 : from + at;
}

const WORD = /[\p{L}\p{N}]/u;
const PUNCTUATION = /[!-/:-@[-`{-~]/;
const URL_HERE = /^https?:\/\/[^\s<>"'`]{1,2000}/i;

/** Text with spans as nodes. */
export function inline(text, depth = 0) {
  const out = [];
  // Up to where it is known that no mark of a kind closes, so that a text full of openings is not searched again and again.
  const searched = {};
  let plain = "";
  const flush = () => { if (plain) out.push(plain); plain = ""; };
  const put = (node) => { flush(); out.push(node); };
  for (let i = 0; i < text.length;) {
    const c = text[i];
    const span = "\\`*_~[!<h\n".includes(c) ? spanAt(text, i, depth, searched) : null;
    if (!span) { plain += c; i += 1; continue; }
    if (typeof span.node === "string") plain += span.node;
    else put(span.node);
    i = span.end;
  }
  flush();
  return out;
}

function spanAt(text, i, depth, searched) {
  switch (text[i]) {
    case "\\": return PUNCTUATION.test(text[i + 1] ?? "") ? { node: text[i + 1], end: i + 2 } : null;
    case "\n": return { node: element("br"), end: i + 1 };
    case "`": return codeSpan(text, i);
    case "[": return link(text, i, depth);
    case "!": return text[i + 1] === "[" ? link(text, i + 1, depth) : null;
    case "<": return angle(text, i);
    case "h": return bare(text, i);
    default: return emphasis(text, i, depth, searched);
  }
}

function run(text, i) {
  let end = i;
  while (text[end] === text[i]) end += 1;
  return text.slice(i, end);
}

function codeSpan(text, i) {
  const ticks = run(text, i);
  let close = find(text, ticks, i + ticks.length);
  while (close > 0 && close < i + FAR && run(text, close).length !== ticks.length) {
    close = find(text, ticks, close + run(text, close).length);
  }
  if (close < 0 || close >= i + FAR) return { node: ticks, end: i + ticks.length };
  const inner = text.slice(i + ticks.length, close).replaceAll("\n", " ");
  return { node: element("code", {}, /^ .*\S.* $/.test(inner) ? inner.slice(1, -1) : inner), end: close + ticks.length };
}

function emphasis(text, i, depth, searched) {
  const mark = text[i];
  const marks = run(text, i);
  const count = marks.length;
  if (depth >= DEEPEST || count > 3 || (mark === "~" && count !== 2)) return { node: marks, end: i + count };
  if (/\s/.test(text[i + count] ?? " ") || (mark === "_" && WORD.test(text[i - 1] ?? ""))) {
    return { node: text.slice(i, i + count), end: i + count };
  }
  const far = Math.min(text.length, i + count + FAR);
  const close = closing(text, marks, Math.max(i + count, searched[marks] ?? 0), far);
  if (close < 0) {
    searched[marks] = far;
    return { node: marks, end: i + count };
  }
  const inner = inline(text.slice(i + count, close), depth + 1);
  const names = mark === "~" ? ["del"] : count === 3 ? ["em", "strong"] : [count === 2 ? "strong" : "em"];
  return { node: names.reduce((nodes, name) => [element(name, {}, ...nodes)], inner)[0], end: close + count };
}

/** Where the run `mark` closes: behind no blank, not inside code, not part of a longer or shorter run. */
function closing(text, mark, from, end) {
  for (let i = from; i < end; i += 1) {
    if (text[i] === "\\") i += 1;
    else if (text[i] === "`") {
      const ticks = run(text, i);
      const close = find(text, ticks, i + ticks.length);
      i = (close < 0 ? i : close) + ticks.length - 1;
    } else if (text[i] === mark[0]) {
      const length = run(text, i).length;
      const fits = length === mark.length || (length === 3 && mark.length < 3);
      const inside = mark[0] === "_" && WORD.test(text[i + length] ?? "");
      if (fits && !inside && !/\s/.test(text[i - 1])) return i + length - mark.length;
      i += length - 1;
    }
  }
  return -1;
}

function link(text, i, depth) {
  const close = find(text, "](", i);
  if (close < 0 || depth >= DEEPEST || text.slice(i + 1, close).includes("\n\n")) return null;
  let [end, open] = [close + 2, 1];
  while (end < text.length && end < close + 2000 && open > 0) {
    if (text[end] === "(") open += 1;
    if (text[end] === ")") open -= 1;
    if (text[end] === "\n") break;
    end += 1;
  }
  if (open > 0) return null;
  const target = text.slice(close + 2, end - 1).trim().replace(/[ \t]+(".*"|'.*'|\(.*\))$/, "").replace(/^<(.*)>$/, "$1");
  const href = safe(target);
  // What is no web address stays as it was written.
  if (!href) return { node: text.slice(i, end), end };
  const label = text.slice(i + 1, close);
  return { node: anchor(href, label ? inline(label, DEEPEST - 1) : [href]), end };
}

function angle(text, i) {
  const url = URL_HERE.exec(text.slice(i + 1, i + 1 + FAR))?.[0];
  const href = url && text[i + 1 + url.length] === ">" ? safe(url) : null;
  return href ? { node: anchor(href, [url]), end: i + url.length + 2 } : null;
}

function bare(text, i) {
  if (WORD.test(text[i - 1] ?? "") || !/^https?:/i.test(text.slice(i, i + 6))) return null;
  let url = URL_HERE.exec(text.slice(i, i + FAR))?.[0] ?? "";
  url = url.replace(/[.,;:!?*_~\]]{1,99}$/, "");
  if (url.endsWith(")") && url.split("(").length < url.split(")").length) url = url.slice(0, -1);
  const href = safe(url);
  return href ? { node: anchor(href, [url]), end: i + url.length } : null;
}

/** The address, if it is one of the web. */
function safe(target) {
  if (!/^https?:\/\//i.test(target)) return null;
  try {
    const url = new URL(target);
    return url.protocol === "https:" || url.protocol === "http:" ? url.href : null;
  } catch {
    return null;
  }
}

function anchor(href, children) {
  return element("a", { href, target: "_blank", rel: "noopener noreferrer nofollow", title: href }, ...children);
}
