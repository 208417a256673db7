#!/usr/bin/env python3
"""Receives the webhooks of a running server and verifies them with the `standardwebhooks` package.

    gristmill serve MODEL --jobs DIR --webhook-allow 127.0.0.1 --port 8080 &
    pip install -r tools/clients/requirements-jobs.txt
    python tools/clients/webhooks_receiver.py http://127.0.0.1:8080 [--api-key KEY]

Prints one line a check and leaves with 1 if any failed. The receiver listens on the loopback, which the server has to
be allowed to call.
"""

import time

import httpx
from checks import arguments, check, run
from receiver import DELIVERED, Receiver
from standardwebhooks import Webhook

# The first pause of a delivery is 5 s, up to a fifth longer.
RETRIED = 20


class Server:
    def __init__(self, url, key):
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self.http = httpx.Client(base_url=url.rstrip("/"), headers=headers, timeout=120)
        self.model = self.http.get("/v1/models").json()["data"][0]["id"]

    def post(self, path, body=None, expect=(200, 201, 202)):
        answer = self.http.post(path, json=body if body is not None else {})
        assert answer.status_code in expect, (path, answer.status_code, answer.text)
        return answer.json()

    def endpoint(self, receiver, *event_types):
        body = {"name": "check", "url": receiver.url, "event_types": list(event_types)}
        return self.post("/v1/webhook_endpoints", body)

    def job(self, **extra):
        body = {"model": self.model, "messages": [{"role": "user", "content": "Say one word."}], "max_tokens": 4}
        return self.post("/v1/jobs", {"endpoint": "/v1/chat/completions", "body": body} | extra)

    def deliveries(self, endpoint):
        return self.http.get(f"/v1/webhook_endpoints/{endpoint['id']}/deliveries").json()["data"]

    def delivery(self, endpoint, ready, seconds=DELIVERED):
        """The newest delivery of the endpoint once it is `ready`."""
        end = time.monotonic() + seconds
        while True:
            found = self.deliveries(endpoint)
            if found and ready(found[0]):
                return found[0]
            assert time.monotonic() < end, found
            time.sleep(0.1)

    def forget(self, endpoint):
        answer = self.http.delete(f"/v1/webhook_endpoints/{endpoint['id']}")
        assert answer.json() == {"id": endpoint["id"], "object": "webhook_endpoint.deleted", "deleted": True}, answer.text


@check
def a_job_is_told_and_signed(s):
    with Receiver() as receiver:
        endpoint = s.endpoint(receiver, "job.succeeded")
        job = s.job()
        [(headers, body)] = receiver.wait()
        event = Webhook(endpoint["signing_secret"]).verify(body, headers)
        assert event["object"] == "event" and event["type"] == "job.succeeded", event
        assert event["data"]["id"] == job["id"] and event["id"].startswith("evt_"), event
        assert abs(event["created_at"] - time.time()) < 120 and len(body) < 20_000
        assert headers["content-type"].startswith("application/json")
        told = s.delivery(endpoint, lambda found: found["state"] == "delivered")
        assert told["attempt"] == 1 and told["last_status"] == 204, told
        s.forget(endpoint)


@check
def what_was_changed_is_not_verified(s):
    with Receiver() as receiver:
        endpoint = s.endpoint(receiver, "job.succeeded")
        s.job()
        [(headers, body)] = receiver.wait()
        hook = Webhook(endpoint["signing_secret"])
        late = headers | {"webhook-timestamp": str(int(headers["webhook-timestamp"]) - 1)}
        for changed in [(body + b" ", headers), (body, late), (body, headers | {"webhook-id": "evt_other"})]:
            try:
                hook.verify(*changed)
            except Exception as error:
                assert type(error).__name__ == "WebhookVerificationError", error
            else:
                raise AssertionError("a changed delivery was verified")
        s.forget(endpoint)


@check
def a_failed_delivery_is_repeated_under_its_id(s):
    with Receiver(500) as receiver:
        endpoint = s.endpoint(receiver, "job.succeeded")
        s.job()
        (first, body), (second, again) = receiver.wait(2)
        assert first["webhook-id"] == second["webhook-id"] and body == again
        assert int(second["webhook-timestamp"]) > int(first["webhook-timestamp"]), "each attempt has its own time"
        Webhook(endpoint["signing_secret"]).verify(again, second)
        assert s.delivery(endpoint, lambda found: found["state"] == "delivered")["attempt"] == 2
        s.forget(endpoint)


