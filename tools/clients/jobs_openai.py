#!/usr/bin/env python3
"""Exercises files, batches, background responses and webhooks of a running server through the `openai` package.

    gristmill serve MODEL --jobs DIR --webhook-allow 127.0.0.1 --port 8080 &
    pip install -r tools/clients/requirements-jobs.txt
    python tools/clients/jobs_openai.py http://127.0.0.1:8080 [--api-key KEY] [--model NAME]

Prints one line a check and leaves with 1 if any failed. Batches of embeddings are checked where the server has a model
for them.
"""

import json
import time

import httpx
import openai
from checks import arguments, check, run
from receiver import Receiver
from standardwebhooks import Webhook

ENDED = {"completed", "failed", "expired", "cancelled"}
PATIENCE = 600
LINES = 20
CHAT = "/v1/chat/completions"


class Server:
    def __init__(self, url, key, model):
        self.url = url.rstrip("/")
        self.client = openai.OpenAI(base_url=f"{self.url}/v1", api_key=key or "none", max_retries=0, timeout=PATIENCE)
        self.http = httpx.Client(base_url=self.url, headers={"authorization": f"Bearer {key or 'none'}"}, timeout=PATIENCE)
        self.model = model or self.client.models.list().data[0].id

    def line(self, name, url=CHAT, **extra):
        asked = [{"role": "user", "content": f"Say the number {name}."}]
        body = {"model": self.model, "messages": asked, "max_tokens": 4, "temperature": 0} | extra
        return {"custom_id": str(name), "method": "POST", "url": url, "body": body}

    def upload(self, lines, **extra):
        text = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
        return self.client.files.create(file=("lines.jsonl", text.encode()), purpose="batch", **extra)

    def batch(self, lines, endpoint=CHAT, **extra):
        file = self.upload(lines)
        return self.client.batches.create(
            input_file_id=file.id, endpoint=endpoint, completion_window="24h", **extra
        )

    def ended(self, batch):
        end = time.monotonic() + PATIENCE
        while batch.status not in ENDED:
            assert time.monotonic() < end, batch
            time.sleep(0.2)
            batch = self.client.batches.retrieve(batch.id)
        return batch

    def lines_of(self, file):
        return [json.loads(line) for line in self.client.files.content(file).text.splitlines()]


def fails(kind, call, param=None):
    try:
        call()
    except kind as error:
        assert param is None or param in (error.param or ""), (error.param, error.body)
        return error
    raise AssertionError(f"no {kind.__name__}")


def refused(status, call):
    error = fails(openai.APIStatusError, call)
    assert error.status_code == status, (error.status_code, error.body)


def gone_now(call):
    """What was deleted is not found, or known to be gone."""
    error = fails(openai.APIStatusError, call)
    assert error.status_code in (404, 410), (error.status_code, error.body)


@check
def files_are_kept(s):
    text = "".join(json.dumps(s.line(number)) + "\n" for number in range(3)).encode()
    file = s.client.files.create(
        file=("three lines.jsonl", text), purpose="batch", expires_after={"anchor": "created_at", "seconds": 7200}
    )
    assert file.id.startswith("file-") and file.object == "file" and file.bytes == len(text), file
    assert file.purpose == "batch" and file.filename == "three lines.jsonl", file
    assert file.status in ("uploaded", "processed") and file.expires_at == file.created_at + 7200, file
    assert s.client.files.retrieve(file.id) == file
    assert s.client.files.content(file.id).read() == text
    part = s.http.get(f"/v1/files/{file.id}/content", headers={"range": "bytes=2-5"})
    assert part.status_code == 206 and part.content == text[2:6], (part.status_code, part.content)
    assert part.headers["content-range"] == f"bytes 2-5/{len(text)}", part.headers
    gone = s.client.files.delete(file.id)
    assert gone.deleted and gone.id == file.id and gone.object == "file"
    gone_now(lambda: s.client.files.retrieve(file.id))
    gone_now(lambda: s.client.files.content(file.id))


@check
def files_are_listed_page_by_page(s):
    made = [s.upload([s.line(number)]).id for number in range(3)]
    page = s.client.files.list(limit=2, purpose="batch", order="desc")
    assert [file.id for file in page.data] == made[:0:-1] and page.has_more, page
    seen = []
    for file in s.client.files.list(limit=2, purpose="batch", order="desc"):
        seen.append(file.id)
        if len(seen) == 3:
            break
    assert seen == made[::-1], (seen, made)
    assert [file.id for file in s.client.files.list(limit=1, order="asc").data] != [made[-1]]
    for file in made:
        s.client.files.delete(file)


