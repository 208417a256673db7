#!/usr/bin/env python3
"""Exercises message batches of a running server through the `anthropic` package.

    gristmill serve MODEL --jobs DIR --port 8080 &
    pip install -r tools/clients/requirements-jobs.txt
    python tools/clients/jobs_anthropic.py http://127.0.0.1:8080 [--api-key KEY] [--model NAME]

Prints one line a check and leaves with 1 if any failed.
"""

import datetime
import time

import anthropic
import httpx
from checks import arguments, check, run

PATIENCE = 600
REQUESTS = 20


class Server:
    def __init__(self, url, key, model):
        url = url.rstrip("/")
        self.client = anthropic.Anthropic(base_url=url, api_key=key or "none", max_retries=0, timeout=PATIENCE)
        self.http = httpx.Client(base_url=url, headers={"x-api-key": key or "none"}, timeout=PATIENCE)
        self.model = model or self.http.get("/v1/models").json()["data"][0]["id"]

    def request(self, name, **extra):
        asked = [{"role": "user", "content": f"Say the number {name}."}]
        params = {"model": self.model, "max_tokens": 4, "messages": asked} | extra
        return {"custom_id": f"request-{name}", "params": params}

    def batch(self, requests):
        return self.client.messages.batches.create(requests=requests)

    def ended(self, batch):
        end = time.monotonic() + PATIENCE
        while batch.processing_status != "ended":
            assert time.monotonic() < end, batch
            time.sleep(0.2)
            batch = self.client.messages.batches.retrieve(batch.id)
        return batch

    def results(self, batch):
        return {entry.custom_id: entry.result for entry in self.client.messages.batches.results(batch.id)}


def fails(kind, call):
    try:
        call()
    except kind as error:
        assert error.body["type"] == "error" and error.body["error"]["message"], error.body
        return error
    raise AssertionError(f"no {kind.__name__}")


@check
def a_batch_of_messages_is_answered(s):
    batch = s.batch([s.request(number) for number in range(REQUESTS)])
    assert batch.id.startswith("msgbatch_") and batch.type == "message_batch", batch
    assert batch.processing_status == "in_progress" and batch.results_url is None and batch.ended_at is None, batch
    assert batch.expires_at - batch.created_at == datetime.timedelta(hours=24), batch
    batch = s.ended(batch)
    counts = batch.request_counts
    assert (counts.processing, counts.succeeded, counts.errored) == (0, REQUESTS, 0), batch
    assert batch.ended_at >= batch.created_at and batch.results_url.endswith(f"/{batch.id}/results"), batch
    results = s.results(batch)
    assert set(results) == {f"request-{number}" for number in range(REQUESTS)}, results.keys()
    for result in results.values():
        assert result.type == "succeeded" and result.message.role == "assistant", result
        assert result.message.content[0].type == "text" and result.message.usage.output_tokens <= 4, result


@check
def counts_add_up_while_it_runs(s):
    batch = s.batch([s.request(number) for number in range(5)])
    while True:
        counts = batch.request_counts
        total = counts.processing + counts.succeeded + counts.errored + counts.canceled + counts.expired
        assert total == 5, batch
        if batch.processing_status == "ended":
            break
        time.sleep(0.05)
        batch = s.client.messages.batches.retrieve(batch.id)


@check
def a_bad_request_costs_one_result(s):
    batch = s.ended(s.batch([s.request("good"), s.request("bad", temperature="hot")]))
    results = s.results(batch)
    assert results["request-good"].type == "succeeded", results
    bad = results["request-bad"]
    assert bad.type == "errored" and bad.error.type == "error", bad
    assert bad.error.error.type == "invalid_request_error" and bad.error.error.message, bad
    assert batch.request_counts.errored == 1, batch


@check
def a_batch_is_canceled_and_deleted(s):
    batches = s.client.messages.batches
    batch = s.batch([s.request(number, max_tokens=200) for number in range(60)])
    assert fails(anthropic.APIStatusError, lambda: batches.delete(batch.id)).status_code in (400, 409)
    asked = batches.cancel(batch.id)
    assert asked.processing_status in ("canceling", "ended") and asked.cancel_initiated_at, asked
    assert batches.cancel(batch.id).id == batch.id, "cancel may be repeated"
    batch = s.ended(asked)
    counts = batch.request_counts
    assert counts.canceled and counts.canceled + counts.succeeded + counts.errored == 60, batch
    results = s.results(batch)
    assert len(results) == 60 and sum(result.type == "canceled" for result in results.values()) == counts.canceled
    gone = batches.delete(batch.id)
    assert gone.id == batch.id and gone.type == "message_batch_deleted", gone
    error = fails(anthropic.APIStatusError, lambda: batches.retrieve(batch.id))
    assert error.status_code in (404, 410), error.status_code
    return f"{counts.succeeded} of 60 were done"


@check
def batches_are_listed_page_by_page(s):
    made = [s.ended(s.batch([s.request(number)])).id for number in range(3)]
    batches = s.client.messages.batches
    page = batches.list(limit=2)
    assert [batch.id for batch in page.data] == made[:0:-1] and page.has_more, page
    assert (page.first_id, page.last_id) == (made[2], made[1]), page
    assert [batch.id for batch in batches.list(limit=1, after_id=made[1]).data] == made[:1]
    assert [batch.id for batch in batches.list(limit=1, before_id=made[0]).data] == made[1:2]


@check
def batches_that_cannot_be_are_refused(s):
    fails(anthropic.BadRequestError, lambda: s.batch([]))
    for requests in ([s.request(1), s.request(1)], [s.request(1) | {"custom_id": "x" * 65}]):
        try:
            batch = s.ended(s.batch(requests))
        except anthropic.BadRequestError:
            continue
        assert batch.request_counts.succeeded == 0, batch
    error = fails(anthropic.NotFoundError, lambda: s.client.messages.batches.retrieve("msgbatch_none"))
    assert error.body["error"]["type"] == "not_found_error", error.body


@check
def results_wait_for_the_end(s):
    batch = s.batch([s.request(number, max_tokens=200) for number in range(30)])
    answer = s.http.get(f"/v1/messages/batches/{batch.id}/results")
    ended = s.client.messages.batches.retrieve(batch.id).processing_status == "ended"
    assert ended or 400 <= answer.status_code < 500, answer.status_code
    s.client.messages.batches.cancel(batch.id)
    s.ended(batch)


def main():
    parser = arguments(__doc__)
    parser.add_argument("--model")
    args = parser.parse_args()
    run(Server(args.url, args.api_key, args.model))


if __name__ == "__main__":
    main()
