#!/usr/bin/env python3
"""Exercises a running server through Triton's clients, over HTTP and gRPC: `tritonclient[http,grpc]`.

    gristmill serve all-minilm-l6-v2 --port 8080 &
    pip install -r tools/clients/requirements.txt
    python tools/clients/oip_check.py http://127.0.0.1:8080 [--api-key KEY]

Prints one line a check and leaves with 1 if any failed. The server's first model is an encoder or one that generates
text; checks for the other kind are left out.
"""

import asyncio
import json
import queue
import urllib.request

import numpy
import tritonclient.grpc as grpc
import tritonclient.grpc.aio as grpc_aio
import tritonclient.http as http
import tritonclient.http.aio as http_aio
from checks import CHECKS, arguments, check, run
from tritonclient.utils import InferenceServerException

TEXTS = ["A mill grinds grain.", "Le moulin moud le grain.", "The stock market fell today."]
PROMPT = "The capital of France is"


class Server:
    def __init__(self, url, key):
        self.url = url
        self.host = url.split("://")[1]
        self.key = key
        self.http = http.InferenceServerClient(self.host)
        self.grpc = grpc.InferenceServerClient(self.host)
        self.model = self.http.get_model_repository_index(headers=self.headers)[0]["name"]
        outputs = self.http.get_model_metadata(self.model, headers=self.headers)["outputs"]
        self.encodes = any(output["name"] == "embedding" for output in outputs)

    @property
    def headers(self):
        """A new dictionary each time: `tritonclient.http` adds headers of its own to the one that it is given."""
        return {"authorization": f"Bearer {self.key}"} if self.key else {}

    def clients(self):
        """Each protocol's package, client and name."""
        return [(http, self.http, "http"), (grpc, self.grpc, "grpc")]

    def post(self, path, body):
        headers = {"content-type": "application/json", **self.headers}
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)


def words(package, name, texts, **options):
    array = numpy.array(texts, dtype=numpy.object_)
    made = package.InferInput(name, list(array.shape), "BYTES")
    made.set_data_from_numpy(array, **options)
    return made


def number(package, name, datatype, value):
    kind = {"INT32": numpy.int32, "INT64": numpy.int64, "FP32": numpy.float32, "BOOL": bool}[datatype]
    array = numpy.array(value, dtype=kind)
    made = package.InferInput(name, list(array.shape), datatype)
    made.set_data_from_numpy(array)
    return made


def refused(word, call, status=None):
    try:
        call()
    except InferenceServerException as error:
        assert word in str(error), error
        assert status is None or status in str(error.status()), error.status()
        return
    raise AssertionError(f"no error about {word}")


def check_of(kind):
    """A check for servers of this kind of model."""
    def decorate(function):
        def either(s):
            return function(s) if s.encodes == (kind == "encoder") else "left out"
        either.__name__ = function.__name__
        return check(either)
    return decorate


@check
def health_and_metadata(s):
    for package, client, name in s.clients():
        of = {"headers": s.headers}
        assert client.is_server_live(**of) and client.is_server_ready(**of), name
        assert client.is_model_ready(s.model, **of) and not client.is_model_ready("nobody", **of), name
        assert client.is_model_ready(s.model, "1", **of) and not client.is_model_ready(s.model, "2", **of), name
        as_json = {} if package is http else {"as_json": True}
        server = client.get_server_metadata(**of, **as_json)
        assert server["name"] == "gristmill" and "binary_tensor_data" in server["extensions"], server
        model = client.get_model_metadata(s.model, **of, **as_json)
        assert model["name"] == s.model and model["versions"] == ["1"] and model["inputs"], model
        refused("nobody", lambda: client.get_model_metadata("nobody", **of))
    return s.model