@check
def files_that_cannot_be_are_refused(s):
    make = s.client.files.create
    fails(openai.BadRequestError, lambda: make(file=("a.jsonl", b"{}"), purpose="fine-tune"), "purpose")
    short = {"anchor": "created_at", "seconds": 60}
    fails(openai.BadRequestError, lambda: make(file=("a.jsonl", b"{}"), purpose="batch", expires_after=short))
    fails(openai.NotFoundError, lambda: s.client.files.retrieve("file-none"))


@check
def a_batch_of_chats_is_answered(s):
    batch = s.batch([s.line(number) for number in range(LINES)], metadata={"night": "1"})
    assert batch.object == "batch" and batch.id.startswith("batch_") and batch.status == "validating", batch
    assert batch.endpoint == CHAT and batch.completion_window == "24h" and batch.metadata == {"night": "1"}, batch
    assert batch.expires_at == batch.created_at + 86_400, batch
    batch = s.ended(batch)
    counts = batch.request_counts
    assert batch.status == "completed" and (counts.total, counts.completed, counts.failed) == (LINES, LINES, 0), batch
    assert batch.error_file_id is None and batch.errors is None, batch
    times = [batch.created_at, batch.in_progress_at, batch.finalizing_at, batch.completed_at]
    assert times == sorted(times), times
    lines = s.lines_of(batch.output_file_id)
    assert [line["custom_id"] for line in lines] == [str(number) for number in range(LINES)], "in input order"
    for line in lines:
        assert line["id"].startswith("batch_req_") and line["error"] is None, line
        assert line["response"]["status_code"] == 200 and line["response"]["request_id"], line
        assert line["response"]["body"]["choices"][0]["message"]["role"] == "assistant", line
    usage = [line["response"]["body"]["usage"] for line in lines]
    assert batch.usage.input_tokens == sum(part["prompt_tokens"] for part in usage), batch.usage
    assert batch.usage.output_tokens == sum(part["completion_tokens"] for part in usage), batch.usage
    assert batch.usage.total_tokens == batch.usage.input_tokens + batch.usage.output_tokens, batch.usage
    kept = s.client.files.retrieve(batch.output_file_id)
    assert kept.purpose == "batch_output" and kept.bytes == len(s.client.files.content(kept.id).read()), kept
    return f"{batch.usage.total_tokens} tokens"


@check
def lines_are_read_while_the_batch_runs(s):
    batch = s.batch([s.line(number) for number in range(LINES)])
    with s.http.stream("GET", f"/v1/batches/{batch.id}/output") as answer:
        assert answer.status_code == 200, answer.read()
        lines = [json.loads(line) for line in answer.iter_lines() if line]
    assert [line["custom_id"] for line in lines] == [str(number) for number in range(LINES)], lines
    batch = s.ended(batch)
    assert lines == s.lines_of(batch.output_file_id)
    rest = s.http.get(f"/v1/batches/{batch.id}/output", params={"after": 16}).text.splitlines()
    assert [json.loads(line) for line in rest] == lines[17:], rest


@check
def a_bad_line_costs_one_line(s):
    lines = [s.line(0), s.line(1, temperature="hot"), s.line(2, stream=True), s.line(3)]
    batch = s.ended(s.batch(lines))
    counts = batch.request_counts
    assert batch.status == "completed" and (counts.total, counts.completed, counts.failed) == (4, 2, 2), batch
    assert [line["custom_id"] for line in s.lines_of(batch.output_file_id)] == ["0", "3"]
    errors = {line["custom_id"]: line for line in s.lines_of(batch.error_file_id)}
    assert set(errors) == {"1", "2"}, errors
    said = errors["1"]
    assert said["error"] is None and said["response"]["status_code"] == 400, said
    assert "temperature" in json.dumps(said["response"]["body"]["error"]), said


@check
def a_batch_whose_lines_all_fail_is_completed(s):
    batch = s.ended(s.batch([s.line(0, temperature="hot")]))
    assert batch.status == "completed" and batch.output_file_id is None and batch.error_file_id, batch
    assert batch.request_counts.failed == 1, batch


