// Drives the page of a running server in headless Chromium, as a user would; `cargo xtask page` starts it.
//
//     node check.mjs CHROMIUM OPEN_URL KEYED_URL KEY
//
// OPEN_URL is a server without keys and with two models, the first of which has a chat template; KEYED_URL is one that
// knows KEY. The models are real. Prints a line a check; leaves with 1 if any
// failed. Where an answer must have a certain text (hostile markup, an error in mid-stream, a full queue), the browser's
// request is answered here instead of by the server; all else is real.

import assert from "node:assert/strict";
import { chromium } from "playwright-core";

const [executablePath, openUrl, keyedUrl, apiKey] = process.argv.slice(2);
const STEP_MS = 20_000;
const checks = [];
const check = (name, run) => checks.push({ name, run });

const event = (data) => `data: ${JSON.stringify(data)}\n\n`;
const delta = (fields) => event({ choices: [{ index: 0, delta: fields, finish_reason: null }] });
const sse = (...events) => ({ status: 200, contentType: "text/event-stream", body: events.join("") });
const whole = (...deltas) => sse(...deltas, event({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }),
  event({ choices: [], usage: { prompt_tokens: 3, completion_tokens: 9 } }), "data: [DONE]\n\n");

/** A fresh page that must stay free of errors; `faults` are those seen. */
async function open(browser, path = "/", { url = openUrl, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1100, height: 800 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(STEP_MS);
  page.faults = [];
  page.on("pageerror", (error) => page.faults.push(error.message));
  // A refused request is told in the console too; a policy that was broken must not be.
  page.on("console", (message) => {
    if (message.type() === "error" && !message.text().includes("Failed to load resource")) page.faults.push(message.text());
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(url)) page.faults.push(`asked ${request.url()}`);
  });
  await page.goto(url + path);
  return page;
}

const answered = (page, answer) => page.route("**/v1/chat/completions", (route) => route.fulfill(answer));
const last = (page) => page.locator(".turn.assistant").last();

async function ask(page, text) {
  await page.fill("#message", text);
  await page.press("#message", "Enter");
}

const chosen = (page) => page.locator("#model .name").innerText();
const rowOf = (page, name) => page.locator("#models [role=option]", { has: page.getByText(name, { exact: true }) });

/** Sets a field of the settings panel, with the keyboard where a key is worth checking. */
async function set(page, fields) {
  await page.press("body", "Alt+s");
  await page.waitForSelector("dialog[open]");
  for (const [selector, value] of Object.entries(fields)) await page.fill(selector, value);
  await page.press("dialog", "Escape");
  await page.waitForSelector("dialog[open]", { state: "hidden" });
}

check("types, streams, and tells figures", async (browser) => {
  const page = await open(browser);
  await page.waitForSelector("#model:enabled");
  await set(page, { "[data-field=max_tokens]": "24", "[data-field=temperature]": "0", "[data-field=seed]": "7", "#system": "You answer briefly." });
  const [request] = await Promise.all([page.waitForRequest("**/v1/chat/completions"), ask(page, "What is a mill?")]);
  const sent = request.postDataJSON();
  assert.equal(sent.max_tokens, 24);
  assert.equal(sent.seed, 7);
  assert.deepEqual(sent.messages[0], { role: "system", content: "You answer briefly." });
  assert.equal(sent.model, await chosen(page));
  await last(page).locator(".figures", { hasText: "token" }).waitFor();
  const text = await last(page).locator(".md").innerText();
  assert.ok(text.trim().length > 10, text);
  const figures = await last(page).locator(".figures").innerText();
  assert.ok(figures.endsWith(sent.model), "of several models, the one that answered is named");
  assert.match(figures, /^[\d.]+ tokens\/s · first token after [\d.]+ m?s · \d+ tokens/);
  await page.click(".turn.assistant .again");
  await page.waitForSelector("#stop", { state: "hidden" });
  await last(page).locator(".figures", { hasText: "token" }).waitFor();
  assert.equal(await last(page).locator(".md").innerText(), text, "greedy: regenerating says the same");
  assert.equal(await page.locator(".turn").count(), 2);
  await page.reload();
  assert.equal(await last(page).locator(".md").innerText(), text, "a reload keeps the conversation");
  assert.deepEqual(page.faults, []);
  return figures;
});

