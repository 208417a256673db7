#!/usr/bin/env python3
"""Asks a repository of Triton's layout, with versions, labels, an ensemble, a pipeline and models that cannot be served,
through Triton's client. The numbers are those that ONNX Runtime gave for the model (tools/fixtures/onnx_ml.py).

    pip install -r tools/clients/requirements.txt
    python tools/clients/repository_check.py --make FOLDER
    gristmill serve --models-dir FOLDER --port 8080 &
    python tools/clients/repository_check.py http://127.0.0.1:8080 [--api-key KEY]

Prints one line a check and leaves with 1 if any failed.
"""

import json
import shutil
import sys
from pathlib import Path

import numpy
import tritonclient.grpc as grpc
import tritonclient.http as http
from checks import arguments, check, run
from tritonclient.utils import InferenceServerException

MODEL = Path(__file__).resolve().parents[2] / "crates/onnx/tests/fixtures/ml/logistic-plain-output"
FIXTURE = json.loads(MODEL.with_suffix(".json").read_text())
LABELS = ["ant", "bee", "cat"]
CONFIG = """
name: "animals"
platform: "onnxruntime_onnx"
max_batch_size: 64
input [ { name: "X" data_type: TYPE_FP32 dims: [ 6 ] } ]
output [ { name: "probabilities" data_type: TYPE_FP32 dims: [ 3 ] label_filename: "labels.txt" } ]
version_policy: { specific { versions: [ 1, 3 ] } }
instance_group [ { count: 2 kind: KIND_CPU } ]
parameters { key: "note" value { string_value: "kept" } }
dynamic_batching { max_queue_delay_microseconds: 100 }
"""
ENSEMBLE = """
platform: "ensemble"
max_batch_size: 64
input { name: "IN" data_type: TYPE_FP32 dims: 6 }
output { name: "OUT" data_type: TYPE_FP32 dims: 3 }
ensemble_scheduling {
  step { model_name: "animals" model_version: 1
         input_map { key: "X" value: "IN" } output_map { key: "probabilities" value: "OUT" } }
}
"""
PIPELINE = """
[[input]]
name = "rows"
datatype = "FP32"
shape = [-1, 6]

[[output]]
name = "animal"

[[output]]
name = "share"

[[step]]
kind = "model"
model = "animals"
inputs = { X = "rows" }
outputs = { probabilities = "shares" }

[[step]]
kind = "labels"
input = "shares"
outputs = ["animal", "share"]
labels = ["ant", "bee", "cat"]
"""


