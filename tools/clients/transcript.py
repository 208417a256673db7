"""A short account of recorded requests (record.py): status, token counts, calls of tools and their results, without the prompts' words."""

import difflib
import json

LONGEST = 200


def events(record):
    """What the stream of an answer brought, or its one JSON object."""
    answer = record.get("answer", "")
    # A line that does not end was cut when the client left.
    found = [json.loads(line[6:]) for line in answer.splitlines() if line.startswith("data: {") and line.endswith("}")]
    return found or ([json.loads(answer)] if answer.startswith("{") else [])


def usage(record):
    """Prompt tokens, those of them that were cached, and tokens of the answer, as the last event of a stream tells them."""
    for event in reversed(events(record)):
        told = event.get("usage") or (event.get("response") or {}).get("usage")
        if event.get("type") == "message_delta" and told:
            cached = told["cache_read_input_tokens"]
            return told["input_tokens"] + cached, cached, told["output_tokens"]
        if event.get("type", "").startswith("response.") and told:
            return told["input_tokens"], told["input_tokens_details"]["cached_tokens"], told["output_tokens"]
    return None


def plain(value):
    """A value without its cache marks, which move from turn to turn."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items() if k not in ("cache_control", "internal_chat_message_metadata_passthrough")}
    if isinstance(value, list):
        return [plain(v) for v in value]
    return value


def turns(record):
    body = record.get("body")
    return (body.get("messages") or body.get("input") or []) if isinstance(body, dict) else []


def conversation(record):
    """What stays the same from turn to turn: the first turns up to the user's, and the number of tools."""
    first = []
    for turn in turns(record):
        if turn.get("role") == "assistant" or turn.get("type") not in (None, "message"):
            break
        first.append(plain(turn))
    return json.dumps([first[:1], len(record["body"].get("tools") or [])], sort_keys=True)


def said(record):
    """The answer's parts, in lines: text, and calls with their arguments."""
    lines, text, call = [], "", None
    for event in events(record):
        kind = event.get("type")
        if kind == "content_block_start" and event["content_block"]["type"] == "tool_use":
            call = [event["content_block"]["name"], ""]
        elif kind == "content_block_delta":
            text += event["delta"].get("text", "")
            if call:
                call[1] += event["delta"].get("partial_json", "")
        elif kind == "content_block_stop":
            lines += [f"text: {text}"] if text.strip() else []
            lines += [f"call: {call[0]} {call[1]}"] if call else []
            text, call = "", None
        elif kind == "response.output_item.done":
            item = event["item"]
            if item["type"] == "message":
                lines += [f"text: {part.get('text', '')}" for part in item["content"]]
            elif item["type"] != "reasoning":
                lines.append(f"call: {item.get('name', item['type'])} {item.get('arguments', item.get('input', ''))}")
        elif kind == "message_delta":
            lines.append(f"stop_reason: {event['delta']['stop_reason']}")
        elif kind == "response.completed":
            lines.append("status: completed")
    return lines


def flat(content):
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return " ".join(part.get("text", f"({part.get('type')})") for part in content)
    return json.dumps(content)


def results(record):
    """What tools brought since the last answer of the model."""
    lines = []
    for turn in reversed(turns(record)):
        if turn.get("role") == "assistant" or turn.get("type") in ("function_call", "custom_tool_call", "reasoning"):
            break
        if str(turn.get("type", "")).endswith("_output"):
            lines.append(f"result: {flat(turn['output'])}")
        elif isinstance(turn.get("content"), list):
            lines += [f"result{' (error)' if part.get('is_error') else ''}: {flat(part.get('content', ''))}"
                      for part in turn["content"] if part.get("type") == "tool_result"]
    return lines[::-1]


def cut(line):
    line = line.replace("\n", "\\n")
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}… ({len(line)} characters)"


def write(head, records, before, after, hidden):
    """The account as text; the paths of `hidden` are written as its names."""
    lines = [head, ""]
    for number, record in enumerate(records):
        lines.append(f"{number}: {record['method']} {record['path']} → {record.get('status', 'no answer')} after {record['seconds']:.1f} s")
        body = record.get("body")
        if isinstance(body, dict):
            shape = f"   {len(turns(record))} turns, {len(body.get('tools') or [])} tools, {'streamed' if body.get('stream') else 'whole'}"
            told = usage(record)
            lines.append(shape + (f"; {told[0]} prompt tokens, {told[1]} of them cached, {told[2]} written" if told
                                  else "; the client left before the end" if record.get("status") == 200 and body.get("stream") else ""))
            lines += [f"   {line}" for line in results(record)]
            lines += [f"   left out: {warning}" for warning in record.get("warnings", [])]
        if record.get("status", 0) >= 400:
            lines.append(f"   {record.get('answer', '')}")
        lines += [f"   {line}" for line in said(record)]
    diff = list(difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "after", lineterm="", n=0))
    lines += ["", *(diff or ["the file is as it was"])]
    text = "\n".join(cut(line) for line in lines) + "\n"
    for path, name in hidden.items():
        text = text.replace(path, name)
    return text
