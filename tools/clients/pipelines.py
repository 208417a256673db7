#!/usr/bin/env python3
"""Runs the examples for data pipelines that need no cluster on a running server: pandas, polars and Celery.

    gristmill serve MODEL --jobs DIR --port 8080 &
    pip install -r tools/clients/requirements-jobs.txt
    python tools/clients/pipelines.py http://127.0.0.1:8080 [--api-key KEY]

Prints one line a check and leaves with 1 if any failed.
"""

import asyncio
import csv
import os
import pathlib
import sys
import tempfile
import uuid

import httpx
from checks import arguments, check, run

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
sys.path += [str(EXAMPLES), str(EXAMPLES / "pipelines")]
REVIEWS = EXAMPLES / "pipelines/reviews.csv"
PATIENCE = 300


class Server:
    def __init__(self, url, key):
        self.url, self.key = url.rstrip("/"), key
        self.http = httpx.Client(
            base_url=self.url, headers={"authorization": f"Bearer {key}"} if key else {}, timeout=PATIENCE
        )

    def chat(self, **extra):
        asked = [{"role": "user", "content": "Say one word."}]
        return {"messages": asked, "max_tokens": 4, "temperature": 0} | extra


def rows_of(file):
    with open(file, newline="") as lines:
        return list(csv.DictReader(lines))


def answered(s, ask):
    """The rows that an example writes for the reviews."""
    with tempfile.TemporaryDirectory() as folder:
        target = pathlib.Path(folder) / "answered.csv"
        ask(REVIEWS, target, server=s.url, key=s.key, model=None)
        rows = rows_of(target)
    asked = rows_of(REVIEWS)
    assert [(row["id"], row["text"]) for row in rows] == [(row["id"], row["text"]) for row in asked], rows
    assert all(row["answer"] and not row["error"] for row in rows), rows
    return [row["answer"] for row in rows]


@check
def pandas_and_polars_say_the_same(s):
    import frames

    first = answered(s, frames.with_pandas)
    # The second run gets the jobs of the first one.
    assert answered(s, frames.with_polars) == first
    return f"{len(first)} rows"


@check
def rows_that_were_asked_before_make_no_new_jobs(s):
    import frames

    text = f"Fine. {uuid.uuid4()}"
    newest = lambda: s.http.get("/v1/jobs", params={"limit": 1}).json()["data"][0]["id"]
    once = asyncio.run(frames.answers([text], s.url, s.key))
    job = newest()
    assert asyncio.run(frames.answers([text, text], s.url, s.key)) == once * 2
    assert newest() == job, "a row with the same request is the same job"


@check
def a_row_that_fails_costs_itself(s):
    import frames

    good = frames.request_of
    frames.request_of = lambda text, model: good(text, "no-such-model" if text == "bad" else model)
    try:
        found = asyncio.run(frames.answers(["good", "bad", "fine"], s.url, s.key))
    finally:
        frames.request_of = good
    assert [error is None for _, error in found] == [True, False, True], found
    assert "404" in found[1][1], found


class Bridge:
    """The bridge with a worker in this process and a broker in memory."""

    def __init__(self, server):
        os.environ["GRISTMILL_URL"] = server.url
        if server.key:
            os.environ["GRISTMILL_API_KEY"] = server.key
        import celery_bridge
        from celery.contrib.testing.worker import start_worker

        self.bridge = celery_bridge
        self.bridge.app.conf.update(broker_url="memory://", result_backend="cache+memory://")
        self.worker = start_worker(self.bridge.app, pool="threads", concurrency=2, perform_ping_check=False)

    def __enter__(self):
        self.worker.__enter__()
        return self.bridge

    def __exit__(self, *problem):
        self.worker.__exit__(*problem)


@check
def celery_submits_and_collects(s):
    with Bridge(s) as bridge:
        result = bridge.ask("/v1/chat/completions", s.chat()).get(timeout=PATIENCE)
        assert result["choices"][0]["message"]["role"] == "assistant", result


@check
def a_task_that_is_delivered_twice_makes_one_job(s):
    with Bridge(s) as bridge:
        task = str(uuid.uuid4())
        asked = ["/v1/chat/completions", s.chat()]
        first = bridge.submit.apply_async(asked, {"priority": "batch"}, task_id=task).get(timeout=PATIENCE)
        bridge.app.backend.forget(task)
        second = bridge.submit.apply_async(asked, {"priority": "batch"}, task_id=task).get(timeout=PATIENCE)
        assert first == second and first.startswith("job_"), (first, second)


@check
def a_task_that_cannot_run_fails_at_once(s):
    with Bridge(s) as bridge:
        task = bridge.submit.delay("/v1/chat/completions", s.chat(model="no-such-model"))
        try:
            task.get(timeout=PATIENCE)
        except ValueError as error:
            assert "404" in str(error), error
        else:
            raise AssertionError("a request for an unknown model became a job")


def main():
    args = arguments(__doc__).parse_args()
    run(Server(args.url, args.api_key))


if __name__ == "__main__":
    main()
