#!/usr/bin/env python3
"""Checks translations with the providers' own clients and types: `openai`, `anthropic`, `google-genai`.

    pip install openai==3.51.0 anthropic==2.10.0 google-genai==3.3.0
    cargo build -p translation --example translate
    python tools/clients/translation_check.py target/debug/examples/translate

Requests that the clients made (crates/translation/tests/fixtures/sdk_requests.json), and answers and streams of each
provider (sdk_answers.json beside it, written by `tools/fixtures/sdk_answers.py`), are translated into every dialect. The
requests must be valid by the types of the receiving client, the answers and streams must be read to their end by it, and
say the same. Prints one line a pair and leaves with 1 if any failed.
"""

import collections
import http.server
import json
import pathlib
import subprocess
import sys
import threading
import warnings

import anthropic
import openai
import pydantic
from anthropic.types import message_create_params
from google import genai
from google.genai import types
from openai.types.chat import completion_create_params
from openai.types.responses import response_create_params

FIXTURES = pathlib.Path(__file__).parents[2] / "crates/translation/tests/fixtures"
DIALECTS = ["openai-chat", "openai-responses", "anthropic", "gemini"]
# What a dialect cannot say is refused: by name of the recorded request.
REFUSED = {
    "anthropic": {"choices", "logprobs", "json"},
    "openai-responses": {"choices", "settings"},
    "openai-chat": set(),
    "gemini": set(),
}
Said = collections.namedtuple("Said", "text thought calls finish usage")


def translate(program, *arguments, body):
    done = subprocess.run([program, *arguments], input=body, capture_output=True)
    return done.returncode, done.stdout, done.stderr.decode()


class Upstream(http.server.BaseHTTPRequestHandler):
    """Answers every request with the bytes to check."""

    content_type, answer, status = "application/json", b"", 200

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(self.status)
        self.send_header("content-type", self.content_type)
        self.send_header("content-length", str(len(self.answer)))
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, *_):
        pass


# Requests: by the types of the receiving client.


def adapter(kind):
    return pydantic.TypeAdapter(kind, config=None)


def request_is_valid(dialect, body):
    if dialect == "openai-chat":
        strict(completion_create_params.CompletionCreateParamsNonStreaming, body)
    elif dialect == "openai-responses":
        strict(response_create_params.ResponseCreateParamsNonStreaming, body)
    elif dialect == "anthropic":
        # The newest models take no sampling parameters, and this client has no types for them.
        known = {key: value for key, value in body.items() if key not in ("temperature", "top_p", "top_k")}
        strict(message_create_params.MessageCreateParamsNonStreaming, known)
    else:
        known = {"contents", "systemInstruction", "generationConfig", "tools", "toolConfig", "labels", "serviceTier"}
        assert set(body) <= known, set(body) - known
        for content in body["contents"]:
            types.Content.model_validate(content)
        for tool in body.get("tools", []):
            types.Tool.model_validate(tool)
        types.GenerationConfig.model_validate(body.get("generationConfig", {}))
        types.ToolConfig.model_validate(body.get("toolConfig", {}))


def strict(kind, body):
    """Checks a body by the client's types, and that it has no field that they have not."""
    body = {key: value for key, value in body.items() if key != "stream"}
    fields = set()
    for base in [kind, *kind.__orig_bases__]:
        fields |= set(getattr(base, "__annotations__", {}))
    assert set(body) <= fields, set(body) - fields
    adapter(kind).validate_python(body)


# Answers and streams: read by the client, and said in one form.


def from_chat(answer):
    message = answer.choices[0].message
    extra = message.model_extra or {}
    calls = [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls or []]
    usage = answer.usage
    return Said(
        (message.content or "") + (message.refusal or ""), extra.get("reasoning_content") or "", calls,
        answer.choices[0].finish_reason, (usage.prompt_tokens, usage.completion_tokens) if usage else None)