const served = async () => (await (await fetch(`${openUrl}/v1/models`)).json()).data;

check("the model is chosen, loaded, remembered", async (browser) => {
  const [first, second] = (await served()).map(({ id }) => id);
  assert.equal((await fetch(`${openUrl}/v1/models/${second}/unload`, { method: "POST" })).status, 200);
  for (let i = 0; (await served())[1].state !== "registered"; i += 1) {
    assert.ok(i < 200, "the model is not unloaded");
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const page = await open(browser);
  await page.waitForSelector("#model:enabled");
  assert.equal(await chosen(page), first);
  await page.click("#model");
  assert.equal(await page.getAttribute("#model", "aria-expanded"), "true");
  assert.match(await rowOf(page, first).innerText(), /loaded · context [\d,]+ · [\d.]+ [MG]B/);
  assert.match(await rowOf(page, second).innerText(), /not loaded/);
  await rowOf(page, second).click();
  await page.waitForSelector("#models", { state: "hidden" });
  const [request] = await Promise.all([page.waitForRequest("**/v1/chat/completions"), ask(page, "What is a mill?")]);
  assert.equal(request.postDataJSON().model, second);
  const waits = last(page).locator(".wait");
  await waits.filter({ hasText: second }).waitFor();
  const said = await waits.innerText();
  assert.match(said, /must be loaded first|is loading/);
  // It may have no chat template, which is then said; it is loaded all the same.
  await page.locator(".figures", { hasText: "token" }).or(page.locator(".problem")).first().waitFor();
  await page.locator(`#model[aria-label="Model: ${second}, loaded"]`).waitFor();
  await page.reload();
  await page.waitForSelector("#model:enabled");
  assert.equal(await chosen(page), second, "a reload remembers the choice");
  // With the keys: the list opens at the choice, letters and arrows move, Esc leaves all as it was.
  await page.focus("#model");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Escape");
  assert.equal(await chosen(page), second);
  assert.equal(await page.evaluate(() => document.activeElement.id), "model");
  await page.keyboard.press("Enter");
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#models", { state: "hidden" });
  assert.equal(await chosen(page), first);
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press(second[0]);
  await page.keyboard.press(" ");
  assert.equal(await chosen(page), second);
  // A click beside the list closes it, and one on the button both opens and closes.
  for (const place of ["h1", "#model"]) {
    await page.click("#new-chat");
    await page.click("#model");
    await page.waitForSelector("#models", { state: "visible" });
    await page.click(place);
    await page.waitForSelector("#models", { state: "hidden" });
  }
  assert.deepEqual(page.faults, []);
  return said;
});

check("names of models are text, states change, and the list is asked for seldom", async (browser) => {
  const page = await open(browser, "/live");
  const hostile = "<img src=x onerror=window.owned=1>";
  const card = (id, state) => ({ id, object: "model", state });
  const lists = [[card(hostile, "registered"), card("b", "<b>new</b>")], [card(hostile, "loading")], [card(hostile, "draining")], [card(hostile, "failed")], [card("other", "ready")]];
  let asked = 0;
  let most = 0;
  let under = 0;
  await page.route("**/v1/models", async (route) => {
    most = Math.max(most, under += 1);
    const data = lists[Math.min(asked, lists.length - 1)];
    asked += 1;
    await route.fulfill({ contentType: "application/json", body: JSON.stringify({ object: "list", data }) });
    under -= 1;
  });
  await page.reload();
  await page.waitForSelector("#model:enabled");
  assert.equal(await chosen(page), hostile);
  await page.click("#model");
  for (const state of ["loading …", "unloading …", "load failed"]) await page.locator("#models .about", { hasText: state }).waitFor();
  assert.equal(await page.locator("#models [role=option]").count(), 1);
  assert.equal(await page.locator("#models .name").innerText(), hostile);
  assert.equal(await page.locator("#models img, #model img").count(), 0);
  assert.equal(await page.evaluate(() => window.owned), undefined);
  await page.locator("#models .about", { hasText: /^loaded$/ }).waitFor();
  await page.keyboard.press("Escape");
  const before = asked;
  for (let i = 0; i < 30; i += 1) await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
  await page.waitForTimeout(2500);
  assert.equal(most, 1, "one request at a time");
  assert.ok(asked - before < 34, `${asked - before} requests`);
  const calm = asked;
  await page.waitForTimeout(2500);
  assert.ok(asked - calm <= 1, `${asked - calm} requests while nothing changes`);
  assert.deepEqual(page.faults, []);
});

check("Esc stops; the server is told", async (browser) => {
  const page = await open(browser);
  const aborted = async () => {
    const text = await (await fetch(`${openUrl}/metrics`)).text();
    const all = text.matchAll(/^vllm:request_success_total\{[^}]*finished_reason="abort"[^}]*\} (\d+)/gm);
    return [...all].reduce((sum, [, count]) => sum + Number(count), 0);
  };
  const before = await aborted();
  await page.route("**/v1/chat/completions", (route) => {
    const body = JSON.stringify({ ...route.request().postDataJSON(), ignore_eos: true });
    route.continue({ postData: body });
  });
  await ask(page, "Tell a very long story about a miller.");
  await page.waitForFunction(() => document.querySelector(".turn.assistant .md")?.innerText.length > 40);
  await page.keyboard.press("Escape");
  await last(page).locator(".figures", { hasText: "stopped" }).waitFor();
  assert.ok(await page.isVisible("#send"));
  for (let i = 0; await aborted() === before; i += 1) {
    assert.ok(i < 100, "the server still computes");
    await page.waitForTimeout(50);
  }
  assert.deepEqual(page.faults, []);
});

