#!/usr/bin/env python3
"""ONNX Runtime, sentence-transformers and llama.cpp on encoders: what `cargo xtask peers encoders --python PYTHON` runs.

    python3 -m venv VENV && VENV/bin/pip install -r tools/peers/requirements-encoders.txt
    VENV/bin/python tools/peers/encoders.py shape bge-small FOLDER --like CHECKPOINT
    VENV/bin/python tools/peers/encoders.py convert CHECKPOINT FOLDER [--llama SOURCES] [--published GRAPH]
    VENV/bin/python tools/peers/encoders.py run CHECKPOINT FOLDER --program onnxruntime-int8 --case mix-5-512 [--only FLAGS]...
    VENV/bin/python tools/peers/encoders.py http URL CHECKPOINT --case mix-5-512

CHECKPOINT is the folder of a sentence-transformers model.

`shape` writes a checkpoint with random weights, for a published shape whose weights are not at hand.

`convert` writes what the other programs read: graphs in f32 and in int8, and a GGUF file in q8_0 by llama.cpp's own converter, where
llama.cpp has the architecture. It prints how near the graphs' vectors are to those of torch in f32. A published graph of the same shape
is measured beside them.

`run` measures a program in this process, `http` a server by its OpenAI-compatible endpoint; every variant is a line of JSON.
"""

import argparse
import json
import pathlib

import encoder_cases
import encoder_runs


def checkpoint_config(checkpoint):
    return json.loads((checkpoint / "config.json").read_text())


def shape(args):
    import encoder_convert

    encoder_convert.shape(args.name, args.folder, args.like)


def convert(args):
    import encoder_convert

    encoder_convert.convert(args.checkpoint, args.folder, args.llama, args.published)


def run(args):
    if args.program == "torch":
        import encoder_torch as program
    else:
        import encoder_onnx as program
    texts = encoder_cases.texts(args.case, checkpoint_config(args.checkpoint))
    for variant in program.variants(args.program, args.folder, args.case):
        if args.only and variant.flags not in args.only:
            continue
        encode = variant.load(args.checkpoint, args.folder, args.threads)
        result = encoder_runs.measure(encode, texts, args.case, variant.batch, variant.workers(args.threads))
        encoder_runs.tell(args.program, variant.flags, args.checkpoint.name, args.case, result)


def http(args):
    import encoder_http

    config = checkpoint_config(args.checkpoint)
    for repeat in range(args.repeats):
        texts = encoder_cases.texts(args.case, config, repeat)
        result = encoder_http.measure(args.url, texts, args.case, args.inputs, args.connections, warm=args.repeats == 1)
    encoder_runs.tell("http", "", args.checkpoint.name, args.case, result)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)

    command = commands.add_parser("shape", help="write a checkpoint of a published shape, with random weights")
    command.add_argument("name")
    command.add_argument("folder", type=pathlib.Path)
    command.add_argument("--like", type=pathlib.Path, required=True, help="a checkpoint whose tokenizer it has")
    command.set_defaults(call=shape)

    command = commands.add_parser("convert", help="make the files that other programs read")
    command.add_argument("checkpoint", type=pathlib.Path)
    command.add_argument("folder", type=pathlib.Path)
    command.add_argument("--llama", type=pathlib.Path, help="llama.cpp's sources, for its converter")
    command.add_argument("--published", type=pathlib.Path, help="an int8 graph of the same shape")
    command.set_defaults(call=convert)

    command = commands.add_parser("run", help="measure a program in this process")
    command.add_argument("checkpoint", type=pathlib.Path)
    command.add_argument("folder", type=pathlib.Path, help="what `convert` wrote")
    command.add_argument("--program", choices=["onnxruntime-int8", "onnxruntime-f32", "torch"], required=True)
    command.add_argument("--case", choices=encoder_cases.CASES, required=True)
    command.add_argument("--threads", type=int, default=2)
    command.add_argument("--only", action="append", default=[], help="the flags of a variant; all variants without it")
    command.set_defaults(call=run)

    command = commands.add_parser("http", help="measure a server")
    command.add_argument("url")
    command.add_argument("checkpoint", type=pathlib.Path)
    command.add_argument("--case", choices=encoder_cases.CASES, required=True)
    command.add_argument("--inputs", type=int, default=32, help="texts of a request")
    command.add_argument("--connections", type=int, default=2)
    command.add_argument("--repeats", type=int, default=1, help="times, each with other words; the last is what counts")
    command.set_defaults(call=http)

    args = parser.parse_args()
    args.call(args)


if __name__ == "__main__":
    main()
