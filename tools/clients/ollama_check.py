#!/usr/bin/env python3
"""Exercises a running server through the `ollama` package.

    gristmill serve MODEL --port 8080 &
    pip install -r tools/clients/requirements.txt
    python tools/clients/ollama_check.py http://127.0.0.1:8080 [--api-key KEY]

Prints one line a check and leaves with 1 if any failed. Nothing here depends on a model.
"""

import asyncio
import json

import ollama
from checks import arguments, check, run

ASKED = [{"role": "user", "content": "What is the capital of France? Answer in one sentence."}]
GREEDY = {"temperature": 0, "num_predict": 32}
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 12}},
    "required": ["city"],
    "additionalProperties": False,
}


def weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: the city's name

    Returns:
        str: the weather
    """
    return f"sunny in {city}"


class Server:
    def __init__(self, url, key):
        self.url = url
        self.headers = {"authorization": f"Bearer {key}"} if key else {}
        self.client = ollama.Client(host=url, headers=self.headers, timeout=300)
        self.model = self.client.list().models[0].model

    def chat(self, **extra):
        return self.client.chat(**(dict(model=self.model, messages=ASKED, options=GREEDY) | extra))

    def generate(self, **extra):
        return self.client.generate(**(dict(model=self.model, prompt="A grist mill is", options=GREEDY) | extra))


def refused(status, word, call):
    try:
        call()
    except ollama.ResponseError as error:
        assert error.status_code == status and word in error.error, (error.status_code, error.error)
        return error.error
    raise AssertionError(f"no error about {word}")


@check
def models_are_listed_and_shown(s):
    listed = s.client.list().models
    assert listed and all(m.model and ":" in m.model and m.size and len(m.digest) == 64 for m in listed), listed
    shown = s.client.show(s.model)
    family = shown.modelinfo["general.architecture"]
    assert shown.modelinfo[f"{family}.context_length"] > 0 and "completion" in shown.capabilities
    assert shown.details.parameter_size and shown.details.quantization_level, shown.details
    running = s.client.ps().models
    assert running[0].model in [m.model for m in listed] and running[0].context_length > 0
    return f"{s.model}: {family}, {shown.details.parameter_size}, {shown.details.quantization_level}, {shown.capabilities}"


@check
def a_chat(s):
    said = s.chat()
    assert said.done and said.done_reason in ("stop", "length") and said.message.role == "assistant"
    assert said.message.content and 0 < said.eval_count <= 32 and said.prompt_eval_count > 5
    assert 0 < said.eval_duration <= said.total_duration and said.prompt_eval_duration > 0
    return said.message.content[:60]


@check
def a_stream_adds_up(s):
    whole = s.chat()
    parts = list(s.chat(stream=True))
    assert "".join(p.message.content for p in parts) == whole.message.content
    assert [p.done for p in parts] == [False] * (len(parts) - 1) + [True] and len(parts) > 3
    assert parts[-1].eval_count == whole.eval_count
    return f"{len(parts)} parts"


@check
def the_asynchronous_client(s):
    async def both():
        client = ollama.AsyncClient(host=s.url, headers=s.headers, timeout=300)
        ask = dict(model=s.model, messages=ASKED, options=GREEDY)
        said = (await client.chat(**ask)).message.content
        stream = await client.chat(stream=True, **ask)
        return said, "".join([part.message.content async for part in stream])

    whole, streamed = asyncio.run(both())
    assert whole and whole == streamed


@check
def a_prompt_with_a_template_and_raw(s):
    templated, raw = s.generate(system="Be brief."), s.generate(raw=True)
    assert templated.response and raw.response and templated.prompt_eval_count > raw.prompt_eval_count
    streamed = "".join(part.response for part in s.generate(raw=True, stream=True))
    assert streamed == raw.response and raw.context is None
    return raw.response[:60]


@check
def options_are_honoured(s):
    free = s.chat().message.content
    word = free.split()[2]
    assert word not in s.chat(options=GREEDY | {"stop": [word]}).message.content
    assert s.chat(options=GREEDY | {"num_predict": 3}).eval_count == 3
    drawn = GREEDY | {"temperature": 1.5, "seed": 7}
    assert s.chat(options=drawn).message.content == s.chat(options=drawn).message.content
    harmless = ollama.Options(temperature=0, num_predict=32, num_ctx=512, num_gpu=0, num_thread=2, top_k=40)
    assert s.chat(options=harmless).message.content == free


@check
def a_form_is_held(s):
    said = s.chat(format=SCHEMA, options=GREEDY | {"num_predict": 100}).message.content
    assert list(json.loads(said)) == ["city"], said
    streamed = "".join(p.response for p in s.generate(format=SCHEMA, stream=True, options=GREEDY | {"num_predict": 100}))
    assert list(json.loads(streamed)) == ["city"], streamed
    return said


@check
def tools_are_offered_and_answered(s):
    answer = s.chat(tools=[weather], options=GREEDY | {"num_predict": 60})
    for call in answer.message.tool_calls or []:
        assert call.function.name == "weather" and isinstance(call.function.arguments, dict)
    call = {"function": {"name": "weather", "arguments": {"city": "Paris"}}}
    turns = ASKED + [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_name": "weather", "content": weather("Paris")},
    ]
    assert s.chat(messages=turns, tools=[weather]).done
    return f"{len(answer.message.tool_calls or [])} calls"


@check
def log_probabilities(s):
    said = s.chat(logprobs=True, top_logprobs=2)
    assert len(said.logprobs) in (said.eval_count, said.eval_count - 1)
    assert "".join(entry.token for entry in said.logprobs) == said.message.content
    assert all(len(entry.top_logprobs) == 2 and entry.logprob <= 0 for entry in said.logprobs)


@check
def a_model_is_kept_loaded(s):
    for keep_alive in ("5m", 60, -1, "1h30m"):
        assert s.generate(prompt="", keep_alive=keep_alive).done_reason == "load"
    assert s.chat(messages=[]).done_reason == "load"
    assert s.chat(keep_alive="10m").message.content


@check
def what_is_not_here_says_so(s):
    refused(404, "nobody", lambda: s.chat(model="nobody"))
    refused(404, "nobody", lambda: next(iter(s.chat(model="nobody", stream=True))))
    refused(400, "temperature", lambda: s.chat(options={"temperature": 9}))
    refused(400, "suffix", lambda: s.generate(suffix="."))
    refused(400, "images", lambda: s.chat(messages=[ASKED[0] | {"images": ["aGk="]}]))
    refused(400, "context", lambda: s.generate(prompt="a " * 100_000))
    refused(400, "model", lambda: s.client.embed(model=s.model, input="a"))
    refused(404, "gristmill rm", lambda: s.client.delete(s.model))
    return refused(404, "gristmill pull", lambda: s.client.pull("llama3"))


args = arguments().parse_args()
run(Server(args.url, args.api_key))