check("edits and sends again", async (browser) => {
  const page = await open(browser);
  await set(page, { "[data-field=max_tokens]": "4" });
  await ask(page, "first question");
  await last(page).locator(".figures", { hasText: "token" }).waitFor();
  await ask(page, "second question");
  await page.waitForFunction(() => document.querySelectorAll(".turn.assistant .figures").length === 2);
  await page.locator(".turn.user").first().hover();
  await page.locator(".start-edit").first().click();
  await page.fill(".edit textarea", "another question");
  const [request] = await Promise.all([page.waitForRequest("**/v1/chat/completions"), page.press(".edit textarea", "Enter")]);
  assert.deepEqual(request.postDataJSON().messages, [{ role: "user", content: "another question" }]);
  await page.waitForSelector("#stop", { state: "hidden" });
  assert.equal(await page.locator(".turn").count(), 2);
  await page.click("#new-chat");
  assert.equal(await page.locator(".turn").count(), 0);
  assert.deepEqual(page.faults, []);
});

const MARKDOWN = `# Title

Some **bold**, *italic*, \`code\` and [a link](https://example.org/a?b=1).

- one
- two
  1. inner

| a | b |
|---|--:|
| 1 | 2 |

\`\`\`rust
fn main() { println!("<b>"); }
\`\`\``;

check("markdown becomes structure", async (browser) => {
  const page = await open(browser);
  // In small pieces, so that each state of the text on its way is drawn too.
  await answered(page, whole(...MARKDOWN.match(/[\s\S]{1,3}/g).map((content) => delta({ content }))));
  await ask(page, "go");
  await last(page).locator(".figures", { hasText: "9 tokens" }).waitFor();
  const md = last(page).locator(".md");
  assert.equal(await md.locator("h1").innerText(), "Title");
  assert.equal(await md.locator("strong").innerText(), "bold");
  assert.equal(await md.locator("em").innerText(), "italic");
  assert.equal(await md.locator("ul > li").count(), 2);
  assert.equal(await md.locator("ul ol > li").innerText(), "inner");
  assert.equal(await md.locator("td.right").innerText(), "2");
  assert.equal(await md.locator("pre code").innerText(), 'fn main() { println!("<b>"); }');
  const link = md.locator("p a");
  assert.equal(await link.getAttribute("href"), "https://example.org/a?b=1");
  assert.match(await link.getAttribute("rel"), /noopener.*noreferrer/);
  assert.deepEqual(page.faults, []);
});

