#!/usr/bin/env python3
"""Answers a question about every row of a pandas or polars frame, by jobs of a Gristmill server.

    gristmill serve MODEL --jobs DIR &
    pip install -r examples/pipelines/requirements-frames.txt
    python examples/pipelines/frames.py examples/pipelines/reviews.csv answered.csv [--polars]

Each row becomes a job whose Idempotency-Key is the hash of its request. A script that is run again within a day, after a
crash or with more rows, gets the kept answers and computes only what is new.
"""

import argparse
import asyncio
import hashlib
import json
import os

import httpx

QUESTION = "Is this review positive, negative or mixed? Answer with one word.\n\n"
# Rows that are asked for at the same time. The server queues the rest; more would only wait there.
AT_ONCE = 32
# Tries of one HTTP request, with growing pauses between them.
TRIES = 8
BUSY = {408, 429, 500, 502, 503, 504}
ENDED = {"succeeded", "failed", "cancelled", "expired"}


class Refused(Exception):
    """The server will not answer this row, whenever it is asked."""


def request_of(text, model):
    """The job of a row."""
    asked = [{"role": "user", "content": QUESTION + text}]
    body = {"messages": asked, "max_tokens": 8, "temperature": 0}
    if model:
        body["model"] = model
    return {"endpoint": "/v1/chat/completions", "body": body, "priority": "batch"}


def key_of(request):
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


def wanted(answer, usual):
    """The pause that the server asks for."""
    try:
        return min(float(answer.headers["retry-after"]), 60)
    except (KeyError, ValueError):
        return usual


async def call(client, method, path, **sent):
    """One request, tried again while the server is busy or cannot be reached."""
    for attempt in range(TRIES):
        pause = min(0.5 * 2**attempt, 30)
        try:
            answer = await client.request(method, path, **sent)
        except httpx.TransportError as error:
            problem = str(error) or type(error).__name__
        else:
            if answer.is_success:
                return answer.json()
            problem = f"{answer.status_code}: {answer.text[:200]}"
            if answer.status_code not in BUSY:
                raise Refused(problem)
            pause = wanted(answer, pause)
        if attempt + 1 < TRIES:
            await asyncio.sleep(pause)
    raise ConnectionError(f"{method} {path} failed {TRIES} times, at last with {problem}")


async def answer_of(client, request):
    """The answer to a row, or the error that it ended with."""
    job = await call(client, "POST", "/v1/jobs", json=request, headers={"idempotency-key": key_of(request)})
    place, job = f"/v1/jobs/{job['id']}", None
    while job is None or job["status"] not in ENDED:
        job = await call(client, "GET", place, params={"wait": 30})
    if job["status"] != "succeeded":
        raise Refused((job["error"] or {}).get("message", job["status"]))
    return job["result"]["choices"][0]["message"]["content"]


async def answers(texts, server, key=None, model=None):
    """Pairs of answer and error, one for each text and in their order. A row that fails costs only itself."""
    found = [None] * len(texts)
    rows = iter(enumerate(texts))
    headers = {"authorization": f"Bearer {key}"} if key else {}

    async def worker(client):
        for number, text in rows:
            try:
                found[number] = (await answer_of(client, request_of(text, model)), None)
            except Refused as error:
                found[number] = (None, str(error))

    async with httpx.AsyncClient(base_url=server, headers=headers, timeout=60) as client:
        async with asyncio.TaskGroup() as workers:
            for _ in range(min(AT_ONCE, len(texts))):
                workers.create_task(worker(client))
    return found


def with_pandas(source, target, **server):
    import pandas

    frame = pandas.read_csv(source)
    found = asyncio.run(answers(frame["text"].fillna("").astype(str).tolist(), **server))
    frame = frame.assign(answer=[answer for answer, _ in found], error=[error for _, error in found])
    frame.to_csv(target, index=False)


def with_polars(source, target, **server):
    import polars

    frame = polars.read_csv(source)
    found = asyncio.run(answers(frame["text"].fill_null("").cast(polars.String).to_list(), **server))
    columns = [
        polars.Series("answer", [answer for answer, _ in found], dtype=polars.String),
        polars.Series("error", [error for _, error in found], dtype=polars.String),
    ]
    frame.with_columns(columns).write_csv(target)


def main():
    parser = argparse.ArgumentParser(description="Adds the columns `answer` and `error` to a CSV file with a column `text`.")
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--polars", action="store_true", help="use polars instead of pandas")
    parser.add_argument("--server", default="http://127.0.0.1:8080")
    parser.add_argument("--api-key", default=os.environ.get("GRISTMILL_API_KEY"))
    parser.add_argument("--model")
    args = parser.parse_args()
    ask = with_polars if args.polars else with_pandas
    ask(args.source, args.target, server=args.server, key=args.api_key, model=args.model)


if __name__ == "__main__":
    main()
