"""Hands the work of Celery tasks to a Gristmill server, which keeps it durable. docs/from-celery.md is the page about it.

    gristmill serve MODEL --jobs DIR &
    pip install celery redis httpx
    CELERY_BROKER_URL=redis://localhost CELERY_RESULT_BACKEND=redis://localhost celery -A celery_bridge worker

`submit` returns at once, so no worker is held while a model computes, and no visibility timeout can pass. A task that
Celery delivers twice, or repeats after a crash, has the same id, so it finds the job that it made before.
"""

import os

import celery
import httpx

SERVER = os.environ.get("GRISTMILL_URL", "http://127.0.0.1:8080")
KEY = os.environ.get("GRISTMILL_API_KEY")
ENDED = {"succeeded", "failed", "cancelled", "expired"}
TRANSIENT = (httpx.TransportError, httpx.HTTPStatusError)

# Celery reads the broker and the backend of results from CELERY_BROKER_URL and CELERY_RESULT_BACKEND.
app = celery.Celery("gristmill")


def call(method, path, **sent):
    headers = {"authorization": f"Bearer {KEY}"} if KEY else {}
    answer = httpx.request(method, SERVER + path, timeout=60, headers=headers | sent.pop("headers", {}), **sent)
    # A request that is wrong stays wrong: it fails the task at once, with what the server says.
    if 400 <= answer.status_code < 500 and answer.status_code not in (408, 429):
        raise ValueError(f"{path}: {answer.status_code}: {answer.text[:500]}")
    return answer.raise_for_status().json()


@app.task(bind=True, acks_late=True, autoretry_for=TRANSIENT, retry_backoff=True, max_retries=10)
def submit(self, endpoint, body, **options):
    """Makes a job of a request, and returns the job's id."""
    job = {"endpoint": endpoint, "body": body} | options
    return call("POST", "/v1/jobs", json=job, headers={"idempotency-key": self.request.id})["id"]


@app.task(bind=True, acks_late=True, autoretry_for=TRANSIENT, retry_backoff=True, max_retries=None)
def collect(self, job):
    """Returns the result of a job once there is one. Between two looks the task waits in the broker, not in a worker."""
    state = call("GET", f"/v1/jobs/{job}")
    if state["status"] not in ENDED:
        raise self.retry(countdown=5, max_retries=None)
    if state["status"] != "succeeded":
        raise RuntimeError(f"job {job} {state['status']}: {(state['error'] or {}).get('message')}")
    return state["result"]


def ask(endpoint, body, **options):
    """What replaces `task.delay(...)`: both tasks, one after the other."""
    return (submit.s(endpoint, body, **options) | collect.s()).apply_async()