@check
def a_file_with_faults_fails_the_batch(s):
    for lines, code, number in (
        ([s.line(0), "{not json", s.line(2)], "invalid_json_line", 2),
        ([s.line(0), s.line(1), s.line(0)], "duplicate_custom_id", 3),
        ([s.line(0), s.line(1, url="/v1/completions")], "url_mismatch", 2),
    ):
        batch = s.ended(s.batch(lines))
        assert batch.status == "failed" and batch.failed_at and batch.errors.object == "list", batch
        first = batch.errors.data[0]
        assert (first.code, first.line) == (code, number) and first.message, batch.errors
        assert batch.output_file_id is None and batch.request_counts.completed == 0, batch


@check
def an_empty_file_fails_somewhere(s):
    try:
        batch = s.ended(s.batch([]))
    except openai.BadRequestError:
        return "refused"
    assert batch.status == "failed" and batch.errors.data[0].code == "empty_file", batch


@check
def batches_that_cannot_be_are_refused(s):
    file = s.upload([s.line(0)])
    make = s.client.batches.create
    good = {"input_file_id": file.id, "endpoint": CHAT, "completion_window": "24h"}
    for changed, param in (
        ({"endpoint": "/v1/invented"}, "endpoint"),
        ({"completion_window": "3 weeks"}, "completion_window"),
    ):
        fails(openai.BadRequestError, lambda: make(**good | changed), param)
    refusal = fails(openai.APIStatusError, lambda: make(**good | {"input_file_id": "file-none"}), "input_file_id")
    assert refusal.status_code in (400, 404), refusal.status_code
    fails(openai.NotFoundError, lambda: s.client.batches.retrieve("batch_none"))


@check
def a_batch_is_cancelled(s):
    lines = [s.line(number, max_tokens=200, ignore_eos=True) for number in range(60)]
    batch = s.batch(lines)
    while batch.status == "validating":
        time.sleep(0.1)
        batch = s.client.batches.retrieve(batch.id)
    asked = s.client.batches.cancel(batch.id)
    assert asked.status in ("cancelling", "cancelled") and asked.cancelling_at, asked
    batch = s.ended(asked)
    counts = batch.request_counts
    assert batch.status == "cancelled" and batch.cancelled_at and counts.completed < 60, batch
    done = s.lines_of(batch.output_file_id) if batch.output_file_id else []
    assert len(done) == counts.completed, (len(done), counts)
    stopped = s.lines_of(batch.error_file_id)
    assert len(done) + len(stopped) == 60, (len(done), len(stopped))
    assert all(line["error"]["code"] == "batch_cancelled" for line in stopped if line["response"] is None), stopped[0]
    refused(409, lambda: s.client.batches.cancel(batch.id))
    return f"{counts.completed} of 60 lines were done"


@check
def batches_are_listed_page_by_page(s):
    made = [s.batch([s.line(number)]).id for number in range(3)]
    page = s.client.batches.list(limit=2)
    assert [batch.id for batch in page.data] == made[:0:-1] and page.has_more, page
    seen = []
    for batch in s.client.batches.list(limit=2):
        seen.append(batch.id)
        if len(seen) == 3:
            break
    assert seen == made[::-1], (seen, made)
    for batch in made:
        s.ended(s.client.batches.retrieve(batch))


@check
def a_batch_of_embeddings_where_they_are_served(s):
    model = None
    for card in s.client.models.list().data:
        try:
            s.client.embeddings.create(model=card.id, input="a")
        except openai.APIStatusError:
            continue
        model = card.id
    if model is None:
        return "no model for embeddings"
    url = "/v1/embeddings"
    lines = [
        {"custom_id": f"e{n}", "method": "POST", "url": url, "body": {"model": model, "input": [f"text {n}"]}}
        for n in range(LINES)
    ]
    batch = s.ended(s.batch(lines, endpoint=url))
    assert batch.status == "completed" and batch.request_counts.completed == LINES, batch
    bodies = [line["response"]["body"] for line in s.lines_of(batch.output_file_id)]
    assert all(body["data"][0]["embedding"] for body in bodies)


@check
def a_response_runs_in_the_background(s):
    response = s.client.responses.create(model=s.model, input="Say one word.", max_output_tokens=16, background=True)
    assert response.id.startswith("resp_") and response.status in ("queued", "in_progress"), response
    end = time.monotonic() + PATIENCE
    while response.status in ("queued", "in_progress"):
        assert time.monotonic() < end, response
        time.sleep(0.1)
        response = s.client.responses.retrieve(response.id)
    assert response.status in ("completed", "incomplete") and response.output, response
    s.client.responses.delete(response.id)
    gone_now(lambda: s.client.responses.retrieve(response.id))


