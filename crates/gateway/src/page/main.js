// Puts the page together: views, the key, and what is asked again and again.

import { key, metrics } from "./api.js";
import { element } from "./build.js";
import * as traffic from "./traffic.js";
import * as views from "./views.js";

const $ = (id) => document.getElementById(id);
const VIEWS = ["traffic", "cost", "budgets", "keys"];
/** Milliseconds between two looks. */
const EVERY = 2000;

const named = () => VIEWS.find((name) => location.hash === `#${name}`) ?? "traffic";

/** Says what stands in the way, until it no longer does. */
function trouble(error) {
  $("banner").hidden = !error;
  if (!error) return;
  const enter = element("button", { type: "button", class: "quiet", onclick: open }, "Enter it");
  if (error.status === 401) $("banner").replaceChildren("This gateway asks for an administrator's key. ", enter);
  else if (error.status === 403) $("banner").replaceChildren(error.message, " ", enter);
  else $("banner").replaceChildren(error.message);
}

function open() {
  $("key").value = key.get();
  $("key-dialog").showModal();
}

function show() {
  for (const name of VIEWS) $(name).hidden = name !== named();
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === named()) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  $("content").scrollTop = 0;
  refresh();
}

async function refresh() {
  try {
    if (named() === "cost") await views.cost();
    else if (named() === "budgets") await views.budgets();
    else if (named() === "keys") await views.keys();
    trouble(null);
  } catch (error) {
    trouble(error);
  }
}

/** Traffic is looked at whatever is shown, so that its lines have no gaps. */
async function look() {
  try {
    const rates = traffic.look(await metrics());
    $("note").textContent = await views.status(rates, look);
    if (named() === "traffic") trouble(null);
    if (named() === "budgets") await views.budgets();
  } catch (error) {
    trouble(error);
  }
}

async function again() {
  if (!document.hidden && !$("key-dialog").open) await look();
  setTimeout(again, EVERY);
}

addEventListener("hashchange", show);
for (const id of ["days", "by"]) $(id).addEventListener("change", refresh);
$("open-key").addEventListener("click", open);
$("key-dialog").addEventListener("close", () => {
  key.set($("key").value.trim());
  look();
  refresh();
});
traffic.start($("plots"));
show();
again();
