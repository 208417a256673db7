"""Checkpoints of encoders as other programs read them: graphs for ONNX Runtime, GGUF files for llama.cpp."""

import json
import os
import shutil
import subprocess
import sys

import encoder_cases

# Published shapes whose weights are not in a package.
SHAPES = {
    "bge-small": {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "hidden_size": 384,
        "intermediate_size": 1536,
        "num_attention_heads": 12,
        "num_hidden_layers": 12,
        "vocab_size": 30522,
        "max_position_embeddings": 512,
    }
}
# Files of a tokenizer and of the modules of sentence-transformers.
BESIDE = ["tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json", "modules.json", "sentence_bert_config.json"]
POOLING = "1_Pooling/config.json"

# A graph's opset: the newest that ONNX Runtime's transformer optimizer has patterns for.
OPSET = 17
# Texts on which graphs are compared with torch.
COMPARED = 16


def shape(name, folder, like):
    import torch
    import transformers

    torch.manual_seed(1)
    draft = folder.with_name(folder.name + ".new")
    shutil.rmtree(draft, ignore_errors=True)
    config = transformers.AutoConfig.for_model(**SHAPES[name])
    transformers.AutoModel.from_config(config).save_pretrained(draft)
    (draft / POOLING).parent.mkdir()
    for file in [*BESIDE, POOLING]:
        if (like / file).exists():
            shutil.copy(like / file, draft / file)
    os.rename(draft, folder)


def convert(checkpoint, folder, llama, published):
    draft = folder.with_name(folder.name + ".new")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    config = json.loads((checkpoint / "config.json").read_text())
    graphs(checkpoint, config, draft)
    compare(checkpoint, config, draft)
    if published:
        shutil.copy(published, draft / "published.onnx")
    if llama and config["model_type"] == "bert":
        gguf(checkpoint, llama, draft)
    os.rename(draft, folder)


def graphs(checkpoint, config, folder):
    """Graphs in f32, as exported and fused, and both with weights in eight bits."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.transformers import optimizer

    plain, fused = folder / "f32.onnx", folder / "f32-fused.onnx"
    export(checkpoint, plain)
    heads, hidden = config["num_attention_heads"], config["hidden_size"]
    better = optimizer.optimize_model(str(plain), "bert", num_heads=heads, hidden_size=hidden, opt_level=0)
    print(f"{checkpoint.name}: fused {better.get_fused_operator_statistics()}", file=sys.stderr)
    better.save_model_to_file(str(fused))
    # What optimum's configurations for AVX-512 with VNNI and for AVX2 say; activations are quantized to u8 at run time.
    # Shapes of fused operators cannot be inferred: their outputs are in f32.
    settings = {"per_channel": True, "reduce_range": False, "extra_options": {"DefaultTensorType": onnx.TensorProto.FLOAT}}
    for name, type in {"s8": QuantType.QInt8, "u8": QuantType.QUInt8}.items():
        for graph, suffix in [(plain, ""), (fused, "-fused")]:
            quantize_dynamic(graph, folder / f"{name}{suffix}.onnx", weight_type=type, **settings)


def export(checkpoint, path):
    import torch
    import transformers

    # Plain attention is what the optimizer's patterns are of.
    model = transformers.AutoModel.from_pretrained(checkpoint, attn_implementation="eager", dtype=torch.float32).eval()

    class Hidden(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask):
            return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

    ids = torch.randint(1000, 2000, (2, 16))
    names = ["input_ids", "attention_mask"]
    axes = {name: {0: "batch", 1: "tokens"} for name in [*names, "hidden"]}
    # Of a mask without padding, the library would leave attention's out.
    mask = torch.ones_like(ids)
    mask[1, 9:] = 0
    torch.onnx.export(
        Hidden().eval(), (ids, mask), str(path), input_names=names, output_names=["hidden"], dynamic_axes=axes, opset_version=OPSET, dynamo=False
    )


def compare(checkpoint, config, folder):
    """How near the graphs' vectors are to torch's in f32: a graph that computes something else would be no peer."""
    import encoder_onnx
    import encoder_torch

    texts = encoder_cases.texts(encoder_cases.MIX, config)[:COMPARED]
    truth = encoder_torch.encoder(str(checkpoint), "float32", 2)(texts)
    for path in sorted(folder.glob("*.onnx")):
        vectors = encoder_onnx.encoder(str(path), 2)(texts)
        cosines = (vectors * truth).sum(axis=1)
        print(f"{checkpoint.name}: {path.stem}: least cosine to torch {cosines.min():.5f}, mean {cosines.mean():.5f}", file=sys.stderr)


def gguf(checkpoint, llama, folder):
    """Files of llama.cpp by its converter."""
    for type in ["q8_0", "f16"]:
        command = [sys.executable, llama / "convert_hf_to_gguf.py", checkpoint, "--outtype", type, "--outfile", folder / f"{type}.gguf"]
        told = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        if told.returncode:
            raise SystemExit(told.stderr[-4000:])