const HOSTILE = [
  "<script>window.owned = 1</script>",
  "<img src=x onerror='window.owned = 1'>",
  "<svg onload=window.owned=1></svg>",
  "[a](javascript:window.owned=1)",
  "[b](JaVaScRiPt&colon;window.owned=1)",
  "[c](data:text/html,<script>window.owned=1</script>)",
  "![d](https://example.org/pixel.png)",
  "<javascript:window.owned=1>",
  "[e](https://x\" onmouseover=\"window.owned=1)",
  "| <img src=x onerror=window.owned=1> |\n|---|\n| <iframe srcdoc='<script>parent.owned=1</script>'> |",
  "```html\n</code></pre><script>window.owned = 1</script>\n```",
].join("\n\n");

check("hostile text stays text", async (browser) => {
  const page = await open(browser);
  await answered(page, whole(delta({ reasoning_content: "<img src=x onerror=window.owned=1>" }), delta({ content: HOSTILE })));
  await ask(page, "<img src=x onerror='window.owned=1'><b>me</b>");
  await last(page).locator(".figures", { hasText: "token" }).waitFor();
  const turns = page.locator("#messages");
  assert.equal(await turns.locator("script, img, svg[onload], iframe").count(), 0);
  assert.equal(await page.evaluate(() => window.owned), undefined);
  assert.match(await turns.innerText(), /<script>window\.owned = 1<\/script>/);
  assert.match(await page.locator(".bubble").innerText(), /<b>me<\/b>/);
  const hrefs = await turns.locator("a").evaluateAll((links) => links.map((link) => link.href));
  assert.ok(hrefs.every((href) => /^https?:/.test(href)), hrefs.join());
  assert.ok(hrefs.includes("https://example.org/pixel.png"), "an image is a link");
  const on = await turns.evaluate((root) => [...root.querySelectorAll("*")].filter((n) => [...n.attributes].some((a) => a.name.startsWith("on"))).length);
  assert.equal(on, 0);
  assert.deepEqual(page.faults, []);
  // The policy holds where the page's own code would not.
  const parsed = await page.evaluate(() => { try { document.body.innerHTML = "<p>"; return true; } catch { return false; } });
  assert.equal(parsed, false, "HTML from a string must be refused");
});

check("long and tangled text takes no long time", async (browser) => {
  const page = await open(browser);
  const tangles = ["*".repeat(50_000), "[".repeat(20_000), "`a".repeat(10_000), "> ".repeat(5_000) + "x", "- ".repeat(5_000) + "x",
    "|".repeat(2_000) + "\n" + "-|".repeat(2_000), "*a _b ~~c ".repeat(5_000), "[a](".repeat(5_000), "\\".repeat(20_000)];
  const took = await page.evaluate(async (texts) => {
    const { show } = await import("/page/markdown.js");
    return texts.map((text) => {
      const began = performance.now();
      show(document.createElement("div"), text);
      return Math.round(performance.now() - began);
    });
  }, tangles);
  assert.ok(Math.max(...took) < 5_000, took.join());
  return `${took.join(", ")} ms`;
});

check("thoughts are folded", async (browser) => {
  const page = await open(browser);
  await answered(page, whole(delta({ reasoning_content: "let me see" }), delta({ content: "It is 4." })));
  await ask(page, "2+2?");
  await last(page).locator(".figures", { hasText: "token" }).waitFor();
  assert.equal(await page.locator(".think").getAttribute("open"), null);
  assert.equal(await page.locator(".think .text").isVisible(), false);
  await page.locator(".think summary").click();
  assert.equal(await page.locator(".think .text").innerText(), "let me see");
  const [request] = await Promise.all([page.waitForRequest("**/v1/chat/completions"), ask(page, "and 3+3?")]);
  assert.deepEqual(request.postDataJSON().messages[1], { role: "assistant", content: "It is 4." });
});

