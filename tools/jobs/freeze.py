#!/usr/bin/env python3
"""Two servers on one PostgreSQL: one is frozen past its leases and thawed; its writes must be refused and counted.

    cargo build --release -p job_server --example fake --features postgres
    python3 tools/jobs/freeze.py --program target/release/examples/fake --postgres postgres://postgres@127.0.0.1:PORT/postgres
"""

import argparse
import json
import signal
import subprocess
import time
import urllib.request

PORTS = (18435, 18436)


def call(port, path, body=None):
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=data, headers={"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read()


def metric(port, name):
    text = call(port, "/metrics").decode()
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name))


def start(arguments, port):
    words = [arguments.program, "--port", str(port), "--postgres", arguments.postgres, "--ms", str(arguments.ms), "--parallel", "4"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    for _ in range(1_000):
        try:
            call(port, "/v1/jobs?limit=1")
            return process
        except OSError:
            time.sleep(0.02)
    raise SystemExit("the server does not answer")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--postgres", required=True)
    parser.add_argument("--ms", type=int, default=8_000)
    arguments = parser.parse_args()
    frozen = start(arguments, PORTS[0])
    ids = []
    for at in range(8):
        body = {"endpoint": "/v1/chat/completions", "body": {"model": "fake", "messages": [{"role": "user", "content": str(at)}]}}
        ids.append(json.loads(call(PORTS[0], "/v1/jobs", body))["id"])
    while len([1 for name in ids if json.loads(call(PORTS[0], f"/v1/jobs/{name}"))["status"] == "running"]) < 8:
        time.sleep(0.05)
    other = start(arguments, PORTS[1])
    frozen.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    print("8 jobs run on the first server; it is frozen")
    taken = None
    while True:
        states = [json.loads(call(PORTS[1], f"/v1/jobs/{name}")) for name in ids]
        again = sum(state["attempts"] > 1 for state in states)
        if taken is None and again:
            taken = time.monotonic() - began
            print(f"the second server took the first of them over after {taken:.1f} s")
        if all(state["status"] == "succeeded" for state in states):
            break
        if time.monotonic() - began > 200:
            raise SystemExit(f"not ended: {states}")
        time.sleep(0.1)
    print(f"all ended after {time.monotonic() - began:.1f} s; the first server is thawed")
    results = [call(PORTS[1], f"/v1/jobs/{name}") for name in ids]
    frozen.send_signal(signal.SIGCONT)
    time.sleep(arguments.ms / 1_000 + 8)
    fenced, lost = metric(PORTS[0], "gristmill_job_fenced_writes_total"), metric(PORTS[0], "gristmill_job_leases_lost_total")
    same = results == [call(PORTS[1], f"/v1/jobs/{name}") for name in ids]
    print(f"on the thawed server: {fenced:.0f} writes refused, {lost:.0f} leases seen to be lost; results unchanged: {same}")
    for process in (frozen, other):
        process.kill()
        process.wait()
    if not same or fenced + lost < 8 or taken > 65:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
