#!/usr/bin/env python3
"""Overflow, live: a load that rises and falls over own machines of a known speed, and a commercial API for the rest.

    cargo build --release -p fake_provider -p planner --bin fake-provider --example overflow
    python3 tools/gateway/overflow.py --gristmill target/release/gristmill --fake target/release/fake-provider \\
        --simulator target/release/examples/overflow

Two own nodes, the API and `gristmill gateway` run on loopback. The nodes are scripted, so that their capacity is known: they
batch continuously with the same step times as those of the simulator (prompts in chunks of 256 tokens, 8 slots, a queue),
in real time, and tell their records as a Gristmill node does (`GET /v1/node`, `x-gristmill-load`). The API is
`fake-provider`. Arrivals are a Poisson process; prompts and answers have exponential lengths, which the gateway is not told.

For each period, beside what the live run did: what `planner::hybrid` says of that load, and what the simulator says,
which runs the same routing code in simulated time (mean of ten seeds, lowest and highest). Costs are those of the
gateway's receipts, the level is kept if the 95th percentile of the seconds to the first token is below it.

Standard library only (Python 3.9 or later). Prints a table in Markdown; exit code 1 if the level was missed or the whole
cost is not within the simulator's range by a tenth.
"""

import argparse
import asyncio
import json
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CHUNK = 256
CASE = dict(machines=2, prompt_tokens=300, answer_tokens=150, prompt_tokens_per_s=2400, slots=8, level_s=1.2,
            steps=[[1, 0.0026], [4, 0.004], [8, 0.006]], price=[0.15, 0.60])


async def head(reader):
    """The first line and the headers of a message."""
    first = (await reader.readline()).decode().split()
    headers = {}
    while (line := (await reader.readline()).decode().strip()):
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return first, headers


class Job:
    def __init__(self, prompt, answer):
        self.left, self.prompt, self.answer, self.generated = prompt, prompt, answer, 0
        self.first, self.done = asyncio.Event(), asyncio.Event()


