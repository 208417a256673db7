#!/usr/bin/env python3
"""What space between the parts of JSON costs and gives: tokens and right fields of extractions, on a running server.

    python tools/clients/structured_space.py http://127.0.0.1:8080
"""

import itertools
import json
import sys

import openai

NAMES = ["Ada Lovelace", "Alan Turing", "Grace Hopper", "Linus Pauling", "Marie Curie", "Niels Bohr"]
CITIES = ["London", "Paris", "Berlin", "Oslo"]
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "city": {"type": "string"}},
    "required": ["name", "age", "city"],
    "additionalProperties": False,
}
ORDER = {
    "type": "object",
    "properties": {
        "customer": {"type": "object", "properties": {"name": {"type": "string"}, "city": {"type": "string"}},
                     "required": ["name", "city"], "additionalProperties": False},
        "items": {"type": "array", "items": {"type": "object", "properties": {"product": {"type": "string"}, "count": {"type": "integer"}},
                                             "required": ["product", "count"], "additionalProperties": False}},
    },
    "required": ["customer", "items"],
    "additionalProperties": False,
}
WAYS = {
    "a space may come": {},
    "no space": {"disable_any_whitespace": True},
    "any space": {"whitespace_pattern": "[ \\n\\t]{0,32}"},
}


def tasks():
    for i, (name, city) in enumerate(itertools.product(NAMES, CITIES)):
        yield PERSON, f"{name}, {20 + i} years old, lives in {city}.", {"name": name, "age": 20 + i, "city": city}
        text = f"{name} from {city} orders {i + 2} lamps and {i + 1} chairs."
        items = [{"product": "lamps", "count": i + 2}, {"product": "chairs", "count": i + 1}]
        yield ORDER, text, {"customer": {"name": name, "city": city}, "items": items}


def leaves(value, path=()):
    if isinstance(value, (dict, list)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, (*path, key))
    else:
        yield path, str(value).lower().removesuffix("s")


def main():
    client = openai.OpenAI(base_url=f"{sys.argv[1].rstrip('/')}/v1", api_key="none", max_retries=0, timeout=600)
    model = client.models.list().data[0].id
    for way, options in WAYS.items():
        tokens = right = wanted = cut = 0
        for schema, text, answer in tasks():
            said = client.chat.completions.create(
                model=model, temperature=0, max_tokens=200,
                messages=[{"role": "user", "content": f"{text}\nExtract the data as JSON."}],
                extra_body={"structured_outputs": {"json": schema, **options}})
            tokens += said.usage.completion_tokens
            try:
                found = dict(leaves(json.loads(said.choices[0].message.content)))
            except ValueError:
                cut, found = cut + 1, {}
            for path, value in leaves(answer):
                wanted += 1
                right += found.get(path) == value
        print(f"{way}: {right} of {wanted} fields right, {tokens} tokens, {cut} cut off", flush=True)


main()