check("an error in mid-stream is told, the text stays", async (browser) => {
  const page = await open(browser);
  await answered(page, sse(delta({ content: "The beginning" }), event({ error: { message: "the server shut down before the answer was complete", code: "draining" } }), "data: [DONE]\n\n"));
  await ask(page, "go");
  await page.locator(".problem", { hasText: "shut down before" }).waitFor();
  assert.equal(await last(page).locator(".md").innerText(), "The beginning");
  await page.unroute("**/v1/chat/completions");
  await answered(page, sse(delta({ content: "Half" })));
  await page.locator(".problem button").last().click();
  await page.locator(".problem", { hasText: "before the answer was complete" }).waitFor();
  assert.equal(await page.locator(".turn").count(), 2);
});

check("429 is waited out", async (browser) => {
  const page = await open(browser);
  let times = 0;
  await page.route("**/v1/chat/completions", (route) => {
    times += 1;
    if (times > 1) return route.fulfill(whole(delta({ content: "now there is room" })));
    return route.fulfill({ status: 429, headers: { "retry-after": "1" }, contentType: "application/json",
      body: JSON.stringify({ error: { message: "72 answers wait", type: "rate_limit_error", param: null, code: "queue_full" } }) });
  });
  await ask(page, "go");
  await page.locator(".problem", { hasText: "72 answers wait" }).waitFor();
  await page.locator(".md", { hasText: "now there is room" }).waitFor();
  assert.equal(times, 2);
  assert.equal(await page.locator(".problem").count(), 0);
});

check("a refused field is named", async (browser) => {
  const page = await open(browser);
  await set(page, { "[data-field=temperature]": "9" });
  await ask(page, "go");
  await page.locator(".problem", { hasText: "temperature" }).waitFor();
});

check("keys: asked for, kept in the tab, sent", async (browser) => {
  const page = await open(browser, "/", { url: keyedUrl });
  await page.locator("#banner", { hasText: "API key" }).waitFor();
  await ask(page, "go");
  await page.locator(".problem", { hasText: "An API key is needed" }).waitFor();
  await page.click(".problem .solid");
  assert.equal(await page.evaluate(() => document.activeElement.id), "key");
  await page.fill("#key", apiKey);
  await page.press("#key", "Escape");
  await page.waitForSelector("#model:enabled");
  await set(page, { "[data-field=max_tokens]": "4" });
  await page.locator(".turn.assistant .again").last().or(page.locator(".problem button", { hasText: "Try again" })).first().click();
  await last(page).locator(".figures", { hasText: "token" }).waitFor();
  const kept = await page.evaluate(() => [Object.values(localStorage).join(), sessionStorage.getItem("gristmill.key"), document.cookie]);
  assert.ok(!kept[0].includes(apiKey) && kept[1] === apiKey && kept[2] === "");
  await page.click("nav a[data-view=live]");
  await page.locator(".plot b", { hasText: /\d/ }).first().waitFor();
});

check("the live view shows numbers", async (browser) => {
  const page = await open(browser, "/live");
  const load = async () => {
    const body = JSON.stringify({ messages: [{ role: "user", content: "Count to one hundred." }], max_tokens: 80, ignore_eos: true });
    await (await fetch(`${openUrl}/v1/chat/completions`, { method: "POST", headers: { "content-type": "application/json" }, body })).text();
  };
  const loads = [load(), load(), load()];
  const shown = (title) => page.evaluate((name) => {
    const plot = [...document.querySelectorAll(".plot")].find((p) => p.querySelector("figcaption").innerText.startsWith(name));
    return [...plot.querySelectorAll("b")].map((b) => b.innerText);
  }, title);
  await page.waitForFunction(() => Number(document.querySelector(".plot b")?.innerText) > 0);
  await Promise.all(loads);
  const seen = {};
  for (const title of ["Tokens", "Requests", "Time to first token", "Between tokens", "KV cache", "Memory", "Step", "CPU", "Weights read"]) seen[title] = await shown(title);
  for (const [title, values] of Object.entries(seen)) assert.match(values[0], /\d/, `${title}: ${values}`);
  const drawn = await page.evaluate(() => [...document.querySelectorAll(".plot canvas")].map((canvas) => {
    const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    return new Set(new Uint32Array(data.buffer)).size;
  }));
  assert.ok(drawn.every((colours) => colours > 3), drawn.join());
  assert.match(await page.locator(".plot canvas").first().getAttribute("aria-label"), /written \d/);
  assert.deepEqual(page.faults, []);
  return JSON.stringify(seen);
});