@check
def redirects_are_not_followed(s):
    with Receiver() as other, Receiver((302, {"location": other.url})) as receiver:
        endpoint = s.endpoint(receiver, "job.succeeded")
        s.job()
        receiver.wait()
        failed = s.delivery(endpoint, lambda found: found["last_status"] == 302)
        assert failed["state"] == "pending" and not other.got, failed
        s.forget(endpoint)


@check
def a_receiver_that_is_gone_is_asked_no_more(s):
    with Receiver(410) as receiver:
        endpoint = s.endpoint(receiver, "job.succeeded")
        s.job()
        receiver.wait()
        s.delivery(endpoint, lambda found: found["state"] == "discarded")
        end = time.monotonic() + DELIVERED
        while s.http.get(f"/v1/webhook_endpoints/{endpoint['id']}").json()["status"] != "disabled":
            assert time.monotonic() < end, "the endpoint was not switched off"
            time.sleep(0.1)
        s.forget(endpoint)


@check
def a_delivery_is_replayed(s):
    with Receiver() as receiver:
        endpoint = s.endpoint(receiver, "job.succeeded")
        s.job()
        [(first, body)] = receiver.wait()
        told = s.delivery(endpoint, lambda found: found["state"] == "delivered")
        s.post(f"/v1/webhook_endpoints/{endpoint['id']}/deliveries/{told['id']}/replay")
        second, again = receiver.wait(2, RETRIED)[1]
        assert body == again and first["webhook-id"] == second["webhook-id"]
        s.forget(endpoint)


@check
def only_what_was_asked_for_is_told(s):
    with Receiver() as wanted, Receiver() as other:
        endpoints = [s.endpoint(wanted, "job.succeeded"), s.endpoint(other, "batch.completed")]
        s.job()
        wanted.wait()
        time.sleep(1)
        assert not other.got, other.got
        for endpoint in endpoints:
            s.forget(endpoint)


@check
def a_job_names_its_endpoint(s):
    with Receiver() as receiver:
        endpoint = s.endpoint(receiver, "webhook.test")
        job = s.job(webhook={"endpoint_id": endpoint["id"]})
        [(headers, body)] = receiver.wait()
        event = Webhook(endpoint["signing_secret"]).verify(body, headers)
        assert event["data"]["id"] == job["id"], event
        s.forget(endpoint)


@check
def the_secret_is_shown_once(s):
    with Receiver() as receiver:
        endpoint = s.endpoint(receiver, "webhook.test")
        secret = endpoint["signing_secret"]
        assert secret.startswith("whsec_")
        for seen in (s.http.get(f"/v1/webhook_endpoints/{endpoint['id']}"), s.http.get("/v1/webhook_endpoints")):
            assert secret not in seen.text and secret[6:] not in seen.text
        s.forget(endpoint)


@check
def addresses_inside_are_refused(s):
    for url in (
        "http://93.184.215.14/hook",
        "https://10.0.0.1/hook",
        "https://192.168.1.1/hook",
        "https://169.254.169.254/latest",
        "https://[fd00::1]/hook",
        "https://[::ffff:10.0.0.1]/hook",
        "https://metadata.google.internal/",
        "https://user:password@example.com/hook",
        "https://example.com:22/hook",
        "file:///etc/passwd",
    ):
        body = {"name": "inside", "url": url, "event_types": ["webhook.test"]}
        error = s.post("/v1/webhook_endpoints", body, expect=(400,))["error"]
        assert error["param"] == "url", (url, error)
    body = {"name": "unknown", "url": "https://example.com/hook", "event_types": ["job.invented"]}
    assert s.post("/v1/webhook_endpoints", body, expect=(400,))["error"]["param"].startswith("event_types")


def main():
    args = arguments(__doc__).parse_args()
    run(Server(args.url, args.api_key))


if __name__ == "__main__":
    main()
