// Puts the page together: views, and whether the server is there.

import * as chat from "./chat.js";
import * as jobs from "./jobs.js";
import * as live from "./live.js";
import { element } from "./markdown.js";
import * as models from "./models.js";
import * as settings from "./settings.js";

const $ = (id) => document.getElementById(id);
const banner = $("banner");

function view(name) {
  for (const one of ["chat", "live", "jobs"]) $(one).hidden = one !== name;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = { live: "Live · Gristmill", jobs: "Jobs · Gristmill" }[name] ?? "Gristmill";
  if (name === "live") live.watch();
  else if (name === "jobs") jobs.watch();
  else if (matchMedia("(hover: hover)").matches) $("message").focus();
}

const named = () => ({ "/live": "live", "/jobs": "jobs" }[location.pathname] ?? "chat");

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

/** What stands in the way of the list of models, and with that of everything else. */
function trouble(error) {
  if (!error) tell("");
  else if (error.status === 401) {
    const enter = element("button", { type: "button", class: "quiet", onclick: () => settings.open(true) }, "Enter it");
    tell("This server asks for an API key. ", enter);
  } else tell(error.message);
}

document.addEventListener("click", follow);
addEventListener("popstate", () => view(named()));
settings.start(() => { models.look(); jobs.offer(); });
chat.start();
view(named());
models.start(trouble);
jobs.offer();
