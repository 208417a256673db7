#!/usr/bin/env python3
"""A cascade of two real models on a real task: intents of bank customers' questions (banking77).

    python3 tools/gateway/cascade.py --gristmill target/release/gristmill --train train.csv --test test.csv --out FOLDER

`train.csv` and `test.csv` are `banking_data/` of PolyAI-LDN/task-specific-datasets (CC BY 4.0, commit 57ec275); they are
not kept here. Both models must be installed (`gristmill pull`). Two nodes with one thread each and a gateway are started
on loopback, as a user would start them. Then:

1. *Pairs*: questions of the training set go through a model with `both = 1`, and `gristmill gateway calibrate` reads what
   the gateway wrote. Margins are taken from these pairs: quartiles, and the one that calibrate chose.
2. *Curve*: questions of the test set go to the small model, to the larger one, and to one cascade for each margin. Who
   answered is the gateway's header; costs are those of its receipts in SQLite.

Some of the 77 intents are drawn, so that a prompt with examples of each stays short. The answer is the intent's name, held
to those names by `structured_outputs`; log-probabilities are those before that, so the margin is the model's own. Names
are of few tokens, so `window = 1`: an answer is as sure as its least sure token.

Run again with the same folder, it goes on where it stopped. Standard library only (Python 3.9 or later).
"""

import argparse
import csv
import http.client
import json
import math
import os
import random
import sqlite3
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TASK = "You sort questions of a bank's customers. Answer with the name of the intent alone.\n\n"


