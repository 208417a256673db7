// The server's HTTP API: requests that carry the key, and streams of events.

const KEY = "gristmill.key";

export const key = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (value) => (value ? sessionStorage.setItem(KEY, value) : sessionStorage.removeItem(KEY)),
};

/** An answer that is an error. `status` is 0 when there was no answer; `retryAfter` is in seconds. */
export class Refusal extends Error {
  constructor(message, { status = 0, code = "", retryAfter = null } = {}) {
    super(message);
    Object.assign(this, { status, code, retryAfter });
  }
}

/** A request; a {@link Refusal} unless the answer is a 2xx. */
export async function ask(path, options = {}) {
  const headers = { ...options.headers };
  if (key.get()) headers.authorization = `Bearer ${key.get()}`;
  let answer;
  try {
    answer = await fetch(path, { ...options, headers, cache: "no-store", credentials: "omit" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal("The server cannot be reached.");
  }
  if (!answer.ok) throw await refusal(answer);
  return answer;
}

async function refusal(answer) {
  const retry = parseInt(answer.headers.get("retry-after") ?? "", 10);
  const text = await answer.text().catch(() => "");
  let said = null;
  try { said = JSON.parse(text).error; } catch { /* not ours: a proxy's page perhaps */ }
  return new Refusal(said?.message ?? (answer.statusText || `The server answered ${answer.status}.`), {
    status: answer.status, code: said?.code ?? "", retryAfter: Number.isFinite(retry) ? retry : null,
  });
}

/** The chunks of a streamed chat answer, as objects. An error in the stream, or an end before `[DONE]`, is a Refusal. */
export async function* chat(body, signal) {
  const answer = await ask("/v1/chat/completions", {
    method: "POST", signal, headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
  });
  for await (const data of events(answer.body)) {
    if (data === "[DONE]") return;
    let chunk;
    try { chunk = JSON.parse(data); } catch { throw new Refusal("The server sent an event that is not JSON."); }
    if (chunk.error) throw new Refusal(chunk.error.message ?? "The answer failed.", { status: 500, code: chunk.error.code ?? "" });
    yield chunk;
  }
  throw new Refusal("The connection ended before the answer was complete.");
}

/** The data of server-sent events; comments are left out. */
async function* events(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const blocks = (rest + value).split(/\r?\n\r?\n/);
      rest = blocks.pop();
      for (const block of blocks) {
        const data = block.split(/\r?\n/).filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trimStart());
        if (data.length) yield data.join("\n");
      }
    }
  } catch (error) {
    if (error.name === "AbortError" || error instanceof Refusal) throw error;
    throw new Refusal("The connection broke before the answer was complete.");
  } finally {
    reader.cancel().catch(() => {});
  }
}
