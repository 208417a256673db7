#!/usr/bin/env python3
"""ONNX Runtime GenAI on the shape of a model file: what `cargo xtask peers --onnx PYTHON` runs.

    python3 -m venv VENV && VENV/bin/pip install -r tools/peers/requirements-onnx.txt
    gristmill inspect MODEL.gguf --json > shape.json
    VENV/bin/python tools/peers/onnx_bench.py convert shape.json FOLDER
    VENV/bin/python tools/peers/onnx_bench.py run FOLDER --weights int4 --block 32 --prompt 512 [--threads 2]
    VENV/bin/python tools/peers/onnx_bench.py run FOLDER --weights int8 --block 128 --generate 32 [--streams 4 --before 128]

`convert` has GenAI's own builder make the graphs of a checkpoint with random weights for CPUs: in int4 and in
int8, with a scale for 32 weights as most published ones have it, and for 128, and without zero points. Activations are quantized to int8
(`accuracy_level` 4, the builder's default on CPUs), the rest is f32.

`run` prints tokens a second as JSON, after a run that is not counted, as llama-bench does. Tokens are random and never the same twice, and
nothing is shared between prompts. Its graphs work out the logits of a whole prompt: the builder leaves that out for paged attention alone,
which CPUs do not have.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time

import checkpoint
import measure

# Below any model's vocabulary.
VOCABULARY = 256
WEIGHTS = ["int4", "int8"]
# Weights that share a scale.
BLOCKS = [32, 128]


def convert(args):
    import torch
    import transformers

    inspected = json.loads(args.inspected.read_text())
    draft = args.folder.with_name(args.folder.name + ".new")
    shutil.rmtree(draft, ignore_errors=True)
    source = draft / "source"
    source.mkdir(parents=True)
    config = transformers.AutoConfig.for_model(**checkpoint.config(inspected))
    # Tokens that no random weights are likely to choose end nothing.
    config.bos_token_id, config.eos_token_id = 1, 2
    torch.set_default_dtype(torch.bfloat16)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(source)
    tokenizer = source / "tokenizer.json"
    tokenizer.write_text(json.dumps(checkpoint.tokenizer(checkpoint.vocabulary(inspected))))
    transformers.PreTrainedTokenizerFast(tokenizer_file=str(tokenizer)).save_pretrained(source)
    for weights in WEIGHTS:
        for block in BLOCKS:
            builder = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-e", "cpu", "-p", weights]
            builder += ["-i", source, "-o", draft / f"{weights}-{block}", "-c", draft / "cache"]
            # What it says is thousands of lines.
            told = subprocess.run([*builder, "--extra_options", f"block_size={block}"], capture_output=True, text=True)
            if told.returncode:
                raise SystemExit(told.stderr[-4000:])
    shutil.rmtree(source)
    shutil.rmtree(draft / "cache", ignore_errors=True)
    os.rename(draft, args.folder)


def run(args):
    import numpy
    import onnxruntime_genai as genai

    config = genai.Config(str(args.folder / f"{args.weights}-{args.block}"))
    threads = {"intra_op_num_threads": args.threads}
    config.overlay(json.dumps({"model": {"decoder": {"session_options": threads}}}))
    model = genai.Model(config)

    def once(prompt, generate):
        """Seconds until the prompts are read, and for the tokens after the first."""
        params = genai.GeneratorParams(model)
        # It sets memory aside for all of them.
        params.set_search_options(batch_size=args.streams, max_length=prompt + 1 + generate, do_sample=False)
        generator = genai.Generator(model, params)
        tokens = [[random.randrange(3, VOCABULARY) for _ in range(prompt)] for _ in range(args.streams)]
        start = time.perf_counter()
        generator.append_tokens(numpy.array(tokens, dtype=numpy.int32))
        generator.generate_next_token()
        first = time.perf_counter()
        for _ in range(generate):
            assert not generator.is_done()
            generator.generate_next_token()
        end = time.perf_counter()
        assert generator.token_count() == prompt + 1 + generate, generator.token_count()
        return first - start, end - first

    if args.prompt:
        once(args.prompt, 0)
        rate = args.streams * args.prompt / once(args.prompt, 0)[0]
    else:
        before = max(args.before, 1)
        once(before, 4)
        rate = args.streams * args.generate / once(before, args.generate)[1]
    measure.tell(rate)


def main():
    parser = argparse.ArgumentParser(description="ONNX Runtime GenAI on the shape of a model file")
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("convert", help="make the graphs of a shape, with random weights")
    command.add_argument("inspected", type=pathlib.Path, help="what `gristmill inspect FILE --json` says of it")
    command.add_argument("folder", type=pathlib.Path)
    command.set_defaults(call=convert)
    command = commands.add_parser("run", help="measure a prompt, or tokens generated after one")
    command.add_argument("folder", type=pathlib.Path)
    measure.flags(command)
    measure.streams(command)
    command.add_argument("--weights", choices=WEIGHTS, default="int4")
    command.add_argument("--block", type=int, choices=BLOCKS, default=32, help="weights that share a scale")
    command.set_defaults(call=run)
    args = parser.parse_args()
    args.call(args)


if __name__ == "__main__":
    main()
