#!/usr/bin/env python3
"""Worst gap between tokens of running streams while a long prompt arrives.

    gristmill serve MODEL --port 8080 --parallel 16 --context 8192
    python3 tools/studies/stall.py http://127.0.0.1:8080 [--streams 8] [--prompt-tokens 4096]

Streams answers, waits until all have begun, sends the prompt, and reports the gaps between events of the streams before and
while it is read. Standard library only.
"""

import argparse
import http.client
import json
import threading
import time
import urllib.parse


def post(url, body):
    place = urllib.parse.urlparse(url)
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=600)
    connection.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
    return connection.getresponse()


def stream(url, seed, tokens, times, begun):
    body = {"prompt": [100 + seed, 200], "max_tokens": tokens, "ignore_eos": True, "stream": True, "seed": seed, "temperature": 0.7, "logprobs": 0}
    answer = post(url, body)
    assert answer.status == 200, answer.read()
    while line := answer.readline():
        if line.startswith(b"data: {"):
            times.append(time.perf_counter())
            begun.set()


def quantile(values, q):
    return sorted(values)[min(len(values) - 1, int(q * len(values)))] if values else float("nan")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--prompt-tokens", type=int, default=4096)
    parser.add_argument("--tokens", type=int, default=600)
    parser.add_argument("--limit-ms", type=float, default=200, help="say when gaps were longer than this")
    args = parser.parse_args()
    # Once before, so that the server knows what steps cost here.
    post(args.url, {"prompt": [5 + i % 900 for i in range(args.prompt_tokens // 2)], "max_tokens": 2}).read()
    all_times = [[] for _ in range(args.streams)]
    begun = [threading.Event() for _ in range(args.streams)]
    threads = [
        threading.Thread(target=stream, args=(args.url, i, args.tokens, all_times[i], begun[i]))
        for i in range(args.streams)
    ]
    for thread in threads:
        thread.start()
    for event in begun:
        event.wait()
    time.sleep(3)
    sent = time.perf_counter()
    prompt = [7 + (i * 31) % 1000 for i in range(args.prompt_tokens)]
    answer = post(args.url, {"prompt": prompt, "max_tokens": 1})
    assert answer.status == 200, answer.read()
    read = answer.read() and time.perf_counter()
    for thread in threads:
        thread.join()
    for name, low, high in [("before", 0, sent), ("while the prompt is read", sent, read)]:
        timed = [
            (b - sent, (b - a) * 1e3)
            for times in all_times
            for a, b in zip(times, times[1:])
            if low <= a and b <= high
        ]
        gaps = [gap for _, gap in timed]
        print(
            f"{name}: {len(gaps)} gaps, median {quantile(gaps, 0.5):.1f} ms, 99 % {quantile(gaps, 0.99):.1f} ms, "
            f"worst {max(gaps, default=float('nan')):.1f} ms"
        )
        # All streams wait for the same step: one moment each.
        moments = {round(at, 1): round(gap) for at, gap in sorted(timed) if gap > args.limit_ms}
        print(f"  above {args.limit_ms:g} ms at (seconds after the prompt was sent: ms): {moments}")
    print(f"the prompt of {args.prompt_tokens} tokens was answered after {read - sent:.2f} s")


main()
