// The conversation: turns, the request in flight, and what is under an answer.

import { chat, Refusal } from "./api.js";
import { element, icon, show } from "./markdown.js";
import * as models from "./models.js";
import { asked, open as openSettings } from "./settings.js";

const KEPT = "gristmill.chat";
const MOST_RETRIES = 5;
const $ = (id) => document.getElementById(id);
const [list, scroll, empty, composer, input, send, stop, announce] =
  ["messages", "scroll", "empty", "composer", "message", "send", "stop", "announce"].map($);

/** `{role, content, reasoning, figures, problem}`, each with its node. */
let turns = [];
/** Ends the request in flight. */
let flight = null;
let waiting = null;
/** Whether the view follows the answer: until the reader scrolls up. */
let follow = true;

export function start() {
  restore();
  composer.addEventListener("submit", (event) => { event.preventDefault(); submit(); });
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    submit();
  });
  input.addEventListener("input", fit);
  stop.addEventListener("click", halt);
  scroll.addEventListener("scroll", () => { follow = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 60; });
  $("new-chat").addEventListener("click", clear);
  $("message").closest("main").addEventListener("click", copyCode);
  for (const idea of empty.querySelectorAll(".ideas button")) idea.addEventListener("click", () => say(idea.textContent));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && (flight || waiting) && !document.querySelector("dialog[open]")) halt();
    if (event.altKey && event.code === "KeyN") { event.preventDefault(); clear(); }
    if (event.altKey && event.code === "KeyS") { event.preventDefault(); openSettings(); }
  });
  fit();
}

function fit() {
  input.style.height = "auto";
  input.style.height = `${input.scrollHeight}px`;
  send.disabled = !input.value.trim();
}

function submit() {
  const text = input.value.trim();
  if (!text || flight) return;
  input.value = "";
  fit();
  say(text);
}

function say(text) {
  if (flight) return;
  settle();
  add({ role: "user", content: text });
  answer();
}

function clear() {
  halt();
  turns = [];
  list.replaceChildren();
  settle();
  save();
  refresh();
  input.focus();
}

/** Stops the answer, or the wait for another try. */
function halt() {
  flight?.abort();
  if (waiting) settle();
}

/** No more waiting for another try. */
function settle() {
  clearInterval(waiting);
  waiting = null;
  for (const note of list.querySelectorAll(".countdown")) note.remove();
}

function add(turn) {
  turn.node = element("li", { class: `turn ${turn.role}` });
  turns.push(turn);
  list.append(turn.node);
  draw(turn);
  refresh();
  return turn;
}

function refresh() {
  empty.hidden = turns.length > 0;
  stop.hidden = !flight;
  send.hidden = Boolean(flight);
  list.setAttribute("aria-busy", String(Boolean(flight)));
  for (const again of list.querySelectorAll(".again")) again.hidden = Boolean(flight) || again.closest("li") !== list.lastElementChild;
  for (const edit of list.querySelectorAll(".start-edit")) edit.hidden = Boolean(flight);
}

/** What is asked of the model: the system prompt and the turns before the last. */
function messages() {
  const { system } = asked();
  const said = turns.filter((turn) => turn.role === "user" || turn.content)
    .map(({ role, content }) => ({ role, content }));
  return system ? [{ role: "system", content: system }, ...said] : said;
}

/** Asks for the next answer. `tries` counts those that the server turned away. */
async function answer(tries = 0) {
  const body = { ...asked().body, messages: messages() };
  const model = models.current()?.id;
  if (model !== undefined) body.model = model;
  const turn = add({ role: "assistant", content: "", reasoning: "" });
  flight = new AbortController();
  const clock = new Clock();
  follow = true;
  const painter = new Painter(turn);
  refresh();
  const tell = () => waits(turn, clock, model, painter);
  const leave = models.follow(tell);
  tell();
  try {
    for await (const chunk of chat(body, flight.signal)) {
      take(turn, chunk, clock);
      if (clock.first !== null) leave();
      painter.soon();
    }
  } catch (error) {
    if (error.name === "AbortError") clock.reason = "stopped";
    else turn.problem = error instanceof Refusal ? error : new Refusal(String(error.message ?? error));
  }
  leave();
  flight = null;
  turn.figures = clock.figures();
  if (models.count() > 1) turn.figures.push(model);
  painter.end();
  save();
  refresh();
  announce.textContent = turn.problem ? `Failed: ${turn.problem.message}` : `The answer is complete. ${turn.figures.join(", ")}`;
  if (document.activeElement === document.body) input.focus();
  if (turn.problem) explain(turn, tries);
}

