// The models of the server: the list with the state of each, and the choice of the one that is asked.

import { ask } from "./api.js";
import { element } from "./markdown.js";

const KEPT = "gristmill.model";
/** Between two looks at the list, in milliseconds: while a model changes, while the list is open, else. */
const CHANGING = 1000;
const OPEN = 3000;
const IDLE = 20_000;
/** The longest wait after errors. */
const LONGEST = 60_000;

/** What a state is called here. */
const WORDS = {
  __proto__: null, ready: "loaded", registered: "not loaded", loading: "loading …", draining: "unloading …", failed: "load failed",
};

const button = document.getElementById("model");
const list = document.getElementById("models");

/** The cards of `/v1/models`. */
let cards = [];
/** The name that was chosen, in this tab or before. */
let wanted = null;
/** Row of the open list that the keys are at. */
let at = 0;
/** Requests that wait for their first token. */
let waiting = 0;
let told = () => {};
const listeners = new Set();

/** `trouble` is told what stands in the way of the list, null once nothing does. */
export function start(trouble) {
  told = trouble;
  try { wanted = localStorage.getItem(KEPT); } catch { /* none is remembered */ }
  button.addEventListener("click", () => (isOpen() ? list.hidePopover() : unfold()));
  button.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    unfold();
  });
  // Else the press moves the focus, which closes the list, and the click opens it again.
  button.addEventListener("mousedown", (event) => { if (isOpen()) event.preventDefault(); });
  list.addEventListener("toggle", () => button.setAttribute("aria-expanded", String(isOpen())));
  list.addEventListener("click", (event) => {
    const row = event.target.closest("[role=option]");
    if (row) choose([...list.children].indexOf(row));
  });
  list.addEventListener("pointermove", (event) => {
    const row = event.target.closest("[role=option]");
    if (row) reach([...list.children].indexOf(row));
  });
  list.addEventListener("keydown", keys);
  list.addEventListener("focusout", () => { if (isOpen()) list.hidePopover(); });
  addEventListener("resize", () => { if (isOpen()) list.hidePopover(); });
  document.addEventListener("visibilitychange", () => { if (document.visibilityState === "visible") look(); });
  look();
}

/** The card of the model that is asked: the chosen one, or the server's first; undefined while there is none. */
export const current = () => cards.find(({ id }) => id === wanted) ?? cards[0];
export const count = () => cards.length;

/** What a request for this model waits for, in words; empty if the model is loaded. */
export function obstacle(id) {
  const state = cards.find((one) => one.id === id)?.state;
  return { registered: `${id} must be loaded first`, loading: `${id} is loading`, draining: `${id} is unloading, and then loads again` }[state] ?? "";
}

/** Calls `changed` whenever the list was looked at, and has that happen often, until the returned function is called. */
export function follow(changed) {
  waiting += 1;
  listeners.add(changed);
  look();
  return () => { if (listeners.delete(changed)) waiting -= 1; };
}

let timer = null;
let looking = false;
let onceMore = false;
let failures = 0;

/** Asks for the list now, and then again for as long as the page is seen: one request at a time. */
export async function look() {
  clearTimeout(timer);
  if (looking) { onceMore = true; return; }
  looking = true;
  let error = null;
  try {
    const { data } = await (await ask("/v1/models")).json();
    cards = data.filter(({ id }) => typeof id === "string");
    failures = 0;
  } catch (seen) {
    error = seen;
    failures += 1;
  }
  looking = false;
  draw(error);
  told(error);
  for (const changed of listeners) changed();
  const pause = onceMore ? 0 : wait(error);
  onceMore = false;
  clearTimeout(timer);
  if (pause !== null) timer = setTimeout(look, pause);
}

/** How long until the next look; null is until something calls for it: a key, or a page that is seen again. */
function wait(error) {
  if (error?.status === 401 || document.visibilityState !== "visible") return null;
  if (error) return Math.min(Math.max(1000 * (error.retryAfter ?? 1.5 * 2 ** failures), 1000), LONGEST);
  if (waiting || cards.some(({ state }) => state === "loading" || state === "draining")) return CHANGING;
  return isOpen() ? OPEN : IDLE;
}

