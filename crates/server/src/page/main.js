// Puts the page together: views, the list of models, and whether the server is there.

import { ask } from "./api.js";
import * as chat from "./chat.js";
import * as live from "./live.js";
import { element } from "./markdown.js";
import * as settings from "./settings.js";

const $ = (id) => document.getElementById(id);
const banner = $("banner");
const select = $("model");
let again = null;

function view(name) {
  for (const one of ["chat", "live"]) $(one).hidden = one !== name;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = name === "live" ? "Live · Gristmill" : "Gristmill";
  if (name === "live") live.watch();
  else if (matchMedia("(hover: hover)").matches) $("message").focus();
}

const named = () => (location.pathname === "/live" ? "live" : "chat");

/** Moves between the views without leaving the page: an answer goes on meanwhile. */
function follow(event) {
  const link = event.target.closest("a[data-view]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  if (link.pathname !== location.pathname) history.pushState(null, "", link.pathname);
  view(link.dataset.view);
}

/** Says what stands in the way, until it no longer does. */
function tell(text, ...more) {
  banner.hidden = !text;
  banner.replaceChildren(text, ...more);
}

/** The models that are served. Until the server has one, it is asked again. */
async function models() {
  clearTimeout(again);
  try {
    const { data } = await (await ask("/v1/models")).json();
    const kept = select.value;
    select.replaceChildren(...data.map(({ id, max_model_len: context }) =>
      element("option", { value: id, title: context ? `context ${context.toLocaleString("en")} tokens` : "" }, id)));
    if (data.some(({ id }) => id === kept)) select.value = kept;
    select.disabled = false;
    select.title = select.selectedOptions[0]?.title ?? "";
    tell("");
  } catch (error) {
    select.disabled = true;
    if (error.status === 401) {
      const enter = element("button", { type: "button", class: "quiet", onclick: () => settings.open(true) }, "Enter it");
      tell("This server asks for an API key. ", enter);
      return;
    }
    tell(error.message);
    again = setTimeout(models, 1000 * (error.retryAfter ?? 3));
  }
}

document.addEventListener("click", follow);
addEventListener("popstate", () => view(named()));
settings.start(models);
chat.start();
view(named());
models();