@check
def a_background_response_is_cancelled(s):
    response = s.client.responses.create(
        model=s.model, input="Count to a thousand.", max_output_tokens=800, background=True
    )
    s.client.responses.cancel(response.id)
    end = time.monotonic() + PATIENCE
    while (response := s.client.responses.retrieve(response.id)).status in ("queued", "in_progress"):
        assert time.monotonic() < end, response
        time.sleep(0.1)
    assert response.status in ("cancelled", "completed", "incomplete"), response
    return response.status


@check
def a_batch_is_told_by_a_webhook(s):
    with Receiver() as receiver:
        types = s.client.webhooks.event_types.list().data
        assert {"batch.completed", "response.completed"} <= set(types), types
        endpoint = s.client.webhooks.create(name="check", url=receiver.url, event_types=["batch.completed"])
        assert endpoint.object == "webhook_endpoint" and endpoint.signing_secret.startswith("whsec_"), endpoint.id
        batch = s.batch([s.line(0)])
        [(headers, body)] = receiver.wait(1, PATIENCE)
        event = s.client.webhooks.unwrap(body, headers, secret=endpoint.signing_secret)
        assert event.type == "batch.completed" and event.data.id == batch.id and event.object == "event", event
        # What the event says is true when it comes: the files can be read.
        batch = s.client.batches.retrieve(batch.id)
        assert batch.status == "completed" and s.lines_of(batch.output_file_id), batch
        other = "whsec_" + "A" * 44
        fails(openai.InvalidWebhookSignatureError, lambda: s.client.webhooks.unwrap(body, headers, secret=other))
        s.client.webhooks.delete(endpoint.id)


@check
def a_response_is_told_by_a_webhook(s):
    with Receiver() as receiver:
        kinds = ["response.completed", "response.incomplete"]
        endpoint = s.client.webhooks.create(name="check", url=receiver.url, event_types=kinds)
        response = s.client.responses.create(model=s.model, input="Say one word.", max_output_tokens=16, background=True)
        [(headers, body)] = receiver.wait(1, PATIENCE)
        event = s.client.webhooks.unwrap(body, headers, secret=endpoint.signing_secret)
        assert event.type in kinds and event.data.id == response.id, event
        s.client.webhooks.delete(endpoint.id)


@check
def a_secret_is_rotated(s):
    with Receiver() as receiver:
        endpoint = s.client.webhooks.create(name="check", url=receiver.url, event_types=["batch.completed"])
        new = s.client.webhooks.rotate_secret(endpoint.id, keep_old_secret_active_for_24_hours=True)
        assert new.signing_secret != endpoint.signing_secret
        result = s.client.webhooks.test(endpoint.id, event_type="batch.completed")
        assert result.object == "webhook_endpoint.test" and result.success and result.status_code == 204, result
        assert (result.event_type, result.webhook_endpoint_id) == ("batch.completed", endpoint.id), result
        [(headers, body)] = receiver.wait()
        assert len(headers["webhook-signature"].split()) == 2, headers
        for secret in (endpoint.signing_secret, new.signing_secret):
            Webhook(secret).verify(body, headers)
            s.client.webhooks.unwrap(body, headers, secret=secret)
        s.client.webhooks.delete(endpoint.id)


@check
def endpoints_are_changed_and_listed(s):
    with Receiver() as receiver:
        endpoint = s.client.webhooks.create(name="first", url=receiver.url, event_types=["batch.completed"])
        changed = s.client.webhooks.update(endpoint.id, name="second", event_types=["batch.failed"])
        assert changed.name == "second" and changed.event_types == ["batch.failed"], changed
        assert s.client.webhooks.retrieve(endpoint.id).name == "second"
        assert endpoint.id in [one.id for one in s.client.webhooks.list()]
        gone = s.client.webhooks.delete(endpoint.id)
        assert gone.deleted and gone.object == "webhook_endpoint.deleted", gone
        gone_now(lambda: s.client.webhooks.retrieve(endpoint.id))


def main():
    parser = arguments(__doc__)
    parser.add_argument("--model")
    args = parser.parse_args()
    run(Server(args.url, args.api_key, args.model))


if __name__ == "__main__":
    main()
