#!/usr/bin/env python3
"""mistral.rs on a model file: what `cargo xtask peers --mistralrs PYTHON` runs.

    python3 -m venv VENV && VENV/bin/pip install -r tools/peers/requirements-mistralrs.txt
    VENV/bin/python tools/peers/mistralrs_bench.py MODEL.gguf --vocabulary 151936 --prompt 512 [--threads 2]
    VENV/bin/python tools/peers/mistralrs_bench.py MODEL.gguf --vocabulary 151936 --generate 32

The file is one that `gristmill bench --shape … --write` made: its reader wants a tokenizer.json that agrees with the file's vocabulary, of
256 bytes, one merge and placeholders, and gets one. Prompts are letters, a token each.

Prints tokens a second as JSON, after a run that is not counted, as llama-bench does. Prompts are random and never the same twice, and
nothing is shared between them. One stream: several prompts in one step fail on CPUs in 0.9.5 (`input tensor is not contiguous`). What is not a flag here is mistral.rs's default: on CPUs activations in f32 (its bfloat16 was three to
five times as slow), keys and values in f16.
"""

import argparse
import json
import os
import pathlib
import random
import string
import tempfile
import time


def letter(byte):
    """What stands for a byte in GPT-2's vocabularies: itself where it is printable, else one past Latin-1."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    if byte in printable:
        return chr(byte)
    return chr(256 + sum(1 for other in range(byte) if other not in printable))


def tokenizer(size):
    """The vocabulary of files with random weights, of `size` tokens, as a tokenizer.json."""
    tokens = [letter(byte) for byte in range(256)]
    space = letter(ord(" "))
    tokens.append(space + "t")
    tokens += [f"<|{number}|>" for number in range(len(tokens), size)]
    pieces = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": pieces,
        "post_processor": None,
        "decoder": pieces,
        "model": {
            "type": "BPE",
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": [[space, "t"]],
        },
    }


def run(args):
    # Read when the library starts its threads.
    os.environ["RAYON_NUM_THREADS"] = str(args.threads)
    import mistralrs

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "tokenizer.json")
        path.write_text(json.dumps(tokenizer(args.vocabulary)))
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
    print(json.dumps({"avg_ts": rate}))


def main():
    parser = argparse.ArgumentParser(description="mistral.rs on a model file with random weights")
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--vocabulary", type=int, required=True, help="tokens of the file's vocabulary")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--prompt", type=int, default=0)
    what.add_argument("--generate", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    run(parser.parse_args())


if __name__ == "__main__":
    main()