def post(port, body, timeout=300):
    """A chat: its status, text, and the upstream that answered."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        data = json.loads(answer.read())
        if answer.status != 200:
            raise SystemExit(f"status {answer.status}: {data}")
        return data["choices"][0]["message"]["content"], answer.getheader("x-gristmill-upstream")
    finally:
        connection.close()


def wait(port, process, seconds=180):
    until = time.time() + seconds
    while time.time() < until and process.poll() is None:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
            connection.request("GET", "/health/ready")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        time.sleep(0.2)
    raise SystemExit(f"port {port} is not ready: see the logs")


def wilson(good, of, z=1.959964):
    """A share with the ends of its 95 % interval."""
    share = good / of
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z / (1 + z * z / of) * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return share, middle - half, middle + half


class Task:
    """The intents, the prompt with examples, and two lots of questions that it does not show."""

    def __init__(self, args):
        draw = random.Random(args.seed)
        rows = {name: list(csv.DictReader(open(path, newline="", encoding="utf-8")))
                for name, path in (("train", args.train), ("test", args.test))}
        self.intents = sorted(draw.sample(sorted({row["category"] for row in rows["test"]}), args.intents))
        of = {name: [(row["text"], row["category"]) for row in lot if row["category"] in self.intents]
              for name, lot in rows.items()}
        shown = []
        for intent in self.intents:
            texts = sorted(text for text, category in of["train"] if category == intent and len(text) < 120)
            shown += [(text, intent) for text in draw.sample(texts, args.shots)]
        draw.shuffle(shown)
        self.system = TASK + "\n".join(f"Question: {text}\nIntent: {intent}" for text, intent in shown)
        left = [pair for pair in of["train"] if pair not in shown]
        self.pairs = draw.sample(left, min(args.pairs, len(left)))
        self.questions = draw.sample(of["test"], min(args.questions, len(of["test"])))

    def body(self, model, question):
        return {"model": model, "temperature": 0, "max_tokens": 24, "structured_outputs": {"choice": self.intents},
                "messages": [{"role": "system", "content": self.system},
                             {"role": "user", "content": f"Question: {question}\nIntent:"}]}


class Stand:
    """The nodes, and a gateway for one configuration after the other."""

    def __init__(self, args):
        self.args, self.running = args, []
        self.nodes = {"small": (args.small, args.port + 1), "larger": (args.larger, args.port + 2)}

    def start_nodes(self):
        for name, (model, port) in self.nodes.items():
            self.start(name, ["serve", model, "--port", str(port), "--threads", "1", "--context", "4096"], port)

    def start(self, name, words, port):
        log = open(self.args.out / f"{name}.log", "a")
        process = subprocess.Popen([self.args.gristmill, *words], stdout=log, stderr=log)
        self.running.append(process)
        wait(port, process)
        return process

    def gateway(self, name, cascades):
        """A gateway with both models, and a cascade for each (name, settings)."""
        self.running or self.start_nodes()
        lines = [f'[gateway]\nlisten = "127.0.0.1:{self.args.port}"', f'[store]\nsqlite = "{self.args.out}/{name}.sqlite"']
        for node, (_, port) in self.nodes.items():
            lines.append(f'[[upstream]]\nname = "{node}"\nurl = "http://127.0.0.1:{port}"\nkind = "gristmill"')
        for model, node, cascade in [("small", "small", ""), ("larger", "larger", ""),
                                     *((model, "small", settings) for model, settings in cascades)]:
            price = dict(zip(("input", "output"), getattr(self.args, f"{node}_price")))
            told = ", ".join(f'{key} = "{value}"' for key, value in price.items())
            target = f'{{ upstream = "{node}", model = "{self.nodes[node][0]}", price = {{ {told} }} }}'
            cascade = cascade and f'\ncascade = {{ larger = "larger", window = 1, {cascade} }}'
            lines.append(f'[[model]]\nname = "{model}"\ntargets = [{target}]{cascade}')
        path = self.args.out / f"{name}.toml"
        path.write_text("\n".join(lines) + "\n")
        return self.start(f"gateway-{name}", ["gateway", "--config", str(path)], self.args.port)

    def stop(self, *processes):
        for process in processes or self.running[::-1]:
            if process.poll() is None:
                process.terminate()
                process.wait(timeout=60)


def collect(args, task, stand):
    """Both answers to questions of the training set; what calibrate says, and the margins of the curve."""
    path = args.out / "pairs.jsonl"
    count = lambda: sum(1 for _ in open(path)) if path.exists() else 0
    if count() < len(task.pairs):
        gateway = stand.gateway("pairs", [("both", f'both = 1.0, pairs = "{path}"')])
        # The larger model is asked in the background, four at a time: one question after the other, not more than that.
        for question, _ in task.pairs[count():]:
            before = count()
            post(args.port, task.body("both", question))
            while count() == before:
                time.sleep(0.01)
        stand.stop(gateway)
    words = [args.gristmill, "gateway", "calibrate", str(path), "--target", str(args.target)]
    said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    print(said, flush=True)
    margins = sorted(json.loads(line)["margin"] for line in open(path))
    taken = [margins[len(margins) * share // 100] for share in args.shares]
    taken += [float(line.split("=")[1]) for line in said.splitlines() if line.startswith("to take")]
    return sorted({round(margin, 3) for margin in taken})


def curve(args, task, stand, margins):
    """Answers of each model to the test questions, one line each in a file."""
    path = args.out / "answers.jsonl"
    done = {(line["model"], line["at"]) for line in map(json.loads, open(path))} if path.exists() else set()
    names = {f"at-{margin}": margin for margin in margins}
    todo = [(model, at) for model in ("small", "larger", *names) for at in range(len(task.questions))
            if (model, at) not in done]
    lock, file = threading.Lock(), open(path, "a")
    if not todo:
        return [json.loads(line) for line in open(path)], names
    gateway = stand.gateway("curve", [(name, f"margin = {margin}") for name, margin in names.items()])

    def ask(job):
        model, at = job
        question, intent = task.questions[at]
        began = time.monotonic()
        text, upstream = post(args.port, task.body(model, question))
        line = {"model": model, "at": at, "right": text.strip() == intent, "upstream": upstream,
                "seconds": round(time.monotonic() - began, 4)}
        with lock:
            file.write(json.dumps(line) + "\n")
            file.flush()

    with ThreadPoolExecutor(args.clients) as pool:
        list(pool.map(ask, todo))
    # A clean end writes all receipts.
    stand.stop(gateway)
    return [json.loads(line) for line in open(path)], names


def told(args, answers, names):
    """The table, in Markdown. Beside each cascade stands what a split at random of the same cost would get right."""
    store = sqlite3.connect(args.out / "curve.sqlite")
    paid = {}
    for model, attempts in store.execute("SELECT model, attempts FROM ledger_receipt"):
        sums = paid.setdefault(model, {"count": 0, "small": 0, "larger": 0})
        sums["count"] += 1
        for attempt in json.loads(attempts):
            sums[attempt["upstream"]] += attempt["amount"]
    # Thousands of a million nano units.
    mean = lambda model, node: paid[model][node] / paid[model]["count"] / 1e6
    own = mean("larger", "larger") / mean("small", "small")
    of = {model: {line["at"]: line for line in answers if line["model"] == model} for model in ("small", "larger", *names)}
    right = {model: wilson(sum(line["right"] for line in lines.values()), len(lines)) for model, lines in of.items()}
    heads = "".join(f" cost of 1,000 at 1 : {ratio:.0f} | at random |" for ratio in (own, *args.ratios))
    print(f"| margin | goes up | right | 95 % interval | right where the larger is wrong, wrong where it is right |{heads}")
    print("|---:|---:|---:|---:|---:|" + "---:|---:|" * (1 + len(args.ratios)))
    for model, lines in of.items():
        share, low, high = right[model]
        up = sum(line["upstream"] == "larger" for line in lines.values()) / len(lines)
        other = of["larger"]
        won = sum(line["right"] and not other[at]["right"] for at, line in lines.items())
        lost = sum(other[at]["right"] and not line["right"] for at, line in lines.items())
        cells = ""
        for ratio in (own, *args.ratios):
            cost = lambda model: mean(model, "small") + mean(model, "larger") * ratio / own
            part = (cost(model) - cost("small")) / (cost("larger") - cost("small"))
            random_one = right["small"][0] + min(1, part) * (right["larger"][0] - right["small"][0])
            cells += f" {cost(model):.4f} | {f'{100 * random_one:.1f} %' if model in names else '–'} |"
        up = f"{100 * up:.1f} %" if model in names else "–"
        print(f"| {names.get(model, f'{model} alone')} | {up} | {100 * share:.1f} % | {100 * low:.1f} to {100 * high:.1f} % "
              f"| {won}, {lost} |{cells}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gristmill", default="target/release/gristmill")
    parser.add_argument("--train", required=True)
    parser.add_argument("--test", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--small", default="qwen2.5-coder-0.5b-instruct")
    parser.add_argument("--larger", default="qwen2.5-coder-1.5b-instruct")
    parser.add_argument("--small-price", nargs=2, default=["0.02", "0.02"], metavar=("INPUT", "OUTPUT"))
    parser.add_argument("--larger-price", nargs=2, default=["0.06", "0.06"], metavar=("INPUT", "OUTPUT"))
    parser.add_argument("--ratios", type=float, nargs="*", default=[20], help="further ratios of both prices, for the table")
    parser.add_argument("--intents", type=int, default=20)
    parser.add_argument("--shots", type=int, default=2, help="examples of each intent in the prompt")
    parser.add_argument("--pairs", type=int, default=500, help="questions for calibration")
    parser.add_argument("--questions", type=int, default=400, help="questions for the curve")
    parser.add_argument("--shares", type=int, nargs="*", default=[20, 40, 60, 80], help="per cent that go up, by the pairs")
    parser.add_argument("--target", type=float, default=0.1, help="for calibrate")
    parser.add_argument("--seed", type=int, default=50)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--port", type=int, default=8710)
    args = parser.parse_args()
    args.out = args.out.resolve()
    os.makedirs(args.out, exist_ok=True)
    task = Task(args)
    print(f"{len(task.intents)} intents: {', '.join(task.intents)}", flush=True)
    stand = Stand(args)
    try:
        began = time.monotonic()
        margins = collect(args, task, stand)
        answers, names = curve(args, task, stand, margins)
        told(args, answers, names)
        print(f"{time.monotonic() - began:.0f} s")
    finally:
        stand.stop()


if __name__ == "__main__":
    main()
