// The jobs and batches of the server, newest first; looked at while this view is shown.

import { ask } from "./api.js";
import { element } from "./markdown.js";

/** Between two looks, in milliseconds. */
const LOOK = 2000;
const LISTED = 50;

const view = document.getElementById("jobs");
const link = document.getElementById("to-jobs");
const note = document.getElementById("jobs-note");
const batches = document.getElementById("batch-rows");
const jobs = document.getElementById("job-rows");

let timer = null;
let looking = false;

/** Shows the way here, if the server keeps jobs. */
export async function offer() {
  try {
    await ask("/v1/jobs/stats");
    link.hidden = false;
  } catch { /* it keeps none, or asks for a key first */ }
}

/** Looks now, and again for as long as the view is shown. */
export async function watch() {
  clearTimeout(timer);
  if (looking || view.hidden) return;
  looking = true;
  try {
    const [listed, made, stats] = await Promise.all(
      [`/v1/jobs?limit=${LISTED}`, `/v1/batches?limit=${LISTED}`, "/v1/jobs/stats"].map(async (path) => (await ask(path)).json()));
    link.hidden = false;
    fill(batches, made.data.map(batchRow), 5, "No batches.");
    fill(jobs, listed.data.map(jobRow), 6, "No jobs.");
    note.textContent = summary(stats);
  } catch (error) {
    note.textContent = error.message;
  }
  looking = false;
  timer = setTimeout(watch, LOOK);
}

function fill(body, rows, columns, none) {
  body.replaceChildren(...(rows.length ? rows : [element("tr", {}, element("td", { colSpan: columns }, none))]));
}

function summary(stats) {
  const count = (state) => (stats.counts ?? stats.data ?? []).filter((row) => row.status === state).reduce((sum, row) => sum + (row.jobs ?? row.count ?? 0), 0);
  const parts = [`${count("queued")} queued`, `${count("running")} running`];
  if (stats.dead) parts.push(`${stats.dead} dead`);
  return parts.join(" · ");
}

const when = (seconds) => (seconds ? new Date(seconds * 1000).toLocaleString() : "");

function cell(text, attributes = {}) {
  return element("td", attributes, text ?? "");
}

/** A button that changes something on the server, and has the view look again. */
function change(words, path) {
  const button = element("button", { type: "button", class: "quiet" }, words);
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      await ask(path, { method: "POST", headers: { "content-type": "application/json" }, body: "{}" });
    } catch (error) {
      note.textContent = error.message;
    }
    watch();
  });
  return element("td", {}, button);
}

function batchRow(batch) {
  const { total, completed, failed } = batch.request_counts;
  const open = ["validating", "in_progress", "finalizing"].includes(batch.status);
  return element("tr", {},
    cell(batch.id), cell(batch.status), cell(`${completed} of ${total}${failed ? `, ${failed} failed` : ""}`),
    cell(when(batch.created_at)), open ? change("Cancel", `/v1/batches/${batch.id}/cancel`) : cell(""));
}

function jobRow(job) {
  const open = job.status === "queued" || job.status === "running";
  const again = ["failed", "expired", "cancelled"].includes(job.status);
  const told = job.status === "running" ? `${job.progress?.output_tokens ?? 0} tokens` : job.error?.message ?? "";
  let act = cell("");
  if (open) act = change("Cancel", `/v1/jobs/${job.id}/cancel`);
  else if (again) act = change("Retry", `/v1/jobs/${job.id}/retry`);
  return element("tr", {},
    cell(job.id), cell(job.dead ? "dead" : job.status), cell(job.endpoint), cell(told), cell(when(job.created_at)), act);
}
