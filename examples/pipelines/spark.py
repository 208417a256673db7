#!/usr/bin/env python3
"""Answers a question about every row of a Spark frame with `mapInPandas`, by jobs of a Gristmill server.

    gristmill serve MODEL --jobs DIR &
    pip install -r examples/pipelines/requirements-spark.txt      (and Java 17 or later)
    python examples/pipelines/spark.py examples/pipelines/reviews.csv answered [--server URL]

Spark runs a task again when an executor is lost, and twice at the same time when it speculates. Each row's job has the hash
of its request as Idempotency-Key, so the repeated task finds the jobs of the first one and nothing is computed twice.
"""

import argparse
import hashlib
import json
import os
import sys
import time

import httpx
from pyspark.sql import SparkSession

QUESTION = "Is this review positive, negative or mixed? Answer with one word.\n\n"
# Jobs of a partition that the server has at the same time; partitions that run at once each have so many.
AT_ONCE = 32
TRIES = 8
BUSY = {408, 429, 500, 502, 503, 504}
ENDED = {"succeeded", "failed", "cancelled", "expired"}
ANSWERED = "id long, text string, answer string, error string"


def call(client, method, path, **sent):
    """One request, tried again while the server is busy or cannot be reached."""
    for attempt in range(TRIES):
        pause = min(0.5 * 2**attempt, 30)
        try:
            answer = client.request(method, path, **sent)
        except httpx.TransportError:
            if attempt + 1 == TRIES:
                raise
        else:
            if answer.status_code not in BUSY or attempt + 1 == TRIES:
                answer.raise_for_status()
                return answer.json()
            asked = answer.headers.get("retry-after", "")
            pause = min(int(asked), 60) if asked.isdigit() else pause
        time.sleep(pause)


def submit(client, text, model):
    """The id of a row's job; none and the error if the server refuses it."""
    body = {"messages": [{"role": "user", "content": QUESTION + text}], "max_tokens": 8, "temperature": 0}
    request = {"endpoint": "/v1/chat/completions", "body": body | ({"model": model} if model else {})}
    key = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
    try:
        return call(client, "POST", "/v1/jobs", json=request, headers={"idempotency-key": key})["id"], None
    except httpx.HTTPStatusError as error:
        if error.response.status_code in BUSY:
            raise
        return None, error.response.text[:500]


def result(client, identifier, error):
    """Answer and error of a row."""
    if identifier is None:
        return None, error
    job = None
    while job is None or job["status"] not in ENDED:
        job = call(client, "GET", f"/v1/jobs/{identifier}", params={"wait": 30})
    if job["status"] == "succeeded":
        return job["result"]["choices"][0]["message"]["content"], None
    return None, (job["error"] or {}).get("message", job["status"])


def ask(server, key=None, model=None):
    """The function for `mapInPandas`."""

    def answered(frames):
        headers = {"authorization": f"Bearer {key}"} if key else {}
        with httpx.Client(base_url=server, headers=headers, timeout=60) as client:
            for frame in frames:
                for start in range(0, len(frame), AT_ONCE):
                    part = frame.iloc[start : start + AT_ONCE]
                    jobs = [submit(client, text, model) for text in part["text"].fillna("")]
                    pairs = [result(client, *job) for job in jobs]
                    yield part.assign(answer=[pair[0] for pair in pairs], error=[pair[1] for pair in pairs])

    return answered


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source", help="CSV file with the columns `id` and `text`")
    parser.add_argument("target", help="folder for Parquet files")
    parser.add_argument("--server", default="http://127.0.0.1:8080")
    parser.add_argument("--api-key", default=os.environ.get("GRISTMILL_API_KEY"))
    parser.add_argument("--model")
    args = parser.parse_args()
    # Executors of a cluster have their own Python; those of this machine take the one with httpx.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.appName("gristmill").getOrCreate()
    rows = spark.read.csv(args.source, header=True, schema="id long, text string", escape='"')
    rows.mapInPandas(ask(args.server, args.api_key, args.model), ANSWERED).write.mode("overwrite").parquet(args.target)
    spark.read.parquet(args.target).orderBy("id").show(truncate=60)
    spark.stop()


if __name__ == "__main__":
    main()