function draw(error) {
  const own = current();
  button.disabled = !own || error?.status === 401;
  if (!own) return;
  const words = WORDS[own.state] ?? own.state ?? "";
  button.replaceChildren(dot(own.state), element("bdi", { class: "name" }, own.id));
  button.setAttribute("aria-label", `Model: ${own.id}, ${words}`);
  button.title = about(own);
  rows();
}

const dot = (state) => element("i", { class: `dot ${WORDS[state] ? state : ""}` });

/** What is known of a model, in words. */
function about({ state, max_model_len: context, memory_bytes: bytes, pinned }) {
  const out = [WORDS[state] ?? String(state ?? "")];
  if (context) out.push(`context ${context.toLocaleString("en")}`);
  if (bytes) out.push(bytes < 1e9 ? `${Math.ceil(bytes / 1e6)} MB` : `${(bytes / 1e9).toPrecision(3)} GB`);
  if (pinned && cards.length > 1) out.push("stays loaded");
  return out.join(" · ");
}

/** Draws the open list anew; rows whose text stays keep their nodes, so that a click that is under way still counts. */
function rows() {
  if (!isOpen()) return;
  const own = current();
  while (list.children.length > cards.length) list.lastChild.remove();
  at = Math.min(at, cards.length - 1);
  cards.forEach((one, i) => {
    const key = JSON.stringify([one.id, one.state, about(one)]);
    let row = list.children[i];
    if (!row) list.append(row = element("li", { id: `model-${i}`, role: "option" }));
    if (row.key !== key) {
      row.key = key;
      row.replaceChildren(dot(one.state), element("bdi", { class: "name" }, one.id), element("span", { class: "about" }, about(one)));
    }
    row.setAttribute("aria-selected", String(one === own));
    row.classList.toggle("at", i === at);
  });
  list.setAttribute("aria-activedescendant", `model-${at}`);
}

const isOpen = () => list.matches(":popover-open");

function unfold() {
  if (isOpen() || button.disabled) return;
  const box = button.getBoundingClientRect();
  list.style.top = `${box.bottom + 6}px`;
  list.style.right = `${Math.max(document.documentElement.clientWidth - box.right, 8)}px`;
  list.showPopover();
  at = Math.max(cards.indexOf(current()), 0);
  rows();
  list.focus();
  list.children[at]?.scrollIntoView({ block: "nearest" });
  look();
}

function reach(row) {
  if (row === at) return;
  at = row;
  rows();
}

function choose(row) {
  if (!cards[row]) return;
  wanted = cards[row].id;
  try { localStorage.setItem(KEPT, wanted); } catch { /* then it lasts as long as the page */ }
  list.hidePopover();
  draw(null);
  button.focus();
}

let typed = "";
let typedAt = 0;

function keys(event) {
  const last = cards.length - 1;
  const to = { ArrowDown: Math.min(at + 1, last), ArrowUp: Math.max(at - 1, 0), Home: 0, End: last }[event.key];
  if (to !== undefined) reach(to);
  else if (event.key === "Enter" || event.key === " ") choose(at);
  else if (event.key === "Escape" || event.key === "Tab") { list.hidePopover(); button.focus(); }
  else if (event.key.length === 1 && !event.ctrlKey && !event.metaKey && !event.altKey) seek(event.key);
  else return;
  list.children[at]?.scrollIntoView({ block: "nearest" });
  event.preventDefault();
  event.stopPropagation();
}

/** Letters that are typed one after the other go to the next name that begins with them. */
function seek(letter) {
  typed = performance.now() - typedAt < 800 ? typed + letter.toLowerCase() : letter.toLowerCase();
  typedAt = performance.now();
  const from = typed.length > 1 ? at : at + 1;
  const order = cards.map((_, i) => (from + i) % cards.length);
  const found = order.find((i) => cards[i].id.toLowerCase().startsWith(typed));
  if (found !== undefined) reach(found);
}
