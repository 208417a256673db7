#!/usr/bin/env python3
"""Three real nodes behind a gateway on this machine, as users would run them.

Checks, with a real model: chats of several turns find their node's prefix cache again; load is even; a node that is
killed in the middle of streams leaves no trace in their text; restarting all nodes one after the other fails no request.

    python3 tools/gateway/live.py --gristmill target/release/gristmill --model smollm2-135m

Standard library only. Everything runs on loopback, bounded in requests and time. Exit code 1 if a check fails.
"""

import argparse
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

WORDS = ["river", "stone", "wheel", "grain", "miller", "flour", "water", "wind", "oven", "bread", "market", "village",
         "bridge", "winter", "harvest", "road"]


def request(port, path, body=None, timeout=120):
    """A request's status and JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        data = None if body is None else json.dumps(body)
        connection.request("POST" if body is not None else "GET", path, data, {"content-type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text[:1] in b"{[" else text.decode(), dict(answer.getheaders())
    finally:
        connection.close()


def stream(port, body, on_chunk=None, timeout=180):
    """A streamed chat: its text, usage, upstream, and whether it ended as a complete one."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    text, usage, done, error = "", None, False, None
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        upstream = answer.getheader("x-gristmill-upstream")
        if answer.status != 200:
            return {"text": "", "error": answer.read().decode()[:300], "done": False, "upstream": upstream, "usage": None}
        count = 0
        for line in answer:
            line = line.decode().strip()
            if not line.startswith("data: "):
                continue
            if line == "data: [DONE]":
                done = True
                break
            chunk = json.loads(line[6:])
            if "error" in chunk:
                error = chunk["error"]["message"]
                break
            usage = chunk.get("usage") or usage
            for choice in chunk.get("choices", []):
                piece = choice.get("delta", {}).get("content")
                if piece:
                    text += piece
                    count += 1
                    if on_chunk:
                        on_chunk(count, upstream)
        return {"text": text, "error": error, "done": done, "upstream": upstream, "usage": usage}
    except OSError as failure:
        return {"text": text, "error": repr(failure), "done": False, "upstream": None, "usage": usage}
    finally:
        connection.close()


class Fleet:
    """Nodes and a gateway, stopped at the end."""

    def __init__(self, args, folder):
        self.args, self.folder, self.nodes, self.gateway = args, folder, {}, None

    def start_node(self, port):
        log = open(os.path.join(self.folder, f"node-{port}.log"), "a")
        command = [self.args.gristmill, "serve", self.args.model, "--port", str(port), *self.args.serve]
        self.nodes[port] = subprocess.Popen(command, stdout=log, stderr=log)
        self.wait(port)

    def wait(self, port, seconds=180):
        until = time.time() + seconds
        while time.time() < until:
            try:
                if request(port, "/health/ready", timeout=2)[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.1)
        raise SystemExit(f"port {port} is not ready after {seconds} s: see {self.folder}")

    def start_gateway(self, port, ports):
        config = "".join(
            f'[[upstream]]\nname = "node-{p}"\nurl = "http://127.0.0.1:{p}"\nkind = "gristmill"\n'
            'timeouts = { connect = "1s", first_byte = "60s", idle = "15s", total = "180s" }\n' for p in ports)
        targets = ", ".join(f'{{ upstream = "node-{p}", model = "{self.args.served}" }}' for p in ports)
        config += f'[[model]]\nname = "chat"\ntargets = [{targets}]\n'
        path = os.path.join(self.folder, "gateway.toml")
        with open(path, "w") as file:
            file.write(f'[gateway]\nlisten = "127.0.0.1:{port}"\n' + config)
        log = open(os.path.join(self.folder, "gateway.log"), "a")
        command = [part.replace("{config}", path) for part in self.args.gateway.split()]
        self.gateway = subprocess.Popen(command, stdout=log, stderr=log)
        self.wait(port)
        # Records are asked for once a second; without them the nodes' weights are not known to be equal.
        time.sleep(3)

    def stop(self):
        for process in [self.gateway, *self.nodes.values()]:
            if process and process.poll() is None:
                process.kill()
                process.wait()


def chats(port, model, count, turns, tokens):
    """Chats of several turns, all at once: answers, prompt tokens, cached tokens, and requests by upstream."""
    results, lock = [], threading.Lock()

    def one(number):
        messages = [{"role": "system", "content": f"You are teller number {number} of tales about a {WORDS[number % 16]}. " * 6}]
        for turn in range(turns):
            messages.append({"role": "user", "content": f"Turn {turn}: tell me more about the {WORDS[(number + turn) % 16]}."})
            got = stream(port, {"model": model, "messages": messages, "stream": True, "temperature": 0,
                                "max_tokens": tokens, "stream_options": {"include_usage": True}})
            messages.append({"role": "assistant", "content": got["text"]})
            with lock:
                results.append({**got, "turn": turn})

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    return results


def hit_rate(results):
    used = [r["usage"] for r in results if r["usage"]]
    cached = sum((u.get("prompt_tokens_details") or {}).get("cached_tokens", 0) for u in used)
    return cached / max(1, sum(u["prompt_tokens"] for u in used))


