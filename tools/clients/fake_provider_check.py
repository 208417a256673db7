#!/usr/bin/env python3
"""Reads the fake provider's answers, streams, tool calls and errors with the packages of the providers that it imitates.

    cargo run -p fake_provider --bin fake-provider -- --listen 127.0.0.1:9099 &
    pip install openai==3.51.0 anthropic==2.10.0 google-genai==3.3.0
    python tools/clients/fake_provider_check.py http://127.0.0.1:9099

Prints one line a check and leaves with 1 if any failed. Its script is changed by the checks.
"""

import urllib.request

import anthropic
import openai
from checks import arguments, check, run
from google import genai
from google.genai import types

PROMPT = "What does a mill do?"
ASKED = [{"role": "user", "content": PROMPT}]
# What the provider's own tests hold: a token is four characters of a prompt; an answer has 16 tokens.
USAGE = (5, 16)


class Server:
    def __init__(self, url):
        self.url = url
        self.openai = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
        self.anthropic = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)
        self.gemini = genai.Client(api_key="none", http_options={"base_url": url})

    def script(self, text):
        request = urllib.request.Request(f"{self.url}/_fake/script", text.encode(), method="PUT")
        urllib.request.urlopen(request).read()


@check
def texts_and_usage_are_equal(server):
    server.script("")
    texts, usages = {}, {}
    ask, messages, gemini = server.openai, server.anthropic.messages, server.gemini.models

    answer = ask.chat.completions.create(model="m", messages=ASKED)
    texts["chat"], usages["chat"] = answer.choices[0].message.content, answer.usage
    options = {"include_usage": True}
    chunks = list(ask.chat.completions.create(model="m", messages=ASKED, stream=True, stream_options=options))
    texts["chat stream"] = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    usages["chat stream"] = chunks[-1].usage
    texts["completion"] = ask.completions.create(model="m", prompt=PROMPT).choices[0].text
    chunks = ask.completions.create(model="m", prompt=PROMPT, stream=True)
    texts["completion stream"] = "".join(c.choices[0].text for c in chunks if c.choices)

    answer = ask.responses.create(model="m", input=PROMPT)
    texts["responses"], usages["responses"] = answer.output_text, answer.usage
    with ask.responses.stream(model="m", input=PROMPT) as stream:
        stream.until_done()
        answer = stream.get_final_response()
    texts["responses stream"], usages["responses stream"] = answer.output_text, answer.usage

    answer = messages.create(model="m", max_tokens=100, messages=ASKED)
    texts["messages"], usages["messages"] = answer.content[0].text, answer.usage
    with messages.stream(model="m", max_tokens=100, messages=ASKED) as stream:
        texts["messages stream"] = "".join(stream.text_stream)
        usages["messages stream"] = stream.get_final_message().usage

    answer = gemini.generate_content(model="m", contents=PROMPT)
    texts["gemini"], counted = answer.text, answer.usage_metadata
    texts["gemini stream"] = "".join(c.text or "" for c in gemini.generate_content_stream(model="m", contents=PROMPT))

    assert len(set(texts.values())) == 1, texts
    for name, usage in usages.items():
        prompt = usage.prompt_tokens if hasattr(usage, "prompt_tokens") else usage.input_tokens
        output = usage.completion_tokens if hasattr(usage, "completion_tokens") else usage.output_tokens
        assert (prompt, output) == USAGE, (name, usage)
    assert (counted.prompt_token_count, counted.candidates_token_count) == USAGE, counted
    return f"{len(texts)} ways"


@check
def embeddings_are_read(server):
    server.script("")
    rows = server.openai.embeddings.create(model="m", input=["a", "b"]).data
    assert [len(row.embedding) for row in rows] == [8, 8], rows


@check
def errors_are_those_of_the_packages(server):
    server.script('[[fault]]\nkind = "rate_limited"\nretry_after = "3"')
    for error, call in (
        (openai.RateLimitError, lambda: server.openai.chat.completions.create(model="m", messages=ASKED)),
        (anthropic.RateLimitError, lambda: server.anthropic.messages.create(model="m", max_tokens=9, messages=ASKED)),
    ):
        try:
            call()
        except error as raised:
            assert raised.response.headers["retry-after"] == "3"
        else:
            raise AssertionError(f"no {error.__name__}")
    try:
        server.gemini.models.generate_content(model="m", contents=PROMPT)
    except genai.errors.ClientError as raised:
        assert (raised.code, raised.status) == (429, "RESOURCE_EXHAUSTED"), raised
    else:
        raise AssertionError("no ClientError")
    server.script('[[fault]]\nkind = "error_event"\nafter_tokens = 3')
    try:
        list(server.openai.chat.completions.create(model="m", messages=ASKED, stream=True))
    except openai.APIError:
        pass
    else:
        raise AssertionError("an error event was no error")


@check
def tools_are_called(server):
    server.script('reply = { tool = { name = "weather", arguments = "{\\"city\\": \\"Ulm\\"}" } }')
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    tools = [{"type": "function", "function": {"name": "weather", "parameters": schema}}]
    with server.openai.chat.completions.stream(model="m", messages=ASKED, tools=tools) as stream:
        choice = stream.until_done().get_final_completion().choices[0]
    assert choice.finish_reason == "tool_calls", choice
    assert choice.message.tool_calls[0].function.arguments == '{"city": "Ulm"}', choice
    tools = [{"type": "function", "name": "weather", "parameters": schema}]
    with server.openai.responses.stream(model="m", input=PROMPT, tools=tools) as stream:
        item = stream.until_done().get_final_response().output[0]
    assert (item.type, item.arguments) == ("function_call", '{"city": "Ulm"}'), item
    tools = [{"name": "weather", "input_schema": schema}]
    with server.anthropic.messages.stream(model="m", max_tokens=99, messages=ASKED, tools=tools) as stream:
        message = stream.get_final_message()
    assert (message.stop_reason, message.content[0].input) == ("tool_use", {"city": "Ulm"}), message
    declared = types.Tool(function_declarations=[types.FunctionDeclaration(name="weather")])
    by_hand = types.AutomaticFunctionCallingConfig(disable=True)
    config = types.GenerateContentConfig(tools=[declared], automatic_function_calling=by_hand)
    call = server.gemini.models.generate_content(model="m", contents=PROMPT, config=config).function_calls[0]
    assert (call.name, call.args) == ("weather", {"city": "Ulm"}), call


if __name__ == "__main__":
    run(Server(arguments(__doc__).parse_args().url))
