// The settings panel. What is asked of the model is kept in this browser; the key only in this tab.

import { key } from "./api.js";

const KEPT = "gristmill.settings";
const dialog = document.getElementById("settings");
const system = document.getElementById("system");
const keyField = document.getElementById("key");
const fields = [...dialog.querySelectorAll("[data-field]")];

/** The fields of a request that are set, and the system prompt. A value out of range is left to the server to name. */
export function asked() {
  const body = {};
  for (const field of fields) {
    const value = field.value.trim();
    if (!value) continue;
    if (field.dataset.field === "stop") body.stop = field.value.split("\n").filter(Boolean);
    else body[field.dataset.field] = field.type === "number" ? Number(value) : value;
  }
  return { body, system: system.value.trim() };
}

/** Opens the panel, at the key if that is what is missing. */
export function open(atKey = false) {
  if (!dialog.open) dialog.showModal();
  if (atKey) keyField.focus();
}

/** `onKey` is told when another key was given. */
export function start(onKey) {
  restore();
  keyField.value = key.get();
  dialog.addEventListener("input", save);
  dialog.addEventListener("close", () => {
    if (keyField.value.trim() === key.get()) return;
    key.set(keyField.value.trim());
    onKey();
  });
  // A click beside the panel is on the dialog itself.
  dialog.addEventListener("mousedown", (event) => {
    if (event.target === dialog && event.clientX < dialog.getBoundingClientRect().left) dialog.close();
  });
  document.getElementById("reset").addEventListener("click", () => {
    for (const field of [...fields, system]) field.value = "";
    save();
  });
  document.getElementById("open-settings").addEventListener("click", () => open());
}

function save() {
  const kept = { system: system.value };
  for (const field of fields) if (field.value) kept[field.dataset.field] = field.value;
  try { localStorage.setItem(KEPT, JSON.stringify(kept)); } catch { /* then they last as long as the page */ }
}

function restore() {
  let kept = {};
  try { kept = JSON.parse(localStorage.getItem(KEPT) ?? "{}") ?? {}; } catch { /* as if there were none */ }
  for (const field of fields) if (typeof kept[field.dataset.field] === "string") field.value = kept[field.dataset.field];
  if (typeof kept.system === "string") system.value = kept.system;
  dialog.querySelector("details").open = fields.some((field) => field.value && field.closest("details"));
}