def kill_in_the_middle(fleet, port, ports, streams, tokens):
    """Kills a node while streams run: texts, those of an undisturbed run, and what was killed."""
    def bodies(seed):
        return [{"model": "chat", "stream": True, "max_tokens": tokens, "seed": seed + n, "temperature": 0.8,
                 "messages": [{"role": "user", "content": f"Write a story about a {WORDS[n % 16]} and a {WORDS[(n + 5) % 16]}."}]}
                for n in range(streams)]

    def all_at_once(hook=None):
        got = [None] * streams
        def one(n, body):
            got[n] = stream(port, body, hook)
        threads = [threading.Thread(target=one, args=(n, b)) for n, b in enumerate(bodies(7))]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        return got

    calm = all_at_once()
    victim, killed, lock = None, threading.Event(), threading.Lock()

    def hook(count, upstream):
        nonlocal victim
        if count >= tokens // 3 and not killed.is_set():
            with lock:
                if not killed.is_set():
                    victim = int(upstream.rsplit("-", 1)[1])
                    fleet.nodes[victim].send_signal(signal.SIGKILL)
                    killed.set()

    disturbed = all_at_once(hook)
    fleet.nodes[victim].wait()
    hit = sum(1 for d in disturbed if d["upstream"] == f"node-{victim}")
    same = sum(1 for c, d in zip(calm, disturbed) if d["done"] and c["text"] == d["text"])
    return {"streams": streams, "at_the_killed_node": hit, "same_text": same,
            "errors": [d["error"] for d in disturbed if d["error"]][:3], "victim": victim}


def rolling_restart(fleet, port, ports):
    """Restarts each node while requests go on: how many, and how many failed."""
    stop, counts, lock = threading.Event(), {"requests": 0, "failed": 0, "errors": []}, threading.Lock()

    def client(n):
        while not stop.is_set():
            got = stream(port, {"model": "chat", "stream": True, "max_tokens": 24, "seed": n,
                                "messages": [{"role": "user", "content": f"Say something about a {WORDS[n % 16]}."}]})
            with lock:
                counts["requests"] += 1
                if not got["done"]:
                    counts["failed"] += 1
                    counts["errors"].append(got["error"])

    threads = [threading.Thread(target=client, args=(n,)) for n in range(4)]
    [thread.start() for thread in threads]
    for node in ports:
        process = fleet.nodes[node]
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=120)
        fleet.start_node(node)
        time.sleep(3)
    stop.set()
    [thread.join() for thread in threads]
    counts["errors"] = counts["errors"][:3]
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gristmill", default="target/release/gristmill")
    parser.add_argument("--gateway", default=None, help="command of the gateway, with {config} in it")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--served", default=None, help="the model's name at the nodes")
    parser.add_argument("--serve", nargs="*", default=["--drain-timeout", "60"], help="further flags of serve")
    parser.add_argument("--chats", type=int, default=16)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--port", type=int, default=8490)
    parser.add_argument("--only", default="", help="chats, kill, restart")
    args = parser.parse_args()
    args.gateway = args.gateway or f"{args.gristmill} gateway --config {{config}}"
    args.served = args.served or args.model
    ports = [args.port + 1, args.port + 2, args.port + 3]
    report, ok = {}, True
    with tempfile.TemporaryDirectory(prefix="gateway-live-") as folder:
        fleet = Fleet(args, folder)
        try:
            for port in ports:
                fleet.start_node(port)
            fleet.start_gateway(args.port, ports)
            if args.only in ("", "chats"):
                fleet.start_node(args.port + 4)
                alone = chats(args.port + 4, args.served, args.chats, args.turns, args.tokens)
                fleet.nodes.pop(args.port + 4).kill()
                many = chats(args.port, "chat", args.chats, args.turns, args.tokens)
                by = {}
                for result in many:
                    by[result["upstream"]] = by.get(result["upstream"], 0) + 1
                mean = len(many) / len(ports)
                report["chats"] = {"hit_rate_alone": round(hit_rate(alone), 4), "hit_rate": round(hit_rate(many), 4),
                                   "requests": by, "highest_over_mean": round(max(by.values()) / mean, 3),
                                   "incomplete": sum(not r["done"] for r in many)}
                ok &= hit_rate(many) >= 0.9 * hit_rate(alone) and max(by.values()) <= 1.25 * mean
                ok &= report["chats"]["incomplete"] == 0
            if args.only in ("", "kill"):
                result = kill_in_the_middle(fleet, args.port, ports, 6, 60)
                report["kill"] = result
                ok &= result["same_text"] == result["streams"] and result["at_the_killed_node"] > 0
                fleet.start_node(result["victim"])
                time.sleep(3)
            if args.only in ("", "restart"):
                report["restart"] = rolling_restart(fleet, args.port, ports)
                ok &= report["restart"]["failed"] == 0 and report["restart"]["requests"] > 0
        finally:
            fleet.stop()
            if not ok:
                for name in sorted(os.listdir(folder)):
                    if name.endswith(".log"):
                        print(f"--- {name}\n{open(os.path.join(folder, name)).read()[-1500:]}", file=sys.stderr)
    print(json.dumps(report, indent=1))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
