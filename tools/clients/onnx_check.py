#!/usr/bin/env python3
"""Asks each ONNX model of a folder through Triton's client, and compares with what ONNX Runtime gave for the same inputs.

    gristmill serve --models-dir crates/onnx/tests/fixtures/ml --port 8080 &
    pip install -r tools/clients/requirements.txt
    python tools/clients/onnx_check.py http://127.0.0.1:8080 [--api-key KEY]

The folder has NAME.json beside NAME.onnx, written by tools/fixtures/onnx_ml.py. Prints one line a check and leaves with 1
if any failed.
"""

import json
from pathlib import Path

import numpy
import tritonclient.grpc as grpc
import tritonclient.http as http
from checks import CHECKS, arguments, check, run
from tritonclient.utils import InferenceServerException

FOLDER = Path(__file__).resolve().parents[2] / "crates/onnx/tests/fixtures/ml"
TYPES = {
    "float32": ("FP32", numpy.float32),
    "float64": ("FP64", numpy.float64),
    "int64": ("INT64", numpy.int64),
    "int32": ("INT32", numpy.int32),
    "bool": ("BOOL", bool),
    "string": ("BYTES", numpy.object_),
}


class Server:
    def __init__(self, url, key):
        host = url.split("://")[1]
        self.key = key
        self.clients = [(http, http.InferenceServerClient(host)), (grpc, grpc.InferenceServerClient(host))]

    @property
    def headers(self):
        """A new dictionary each time: `tritonclient.http` adds headers of its own to the one that it is given."""
        return {"authorization": f"Bearer {self.key}"} if self.key else {}


def array(value):
    """The array of a fixture's value; of maps, the row of values of each."""
    if "maps" in value:
        return numpy.array([row[1] for row in value["maps"]], dtype=numpy.float32)
    return numpy.array(value["data"], dtype=TYPES[value["type"]][1]).reshape(value["shape"])


def answers(s, name, fixture):
    for package, client in s.clients:
        inputs = []
        for key, value in fixture["inputs"].items():
            data = array(value)
            made = package.InferInput(key, list(data.shape), TYPES[value["type"]][0])
            made.set_data_from_numpy(data)
            inputs.append(made)
        answer = client.infer(name, inputs, headers=s.headers)
        for key, value in fixture["outputs"].items():
            found, wanted = answer.as_numpy(key), array(value)
            assert found.shape == wanted.shape, (name, key, found.shape, wanted.shape)
            if found.dtype.kind == "O":
                assert [text.decode() for text in found.flat] == list(wanted.flat), (name, key)
            else:
                numpy.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5, equal_nan=True, err_msg=name)


@check
def models_answer_as_onnx_runtime_does(s):
    asked, refused = 0, []
    for path in sorted(FOLDER.glob("*.json")):
        fixture = json.loads(path.read_text())
        if "inputs" not in fixture or not path.with_suffix(".onnx").is_file():
            continue
        if any("map" in value for value in fixture["inputs"].values()):
            refused.append(path.stem)
            continue
        answers(s, path.stem, fixture)
        asked += 1
    assert asked > 40, asked
    return f"{asked} models"


@check
def a_model_that_takes_maps_is_refused_with_the_reason(s):
    for package, client in s.clients:
        try:
            client.load_model("dict-vectorizer", headers=s.headers)
        except InferenceServerException as error:
            assert "is a map" in str(error), error
            continue
        raise AssertionError("it was loaded")


def main():
    given = arguments(__doc__.splitlines()[0]).parse_args()
    assert CHECKS
    run(Server(given.url, given.api_key))


if __name__ == "__main__":
    main()
