#!/usr/bin/env python3
"""`gristmill plan fleet` against a live server at three loads.

    python3 tools/studies/fleet.py gristmill MODEL [--input-len 256] [--output-len 64] [--seconds 60] [--attempts 3] [--keep DIR]

Measures what steps cost with `gristmill bench`, starts `gristmill serve`, sends requests one at a time, three at a time and all at
once, and keeps the server's `/metrics`, which now tell what steps cost there. Then it sends Poisson arrivals at shares of what the
server did at most (`gristmill bench serve`), and simulates for each load

- the same requests at the same times (`plan fleet --log`), with what steps cost during that load and how fast the machine was when:
  what the simulation gets wrong,
- arrivals of its own at that rate with those lengths, with what steps cost before: what a plan would have said,
- the same requests with the bench's step costs: what HTTP, events and the load's own client on this machine add.

The server does not guess tokens ahead and remembers no prompts, as neither is simulated. The first tenth of the requests is not
counted, there as here. Prints a Markdown table. Nothing else should run on the machine. Standard library only.

A virtual machine's speed does not stay the same: a few seconds at two thirds of it decide the p95 of a minute. So each load's speed is
watched, by what steps of as many rows took in each two seconds; the first simulation takes it over (`fleet.step_factor`), the others
cannot know it. A load with a slower stretch than --slowest is sent again, up to --attempts times; the one whose slowest stretch was the
least slow counts. The simulation has no part in that choice.
"""

import argparse
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

STATISTICS = [("ttft_ms", "first token"), ("latency_ms", "last token")]


