#!/usr/bin/env python3
"""Exercises the jobs of a running server with `httpx`: submit, wait, events, idempotency, cancel, retry.

    gristmill serve MODEL --jobs DIR --port 8080 &
    pip install -r tools/clients/requirements-jobs.txt
    python tools/clients/jobs_own.py http://127.0.0.1:8080 [--api-key KEY]

Prints one line a check and leaves with 1 if any failed.
"""

import hashlib
import json
import time
import uuid

import httpx
from checks import arguments, check, run

ENDED = {"succeeded", "failed", "cancelled", "expired"}
PROMPT = [{"role": "user", "content": "What is the capital of France? Answer in one sentence."}]
# Far more than a job of these checks takes, also on a machine that compiles meanwhile.
PATIENCE = 300
# Tokens of an answer that is still running when it is cancelled.
LONG = 400


class Server:
    def __init__(self, url, key):
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self.http = httpx.Client(base_url=url.rstrip("/"), headers=headers, timeout=PATIENCE)
        self.model = self.http.get("/v1/models").json()["data"][0]["id"]

    def chat(self, **extra):
        return {"model": self.model, "messages": PROMPT, "max_tokens": 8, "temperature": 0} | extra

    def submit(self, expect=202, headers=None, body=None, **extra):
        sent = {"endpoint": "/v1/chat/completions", "body": body or self.chat()} | extra
        answer = self.http.post("/v1/jobs", json=sent, headers=headers)
        assert answer.status_code == expect, (answer.status_code, answer.text)
        return answer

    def long(self, **extra):
        """A job that runs for long, whatever the model would say."""
        return self.submit(body=self.chat(max_tokens=LONG, ignore_eos=True), **extra).json()

    def job(self, identifier, expect=200, **params):
        answer = self.http.get(f"/v1/jobs/{identifier}", params=params)
        assert answer.status_code == expect, (answer.status_code, answer.text)
        return answer.json()

    def ended(self, identifier):
        """The job once it has ended, by waiting requests."""
        end = time.monotonic() + PATIENCE
        while True:
            job = self.job(identifier, wait=20)
            if job["status"] in ENDED:
                return job
            assert time.monotonic() < end, job

    def started(self, identifier):
        end = time.monotonic() + PATIENCE
        while self.job(identifier)["status"] == "queued":
            assert time.monotonic() < end, "the job was not started"
            time.sleep(0.05)

    def post(self, path, expect=(200, 202), body=None):
        answer = self.http.post(path, json=body if body is not None else {})
        assert answer.status_code in expect, (path, answer.status_code, answer.text)
        return answer.json()

    def events(self, identifier, headers=None, most=None, **params):
        """Events of a job as triples of id, type and data: all until the stream closes, or the first `most`."""
        found, event = [], {}
        with self.http.stream("GET", f"/v1/jobs/{identifier}/events", headers=headers, params=params) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream"), answer.headers
            for line in answer.iter_lines():
                if line.startswith(":"):
                    continue
                if line:
                    name, _, value = line.partition(":")
                    event[name] = value.removeprefix(" ")
                elif "data" in event:
                    found.append((int(event["id"]), event["event"], json.loads(event["data"])))
                    event = {}
                    if len(found) == most:
                        break
        return found


def error_of(answer):
    return answer.json()["error"]


@check
def a_job_is_accepted_and_ends(s):
    answer = s.submit(metadata={"row": "17"})
    job = answer.json()
    assert answer.headers["location"].endswith(f"/v1/jobs/{job['id']}") and int(answer.headers["retry-after"]) <= 60
    assert job["object"] == "job" and job["id"].startswith("job_") and job["metadata"] == {"row": "17"}, job
    assert job["status"] in ("queued", "running") and job["endpoint"] == "/v1/chat/completions", job
    assert abs(job["created_at"] - time.time()) < 120 and job["expires_at"] > job["created_at"]
    done = s.ended(job["id"])
    assert done["status"] == "succeeded" and done["error"] is None and not done["dead"], done
    assert done["attempts"] == 1 and done["created_at"] <= done["started_at"] <= done["finished_at"], done
    choice = done["result"]["choices"][0]
    assert choice["message"]["role"] == "assistant" and done["result"]["usage"]["completion_tokens"] <= 8
    assert done["usage"]["output_tokens"] == done["result"]["usage"]["completion_tokens"], done["usage"]
    assert done["retain_until"] is None or done["retain_until"] > time.time() + 3600
    return choice["message"]["content"]


