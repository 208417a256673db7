#!/usr/bin/env python3
"""mistral.rs on a model file: what `cargo xtask peers --mistralrs PYTHON` runs.

    python3 -m venv VENV && VENV/bin/pip install -r tools/peers/requirements-mistralrs.txt
    gristmill inspect MODEL.gguf --json > shape.json
    VENV/bin/python tools/peers/mistralrs_bench.py MODEL.gguf shape.json --prompt 512 [--threads 2]
    VENV/bin/python tools/peers/mistralrs_bench.py MODEL.gguf shape.json --generate 32

The file is one that `gristmill bench --shape … --write` made: its reader wants a tokenizer.json that agrees with the file's
vocabulary, and gets one. Prompts are letters, a token each.

Prints tokens a second as JSON, after a run that is not counted, as llama-bench does. Prompts are random and never the same twice, and
nothing is shared between them. One stream: several prompts in one step fail on CPUs in 0.9.5 (`input tensor is not contiguous`). What
is not a flag here is mistral.rs's default: on CPUs activations in f32 (its bfloat16 was three to five times as slow), keys and values
in f16.
"""

import argparse
import json
import os
import pathlib
import random
import string
import tempfile
import time

import checkpoint
import measure


def run(args):
    # Read when the library starts its threads.
    os.environ["RAYON_NUM_THREADS"] = str(args.threads)
    import mistralrs

    vocabulary = checkpoint.vocabulary(json.loads(args.inspected.read_text()))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "tokenizer.json")
        path.write_text(json.dumps(checkpoint.tokenizer(vocabulary)))
        model = mistralrs.Runner(
            which=mistralrs.Which.GGUF(
                quantized_model_id=str(args.file.resolve().parent),
                quantized_filename=args.file.name,
                tokenizer_json=str(path),
            ),
            max_seqs=1,
            prefix_cache_n=0,
            token_source="none",
        )

    def once(prompt, generate):
        """Seconds that a request takes."""
        text = "".join(random.choices(string.ascii_lowercase, k=prompt))
        request = mistralrs.CompletionRequest(
            model="default",
            prompt=text,
            max_tokens=generate,
            temperature=0.0,
            ignore_eos=True,
        )
        start = time.perf_counter()
        usage = model.send_completion_request(request).usage
        seconds = time.perf_counter() - start
        made = (usage.prompt_tokens, usage.completion_tokens)
        assert made == (prompt, generate), made
        return seconds

    if args.prompt:
        once(args.prompt, 1)
        rate = args.prompt / once(args.prompt, 1)
    else:
        once(1, 4)
        first = once(1, 1)
        rate = args.generate / (once(1, 1 + args.generate) - first)
    measure.tell(rate)


def main():
    parser = argparse.ArgumentParser(description="mistral.rs on a model file with random weights")
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("inspected", type=pathlib.Path, help="what `gristmill inspect FILE --json` says of it")
    measure.flags(parser)
    run(parser.parse_args())


if __name__ == "__main__":
    main()