class Node:
    """A node of a known speed."""

    def __init__(self, number):
        self.id, self.sequence, self.running, self.waiting = f"{number:032x}", 0, [], []
        self.wake = asyncio.Event()

    def step_s(self, rows):
        """Seconds of a step with so many answers, on the line through the table."""
        low = CASE["steps"][0]
        for high in CASE["steps"]:
            if rows <= high[0]:
                share = (rows - low[0]) / max(1, high[0] - low[0])
                return low[1] + share * (high[1] - low[1])
            low = high
        return low[1] * rows / low[0]

    async def compute(self):
        loop = asyncio.get_running_loop()
        while True:
            self.wake.clear()
            if not self.running and not self.waiting:
                await self.wake.wait()
            # A step that a busy machine begins late is made up for: the capacity is that of the table.
            at = loop.time()
            while self.running or self.waiting:
                while self.waiting and len(self.running) < CASE["slots"]:
                    self.running.append(self.waiting.pop(0))
                decoding, chunk = sum(job.left == 0 for job in self.running), CHUNK
                for job in self.running:
                    job.rows = min(job.left, chunk)
                    chunk -= job.rows
                at += self.step_s(decoding) if decoding else 0
                at += (CHUNK - chunk) / CASE["prompt_tokens_per_s"]
                await asyncio.sleep(max(0, at - loop.time()))
                for job in self.running:
                    job.left -= job.rows
                    if job.left == 0:
                        job.generated += 1
                        job.first.set()
                for job in [job for job in self.running if job.generated >= job.answer]:
                    self.running.remove(job)
                    job.done.set()

    def load(self):
        backlog = sum(job.left for job in self.running + self.waiting)
        return dict(running=len(self.running), waiting=len(self.waiting), backlog_tokens=backlog)

    def record(self):
        self.sequence += 1
        steps = [dict(rows=rows, ms=seconds * 1e3) for rows, seconds in CASE["steps"]]
        model = dict(names=["m"], state="ready", operations=["generate"], load=self.load(), slots=CASE["slots"],
                     prompt_tokens_per_s=CASE["prompt_tokens_per_s"], step_times=steps)
        return dict(id=self.id, sequence=self.sequence, version="0", uptime_s=1, state="ready", load=self.load(),
                    models=[model])

    async def serve(self, reader, writer):
        try:
            while True:
                first, headers = await head(reader)
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                if first[0] == "GET":
                    text = json.dumps(self.record()).encode() if first[1] == "/v1/node" else b"{}"
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
                                 b"content-length: %d\r\n\r\n%b" % (len(text), text))
                    await writer.drain()
                    continue
                await self.answer(json.loads(body), writer)
        except (IndexError, OSError, asyncio.IncompleteReadError):
            writer.close()

    async def answer(self, body, writer):
        text = body["messages"][-1]["content"]
        job = Job(max(1, len(text) // 4), int(text.split()[1]))
        self.waiting.append(job)
        self.wake.set()
        load = self.load()
        writer.write((f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-gristmill-node: {self.id}\r\n"
                      f"x-gristmill-load: running={load['running']},waiting={load['waiting']},"
                      f"backlog={load['backlog_tokens']}\r\ntransfer-encoding: chunked\r\n\r\n").encode())

        def send(choices, **more):
            event = dict(id="x", object="chat.completion.chunk", created=1, model="m", choices=choices, **more)
            data = b"data: %b\n\n" % json.dumps(event).encode()
            writer.write(b"%x\r\n%b\r\n" % (len(data), data))

        choice = lambda delta, reason=None: dict(index=0, delta=delta, finish_reason=reason)
        await job.first.wait()
        send([choice(dict(role="assistant", content="w"))])
        await job.done.wait()
        send([choice(dict(content=" w" * (job.answer - 1)))])
        send([choice({}, "stop")])
        total = job.prompt + job.answer
        send([], usage=dict(prompt_tokens=job.prompt, completion_tokens=job.answer, total_tokens=total))
        writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
        await writer.drain()


async def nodes(ports):
    for number, port in enumerate(ports, 1):
        node = Node(number)
        await asyncio.start_server(node.serve, "127.0.0.1", port)
        asyncio.create_task(node.compute())
    await asyncio.Event().wait()


def length(draw, mean):
    return max(1, round(min(draw.expovariate(1 / mean), 8 * mean)))


async def one(port, number, sizes, told):
    """A streamed request: when it came, where it went, and the seconds to its first token."""
    prompt, answer = sizes
    text = f"{number} {answer} ".ljust(4 * prompt, "x")
    body = json.dumps(dict(model="chat", stream=True, max_tokens=4096, messages=[dict(role="user", content=text)])).encode()
    line = dict(came=time.time(), upstream=None, first=None, done=False)
    told.append(line)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
                 b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
    began = time.monotonic()
    _, headers = await head(reader)
    line["upstream"] = headers.get("x-gristmill-upstream")
    async for data in reader:
        if line["first"] is None and b'"content":"' in data.replace(b'": "', b'":"'):
            line["first"] = time.monotonic() - began
        line["done"] |= b"[DONE]" in data
    writer.close()


async def load(args, told):
    """The load, period by period; the times at which they begin."""
    draw, begins, running, number = random.Random(args.seed), [], [], 0
    at = time.monotonic()
    for per_s in args.per_s:
        begins.append(time.time())
        until = at + args.period
        while (at := at + draw.expovariate(per_s)) < until:
            await asyncio.sleep(max(0, at - time.monotonic()))
            number += 1
            sizes = length(draw, CASE["prompt_tokens"]), length(draw, CASE["answer_tokens"])
            running.append(asyncio.create_task(one(args.port, number, sizes, told)))
        at = until
        await asyncio.sleep(max(0, at - time.monotonic()))
    begins.append(time.time())
    await asyncio.gather(*running)
    return begins


def config(args, folder):
    own = "".join(f'[[upstream]]\nname = "own-{p}"\nurl = "http://127.0.0.1:{p}"\nkind = "gristmill"\n' for p in args.ports)
    targets = ", ".join(f'{{ upstream = "own-{port}", model = "m" }}' for port in args.ports)
    price = 'price = { input = "%s", output = "%s" }' % tuple(CASE["price"])
    return (f'[gateway]\nlisten = "127.0.0.1:{args.port}"\n[store]\nsqlite = "{folder}/ledger.sqlite"\n{own}'
            f'[[upstream]]\nname = "api"\nurl = "http://127.0.0.1:{args.port + 9}/v1"\nkind = "openai"\n'
            f'[[model]]\nname = "chat"\nslo = {{ first_token = "{CASE["level_s"] * 1000:.0f}ms" }}\n'
            f'targets = [{targets}, {{ upstream = "api", model = "m", {price} }}]\n')


def p95(values):
    """The 95th percentile; a request without a token has waited without end."""
    values = sorted(float("inf") if value is None else value for value in values)
    return values[max(0, -(-95 * len(values) // 100) - 1)] if values else 0.0


def table(args, told, begins, receipts, model):
    """Prints the periods, and says whether the run is that of the model."""
    print("| requests/s | leaves: live | simulator | hybrid | cost an hour: live | simulator | hybrid | p95 first token, own |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|")
    costs, planned, runs = [], model["planned"], [run["periods"] for run in model["simulated"]]
    for at, per_s in enumerate(args.per_s):
        came = [line for line in told if begins[at] <= line["came"] < begins[at + 1]]
        left = sum(line["upstream"] == "api" for line in came) / max(1, len(came))
        costs.append(sum(cost for time, cost in receipts if begins[at] <= time < begins[at + 1]) / args.period * 3600)
        sim = lambda name: [run[at][name] for run in runs]
        mean = lambda values: sum(values) / len(values)
        shares, hourly = sim("left"), sim("cost_per_hour")
        first = p95([line["first"] for line in came if line["upstream"] != "api"])
        print(f"| {per_s:g} | {100 * left:.1f} % | {100 * mean(shares):.1f} % ({100 * min(shares):.1f} to "
              f"{100 * max(shares):.1f}) | {100 * planned[at]['left']:.1f} % | {costs[-1]:.3f} | {mean(hourly):.3f} "
              f"({min(hourly):.3f} to {max(hourly):.3f}) | {planned[at]['cost_per_hour']:.3f} | {first:.2f} s |")
    whole = sum(costs) / len(costs)
    every = [sum(period["cost_per_hour"] for period in run) / len(run) for run in runs]
    optimum = sum(period["cost_per_hour"] for period in planned) / len(planned)
    own = p95([line["first"] for line in told if line["upstream"] != "api"])
    simulated = [run["own_first_token_p95_s"] for run in model["simulated"]]
    print(f"\nwhole: cost an hour {whole:.3f}, simulator {sum(every) / len(every):.3f} ({min(every):.3f} to {max(every):.3f}), "
          f"hybrid {optimum:.3f}; p95 to the first token at own nodes {own:.2f} s, simulator {min(simulated):.2f} to "
          f"{max(simulated):.2f} s, of all {p95([line['first'] for line in told]):.2f} s, level {CASE['level_s']} s; "
          f"{len(told)} requests, {sum(not line['done'] for line in told)} failed")
    return own <= CASE["level_s"] and 0.9 * min(every) <= whole <= 1.1 * max(every)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gristmill", default="target/release/gristmill")
    parser.add_argument("--fake", default="target/release/fake-provider")
    parser.add_argument("--simulator", default="target/release/examples/overflow")
    parser.add_argument("--per-s", type=float, nargs="*", default=[2, 5, 8, 11, 14, 11, 8, 5, 2], help="requests a second")
    parser.add_argument("--period", type=float, default=80, help="seconds of each")
    parser.add_argument("--seed", type=int, default=50)
    parser.add_argument("--port", type=int, default=8730)
    parser.add_argument("--nodes", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.ports = [args.port + 1, args.port + 2]
    if args.nodes:
        return asyncio.run(nodes(args.ports))
    case = dict(CASE, per_s=args.per_s, period_s=args.period, seeds=list(range(1, 11)))
    model = json.loads(subprocess.run([args.simulator], input=json.dumps(case), check=True, capture_output=True, text=True).stdout)
    with tempfile.TemporaryDirectory(prefix="overflow-") as folder:
        path = Path(folder, "gateway.toml")
        path.write_text(config(args, folder))
        log = open(Path(folder, "log"), "w")
        api = [args.fake, "--listen", f"127.0.0.1:{args.port + 9}", "--tokens", str(CASE["answer_tokens"])]
        commands = [[sys.executable, __file__, "--nodes", "--port", str(args.port)], api,
                    [args.gristmill, "gateway", "--config", str(path)]]
        running = []
        try:
            for command in commands:
                running.append(subprocess.Popen(command, stdout=log, stderr=log))
                time.sleep(2)
            told = []
            begins = asyncio.run(load(args, told))
            running[-1].terminate()
            running[-1].wait(timeout=60)
            # By the end of the request, to the second; what ends in the next period counts there.
            store = sqlite3.connect(Path(folder, "ledger.sqlite"))
            receipts = [(at, cost / 1e9) for at, cost in store.execute("SELECT time, invoice + possibly FROM ledger_receipt")]
        finally:
            for process in running:
                if process.poll() is None:
                    process.kill()
                    process.wait()
            if running and running[-1].returncode != 0:
                print(Path(folder, "log").read_text()[-2000:], file=sys.stderr)
    return 0 if table(args, told, begins, receipts, model) else 1


if __name__ == "__main__":
    sys.exit(main())
