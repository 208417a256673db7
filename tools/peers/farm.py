#!/usr/bin/env python3
"""Mixed traffic to fifty models: a Gristmill server beside one ONNX Runtime session for each model, in turn.

    python tools/peers/farm.py make FOLDER --encoder s8-fused.onnx --weights FOLDER_OF_MINILM
    gristmill serve --models-dir FOLDER/models --port 8080 -t 2 &
    python tools/peers/farm.py run FOLDER http://127.0.0.1:8080 --rate 60 --seconds 30 --rounds 3

Forty-four models are LightGBM ensembles of 500 trees (64 rows of 28 features a request), six are MiniLM in int8 (a text of
64 tokens). All get requests at random, at the same rate. Latency is from the time at which a request was due to its answer, so a system that falls behind is told. The sessions are in this process,
as the defaults make them: a pool of threads each, as a server has that gives each model its own. The requests to Gristmill
go over HTTP, so what the protocol costs is in its figures.
"""

import argparse
import http.client
import json
import queue
import random
import statistics
import threading
import time
from pathlib import Path

import numpy

TREES, ENCODERS = 44, 6
ROWS, FEATURES, TOKENS = 64, 28, 64
WORKERS = 32


def make(given):
    import lightgbm
    import onnxmltools
    from onnxmltools.convert.common.data_types import FloatTensorType

    models = given.folder / "models"
    models.mkdir(parents=True, exist_ok=True)
    for at in range(TREES):
        draw = numpy.random.default_rng(at)
        rows = draw.normal(size=(3_000, FEATURES)).astype(numpy.float32)
        target = rows[:, :8].sum(axis=1) + numpy.sin(3 * rows[:, 8]) + draw.normal(size=len(rows)) / 4
        trained = lightgbm.LGBMRegressor(n_estimators=500, num_leaves=31, min_child_samples=5, n_jobs=1, verbose=-1).fit(rows, target)
        kind = [("X", FloatTensorType([None, FEATURES]))]
        graph = onnxmltools.convert_lightgbm(trained, initial_types=kind, target_opset=15)
        (models / f"trees-{at:02}.onnx").write_bytes(graph.SerializeToString())
    for at in range(ENCODERS):
        link = models / f"encoder-{at}"
        if not link.exists():
            link.symlink_to(given.weights.resolve(), target_is_directory=True)
    (given.folder / "encoder.onnx").unlink(missing_ok=True)
    (given.folder / "encoder.onnx").symlink_to(given.encoder.resolve())


class Runtime:
    """A session for each model, with the defaults."""

    def __init__(self, folder):
        import onnxruntime

        self.version = f"ONNX Runtime {onnxruntime.__version__}"
        load = lambda path: onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        self.sessions = {f"trees-{at:02}": load(folder / f"models/trees-{at:02}.onnx") for at in range(TREES)}
        self.sessions |= {f"encoder-{at}": load(folder / "encoder.onnx") for at in range(ENCODERS)}

    def worker(self):
        def ask(name, arrays):
            session = self.sessions[name]
            wanted = {put.name for put in session.get_inputs()}
            session.run(None, {key: value for key, value in arrays.items() if key in wanted})

        return ask


class Gristmill:
    version = "Gristmill"

    def __init__(self, url):
        self.host = url.split("://")[1]

    def worker(self):
        connection = http.client.HTTPConnection(self.host)
        types = {"float32": "FP32", "int64": "INT64"}

        def ask(name, arrays):
            inputs = [
                {
                    "name": key,
                    "shape": list(value.shape),
                    "datatype": types[value.dtype.name],
                    "parameters": {"binary_data_size": value.nbytes},
                }
                for key, value in arrays.items()
            ]
            head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
            body = head + b"".join(value.tobytes() for value in arrays.values())
            headers = {"inference-header-content-length": str(len(head)), "content-type": "application/octet-stream"}
            connection.request("POST", f"/v2/models/{name}/infer", body, headers)
            answer = connection.getresponse()
            data = answer.read()
            assert answer.status == 200, data[:500]

        return ask


