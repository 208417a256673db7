"""Timing of a server's `/v1/embeddings`: llama-server's and Gristmill's alike take token ids there."""

import http.client
import json
import threading
import urllib.parse

import encoder_cases
import encoder_runs

TIMEOUT_S = 600


class Client(threading.local):
    """A connection that is kept, one for each thread."""

    def __init__(self, url):
        self.address = urllib.parse.urlsplit(url).netloc
        self.connection = None

    def embed(self, texts):
        if self.connection is None:
            self.connection = http.client.HTTPConnection(self.address, timeout=TIMEOUT_S)
        body = json.dumps({"model": "default", "input": texts, "encoding_format": "base64"})
        self.connection.request("POST", "/v1/embeddings", body, {"content-type": "application/json"})
        answer = self.connection.getresponse()
        told = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{answer.status}: {told[:500]!r}")
        vectors = json.loads(told)["data"]
        if len(vectors) != len(texts):
            raise RuntimeError(f"{len(vectors)} vectors of {len(texts)} texts")
        return vectors


def measure(url, texts, case, inputs, connections, warm):
    client = Client(url)
    workers = 1 if case == encoder_cases.QUERY else connections
    return encoder_runs.measure(client.embed, texts, case, inputs, workers, by_length=False, warm=warm)
