#!/usr/bin/env python3
"""Posts jobs at a fixed rate and tells how long the 202 took.

    python3 tools/jobs/accept.py --program target/release/examples/fake --rate 1000 --seconds 60

The jobs wait: the model of the example takes an hour, so that accepting alone is measured.
"""

import argparse
import asyncio
import json
import subprocess
import tempfile
import time
import urllib.request

PORT = 18434


async def worker(number, workers, arguments, began, times, errors):
    reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
    every = workers / arguments.rate
    count = int(arguments.rate * arguments.seconds / workers)
    for at in range(count):
        due = began + number / arguments.rate + at * every
        wait = due - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
        body = json.dumps({"endpoint": "/v1/chat/completions",
                           "body": {"model": "fake", "messages": [{"role": "user", "content": f"{number} {at}"}]}}).encode()
        writer.write(b"POST /v1/jobs HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: "
                     + str(len(body)).encode() + b"\r\n\r\n" + body)
        sent = time.perf_counter()
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
        await reader.readexactly(length)
        # From when it was due: a client that is late must not hide a server that is.
        times.append((time.perf_counter() - sent, time.perf_counter() - due))
        if not head.startswith(b"HTTP/1.1 202"):
            errors.append(head[:60])
    writer.close()


async def load(arguments):
    times, errors = [], []
    began = time.perf_counter() + 0.2
    workers = arguments.connections
    await asyncio.gather(*(worker(n, workers, arguments, began, times, errors) for n in range(workers)))
    return times, errors, time.perf_counter() - began


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--postgres")
    parser.add_argument("--rate", type=float, default=1_000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--connections", type=int, default=64)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = ["--postgres", arguments.postgres] if arguments.postgres else ["--store", folder]
        words = [arguments.program, "--port", str(PORT), "--ms", "3600000", *place]
        server = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        try:
            for _ in range(500):
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{PORT}/v1/jobs?limit=1", timeout=5).read()
                    break
                except OSError:
                    time.sleep(0.01)
            times, errors, took = asyncio.run(load(arguments))
        finally:
            server.kill()
            server.wait()
    for name, column in (("from the request", 0), ("from when it was due", 1)):
        column = sorted(pair[column] * 1e3 for pair in times)
        at = lambda share: column[min(len(column) - 1, int(share * len(column)))]  # noqa: E731
        print(f"{name}: p50 {at(0.5):.2f} ms, p99 {at(0.99):.2f} ms, p99.9 {at(0.999):.2f} ms, longest {column[-1]:.2f} ms")
    print(f"{len(times)} jobs in {took:.1f} s: {len(times) / took:.0f}/s, {len(errors)} errors {errors[:1]}")


if __name__ == "__main__":
    main()