/** Says under the question what its answer waits for. */
function waits(turn, clock, model, painter) {
  const why = models.obstacle(model);
  const seconds = Math.round((performance.now() - clock.sent) / 1000);
  if (why && why !== turn.why) announce.textContent = why;
  turn.why = why;
  turn.wait = why && (seconds < 2 ? `${why} …` : `${why} … ${seconds} s`);
  painter.now();
}

function take(turn, chunk, clock) {
  if (chunk.usage) clock.tokens = chunk.usage.completion_tokens;
  const choice = chunk.choices?.[0];
  if (!choice) return;
  const delta = choice.delta ?? {};
  const reasoning = delta.reasoning_content ?? delta.reasoning ?? "";
  if (reasoning || delta.content) clock.tick();
  turn.reasoning += reasoning;
  turn.content += delta.content ?? "";
  if (choice.finish_reason) clock.reason = choice.finish_reason;
}

/** What a user sees of the timing, by this machine's clock. */
class Clock {
  sent = performance.now();
  first = null;
  last = null;
  chunks = 0;
  tokens = null;
  reason = "";

  tick() {
    this.last = performance.now();
    this.first ??= this.last;
    this.chunks += 1;
  }

  figures() {
    const count = this.tokens ?? this.chunks;
    const about = this.tokens === null ? "about " : "";
    const out = [];
    // The first token ends the prompt's time; the others are what the speed is of.
    if (count > 2 && this.last > this.first) out.push(`${about}${short((count - 1) * 1000 / (this.last - this.first))} tokens/s`);
    if (this.first !== null) out.push(`first token after ${duration(this.first - this.sent)}`);
    if (count > 0) out.push(`${about}${count} ${count === 1 ? "token" : "tokens"}`);
    if (this.reason === "length") out.push("cut by length");
    if (this.reason === "stopped") out.push("stopped");
    return out;
  }
}