@check
def config_statistics_index(s):
    rest = s.http.get_model_config(s.model, headers=s.headers)
    rpc = s.grpc.get_model_config(s.model, headers=s.headers, as_json=True)["config"]
    names = [[entry["name"] for entry in config["input"]] for config in [rest, rpc]]
    assert names[0] == names[1] and rest["max_batch_size"] == 0, names
    types = [[entry["data_type"] for entry in config["output"]] for config in [rest, rpc]]
    assert types[0] == types[1], types
    for model in ["", s.model]:
        rest = s.http.get_inference_statistics(model, headers=s.headers)["model_stats"][0]
        rpc = s.grpc.get_inference_statistics(model, headers=s.headers).model_stats[0]
        assert rest["name"] == rpc.name == s.model and rest["inference_count"] == rpc.inference_count
    rest = [entry["name"] for entry in s.http.get_model_repository_index(headers=s.headers)]
    rpc = [entry.name for entry in s.grpc.get_model_repository_index(headers=s.headers).models]
    assert rest == rpc, (rest, rpc)


@check
def load_and_unload(s):
    for _, client, name in s.clients():
        client.load_model(s.model, headers=s.headers)
        refused("config", lambda: client.load_model(s.model, headers=s.headers, config="{}"))
        refused("nobody", lambda: client.load_model("nobody", headers=s.headers))
        # The only model of a server stays.
        refused("stays loaded", lambda: client.unload_model(s.model, headers=s.headers))


@check
def settings_and_shared_memory(s):
    assert s.http.get_trace_settings(headers=s.headers)["trace_level"] == ["OFF"]
    assert list(s.grpc.get_trace_settings(headers=s.headers).settings["trace_level"].value) == ["OFF"]
    assert s.http.get_log_settings(headers=s.headers)["log_info"] is True
    assert s.grpc.get_log_settings(headers=s.headers).settings["log_info"].bool_param
    for _, client, _ in s.clients():
        refused("trace_level", lambda: client.update_trace_settings(settings={"trace_level": ["TIMESTAMPS"]}, headers=s.headers))
        refused("shared memory", lambda: client.register_system_shared_memory("r", "/k", 8, headers=s.headers))
        client.unregister_system_shared_memory(headers=s.headers)
    assert s.http.get_system_shared_memory_status(headers=s.headers) == []
    assert not s.grpc.get_cuda_shared_memory_status(headers=s.headers).regions


def embedding(s):
    answer = s.post("/v1/embeddings", {"model": s.model, "input": TEXTS})
    return numpy.array([entry["embedding"] for entry in answer["data"]], dtype=numpy.float32)


@check_of("encoder")
def embeddings_of_texts(s):
    wanted = embedding(s)
    for package, client, name in s.clients():
        for shape in [(3,), (3, 1)]:
            inputs = [words(package, "text", numpy.array(TEXTS, dtype=numpy.object_).reshape(shape))]
            found = client.infer(s.model, inputs, headers=s.headers).as_numpy("embedding")
            assert numpy.array_equal(found, wanted), name
    # The elements in JSON, both ways.
    inputs = [words(http, "text", TEXTS, binary_data=False)]
    outputs = [http.InferRequestedOutput("embedding", binary_data=False)]
    answer = s.http.infer(s.model, inputs, outputs=outputs, request_id="mine", headers=s.headers)
    assert numpy.array_equal(answer.as_numpy("embedding"), wanted)
    assert answer.get_response()["id"] == "mine" and "data" in answer.get_output("embedding")
    return f"{wanted.shape[1]} dimensions"


@check_of("encoder")
def embeddings_of_token_ids(s):
    tokens = [s.post("/tokenize", {"model": s.model, "prompt": text})["tokens"] for text in TEXTS]
    width = max(len(row) for row in tokens)
    padded = [row + [0] * (width - len(row)) for row in tokens]
    mask = [[1] * len(row) + [0] * (width - len(row)) for row in tokens]
    for package, client, name in s.clients():
        inputs = [number(package, "input_ids", "INT64", padded), number(package, "attention_mask", "INT64", mask),
                  number(package, "token_type_ids", "INT64", [[0] * width] * 3)]
        found = client.infer(s.model, inputs, headers=s.headers).as_numpy("embedding")
        assert numpy.array_equal(found, embedding(s)), name