@check
def the_answer_is_the_synchronous_one(s):
    job = s.ended(s.submit().json()["id"])
    now = s.http.post("/v1/chat/completions", json=s.chat()).json()
    assert job["result"]["choices"] == now["choices"], (job["result"]["choices"], now["choices"])


@check
def a_result_has_its_digest(s):
    job = s.ended(s.submit().json()["id"])
    answer = s.http.get(job["result_url"])
    if answer.status_code == 200 and answer.json() == job["result"]:
        assert hashlib.sha256(answer.content).hexdigest() == job["result_sha256"]
        return "result_url"
    assert len(job["result_sha256"]) == 64, job


@check
def waiting_returns_early_or_in_time(s):
    job = s.submit(run_at=int(time.time()) + 3600).json()
    assert s.job(job["id"], wait=1)["status"] == "queued"
    s.post(f"/v1/jobs/{job['id']}/cancel")
    assert s.ended(job["id"])["status"] == "cancelled"
    for wait in ("61", "-1", "soon"):
        assert s.http.get(f"/v1/jobs/{job['id']}", params={"wait": wait}).status_code == 400, wait


@check
def an_unchanged_job_is_304(s):
    job = s.ended(s.submit().json()["id"])
    tag = s.http.get(f"/v1/jobs/{job['id']}").headers["etag"]
    again = s.http.get(f"/v1/jobs/{job['id']}", headers={"if-none-match": tag})
    assert again.status_code == 304 and not again.content, again.status_code


@check
def events_are_numbered_and_close(s):
    job = s.submit().json()
    events = s.events(job["id"], after="0")
    numbers, kinds = [number for number, _, _ in events], [kind for _, kind, _ in events]
    assert numbers == sorted(set(numbers)), numbers
    assert kinds[0] in ("job.queued", "job.running") and kinds[-1] == "job.succeeded", kinds
    assert all(kind.startswith("job.") for kind in kinds) and "job.running" in kinds, kinds
    return ", ".join(kinds)


@check
def events_go_on_where_they_were_left(s):
    job = s.submit().json()
    [first] = s.events(job["id"], most=1, after="0")
    rest = s.events(job["id"], headers={"last-event-id": str(first[0])})
    assert rest and all(number > first[0] for number, _, _ in rest) and rest[-1][1] == "job.succeeded", rest
    again = s.events(job["id"], after=str(first[0]))
    assert again == rest, (again, rest)
    assert s.events(job["id"], after=str(rest[-1][0])) == [], "nothing follows the last event"


@check
def a_key_makes_one_job(s):
    key = {"idempotency-key": str(uuid.uuid4())}
    first, second = s.submit(headers=key), s.submit(headers=key)
    assert first.json()["id"] == second.json()["id"], (first.json(), second.json())
    assert "idempotent-replayed" not in first.headers and second.headers["idempotent-replayed"] == "true"
    # The same request, its fields in another order and with other spaces.
    body = json.dumps({"body": s.chat(), "endpoint": "/v1/chat/completions"}, indent=2)
    third = s.http.post("/v1/jobs", content=body, headers=key | {"content-type": "application/json"})
    assert third.status_code == 202 and third.json()["id"] == first.json()["id"], third.text
    s.submit(expect=422, headers=key, body=s.chat(max_tokens=9))
    s.submit(expect=400, headers={"idempotency-key": "k" * 256})
    s.ended(first.json()["id"])
    fourth = s.submit(headers=key)
    assert fourth.json()["id"] == first.json()["id"], "a key is known when its job has ended"


@check
def a_job_is_cancelled(s):
    queued = s.submit(run_at=int(time.time()) + 3600).json()
    assert queued["status"] == "queued", queued
    assert s.post(f"/v1/jobs/{queued['id']}/cancel")["status"] == "cancelled"
    job = s.long()
    s.started(job["id"])
    seen = s.post(f"/v1/jobs/{job['id']}/cancel")
    assert seen["status"] in ("cancelling", "cancelled"), seen
    assert s.ended(job["id"])["status"] == "cancelled"
    assert s.post(f"/v1/jobs/{job['id']}/cancel")["status"] == "cancelled", "cancel may be repeated"
    assert s.events(job["id"], after="0")[-1][1] == "job.cancelled"


