#!/usr/bin/env python3
"""OpenVINO GenAI on the shape of a GGUF file: what `cargo xtask peers --openvino PYTHON` runs.

    python3 -m venv VENV && VENV/bin/pip install -r tools/peers/requirements.txt
    VENV/bin/python tools/peers/openvino_bench.py convert GGUF FOLDER
    VENV/bin/python tools/peers/openvino_bench.py run FOLDER/int8 --prompt 512 [--threads 2] [--attention PA] [--group 32]
    VENV/bin/python tools/peers/openvino_bench.py run FOLDER/int4 --generate 64

`convert` has GenAI's own reader make the graph of a file in f16 (llama and qwen families), and NNCF compress it to the sizes of published
OpenVINO models: `int8` with a scale for each channel, `int4` with one for 128 weights and the head in int8. Unlike
most of those they have no zero points: prompts take as long or less, decode a sixth less. Read from GGUF in q8_0 or q4_0 instead,
OpenVINO keeps scales for 32 weights: prompts take as long, decode longer.

`run` prints tokens a second as JSON, after a run that is not counted, as llama-bench does. Tokens are random and never the same twice,
or a prompt seen before would come from the cache. Of a prompt only the last token's logits are computed. What is not a flag here is
OpenVINO's default: the latency hint, keys and values in u8, and activations in int8 where the CPU has VNNI (f32 where not).
"""

import argparse
import os
import pathlib
import shutil
import time

import numpy
import openvino
import openvino_genai

import measure

GRAPH = "openvino_model.xml"
# Below any model's vocabulary.
VOCABULARY = 256


def convert(args):
    import nncf

    mode, rest = nncf.CompressWeightsMode, nncf.BackupMode
    modes = {
        "int8": {"mode": mode.INT8_SYM},
        "int4": {"mode": mode.INT4_SYM, "group_size": 128, "ratio": 1.0, "backup_mode": rest.INT8_SYM},
    }
    draft = args.folder.with_name(args.folder.name + ".new")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    # The reader writes the graph beside the file.
    file = draft / "f16.gguf"
    file.symlink_to(args.gguf.resolve())
    graph = draft / GRAPH
    try:
        # It does so before it compiles, which for a device that is none ends it there: f16 takes memory and minutes.
        openvino_genai.LLMPipeline(file, "NONE", enable_save_ov_model=True)
    except RuntimeError:
        if not graph.exists():
            raise
    for name, how in modes.items():
        model = nncf.compress_weights(openvino.Core().read_model(graph), **how)
        openvino.save_model(model, draft / name / GRAPH)
        del model
    # The graph in f16, and the tokenizer that the reader writes too.
    for scrap in draft.iterdir():
        if not scrap.is_dir():
            scrap.unlink()
    os.rename(draft, args.folder)


def run(args):
    pipeline = openvino_genai.LLMPipeline(
        args.folder,
        "CPU",
        ATTENTION_BACKEND=args.attention,
        INFERENCE_NUM_THREADS=args.threads,
        PERFORMANCE_HINT="LATENCY",
        KV_CACHE_PRECISION="u8",
        DYNAMIC_QUANTIZATION_GROUP_SIZE=args.group,
    )
    chance = numpy.random.default_rng()

    def once():
        """Seconds to the first token, and for each of the others."""
        config = openvino_genai.GenerationConfig(max_new_tokens=1 + args.generate, ignore_eos=True, do_sample=False)
        # It asks for one even where it is ignored.
        config.set_eos_token_id(1)
        tokens = openvino.Tensor(chance.integers(0, VOCABULARY, (1, max(args.prompt, 1)), dtype=numpy.int64))
        start = time.perf_counter()
        result = pipeline.generate(tokens, config)
        assert len(result.tokens[0]) == 1 + args.generate, result.tokens
        return time.perf_counter() - start, result.perf_metrics.get_tpot().mean / 1000

    once()
    first, each = once()
    rate = 1 / each if args.generate else args.prompt / first
    measure.tell(rate)


def main():
    parser = argparse.ArgumentParser(description="OpenVINO GenAI on the shape of a GGUF file")
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("convert", help="make FOLDER/int8 and FOLDER/int4 from a file in f16")
    command.add_argument("gguf", type=pathlib.Path)
    command.add_argument("folder", type=pathlib.Path)
    command.set_defaults(call=convert)
    command = commands.add_parser("run", help="measure a prompt, or tokens generated after one")
    command.add_argument("folder", type=pathlib.Path)
    measure.flags(command)
    command.add_argument("--attention", choices=["PA", "SDPA"], default="PA", help="paged, or keys and values as the graph's state")
    command.add_argument("--group", type=int, default=32, help="activations that share a scale where they are quantized")
    command.set_defaults(call=run)
    args = parser.parse_args()
    args.call(args)


if __name__ == "__main__":
    main()