def from_response(answer):
    text, thought, calls = "", "", []
    for item in answer.output:
        if item.type == "message":
            text += "".join(getattr(part, "text", None) or getattr(part, "refusal", "") for part in item.content)
        elif item.type == "reasoning":
            thought += "".join(part.text for part in item.summary)
        elif item.type == "function_call":
            calls.append((item.name, json.loads(item.arguments)))
    if answer.status == "incomplete":
        finish = {"max_output_tokens": "length"}.get(answer.incomplete_details.reason, answer.incomplete_details.reason)
    else:
        finish = "tool_calls" if calls else "stop"
    return Said(text, thought, calls, finish, (answer.usage.input_tokens, answer.usage.output_tokens))


def from_message(answer):
    text = "".join(block.text for block in answer.content if block.type == "text")
    thought = "".join(block.thinking for block in answer.content if block.type == "thinking")
    calls = [(block.name, block.input) for block in answer.content if block.type == "tool_use"]
    finish = {"end_turn": "stop", "max_tokens": "length", "tool_use": "tool_calls", "stop_sequence": "stop",
              "refusal": "content_filter"}[answer.stop_reason]
    usage = answer.usage
    read = usage.input_tokens + (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
    return Said(text, thought, calls, finish, (read, usage.output_tokens))


def from_gemini(chunks):
    text, thought, calls, finish, usage = "", "", [], None, None
    for chunk in chunks:
        for candidate in (chunk.candidates or [])[:1]:
            for part in (candidate.content.parts if candidate.content else None) or []:
                if part.function_call:
                    calls.append((part.function_call.name, part.function_call.args))
                elif part.thought:
                    thought += part.text or ""
                else:
                    text += part.text or ""
            finish = candidate.finish_reason or finish
        usage = chunk.usage_metadata or usage
    finish = {"STOP": "tool_calls" if calls else "stop", "MAX_TOKENS": "length", "SAFETY": "content_filter"}[finish.value]
    counted = usage and (usage.prompt_token_count, (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0))
    return Said(text, thought, calls, finish, counted)


class Clients:
    def __init__(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        self.openai = openai.OpenAI(base_url=url + "/v1", api_key="x", max_retries=0)
        self.anthropic = anthropic.Anthropic(base_url=url, api_key="x", max_retries=0)
        self.gemini = genai.Client(api_key="x", http_options=types.HttpOptions(
            base_url=url, retry_options=types.HttpRetryOptions(attempts=1)))

    def whole(self, dialect, body, status=200):
        Upstream.content_type, Upstream.answer, Upstream.status = "application/json", body, status
        if dialect == "openai-chat":
            answer = self.openai.chat.completions.create(model="m", messages=[])
            type(answer).model_validate(json.loads(body))
            return from_chat(answer)
        if dialect == "openai-responses":
            answer = self.openai.responses.create(model="m", input="x")
            type(answer).model_validate(json.loads(body))
            return from_response(answer)
        if dialect == "anthropic":
            answer = self.anthropic.messages.create(model="m", max_tokens=9, messages=[])
            type(answer).model_validate(json.loads(body))
            return from_message(answer)
        return from_gemini([self.gemini.models.generate_content(model="m", contents="x")])

    def stream(self, dialect, body):
        Upstream.content_type, Upstream.answer, Upstream.status = "text/event-stream", body, 200
        if dialect == "openai-chat":
            with self.openai.chat.completions.stream(
                    model="m", messages=[], stream_options={"include_usage": True}) as events:
                # Its last step raises an error for answers that were cut by a limit or filter, which these may be.
                try:
                    for event in events:
                        if event.type == "chunk":
                            type(event.chunk).model_validate(event.chunk.model_dump())
                except (openai.LengthFinishReasonError, openai.ContentFilterFinishReasonError):
                    pass
                return from_chat(events.current_completion_snapshot)
        if dialect == "openai-responses":
            with self.openai.responses.stream(model="m", input="x") as events:
                # Its `get_final_response` knows of complete responses only.
                last = [event for event in events][-1]
                assert last.type in ("response.completed", "response.incomplete"), last.type
                return from_response(last.response)
        if dialect == "anthropic":
            with self.anthropic.messages.stream(model="m", max_tokens=9, messages=[]) as events:
                return from_message(events.get_final_message())
        return from_gemini(self.gemini.models.generate_content_stream(model="m", contents="x"))


def check_requests(program, failed):
    records = json.loads((FIXTURES / "sdk_requests.json").read_text())
    for record in records:
        for to in DIALECTS:
            if to == record["dialect"]:
                continue
            place = f"request {record['dialect']} to {to}: {record['name']}"
            code, body, notes = translate(program, record["dialect"], to, "request", "m", body=json.dumps(record["body"]).encode())
            refused = record["name"] in REFUSED[to]
            if code != 0:
                if not refused:
                    failed.append(f"{place}: {notes}")
                continue
            try:
                request_is_valid(to, json.loads(body))
            except Exception as error:
                failed.append(f"{place}: {str(error)[:400]}\n    {body.decode()[:600]}")
    return len(records)


def check_answers(program, clients, failed):
    count = 0
    records = json.loads((FIXTURES / "sdk_answers.json").read_text())
    for record in records:
        source, stream = record["dialect"], record["stream"]
        body = record["body"].encode()
        read = clients.stream if stream else clients.whole
        said = read(source, body)
        for to in DIALECTS:
            kind = "stream" if stream else "answer"
            place = f"{kind} {source} to {to}: {record['name']}"
            code, out, notes = translate(program, source, to, kind, body=body)
            try:
                assert code == 0, notes
                found = read(to, out)
                for name in Said._fields:
                    before, after = getattr(said, name), getattr(found, name)
                    if name == "thought" and not after:
                        assert source == to or not before, f"{name}: {before!r} is lost"
                    else:
                        assert before == after, f"{name}: {before!r} became {after!r}"
            except Exception as error:
                failed.append(f"{place}: {type(error).__name__}: {str(error)[:400]}\n    {out.decode()[:900]}")
            count += 1
            if stream:
                check_cut(program, clients, source, to, body, place, failed)
    return count


def check_cut(program, clients, source, to, body, place, failed):
    """A stream that is cut in its middle must be an error to every client."""
    cut = body[: len(body) // 2]
    _, out, notes = translate(program, source, to, "stream", body=cut)
    if "Cut" not in notes:
        failed.append(f"{place}, cut: the ending is {notes.strip()}")
        return
    try:
        said = clients.stream(to, out)
    except (openai.APIError, anthropic.APIError, genai.errors.APIError):
        return
    except Exception as error:
        failed.append(f"{place}, cut: {type(error).__name__}: {error}")
        return
    failed.append(f"{place}, cut: the client read it as a success: {said}")


ERRORS = [
    ("anthropic", 529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
    ("anthropic", 400, {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long"}}),
    ("openai-chat", 429, {"error": {"message": "Slow down", "type": "requests", "param": None, "code": "rate_limit_exceeded"}}),
    ("openai-chat", 401, {"error": {"message": "Bad key", "type": "invalid_request_error", "param": None, "code": "invalid_api_key"}}),
    ("gemini", 404, {"error": {"code": 404, "message": "No such model", "status": "NOT_FOUND"}}),
    ("gemini", 503, {"error": {"code": 503, "message": "Try later", "status": "UNAVAILABLE"}}),
]


def check_errors(program, clients, failed):
    for source, status, error in ERRORS:
        for to in DIALECTS:
            place = f"error {status} of {source} to {to}"
            _, out, notes = translate(program, source, to, "error", "m", str(status), body=json.dumps(error).encode())
            try:
                clients.whole(to, out, int(notes))
                failed.append(f"{place}: no error was raised")
            except (openai.APIStatusError, anthropic.APIStatusError, genai.errors.APIError) as raised:
                if error["error"]["message"] not in str(raised):
                    failed.append(f"{place}: {raised}")


def main():
    warnings.simplefilter("ignore")
    program = sys.argv[1]
    clients, failed = Clients(), []
    requests = check_requests(program, failed)
    answers = check_answers(program, clients, failed)
    check_errors(program, clients, failed)
    for failure in failed:
        print("FAIL ", failure)
    print(f"{requests} requests and {answers} answers: {len(failed)} failed" if failed else
          f"{requests} requests into 3 dialects each, {answers} answers and streams, {len(ERRORS) * 4} errors: all passed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
