#!/usr/bin/env python3
"""Exercises a running server through KServe's clients, over HTTP and gRPC: `kserve`.

    gristmill serve --models-dir crates/onnx/tests/fixtures/ml --port 8080 &
    pip install -r tools/clients/requirements-kserve.txt
    python tools/clients/kserve_check.py http://127.0.0.1:8080 [--api-key KEY]

The server has the ONNX models of the folder above, or an encoder as its first model. Prints one line a check and leaves
with 1 if any failed.
"""

import asyncio
import json
import logging
import urllib.request
from pathlib import Path

import grpc
import httpx
import numpy
from checks import arguments, check, run
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest
from kserve.inference_client import RESTConfig
from kserve.protocol.infer_type import RequestedOutput

FOLDER = Path(__file__).resolve().parents[2] / "crates/onnx/tests/fixtures/ml"
GRAPH = "logistic-plain-output"


class Server:
    def __init__(self, url, key):
        self.url, self.host, self.key = url, url.split("://")[1], key
        index = urllib.request.Request(f"{url}/v2/repository/index", b"{}", self.headers(), method="POST")
        with urllib.request.urlopen(index) as answer:
            names = [model["name"] for model in json.load(answer)]
        self.graphs = GRAPH in names
        self.model = GRAPH if self.graphs else names[0]

    def headers(self):
        keys = {"authorization": f"Bearer {self.key}"} if self.key else {}
        return {"content-type": "application/json", **keys}

    def each(self, ask):
        """Runs `ask(client, call)` on a client of each protocol; `call` has the client's own first arguments."""

        async def both():
            keys = {"authorization": f"Bearer {self.key}"} if self.key else {}
            async with InferenceRESTClient(RESTConfig(protocol="v2")) as client:
                await ask("http", client, (self.url,), {"headers": keys})
            async with InferenceGRPCClient(self.host) as client:
                await ask("grpc", client, (), {"headers": tuple(keys.items())})

        asyncio.run(both())


def graph():
    """The model's input, and the outputs that ONNX Runtime gave for it."""
    fixture = json.loads((FOLDER / f"{GRAPH}.json").read_text())
    ((name, given),) = fixture["inputs"].items()
    rows = numpy.array(given["data"], dtype=numpy.float32).reshape(given["shape"])
    return name, rows, fixture["outputs"]


async def infer(protocol, client, first, options, request):
    if protocol == "http":
        return await client.infer(*first, request, model_name=request.model_name, **options)
    return await client.infer(request, **options)


@check
def health(s):
    async def ask(protocol, client, first, options):
        assert await client.is_server_live(*first, **options) is True
        assert await client.is_server_ready(*first, **options) is True
        assert await client.is_model_ready(*first, s.model, **options) in (True, False)

    s.each(ask)


@check
def tensors(s):
    if not s.graphs:
        return "left out: no graphs"
    name, rows, outputs = graph()

    async def ask(protocol, client, first, options):
        # gRPC has one encoding of raw tensors for all of a request; HTTP has JSON and binary for each.
        for binary in (True, False):
            given = InferInput(name, list(rows.shape), "FP32")
            given.set_data_from_numpy(rows, binary_data=binary)
            wanted = [RequestedOutput(output, {"binary_data": binary}) for output in outputs]
            request = InferRequest(s.model, [given], request_id="r1", request_outputs=wanted)
            answer = await infer(protocol, client, first, options, request)
            assert (answer.model_name, answer.id) == (s.model, "r1"), answer
            for output, value in outputs.items():
                found = answer.get_output_by_name(output).as_numpy()
                assert list(found.shape) == value["shape"], (protocol, binary, output, found.shape)
                if found.dtype.kind == "f":
                    numpy.testing.assert_allclose(found.ravel(), value["data"], rtol=1e-5, atol=1e-6)
                else:
                    labels = [text.decode() if isinstance(text, bytes) else text for text in found.ravel().tolist()]
                    assert labels == value["data"], (protocol, binary, output)

    s.each(ask)
    return ", ".join(outputs)


@check
def texts(s):
    if s.graphs:
        return "left out: no encoder"

    async def ask(protocol, client, first, options):
        found = []
        for binary in (True, False):
            given = InferInput("text", [2], "BYTES")
            texts = numpy.array([b"A mill grinds grain.", "Le moulin moud le grain.".encode()], dtype=numpy.object_)
            given.set_data_from_numpy(texts, binary_data=binary)
            answer = await infer(protocol, client, first, options, InferRequest(s.model, [given]))
            found.append(answer.get_output_by_name("embedding").as_numpy())
            assert found[-1].shape[0] == 2, found[-1].shape
        assert numpy.array_equal(*found), "binary and plain texts differ"

    s.each(ask)


@check
def errors(s):
    async def ask(protocol, client, first, options):
        given = InferInput("nobody", [1], "FP32")
        given.set_data_from_numpy(numpy.ones(1, dtype=numpy.float32))
        for model, word in ((s.model, "nobody"), ("no-such-model", "no-such-model")):
            try:
                await infer(protocol, client, first, options, InferRequest(model, [given]))
            except (httpx.HTTPStatusError, grpc.RpcError) as error:
                assert word in str(error), error
                continue
            raise AssertionError(f"{model}: no error")

    s.each(ask)


def main():
    # The client logs each error that it raises, with a trace.
    logging.disable(logging.CRITICAL)
    given = arguments(__doc__.splitlines()[0]).parse_args()
    run(Server(given.url, given.api_key))


if __name__ == "__main__":
    main()