def run(command):
    print("$", " ".join(command), file=sys.stderr, flush=True)
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def steps(args, folder):
    """A bench file with steps of few rows that decode and of many that read."""
    depth = str(args.input_len + args.output_len // 2)
    tests = [["-p", "0", "-n", "12", "-b", "1,2,4,8", "-d", depth], ["-p", "16,32,64,128,256", "-n", "0"]]
    rows = []
    for test in tests:
        rows += json.loads(run([args.gristmill, "bench", args.model, *test, "-r", "3", "-o", "json"]))
    for row in rows:
        row.pop("samples_ns", None), row.pop("samples_ts", None)
    path = folder / "steps.json"
    path.write_text(json.dumps(rows))
    return path


def serve(args, folder):
    command = [args.gristmill, "serve", args.model, "--port", "0", "--context", "4096", "--no-prefix-cache", "--speculate", "off"]
    print("$", " ".join(command), file=sys.stderr, flush=True)
    log = (folder / "serve.log").open("w+")
    server = subprocess.Popen(command, stderr=log)
    for _ in range(600):
        time.sleep(0.2)
        text = (folder / "serve.log").read_text()
        if " is ready after " in text:
            return server, re.search(r"listening on (http://[^;]+);", text).group(1)
        if server.poll() is not None:
            break
    raise SystemExit(f"the server did not start:\n{text}")


def metrics(url):
    return urllib.request.urlopen(url + "/metrics").read().decode()


def told(text):
    """What a server told of its steps so far: values by their names and labels."""
    lines = (line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("gristmill_steps_"))
    return {name: float(value) for name, value in lines}


class Speed:
    """Looks at a server's metrics every two seconds."""

    def __init__(self, url):
        self.url, self.over = url, threading.Event()
        self.looks, self.times = [told(metrics(url))], [time.monotonic()]
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def watch(self):
        while not self.over.wait(2):
            self.looks.append(told(metrics(self.url)))
            self.times.append(time.monotonic())

    def stop(self):
        """Of the time between two looks each: when it began and ended (`time.monotonic`), and by class of rows [steps, rows,
        seconds]."""
        self.over.set()
        self.thread.join()
        between = []
        for old, new, began, ended in zip(self.looks, self.looks[1:], self.times, self.times[1:]):
            classes = {}
            for name in new:
                if name.startswith("gristmill_steps_total{"):
                    names = [name.replace("_total{", f"{of}_total{{") for of in ("", "_rows", "_seconds")]
                    steps = [new[n] - old.get(n, 0) for n in names]
                    if steps[0]:
                        classes[re.search('rows_up_to="([^"]+)"', name).group(1)] = steps
            between.append((began, ended, classes))
        return between


def apart(between):
    """What steps cost, by class of rows, and how fast the machine was, by look: the two factors of which the seconds of each class in
    each look are the product, nearest in likelihood for counts (as many steps of each as there were; found by scaling in turn). The
    factors' mean over the time worked is 1. A plain mean by class would not do: the server computes large steps only while the
    machine is fast."""
    classes = {name for *_, of in between for name in of}
    took = [sum(s for *_, s in of.values()) for *_, of in between]
    factor = [1.0] * len(between)
    for _ in range(200):
        seconds = {
            name: sum(of[name][2] for *_, of in between if name in of)
            / sum(f * of[name][0] for f, (*_, of) in zip(factor, between) if name in of)
            for name in classes
        }
        usual = [sum(steps * seconds[name] for name, (steps, *_) in of.items()) for *_, of in between]
        factor = [t / u if u else 1.0 for t, u in zip(took, usual)]
        mean = sum(f * t for f, t in zip(factor, took)) / sum(took)
        factor = [f / mean for f in factor]
    rows = {name: sum(of[name][1] for *_, of in between if name in of) for name in classes}
    steps = {name: sum(of[name][0] for *_, of in between if name in of) for name in classes}
    cost = sorted((rows[name] / steps[name], seconds[name] * mean, steps[name]) for name in classes)
    return cost, [(began, f, t) for (began, *_), f, t in zip(between, factor, took)]


def metrics_of(cost):
    """Costs as the metrics that `plan` reads."""
    lines = []
    for rows, seconds, steps in cost:
        for name, value in [("", steps), ("_rows", rows * steps), ("_seconds", seconds * steps)]:
            lines.append(f'gristmill_steps{name}_total{{rows_up_to="{rows:.2f}"}} {value}')
    return "\n".join(lines) + "\n"


def busy_s(text):
    """Seconds of the machine that went for requests."""
    found = re.findall(r'^gristmill_machine_seconds_total\{kind="(?:prompt|output)"\} (\S+)', text, re.MULTILINE)
    return sum(map(float, found))


def load(args, url, folder, name, count, rate, seed, *more):
    path = folder / f"{name}.json"
    command = [args.gristmill, "bench", "serve", "--base-url", url, "--num-prompts", str(count)]
    command += ["--input-len", str(args.input_len), "--output-len", str(args.output_len)]
    command += ["--range-ratio", str(args.range_ratio), "--request-rate", str(rate)]
    before, began, speed = metrics(url), time.monotonic(), Speed(url)
    try:
        run([*command, "--seed", str(seed), "--json", str(path), *more])
    finally:
        ended = time.monotonic()
        looks = speed.stop()
    served = json.loads(path.read_text())
    # The moment from which `start_times` count; it ends soon after its last answer.
    zero = ended - served["duration"]
    looks = [(began - zero, ended - zero, classes) for began, ended, classes in looks]
    cost, factors = apart(looks)
    served["cost"], served["factors"] = cost, factors
    # A look in which little was done says nothing.
    served["slowest"] = max((factor for _, factor, took in factors if took > 0.5), default=0)
    (folder / f"{name}.looks.json").write_text(json.dumps(looks))
    after = metrics(url)
    served["busy"] = (busy_s(after) - busy_s(before)) / (time.monotonic() - began)
    return served


def simulate(args, bench, server, folder, name, served, seconds):
    """Outcomes for the same requests, for others of the kind, and for the same with the bench's steps."""
    start = min(served["start_times"])
    lines = zip(served["start_times"], served["input_lens"], served["output_lens"])
    log = folder / f"{name}.csv"
    log.write_text("".join(f"{at - start:.6f},{i},{o}\n" for at, i, o in sorted(lines)))
    cost = folder / f"{name}.cost.txt"
    cost.write_text(metrics_of(served["cost"]))
    # Where little was done, as before it.
    factors = [[max(at - start, 0), f] for at, f, took in served["factors"] if took > 0.2]
    factors = [f for f, after in zip(factors, factors[1:] + [[math.inf, 1]]) if after[0] > 0]
    plan = [args.gristmill, "plan", "fleet", "--machines", "1", "--json", "--bench"]
    low, high = 1 - args.range_ratio, 1 + args.range_ratio
    lengths = [f"fleet.{side}={{ min = {low * n}, max = {high * n} }}" for side, n in [("input", args.input_len), ("output", args.output_len)]]
    own = ["--requests-per-hour", str(len(served["start_times"]) / seconds * 3600), "--set", lengths[0], "--set", lengths[1]]
    ways = ([str(cost), "--log", str(log), "--set", f"fleet.step_factor={factors}"], [str(server), *own], [str(bench), "--log", str(log)])
    return [json.loads(run(plan + way))["answer"]["outcome"] for way in ways]


def quantile(values, share):
    values = sorted(values)
    return values[max(math.ceil(share * len(values)), 1) - 1]


def measured(served):
    order = sorted(range(len(served["start_times"])), key=lambda i: served["start_times"][i])
    counted = order[len(order) // 10 :]
    return {
        "ttft_ms": [served["ttfts"][i] * 1e3 for i in counted],
        "latency_ms": [served["latencies"][i] * 1e3 for i in counted],
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gristmill")
    parser.add_argument("model")
    parser.add_argument("--input-len", type=int, default=256)
    parser.add_argument("--output-len", type=int, default=64)
    parser.add_argument("--range-ratio", type=float, default=0.5)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--loads", default="0.3,0.6,0.85")
    parser.add_argument("--attempts", type=int, default=3)
    parser.add_argument("--slowest", type=float, default=1.15, help="of the usual time; a load with a longer stretch is sent again")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the raw files")
    args = parser.parse_args()
    folder = args.keep or pathlib.Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    bench = steps(args, folder)
    server, url = serve(args, folder)
    runs = []
    try:
        load(args, url, folder, "one", 10, "inf", 11, "--max-concurrency", "1")
        load(args, url, folder, "three", 15, "inf", 12, "--max-concurrency", "3")
        most = load(args, url, folder, "most", 64, "inf", 1)["request_throughput"]
        (folder / "metrics.txt").write_text(metrics(url))
        print(f"{most:.2f} requests a second at most", file=sys.stderr)
        for number, share in enumerate(map(float, args.loads.split(","))):
            rate = share * most
            count = max(math.ceil(rate * args.seconds), 8)
            tries = []
            for attempt in range(args.attempts):
                name = f"load-{share}.{attempt + 1}"
                tries.append((load(args, url, folder, name, count, rate, number + 2), name))
                print(f"{name}: the slowest stretch took {tries[-1][0]['slowest']:.2f} of the usual", file=sys.stderr)
                if tries[-1][0]["slowest"] <= args.slowest:
                    break
            runs.append((share, rate, *min(tries, key=lambda run: run[0]["slowest"])))
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)
    print(f"\nAt most {most:.2f} requests a second of {args.input_len} ± {args.range_ratio:.0%} tokens in and {args.output_len} out.\n")
    print("| load | requests | | | measured | same arrivals | | own arrivals | | same, bench's steps | |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for share, rate, served, name in runs:
        assert served["failed"] == 0, served["errors"]
        seconds = max(served["start_times"]) - min(served["start_times"])
        outcomes = simulate(args, bench, folder / "metrics.txt", folder, name, served, seconds)
        cells = [f"{share:.0%}, {rate:.2f}/s", f"{served['completed']} in {seconds:.0f} s", "machine busy", f"slowest {served['slowest']:.2f}", f"{served['busy']:.0%}"]
        print("|", " | ".join(cells + [f"{outcome['utilization']:.0%} | " for outcome in outcomes]), "|")
        values = measured(served)
        for key, what in STATISTICS:
            for percentile in (50, 95):
                found = quantile(values[key], percentile / 100)
                cells = [f"{share:.0%}, {rate:.2f}/s", f"{served['completed']} in {seconds:.0f} s", what, f"p{percentile}", f"{found:.0f} ms"]
                for outcome in outcomes:
                    said = outcome[key][f"p{percentile}"]
                    cells += [f"{said:.0f} ms", f"{said / found - 1:+.1%}"]
                print("|", " | ".join(cells), "|")


if __name__ == "__main__":
    main()