@check_of("encoder")
def compression_and_threads(s):
    wanted = embedding(s)
    inputs = [words(http, "text", TEXTS)]
    for sent in ["gzip", "deflate"]:
        answer = s.http.infer(s.model, inputs, request_compression_algorithm=sent, response_compression_algorithm=sent,
                              headers=dict(s.headers))
        assert numpy.array_equal(answer.as_numpy("embedding"), wanted), sent
    inputs = [words(grpc, "text", TEXTS)]
    answer = s.grpc.infer(s.model, inputs, compression_algorithm="gzip", headers=s.headers)
    assert numpy.array_equal(answer.as_numpy("embedding"), wanted)
    pending = [s.http.async_infer(s.model, [words(http, "text", TEXTS)], headers=s.headers) for _ in range(4)]
    assert all(numpy.array_equal(one.get_result().as_numpy("embedding"), wanted) for one in pending)
    done = queue.Queue()
    for _ in range(8):
        s.grpc.async_infer(s.model, inputs, lambda result, error: done.put((result, error)), headers=s.headers)
    for _ in range(8):
        result, error = done.get(timeout=60)
        assert error is None and numpy.array_equal(result.as_numpy("embedding"), wanted), error


@check_of("encoder")
def asyncio_clients(s):
    async def both():
        async with http_aio.InferenceServerClient(s.host) as client:
            rest = await client.infer(s.model, [words(http_aio, "text", TEXTS)], headers=s.headers)
        async with grpc_aio.InferenceServerClient(s.host) as client:
            rpc = await client.infer(s.model, [words(grpc_aio, "text", TEXTS)], headers=s.headers)
        return rest.as_numpy("embedding"), rpc.as_numpy("embedding")
    rest, rpc = asyncio.run(both())
    assert numpy.array_equal(rest, rpc) and numpy.array_equal(rest, embedding(s))


@check_of("encoder")
def bad_requests(s):
    for package, client, name in s.clients():
        code = {"http": ["404", "400"], "grpc": ["NOT_FOUND", "INVALID_ARGUMENT"]}[name]
        good = lambda: [words(package, "text", TEXTS)]  # noqa: E731
        refused("nobody", lambda: client.infer("nobody", good(), headers=s.headers), code[0])
        refused("..", lambda: client.infer("../etc/passwd", good(), headers=s.headers), code[1])
        refused("version", lambda: client.infer(s.model, good(), model_version="7", headers=s.headers), code[0])
        refused("other", lambda: client.infer(s.model, [words(package, "other", TEXTS)], headers=s.headers), code[1])
        half = package.InferInput("input_ids", [2], "FP16")
        half.set_data_from_numpy(numpy.array([1, 2], dtype=numpy.float16))
        refused("FP16", lambda: client.infer(s.model, [half], headers=s.headers), code[1])
        wrong = number(package, "input_ids", "INT64", [[101, 102]])
        wrong.set_shape([2, 2])
        refused("4 elements", lambda: client.infer(s.model, [wrong], headers=s.headers), code[1])
        outputs = [package.InferRequestedOutput("nothing")]
        refused("nothing", lambda: client.infer(s.model, good(), outputs=outputs, headers=s.headers), code[1])
        assert client.infer(s.model, good(), headers=s.headers).as_numpy("embedding").shape[0] == 3


@check_of("encoder")
def streams_of_requests(s):
    answers = queue.Queue()
    client = grpc.InferenceServerClient(s.host)
    client.start_stream(lambda result, error: answers.put((result, error)), headers=s.headers)
    for at in range(3):
        client.async_stream_infer(s.model, [words(grpc, "text", TEXTS)], request_id=str(at))
    client.async_stream_infer("nobody", [words(grpc, "text", TEXTS)])
    client.async_stream_infer(s.model, [words(grpc, "text", TEXTS)], request_id="last")
    found = [answers.get(timeout=60) for _ in range(5)]
    client.stop_stream()
    wanted = embedding(s)
    for at, (result, error) in enumerate(found):
        if at == 3:
            assert "nobody" in str(error), error
        else:
            assert error is None and numpy.array_equal(result.as_numpy("embedding"), wanted), error
    assert found[4][0].get_response().id == "last"


