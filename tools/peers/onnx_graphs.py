"""Times ONNX models here and in ONNX Runtime, one after the other in turns, on the same inputs and threads.

    cargo build --release -p onnx --example run
    python -m pip install -r tools/fixtures/requirements-onnx.txt
    python tools/peers/onnx_graphs.py --threads 2 [--rows 64] lightgbm MODEL.onnx ... [NAME=2,3,4 for its dimensions]

`lightgbm` stands for a regressor of 500 trees with 31 leaves over 28 features. Each turn is as many runs as take about 50
ms. A line a model: the median of the turns' medians on both sides, that of their ratios, and the largest difference of
outputs.
"""

import argparse
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime as ort

PROGRAM = Path(__file__).resolve().parents[2] / "target/release/examples/run"
TYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}


def lightgbm(folder):
    import lightgbm as gbm
    from onnxmltools import convert_lightgbm
    from onnxmltools.convert.common.data_types import FloatTensorType

    rng = np.random.default_rng(0)
    x = rng.normal(size=(20000, 28)).astype(np.float32)
    y = x[:, 0] * x[:, 1] + np.sin(x[:, 2] * 3) + x[:, 3:9].sum(1) + rng.normal(size=20000) * 0.1
    made = gbm.LGBMRegressor(n_estimators=500, num_leaves=31, verbose=-1).fit(x, y)
    model = convert_lightgbm(made, initial_types=[("X", FloatTensorType([None, 28]))], target_opset=15)
    path = folder / "lightgbm-500.onnx"
    path.write_bytes(model.SerializeToString())
    return path


class Ours:
    def __init__(self, program, model, threads, inputs, folder):
        self.process = subprocess.Popen([program, model, str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.loaded = self.process.stdout.readline().split()
        if not self.loaded:
            raise RuntimeError("it was not loaded")
        for name, value in inputs.items():
            file = folder / "input.bin"
            file.write_bytes(np.ascontiguousarray(value).tobytes())
            self.say(f"input {name} {value.dtype} {','.join(map(str, value.shape)) or '-'} {file}")

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError("it ended")
        return answer

    def time(self, count):
        return np.median([int(x) for x in self.say(f"time {count}").split()]) / 1e3

    def outputs(self, folder):
        self.say(f"save {folder}")
        return {int(file.stem): np.frombuffer(file.read_bytes()) for file in folder.glob("[0-9]*.bin")}


class Peer:
    def __init__(self, model, threads, inputs):
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        # Spinning threads would take the time of the other side's turns.
        options.add_session_config_entry("session.intra_op.allow_spinning", "1")
        options.add_session_config_entry("session.force_spinning_stop", "1")
        self.session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self.inputs = inputs

    def time(self, count):
        times = []
        for _ in range(count):
            start = time.perf_counter_ns()
            self.session.run(None, self.inputs)
            times.append(time.perf_counter_ns() - start)
        return np.median(times) / 1e3


def inputs_of(model, rows, dims):
    session = ort.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(1)
    out = {}
    for one in session.get_inputs():
        shape = dims[one.name] if one.name in dims else [d if isinstance(d, int) else rows for d in one.shape]
        kind = TYPES[one.type]
        if kind is np.float32:
            out[one.name] = rng.normal(size=shape).astype(kind)
        else:
            # Token ids, masks of ones; the sampling rate of speech.
            ones = "mask" in one.name or "type" in one.name
            value = np.ones(shape) if ones else rng.integers(1, 250, size=shape)
            out[one.name] = (np.full(shape, 16000) if one.name == "sr" else value).astype(kind)
    return out


def compare(model, options, dims):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        path = lightgbm(folder) if model == "lightgbm" else Path(model)
        inputs = inputs_of(path, options.rows, dims)
        peer = Peer(path, options.threads, inputs)
        ours = Ours(options.program, path, options.threads, inputs, folder)
        wanted = peer.session.run(None, inputs)
        worst = 0.0
        for at, found in ours.outputs(folder).items():
            reference = np.asarray(wanted[at], dtype=np.float64).ravel()
            worst = max(worst, float(np.max(np.abs(found - reference) / (1 + np.abs(reference)), initial=0)))
        counts = [max(1, int(50_000 / max(side.time(3), 1))) for side in (ours, peer)]
        turns = []
        for _ in range(options.turns):
            turns.append([ours.time(counts[0]), peer.time(counts[1])])
        a, b = np.median(turns, axis=0)
        ratio = np.median([x / y for x, y in turns])
        shapes = ", ".join(f"{name} {list(value.shape)}" for name, value in inputs.items())
        print(f"{path.name} | {shapes} | {a:.0f} µs | {b:.0f} µs | {ratio:.2f} | {worst:.1e} | load {ours.loaded[1]} µs", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--turns", type=int, default=25)
    parser.add_argument("--program", default=str(PROGRAM))
    parser.add_argument("models", nargs="+")
    options = parser.parse_args()
    dims = {}
    for word in options.models:
        if "=" in word:
            name, shape = word.split("=")
            dims[name] = [int(n) for n in shape.split(",") if n]
    for model in (word for word in options.models if "=" not in word):
        try:
            compare(model, options, dims)
        except Exception as error:
            print(f"{model}: {error}", flush=True)


if __name__ == "__main__":
    main()
