#!/usr/bin/env python3
"""Asks a running server as published guides to queued inference do: `POST /generate`, then `GET /status` until done.

    python tools/clients/jobs_guide.py http://127.0.0.1:8080 [--api-key KEY]

Prints one line a check and leaves with 1 if any failed.
"""

import time

import httpx
from checks import arguments, check, run

PATIENCE = 300
OPEN = {"pending", "processing"}


class Server:
    def __init__(self, url, key):
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self.http = httpx.Client(base_url=url.rstrip("/"), headers=headers, timeout=60)

    def generate(self, expect=202, **body):
        answer = self.http.post("/generate", json=body)
        assert answer.status_code == expect, (answer.status_code, answer.text)
        return answer.json()

    def finished(self, task):
        end = time.monotonic() + PATIENCE
        while True:
            state = self.http.get(f"/status/{task}").json()
            assert set(state) >= {"task_id", "status", "result", "error"} and state["task_id"] == task, state
            if state["status"] not in OPEN:
                return state
            assert time.monotonic() < end, state
            time.sleep(0.1)


@check
def a_task_is_polled_until_it_is_done(s):
    task = s.generate(prompt="The capital of France is", max_tokens=8)
    assert task["status"] == "pending" and task["status_url"].endswith(f"/status/{task['task_id']}"), task
    state = s.finished(task["task_id"])
    assert state["status"] == "completed" and state["error"] is None and state["result"], state
    return str(state["result"])[:60]


@check
def tasks_are_independent(s):
    tasks = [s.generate(prompt=f"{number} and {number} is", max_tokens=4)["task_id"] for number in range(8)]
    assert len(set(tasks)) == 8
    assert all(s.finished(task)["status"] == "completed" for task in tasks)


@check
def an_unknown_task_is_404(s):
    assert s.http.get("/status/no-such-task").status_code == 404


@check
def a_task_without_a_prompt_is_refused(s):
    answer = s.http.post("/generate", json={"max_tokens": 4})
    assert 400 <= answer.status_code < 500, (answer.status_code, answer.text)


def main():
    args = arguments(__doc__).parse_args()
    run(Server(args.url, args.api_key))


if __name__ == "__main__":
    main()