def make(folder):
    """Writes the repository."""
    shutil.rmtree(folder, ignore_errors=True)
    texts = {
        "animals/config.pbtxt": CONFIG,
        "animals/labels.txt": "\n".join(LABELS) + "\n",
        "whole/config.pbtxt": ENSEMBLE,
        "named/pipeline.toml": PIPELINE,
        "torn/config.pbtxt": "input {",
        "wrong/config.pbtxt": 'input { name: "X" data_type: TYPE_INT64 dims: [ -1, 6 ] }',
        "lost/pipeline.toml": PIPELINE.replace('model = "animals"', 'model = "nothing"'),
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for name in ["animals/1", "animals/2", "animals/3", "torn/1", "wrong/1"]:
        (folder / name).mkdir(parents=True)
        shutil.copy(MODEL.with_suffix(".onnx"), folder / name / "model.onnx")


class Server:
    def __init__(self, url, key):
        host = url.split("://")[1]
        self.key = key
        self.clients = [(http, http.InferenceServerClient(host)), (grpc, grpc.InferenceServerClient(host))]

    @property
    def headers(self):
        """A new dictionary each time: `tritonclient.http` adds headers of its own to the one that it is given."""
        return {"authorization": f"Bearer {self.key}"} if self.key else {}

    def infer(self, package, client, model, name, version="", **wanted):
        rows = truth("X", FIXTURE["inputs"])
        tensor = package.InferInput(name, list(rows.shape), "FP32")
        tensor.set_data_from_numpy(rows)
        outputs = [package.InferRequestedOutput(output, class_count=count) for output, count in wanted.items()]
        return client.infer(model, [tensor], model_version=version, outputs=outputs or None, headers=self.headers)


def truth(name, values):
    return numpy.array(values[name]["data"], dtype=numpy.float32).reshape(values[name]["shape"])


SHARES = truth("probabilities", FIXTURE["outputs"])


def near(found, wanted):
    assert found.shape == wanted.shape and numpy.abs(found - wanted).max() < 1e-5, (found, wanted)


@check
def versions_answer_each_and_the_highest_by_default(s):
    for package, client in s.clients:
        for version in ["", "1", "3"]:
            answer = s.infer(package, client, "animals", "X", version)
            near(answer.as_numpy("probabilities"), SHARES)
            told = answer.get_response()
            name, told = (told["model_name"], told["model_version"]) if package is http else (told.model_name, told.model_version)
            assert (name, told) == ("animals", version or "3"), (name, told)
        try:
            s.infer(package, client, "animals", "X", "2")
        except InferenceServerException as error:
            assert "served: 1, 3" in error.message(), error
        else:
            raise AssertionError("version 2 is not served")


@check
def the_configuration_is_told_as_it_was_given(s):
    (_, rest), (_, rpc) = s.clients
    config = rest.get_model_config("animals", headers=s.headers)
    assert config["max_batch_size"] == 64 and config["input"][0]["dims"] == [6], config
    assert config["version_policy"] == {"specific": {"versions": [1, 3]}}, config
    assert config["parameters"] == {"note": {"string_value": "kept"}}, config
    config = rpc.get_model_config("animals", headers=s.headers).config
    assert list(config.version_policy.specific.versions) == [1, 3] and config.instance_group[0].count == 2, config
    assert config.output[0].label_filename == "labels.txt", config
    step = rpc.get_model_config("whole", headers=s.headers).config.ensemble_scheduling.step[0]
    assert (step.model_name, step.model_version, dict(step.input_map)) == ("animals", 1, {"X": "IN"}), step
    assert rest.get_model_metadata("animals", headers=s.headers)["versions"] == ["1", "3"]


@check
def classes_have_the_names_of_the_label_file(s):
    for package, client in s.clients:
        answer = s.infer(package, client, "animals", "X", probabilities=1).as_numpy("probabilities")
        names = [text.decode().split(":")[2] for text in answer[:, 0]]
        assert names == [LABELS[best] for best in SHARES.argmax(-1)], names


@check
def ensembles_and_pipelines_run_their_models(s):
    for package, client in s.clients:
        near(s.infer(package, client, "whole", "IN").as_numpy("OUT"), SHARES)
        answer = s.infer(package, client, "named", "rows")
        names = [name.decode() for name in answer.as_numpy("animal")]
        assert names == [LABELS[best] for best in SHARES.argmax(-1)], names
        near(answer.as_numpy("share"), SHARES.max(-1))


@check
def models_that_cannot_be_served_say_why(s):
    reasons = {"torn": "config.pbtxt: line 1: the text ends", "wrong": "that of the model is TYPE_FP32", "lost": "no model nothing"}
    for package, client in s.clients:
        for model, words in reasons.items():
            try:
                s.infer(package, client, model, "X")
            except InferenceServerException as error:
                assert words in error.message(), error
            else:
                raise AssertionError(f"{model} answers")
    index = {entry["name"]: entry for entry in s.clients[0][1].get_model_repository_index(headers=s.headers)}
    assert index["torn"]["state"] == "UNAVAILABLE" and "line 1" in index["torn"]["reason"], index["torn"]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--make"]:
        make(Path(sys.argv[2]))
    else:
        options = arguments(__doc__).parse_args()
        run(Server(options.url, options.api_key))
