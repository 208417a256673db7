"""ONNX Runtime on encoders, in the settings that its documentation and optimum's offer for CPUs.

Graphs: in f32 or with weights in int8 (`s8` as optimum's configuration for AVX-512 and VNNI, `u8` as its one for AVX2), as exported or
with attention, layer norms and GELU fused by ONNX Runtime's transformer optimizer. Threads: all on one batch, or one batch each.
"""

import dataclasses
import functools

import encoder_cases

BATCHES = [1, 8, 32]


@dataclasses.dataclass
class Variant:
    graph: str
    batch: int
    each: bool

    @property
    def flags(self):
        return f"{self.graph} batch {self.batch}" + (", one thread a batch" if self.each else "")

    def workers(self, threads):
        return threads if self.each else 1

    def load(self, _checkpoint, folder, threads):
        return encoder(str(folder / f"{self.graph}.onnx"), 1 if self.each else threads)


def variants(program, folder, case):
    in_f32 = program == "onnxruntime-f32"
    graphs = [graph for graph in sorted(path.stem for path in folder.glob("*.onnx")) if graph.startswith("f32") == in_f32]
    if case == encoder_cases.QUERY:
        return [Variant(graph, 1, False) for graph in graphs]
    return [Variant(graph, batch, each) for graph in graphs for batch in BATCHES for each in (False, True)]


@functools.lru_cache(maxsize=2)
def encoder(path, threads):
    """A function from texts to their vectors: means of the tokens' outputs, of length 1."""
    import numpy
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    # A fatal error aside, it warns of graphs' details.
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = {given.name for given in session.get_inputs()}
    output = session.get_outputs()[0].name

    def encode(texts):
        longest = max(map(len, texts))
        ids = numpy.zeros((len(texts), longest), dtype=numpy.int64)
        mask = numpy.zeros_like(ids)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = text
            mask[row, : len(text)] = 1
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": numpy.zeros_like(ids)}
        hidden = session.run([output], {name: inputs[name] for name in names})[0]
        sums = (hidden * mask[:, :, None]).sum(axis=1)
        return sums / numpy.linalg.norm(sums, axis=1, keepdims=True)

    return encode