def inputs():
    draw = numpy.random.default_rng(1)
    ids = draw.integers(1000, 20_000, size=(1, TOKENS)).astype(numpy.int64)
    ids[0, 0], ids[0, -1] = 101, 102
    ones = numpy.ones_like(ids)
    encoder = {"input_ids": ids, "attention_mask": ones, "token_type_ids": numpy.zeros_like(ids)}
    trees = {"X": draw.normal(size=(ROWS, FEATURES)).astype(numpy.float32)}
    return lambda name: encoder if name.startswith("encoder") else trees


def arrivals(rate, seconds, seed):
    """Times and models, each as likely as the others, `rate` a second in all."""
    draw, now, all_ = random.Random(seed), 0.0, []
    names = [f"trees-{at:02}" for at in range(TREES)] + [f"encoder-{at}" for at in range(ENCODERS)]
    while (now := now + draw.expovariate(rate)) < seconds:
        all_.append((now, draw.choice(names)))
    return all_


def measure(system, due, arrays):
    waiting, latencies, failed = queue.SimpleQueue(), [], []
    start = time.perf_counter() + 0.2

    def work():
        ask = system.worker()
        while (item := waiting.get()) is not None:
            try:
                ask(item[1], arrays(item[1]))
                latencies.append((item[1], time.perf_counter() - start - item[0]))
            except Exception as error:
                failed.append(error)

    workers = [threading.Thread(target=work) for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    for at, name in due:
        time.sleep(max(0.0, start + at - time.perf_counter()))
        waiting.put((at, name))
    for _ in workers:
        waiting.put(None)
    for worker in workers:
        worker.join()
    assert not failed, failed[0]
    return latencies


def quantile(values, share):
    values = sorted(values)
    return 1e3 * values[min(len(values) - 1, int(share * len(values)))]


def run(given):
    arrays, systems = inputs(), [Gristmill(given.url), Runtime(given.folder)]
    names = sorted({name for _, name in arrivals(given.rate, 60, 0)})
    for system in systems:
        ask = system.worker()
        for name in names:
            ask(name, arrays(name))
    found = {}
    for round_ in range(given.rounds):
        for system in systems:
            for name, seconds in measure(system, arrivals(given.rate, given.seconds, round_), arrays):
                for key in (name.split("-")[0], name):
                    found.setdefault((system.version, round_, key), []).append(seconds)
            time.sleep(2)
    for kind in ("trees", "encoder"):
        for share in (0.5, 0.95, 0.99):
            row = {s.version: [quantile(found[s.version, r, kind], share) for r in range(given.rounds)] for s in systems}
            ratios = [a / b for a, b in zip(*row.values())]
            cells = ", ".join(f"{name} {statistics.median(values):.1f} ms" for name, values in row.items())
            rounds = " | ".join(f"{a:.1f}:{b:.1f}" for a, b in zip(*row.values()))
            print(f"{kind} p{100 * share:.0f}: {cells} ({rounds}); ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    worse = 0
    for name in names:
        ours, theirs = ([v for r in range(given.rounds) for v in found.get((s.version, r, name), [])] for s in systems)
        worse += quantile(ours, 0.99) > quantile(theirs, 0.99) / 2
    print(f"{len(names) - worse} of {len(names)} models have at most half the p99 of the other")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    maker = commands.add_parser("make")
    maker.add_argument("folder", type=Path)
    maker.add_argument("--encoder", type=Path, required=True, help="the encoder's graph, for ONNX Runtime")
    maker.add_argument("--weights", type=Path, required=True, help="the encoder's folder, for Gristmill")
    maker.set_defaults(run=make)
    runner = commands.add_parser("run")
    runner.add_argument("folder", type=Path)
    runner.add_argument("url")
    runner.add_argument("--rate", type=float, default=60, help="requests a second to all models together")
    runner.add_argument("--seconds", type=float, default=30)
    runner.add_argument("--rounds", type=int, default=3)
    runner.set_defaults(run=run)
    given = parser.parse_args()
    given.run(given)


if __name__ == "__main__":
    main()