check("the row of figures leaves no gap", async (browser) => {
  const page = await open(browser, "/live");
  await page.locator("#tiles div").first().waitFor();
  for (const width of [360, 400, 560, 561, 800, 1080, 1081, 1100, 1440, 2000]) {
    await page.setViewportSize({ width, height: 700 });
    const gaps = await page.evaluate(() => {
      const tiles = document.getElementById("tiles");
      const all = [...tiles.children];
      const found = [];
      for (let n = 1; n <= 9; n += 1) {
        tiles.replaceChildren(...Array.from({ length: n }, (_, i) => all[i % all.length].cloneNode(true)));
        const covered = [...tiles.children].reduce((sum, tile) => sum + (tile.offsetWidth + 1) * (tile.offsetHeight + 1), 0);
        const whole = (tiles.clientWidth + 1) * (tiles.clientHeight + 1);
        const cut = [...tiles.querySelectorAll("dt, dd")].filter((text) => text.scrollWidth > text.clientWidth).length;
        if (Math.abs(covered / whole - 1) > 0.02 || cut) found.push(`${n} tiles: ${(100 * covered / whole).toFixed(1)} % covered, ${cut} cut`);
      }
      tiles.replaceChildren(...all);
      return found;
    });
    assert.deepEqual(gaps, [], `${width} px`);
  }
  assert.deepEqual(page.faults, []);
});

check("fits 360 px, in light and in dark", async (browser) => {
  for (const colorScheme of ["light", "dark"]) {
    for (const path of ["/", "/live"]) {
      const page = await open(browser, path, { viewport: { width: 360, height: 640 }, colorScheme });
      await answered(page, whole(delta({ content: `${"wide".repeat(60)}\n\n\`\`\`\n${"wide ".repeat(60)}\n\`\`\`\n\n| ${"wide | ".repeat(12)}\n|${"--|".repeat(12)}` })));
      if (path === "/") { await ask(page, "wide".repeat(60)); await last(page).locator(".figures", { hasText: "token" }).waitFor(); }
      const wide = await page.evaluate(() => [...document.querySelectorAll("body, main:not([hidden]), .scroll, .turn, .bar, .composer")]
        .filter((n) => n.scrollWidth > n.clientWidth + 1 && n.clientWidth).map((n) => `${n.className || n.tagName} ${n.scrollWidth}`));
      assert.deepEqual(wide, []);
      await page.context().close();
    }
  }
});

check("everything has a name and a visible focus", async (browser) => {
  const page = await open(browser);
  const nameless = await page.evaluate(() => [...document.querySelectorAll("button, a, input, select, textarea")]
    .filter((n) => !(n.getAttribute("aria-label") || n.labels?.length || n.textContent.trim())).map((n) => n.outerHTML));
  assert.deepEqual(nameless, []);
  await page.locator("#message").blur();
  for (let i = 0; i < 6; i += 1) {
    await page.keyboard.press("Tab");
    const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
    const where = await page.evaluate(() => document.activeElement.id || document.activeElement.tagName);
    assert.ok(outline !== "none" || where === "message" || where === "BODY", `${where} has no outline`);
  }
});

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync"] });
let failed = 0;
for (const { name, run } of checks) {
  const began = Date.now();
  try {
    const said = await run(browser);
    console.log(`ok    ${name} (${((Date.now() - began) / 1000).toFixed(1)} s)${said ? `: ${said}` : ""}`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL  ${name}: ${error.stack}`);
  }
  for (const context of browser.contexts()) await context.close();
}
await browser.close();
console.log(failed ? `${failed} failed` : "all passed");
process.exit(failed ? 1 : 0);