const short = (n) => (n >= 100 ? n.toFixed(0) : n.toPrecision(3));
const duration = (ms) => (ms < 995 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(ms < 9950 ? 2 : 1)} s`);

/** Draws a growing answer no more often than it can: a frame at most, and at most a quarter of the time. */
class Painter {
  pending = 0;
  rest = 0;

  constructor(turn) { this.turn = turn; }

  soon() {
    if (this.pending) return;
    this.pending = setTimeout(() => requestAnimationFrame(() => { this.pending = 0; if (!this.ended) this.now(); }), this.rest);
  }

  now() {
    const began = performance.now();
    draw(this.turn, !this.ended);
    if (follow) scroll.scrollTop = scroll.scrollHeight;
    this.rest = Math.min(3 * (performance.now() - began), 500);
  }

  end() {
    clearTimeout(this.pending);
    this.ended = true;
    this.now();
  }
}

function draw(turn, live = false) {
  if (turn.role === "user") return drawUser(turn);
  const { node } = turn;
  if (!turn.parts) {
    turn.parts = { think: null, body: element("div", { class: "md" }), foot: element("div", { class: "tools" }) };
    node.append(turn.parts.body, turn.parts.foot);
  }
  const { body, foot } = turn.parts;
  if (turn.reasoning) thoughts(turn, live);
  if (live && !turn.content && !turn.reasoning) wait(body, turn.wait);
  else {
    body.querySelector(":scope > .wait")?.remove();
    show(body, turn.content);
  }
  if (!live) {
    const copy = button("copy", "Copy the answer", (event) => copyText(turn.content, event.currentTarget));
    const again = button("again", "Regenerate", () => regenerate());
    again.classList.add("again");
    const figures = element("span", { class: "figures" }, (turn.figures ?? []).join(" · "));
    foot.replaceChildren(...(turn.content ? [copy] : []), again, figures);
  }
}

/** Dots, and what is waited for; the dots go on when that changes. */
function wait(body, why) {
  if (!body.querySelector(":scope > .wait")) {
    const dots = element("b", { role: "img", "aria-label": "waiting for the first token" }, element("i"), element("i"), element("i"));
    body.replaceChildren(element("div", { class: "wait" }, dots, element("span")));
  }
  body.querySelector(":scope > .wait > span").textContent = why ?? "";
}

function thoughts(turn, live) {
  const { parts, node } = turn;
  if (!parts.think) {
    parts.think = element("details", { class: "think" }, element("summary"), element("div", { class: "text" }));
    node.prepend(parts.think);
  }
  const [summary, text] = parts.think.children;
  summary.textContent = live && !turn.content ? "Thinking …" : "Thoughts";
  text.textContent = turn.reasoning;
}

function drawUser(turn) {
  const edit = button("edit", "Edit and send again", () => startEdit(turn));
  edit.classList.add("start-edit");
  turn.node.replaceChildren(
    element("div", { class: "bubble" }, turn.content),
    element("div", { class: "tools" }, button("copy", "Copy the message", (event) => copyText(turn.content, event.currentTarget)), edit),
  );
}

function startEdit(turn) {
  const area = element("textarea", { value: turn.content, "aria-label": "Edit the message" });
  const done = () => {
    const text = area.value.trim();
    if (!text || flight) return;
    settle();
    cut(turns.indexOf(turn));
    say(text);
    input.focus();
  };
  const leave = () => { drawUser(turn); turn.node.querySelector(".start-edit").focus(); };
  area.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { event.stopPropagation(); leave(); }
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); done(); }
  });
  const buttons = element("div", {}, element("button", { type: "button", class: "quiet", onclick: leave }, "Cancel"),
    element("button", { type: "button", class: "solid", onclick: done }, "Send"));
  turn.node.replaceChildren(element("div", { class: "edit" }, area, buttons));
  area.focus();
}

/** Forgets the turns from `index` on. */
function cut(index) {
  for (const turn of turns.splice(index)) turn.node.remove();
}

function regenerate(tries = 0) {
  if (flight || turns.at(-1)?.role !== "assistant") return;
  settle();
  cut(turns.length - 1);
  answer(tries);
}

/** What went wrong, in words, with what can be done. */
function explain(turn, tries) {
  const { status, message, code, retryAfter } = turn.problem;
  const title = { 0: "No connection", 401: "An API key is needed", 429: "The server is busy", 503: "Not ready" }[status]
    ?? (status >= 500 ? "The server failed" : "The request was refused");
  const row = element("div", { class: "row" });
  const card = element("div", { class: "problem", role: "alert" }, element("strong", {}, title), message, " ");
  if (code) card.append(element("code", {}, code));
  card.append(row);
  if (status === 401) row.append(element("button", { type: "button", class: "solid", onclick: () => openSettings(true) }, "Enter the key"));
  row.append(element("button", { type: "button", class: "quiet", onclick: () => regenerate() }, "Try again"));
  if ((status === 429 || status === 503) && tries < MOST_RETRIES) countdown(row, Math.min(retryAfter ?? 5, 120), tries);
  turn.node.insertBefore(card, turn.parts.foot);
  turn.parts.foot.hidden = !turn.content;
  if (follow) scroll.scrollTop = scroll.scrollHeight;
}

function countdown(row, seconds, tries) {
  const note = element("span", { class: "fine countdown" });
  row.append(note);
  const tick = () => {
    if (seconds <= 0) return regenerate(tries + 1);
    note.textContent = `again in ${seconds} s; Esc leaves it`;
    seconds -= 1;
  };
  waiting = setInterval(tick, 1000);
  tick();
}

function button(name, label, act) {
  return element("button", { type: "button", class: "icon", title: label, "aria-label": label, onclick: act }, icon(name));
}

function copyCode(event) {
  const place = event.target.closest(".copy-code");
  if (place) copyText(place.closest(".block").querySelector("code").textContent, place);
}

async function copyText(text, place) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without TLS there is no clipboard but this.
    const area = element("textarea", { value: text, class: "hidden" });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    place.focus();
  }
  const use = place.querySelector("use");
  use.setAttribute("href", "#i-check");
  announce.textContent = "Copied";
  setTimeout(() => use.setAttribute("href", "#i-copy"), 1200);
}

function save() {
  const kept = turns.map(({ role, content, reasoning, figures }) => ({ role, content, reasoning, figures }));
  // A failed answer that said nothing is not worth keeping.
  while (kept.at(-1)?.role === "assistant" && !kept.at(-1).content && !kept.at(-1).reasoning) kept.pop();
  try { sessionStorage.setItem(KEPT, JSON.stringify(kept)); } catch { /* larger than the tab may keep */ }
}

function restore() {
  let kept = [];
  try { kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "[]"); } catch { /* as if there were none */ }
  for (const turn of Array.isArray(kept) ? kept : []) add(turn);
  scroll.scrollTop = scroll.scrollHeight;
  refresh();
}
