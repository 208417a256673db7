#!/usr/bin/env python3
"""The shape of a recorded request (record.py) without its words, as a fixture of the wire's tests.

    scrub.py RECORD.json [--tools N] > crates/wire/tests/fixtures/NAME.json

Keys, types, roles, names and short words stay. Prompts, descriptions and ids become placeholders; of the functions among the
tools the first N are kept, and of each schema its properties' types.
"""

import argparse
import json
import re

KEPT = {"type", "role", "name", "model", "ttl", "effort", "keep", "syntax", "tool_choice", "summary", "namespace"}
ID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}")


def schema(value):
    if not isinstance(value, dict):
        return value
    kept = {k: v for k, v in value.items() if k in ("type", "required", "additionalProperties", "$schema", "enum", "format")}
    if "properties" in value:
        kept["properties"] = {k: schema(v) for k, v in value["properties"].items()}
    if "items" in value:
        kept["items"] = schema(value["items"])
    return kept


def scrub(key, value):
    if key in ("input_schema", "parameters"):
        return schema(value)
    if isinstance(value, dict):
        return {k: scrub(k, v) for k, v in value.items()}
    if isinstance(value, list):
        return [scrub(key, v) for v in value]
    if not isinstance(value, str) or key in KEPT:
        return value
    if value.startswith("x-anthropic-billing-header"):
        return "x-anthropic-billing-header: one=1; two=2;"
    if key != "text" and (ID.search(value) or value.startswith("{")):
        return "an id"
    return value if len(value) < 24 and " " not in value else f"({len(value)} characters of {key})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record")
    parser.add_argument("--tools", type=int, default=3)
    given = parser.parse_args()
    record = json.load(open(given.record))
    body = record["body"]
    tools = body.get("tools", [])
    functions = [tool for tool in tools if tool.get("type", "custom") in ("custom", "function")][:given.tools]
    others = [tool for tool in tools if tool.get("type", "custom") not in ("custom", "function")]
    for tool in others:
        if "tools" in tool:
            tool["tools"] = tool["tools"][:2]
    body["tools"] = functions + others
    print(json.dumps(scrub("", body), indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
