#!/usr/bin/env python3
"""Kills a server at random points of a batch, and compares what comes out with an undisturbed run.

    cargo build --release -p job_server --example fake
    python3 tools/jobs/kills.py --program target/release/examples/fake --lines 20000 --kills 1000

With a real model (slow; fewer lines and kills):

    python3 tools/jobs/kills.py --gristmill target/release/gristmill --model smollm2-135m-instruct --lines 60 --kills 20

One batch after another is run on the same store until the server was killed so often. Prints how many lines were lost,
doubled or different, and how long it took after a kill until a line ended again.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
import uuid


def call(base, path, body=None, method=None, headers=None):
    headers = dict(headers or {})
    if isinstance(body, (dict, list)):
        body = json.dumps(body).encode()
        headers["content-type"] = "application/json"
    request = urllib.request.Request(base + path, data=body, headers=headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read()


def upload(base, data):
    boundary = uuid.uuid4().hex
    head = (
        f'--{boundary}\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
        f'--{boundary}\r\ncontent-disposition: form-data; name="file"; filename="in.jsonl"\r\n\r\n'
    )
    body = head.encode() + data + f"\r\n--{boundary}--\r\n".encode()
    headers = {"content-type": f"multipart/form-data; boundary={boundary}"}
    return json.loads(call(base, "/v1/files", body, "POST", headers))["id"]


class Server:
    def __init__(self, arguments, folder):
        self.arguments, self.folder, self.process = arguments, folder, None

    def start(self):
        if self.arguments.gristmill:
            words = [self.arguments.gristmill, "serve", self.arguments.model, "--port", "18433", "--jobs", self.folder]
        else:
            words = [self.arguments.program, "--port", "18433", "--store", self.folder, "--ms", str(self.arguments.ms)]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.base = "http://127.0.0.1:18433"
        began = time.monotonic()
        while time.monotonic() - began < 120:
            try:
                call(self.base, "/v1/batches?limit=1")
                return time.monotonic() - began
            except OSError:
                if self.process.poll() is not None:
                    raise SystemExit(f"the server ended with {self.process.returncode}") from None
                time.sleep(0.002)
        raise SystemExit("the server does not answer")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def lines(arguments):
    out = []
    for at in range(arguments.lines):
        body = {"model": arguments.model, "max_tokens": 24, "temperature": 0,
                "messages": [{"role": "user", "content": f"Say something about the number {at}."}]}
        out.append(json.dumps({"custom_id": f"line-{at}", "method": "POST", "url": "/v1/chat/completions", "body": body}))
    return ("\n".join(out) + "\n").encode()


def batch(base, data):
    file = upload(base, data)
    made = {"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    return json.loads(call(base, "/v1/batches", made))["id"]


def state(base, batch_id):
    return json.loads(call(base, f"/v1/batches/{batch_id}"))


def done(status):
    counts = status["request_counts"]
    return counts["completed"] + counts["failed"]


def output(base, status):
    if status["status"] != "completed":
        raise SystemExit(f"the batch is {status}")
    if status["error_file_id"]:
        print(call(base, f"/v1/files/{status['error_file_id']}/content")[:500])
    return call(base, f"/v1/files/{status['output_file_id']}/content")


def texts(data):
    """What a line says: ids of answers and times differ from run to run."""
    found = []
    for line in data.splitlines():
        line = json.loads(line)
        body = line["response"]["body"]
        found.append((line["custom_id"], line["response"]["status_code"], json.dumps(body["choices"]), json.dumps(body["usage"].get("completion_tokens"))))
    return found


def undisturbed(arguments, data):
    with tempfile.TemporaryDirectory() as folder:
        server = Server(arguments, folder)
        server.start()
        began = time.monotonic()
        name = batch(server.base, data)
        while (status := state(server.base, name))["status"] not in ("completed", "failed"):
            time.sleep(0.1)
        took = time.monotonic() - began
        out = output(server.base, status)
        server.kill()
    return out, took


def disturbed(server, arguments, data, kills_wanted):
    kills, takeovers = 0, []
    name, finished = batch(server.base, data), 0
    while True:
        if kills < kills_wanted:
            time.sleep(random.uniform(arguments.least, arguments.most))
            try:
                status = state(server.base, name)
                if status["status"] == "completed":
                    break
                finished = done(status)
            except OSError:
                pass
            server.kill()
            kills += 1
            began = time.monotonic()
            server.start()
            if kills % 10 == 0:
                while (status := state(server.base, name))["status"] == "in_progress" and done(status) <= finished:
                    time.sleep(0.01)
                takeovers.append(time.monotonic() - began)
        else:
            status = state(server.base, name)
            if status["status"] in ("completed", "failed", "expired", "cancelled"):
                break
            time.sleep(0.2)
    return output(server.base, state(server.base, name)), kills, takeovers


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program")
    parser.add_argument("--gristmill")
    parser.add_argument("--model", default="fake")
    parser.add_argument("--lines", type=int, default=20_000)
    parser.add_argument("--kills", type=int, default=1_000)
    parser.add_argument("--ms", type=int, default=2)
    parser.add_argument("--least", type=float, default=0.005)
    parser.add_argument("--most", type=float, default=0.12)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    data = lines(arguments)
    expected, took = undisturbed(arguments, data)
    print(f"undisturbed: {arguments.lines} lines in {took:.1f} s")
    folder = tempfile.mkdtemp()
    random.seed(arguments.seed)
    server, total, all_takeovers, bad = Server(arguments, folder), 0, [], 0
    server.start()
    rounds = 0
    while total < arguments.kills:
        found, kills, takeovers = disturbed(server, arguments, data, arguments.kills - total)
        rounds, total, all_takeovers = rounds + 1, total + kills, all_takeovers + takeovers
        ours, theirs = texts(found), texts(expected)
        names = [line[0] for line in ours]
        lost = len(set(line[0] for line in theirs) - set(names))
        doubled = len(names) - len(set(names))
        bad += ours != theirs
        print(f"batch {rounds}: {kills} kills, {lost} lines lost, {doubled} doubled, equal but for ids: {ours == theirs}", flush=True)
    server.kill()
    shutil.rmtree(folder)
    all_takeovers.sort()
    middle = all_takeovers[len(all_takeovers) // 2] if all_takeovers else 0
    print(f"{total} kills in {rounds} batches of {arguments.lines} lines: {bad} differ; "
          f"from a kill to the next line: median {middle:.2f} s, longest {max(all_takeovers, default=0):.2f} s")
    if bad:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