@check
def a_cancelled_job_is_retried_by_hand(s):
    job = s.submit(run_at=int(time.time()) + 3600).json()
    answer = s.http.post(f"/v1/jobs/{job['id']}/retry", json={})
    assert answer.status_code == 409, answer.text
    s.post(f"/v1/jobs/{job['id']}/cancel")
    s.post(f"/v1/jobs/{job['id']}/retry")
    assert s.ended(job["id"])["status"] == "succeeded"
    assert s.http.post(f"/v1/jobs/{job['id']}/retry", json={}).status_code == 409, "what succeeded is not retried"


@check
def a_job_waits_for_its_time(s):
    at = int(time.time()) + 3
    job = s.submit(run_at=at).json()
    done = s.ended(job["id"])
    assert done["status"] == "succeeded" and done["started_at"] >= at, done


@check
def a_job_expires(s):
    job = s.submit(run_at=int(time.time()) + 600, deadline_seconds=1).json()
    done = s.ended(job["id"])
    assert done["status"] == "expired" and done["error"]["code"] == "job_expired", done


@check
def an_ended_job_is_deleted(s):
    job = s.submit(run_at=int(time.time()) + 3600).json()
    assert s.http.delete(f"/v1/jobs/{job['id']}").status_code == 409, "an open job is not deleted"
    s.post(f"/v1/jobs/{job['id']}/cancel")
    assert s.http.delete(f"/v1/jobs/{job['id']}").json()["deleted"] is True
    assert s.http.get(f"/v1/jobs/{job['id']}").status_code in (404, 410)


@check
def jobs_are_listed_page_by_page(s):
    made = [s.submit().json()["id"] for _ in range(3)]
    for identifier in made:
        s.ended(identifier)
    seen, after = [], {}
    while len(seen) < 3:
        page = s.http.get("/v1/jobs", params={"limit": 2, "status": "succeeded"} | after).json()
        assert page["object"] == "list" and 1 <= len(page["data"]) <= 2, page
        seen += [job["id"] for job in page["data"]]
        after = {"after": page["data"][-1]["id"]}
    assert len(set(seen)) == len(seen) and seen[:3] == made[::-1], (seen, made)
    assert s.http.get("/v1/jobs", params={"limit": 101}).status_code == 400
    assert s.http.get("/v1/jobs/stats").status_code == 200


@check
def respond_async_makes_a_job(s):
    answer = s.http.post("/v1/chat/completions", json=s.chat(), headers={"prefer": "respond-async"})
    assert answer.status_code == 202 and "respond-async" in answer.headers["preference-applied"], answer.text
    job = answer.json()
    assert answer.headers["location"].endswith(f"/v1/jobs/{job['id']}")
    assert s.ended(job["id"])["result"]["object"] == "chat.completion"


@check
def respond_async_answers_at_once_if_it_can(s):
    answer = s.http.post("/v1/chat/completions", json=s.chat(), headers={"prefer": "respond-async, wait=60"})
    assert answer.status_code == 200 and answer.json()["object"] == "chat.completion", answer.text
    slow = s.chat(max_tokens=LONG, ignore_eos=True)
    answer = s.http.post("/v1/chat/completions", json=slow, headers={"prefer": "respond-async, wait=0"})
    assert answer.status_code == 202, answer.text
    s.post(f"/v1/jobs/{answer.json()['id']}/cancel")


@check
def completions_are_jobs_too(s):
    body = {"model": s.model, "prompt": "The capital of France is", "max_tokens": 4}
    job = s.ended(s.submit(endpoint="/v1/completions", body=body).json()["id"])
    assert job["status"] == "succeeded" and job["result"]["object"] == "text_completion", job


@check
def what_cannot_run_is_refused_at_once(s):
    for status, param, changed in (
        (400, "temperature", {"body": s.chat(temperature="hot")}),
        (404, "model", {"body": s.chat(model="no-such-model")}),
        (400, "endpoint", {"endpoint": "/v1/invented"}),
        (400, "metadata", {"metadata": {f"k{number}": "v" for number in range(17)}}),
    ):
        error = error_of(s.submit(expect=status, **changed))
        assert param in (error["param"] or "") and error["message"], (param, error)
    broken = s.http.post("/v1/jobs", content=b"{", headers={"content-type": "application/json"})
    assert broken.status_code == 400, broken.text
    for path in ("", "/events", "/cancel", "/retry"):
        method = "POST" if path in ("/cancel", "/retry") else "GET"
        assert s.http.request(method, f"/v1/jobs/job_none{path}").status_code == 404, path


def main():
    args = arguments(__doc__).parse_args()
    run(Server(args.url, args.api_key))


if __name__ == "__main__":
    main()
