#!/usr/bin/env python3
"""Decode speed with a schema and without, on a running server: tokens a second between an answer's first token and its last.

    python tools/clients/structured_speed.py http://127.0.0.1:8080 [--rounds 6] [--tokens 200]

The two take turns, so that a machine that changes its speed changes both; the medians are compared.
"""

import argparse
import statistics
import time

import openai

SCHEMA = {
    "type": "object",
    "properties": {
        "people": {
            "type": "array",
            "minItems": 40,
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "city": {"type": "string"},
                               "email": {"type": ["string", "null"]}},
                "required": ["name", "age", "city", "email"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["people"],
    "additionalProperties": False,
}
PROMPT = "Make up forty people, as a JSON object with a list `people` of objects with name, age, city and email."


def tokens_per_s(client, model, tokens, extra):
    first = last = None
    used = 0
    stream = client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": PROMPT}], max_tokens=tokens, temperature=0, stream=True,
        stream_options={"include_usage": True}, extra_body=extra)
    for chunk in stream:
        if chunk.choices and chunk.choices[0].delta.content:
            last = time.monotonic()
            first = first or last
        if chunk.usage:
            used = chunk.usage.completion_tokens
    return (used - 1) / (last - first), used


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--tokens", type=int, default=200)
    args = parser.parse_args()
    client = openai.OpenAI(base_url=f"{args.url.rstrip('/')}/v1", api_key="none", max_retries=0, timeout=600)
    model = client.models.list().data[0].id
    kinds = {"free": {"ignore_eos": True}, "schema": {"guided_json": SCHEMA}}
    speeds = {kind: [] for kind in kinds}
    for turn in range(args.rounds + 1):
        for kind, extra in kinds.items():
            speed, used = tokens_per_s(client, model, args.tokens, extra)
            if turn:  # the first compiles the grammar
                speeds[kind].append(speed)
                print(f"{kind:7} {used} tokens, {speed:.1f} tokens/s", flush=True)
    free, schema = (statistics.median(speeds[kind]) for kind in kinds)
    print(f"median {free:.1f} free, {schema:.1f} with a schema: {schema / free:.3f}")


if __name__ == "__main__":
    main()