def completion(s, tokens):
    body = {"model": s.model, "prompt": PROMPT, "max_tokens": tokens, "temperature": 0}
    return s.post("/v1/completions", body)["choices"][0]["text"]


def generating(package, tokens=12, **flags):
    inputs = [words(package, "text_input", [PROMPT]), number(package, "max_tokens", "INT32", [tokens]),
              number(package, "temperature", "FP32", [0])]
    return inputs + [number(package, name, "BOOL", [value]) for name, value in flags.items()]


@check_of("generator")
def text_of_a_model(s):
    wanted = completion(s, 12)
    for package, client, name in s.clients():
        answer = client.infer(s.model, generating(package, exclude_input_in_output=True), headers=s.headers)
        assert answer.as_numpy("text_output")[0].decode() == wanted, name
        assert answer.as_numpy("num_output_tokens")[0] == 12, name
        outputs = [package.InferRequestedOutput("text_output")]
        answer = client.infer(s.model, generating(package), outputs=outputs, headers=s.headers)
        assert answer.as_numpy("text_output")[0].decode() == PROMPT + wanted, name
    options = json.dumps({"max_tokens": "12", "temperature": "0"})
    inputs = [words(http, "text_input", [PROMPT]), words(http, "sampling_parameters", [options]),
              number(http, "exclude_input_in_output", "BOOL", [True])]
    assert s.http.infer(s.model, inputs, headers=s.headers).as_numpy("text_output")[0].decode() == wanted
    return repr(wanted)


@check_of("generator")
def text_that_is_streamed(s):
    wanted = completion(s, 12)
    answers = queue.Queue()
    client = grpc.InferenceServerClient(s.host)
    client.start_stream(lambda result, error: answers.put((result, error)), headers=s.headers)
    client.async_stream_infer(s.model, generating(grpc, stream=True), request_id="mine", enable_empty_final_response=True)
    text, pieces = "", 0
    while True:
        result, error = answers.get(timeout=60)
        assert error is None, error
        response = result.get_response()
        assert response.id == "mine"
        if response.parameters["triton_final_response"].bool_param:
            break
        text += result.as_numpy("text_output")[0].decode()
        pieces += 1
    client.stop_stream()
    assert text == wanted and pieces > 3, (text, wanted, pieces)
    return f"{pieces} pieces"


@check_of("generator")
def generate_extension(s):
    wanted = completion(s, 12)
    body = {"text_input": PROMPT, "max_tokens": 12, "parameters": {"temperature": 0}}
    answer = s.post(f"/v2/models/{s.model}/generate", body)
    assert answer["text_output"] == PROMPT + wanted and answer["model_name"] == s.model
    request = urllib.request.Request(f"{s.url}/v2/models/{s.model}/generate_stream", json.dumps(body).encode(), s.headers)
    with urllib.request.urlopen(request) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        pieces = [json.loads(line[6:])["text_output"] for line in stream if line.startswith(b"data: ")]
    assert "".join(pieces) == wanted and len(pieces) > 3, pieces


@check_of("generator")
def a_client_that_leaves(s):
    answers = queue.Queue()
    client = grpc.InferenceServerClient(s.host)
    client.start_stream(lambda result, error: answers.put((result, error)), headers=s.headers)
    client.async_stream_infer(s.model, generating(grpc, tokens=2_000, stream=True))
    assert answers.get(timeout=60)[1] is None
    client.stop_stream(cancel_requests=True)
    refused("", lambda: s.grpc.infer(s.model, generating(grpc, tokens=2_000), client_timeout=0.05, headers=s.headers))
    assert completion(s, 3)


def main():
    given = arguments(__doc__.splitlines()[0]).parse_args()
    assert CHECKS
    run(Server(given.url, given.api_key))


if __name__ == "__main__":
    main()
