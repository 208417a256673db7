#!/usr/bin/env python3
"""Exercises a running server through the `openai` package, the way its users will.

    gristmill serve MODEL --port 8080 &
    pip install -r tools/clients/requirements.txt
    python tools/clients/openai_check.py http://127.0.0.1:8080 [--api-key KEY] [--model NAME]

Prints one line a check and leaves with 1 if any failed. Answers are checked for being well-formed, equal where they
must be equal and (with --sensible WORD) for saying what the model is able to know; nothing here depends on a model.
"""

import asyncio
import json
import math
import time
import urllib.error
import urllib.request

import openai
from checks import arguments, check, run
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parse_prometheus

PROMPT = [{"role": "user", "content": "What is the capital of France? Answer in one sentence."}]


class Server:
    def __init__(self, url, key, model):
        self.url, self.key = url.rstrip("/"), key
        self.client = openai.OpenAI(base_url=f"{self.url}/v1", api_key=key or "none", max_retries=0, timeout=300)
        self.model = model or self.client.models.list().data[0].id

    def chat(self, **extra):
        body = dict(model=self.model, messages=PROMPT, max_tokens=32, temperature=0) | extra
        return self.client.chat.completions.create(**body)

    def complete(self, **extra):
        body = dict(model=self.model, prompt="The capital of France is", max_tokens=16, temperature=0) | extra
        return self.client.completions.create(**body)

    def raw(self, path, data=None, headers=()):
        """Status, headers and text of a plain request."""
        sent = dict(headers)
        if self.key:
            sent.setdefault("authorization", f"Bearer {self.key}")
        request = urllib.request.Request(self.url + path, data=data, headers=sent)
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                return answer.status, answer.headers, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read().decode()


def text_of(stream):
    return "".join(c.choices[0].delta.content or "" for c in stream if c.choices)


def fails(kind, code, param, call):
    try:
        call()
    except kind as error:
        assert (error.code, error.param) == (code, param), (error.code, error.param, error.body)
        return error
    raise AssertionError(f"no {kind.__name__} with {code}")


@check
def models_are_listed(s):
    card = s.client.models.list().data[0]
    assert card.object == "model" and card.created > 1_600_000_000
    assert s.client.models.retrieve(card.id).id == card.id
    assert card.max_model_len >= 512, card
    return f"{card.id}, context {card.max_model_len}"


@check
def chat_plain(s):
    answer = s.chat()
    choice = answer.choices[0]
    assert answer.object == "chat.completion" and choice.message.role == "assistant"
    assert choice.message.content.strip(), "an empty answer"
    assert choice.finish_reason in ("stop", "length")
    assert answer.usage.prompt_tokens > 0 and 0 < answer.usage.completion_tokens <= 32
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    if s.sensible:
        assert s.sensible.lower() in choice.message.content.lower(), choice.message.content
    return repr(choice.message.content)


@check
def chat_stream_equals_plain(s):
    plain = s.chat()
    began, first, chunks = time.monotonic(), None, []
    for chunk in s.chat(stream=True, stream_options={"include_usage": True}):
        first = first or time.monotonic() - began
        chunks.append(chunk)
    assert text_of(chunks) == plain.choices[0].message.content
    assert chunks[0].choices[0].delta.role == "assistant"
    ends = [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason]
    assert ends == [plain.choices[0].finish_reason]
    assert chunks[-1].choices == [] and chunks[-1].usage == plain.usage
    assert len({c.id for c in chunks}) == 1
    return f"{len(chunks)} chunks, the first after {first * 1000:.0f} ms"


@check
def the_stream_helper_works(s):
    with s.client.chat.completions.stream(model=s.model, messages=PROMPT, max_tokens=16, temperature=0) as stream:
        for _ in stream:
            pass
        final = stream.get_final_completion()
    assert final.choices[0].message.content


@check
def multi_turn_with_system(s):
    messages = [
        {"role": "system", "content": "You answer briefly."},
        {"role": "user", "content": [{"type": "text", "text": "My name is Ada."}]},
        {"role": "assistant", "content": "Hello Ada."},
        {"role": "user", "content": "What is my name?"},
    ]
    answer = s.chat(messages=messages)
    assert answer.choices[0].message.content.strip()
    developer = [dict(messages[0], role="developer")] + messages[1:]
    assert s.chat(messages=developer).usage.prompt_tokens == answer.usage.prompt_tokens
    return repr(answer.choices[0].message.content)


@check
def stop_strings(s):
    free = s.chat().choices[0].message.content
    stop = free[len(free) // 2 :][:4]
    cut = s.chat(stop=[stop, "never said"])
    assert cut.choices[0].message.content == free[: free.index(stop)], (free, stop, cut)
    assert cut.choices[0].finish_reason == "stop" and cut.choices[0].stop_reason == stop
    assert text_of(s.chat(stop=stop, stream=True)) == cut.choices[0].message.content


@check
def logprobs_chat(s):
    answer = s.chat(logprobs=True, top_logprobs=5)
    records = answer.choices[0].logprobs.content
    joined = b"".join(bytes(r.bytes) for r in records).decode(errors="replace")
    assert joined.strip() == answer.choices[0].message.content.strip(), (joined, answer.choices[0].message.content)
    for record in records:
        assert len(record.top_logprobs) == 5
        assert record.logprob == record.top_logprobs[0].logprob, "greedy takes the likeliest"
        assert sum(math.exp(t.logprob) for t in record.top_logprobs) <= 1 + 1e-3
    streamed = [r for c in s.chat(logprobs=True, top_logprobs=5, stream=True) if c.choices
                and c.choices[0].logprobs for r in c.choices[0].logprobs.content]
    assert streamed == records
    return f"{len(records)} tokens"


@check
def completions(s):
    plain = s.complete()
    assert plain.object == "text_completion" and plain.choices[0].text
    streamed = "".join(c.choices[0].text for c in s.complete(stream=True) if c.choices)
    assert streamed == plain.choices[0].text
    echoed = s.complete(echo=True).choices[0].text
    assert echoed == "The capital of France is" + plain.choices[0].text
    scored = s.complete(logprobs=2).choices[0].logprobs
    assert len(scored.tokens) == len(scored.token_logprobs) == len(scored.top_logprobs) == len(scored.text_offset)
    assert scored.text_offset[0] == 0 and all(len(t) == 2 for t in scored.top_logprobs)
    two = s.complete(prompt=["The capital of France is", "One two three"], n=2, seed=1)
    assert [c.index for c in two.choices] == [0, 1, 2, 3]
    assert two.choices[0].text == two.choices[1].text == plain.choices[0].text, "greedy answers are equal"
    return repr(plain.choices[0].text)


@check
def log_probabilities_of_the_prompt(s):
    """In both forms, which must agree with each other and with what a request is told of an answer: a prompt that is said
    again as a prompt has the log-probabilities that it had as an answer."""
    said = s.complete(logprobs=1, max_tokens=8, extra_body={"ignore_eos": True, "return_token_ids": True}).choices[0]
    tokens = said.prompt_token_ids + said.token_ids
    asked = {"extra_body": {"prompt_logprobs": 2, "return_token_ids": True}, "prompt": [tokens]}
    both = s.complete(echo=True, logprobs=1, max_tokens=0, **asked)
    choice = both.choices[0]
    echoed, ranked = choice.logprobs, choice.prompt_logprobs
    assert both.usage.completion_tokens == 0 and choice.finish_reason == "length"
    assert len(echoed.tokens) == len(echoed.text_offset) == len(ranked) == len(tokens)
    assert echoed.token_logprobs[0] is None and echoed.top_logprobs[0] is None and ranked[0] is None
    answer = len(said.token_ids)
    assert echoed.token_logprobs[-answer:] == said.logprobs.token_logprobs
    for token, logprob, entry in zip(tokens[1:], echoed.token_logprobs[1:], ranked[1:]):
        own = entry[str(token)]
        assert own["logprob"] == logprob and own["rank"] >= 1 and "decoded_token" in own
        ranks = sorted(e["rank"] for e in entry.values())
        assert ranks[:2] == [1, 2] and len(entry) in (2, 3), entry
    streamed = [c.choices[0] for c in s.complete(echo=True, logprobs=1, max_tokens=4, stream=True, prompt=[tokens])]
    assert streamed[0].logprobs.token_logprobs == echoed.token_logprobs
    again = s.complete(echo=True, logprobs=1, max_tokens=4, prompt=[tokens]).choices[0].logprobs.token_logprobs
    assert [l for c in streamed if c.logprobs for l in c.logprobs.token_logprobs] == again
    chat = s.chat(max_tokens=1, extra_body={"prompt_logprobs": 0})
    assert len(chat.prompt_logprobs) == chat.usage.prompt_tokens and chat.prompt_logprobs[0] is None
    fails(openai.BadRequestError, "invalid_value", "prompt_logprobs",
          lambda: s.chat(stream=True, extra_body={"prompt_logprobs": 1}))
    return f"{len(tokens)} tokens, {sum(echoed.token_logprobs[1:]):.2f} in all"


@check
def seeds(s):
    """Seeds decide the draws. A confident model may answer a question in one way whatever is drawn, so the distribution
    is flattened: temperature 2 and no token left out, of which 32 draws are as good as never equal."""
    flat = {"top_k": 0, "min_p": 0.0, "typical_p": 1.0, "ignore_eos": True}

    def texts(ask, seed, n=1):
        choices = ask(temperature=2, top_p=1, max_tokens=32, seed=seed, n=n, extra_body=flat).choices
        return [c.message.content if ask == s.chat else c.text for c in choices]

    for ask in (s.chat, s.complete):
        first = texts(ask, 7, n=3)
        assert first == texts(ask, 7, n=3), "the same seed, the same answers"
        assert len(set(first)) == 3, f"each answer of a request is drawn: {first}"
        by_seed = [first[0]] + [texts(ask, seed)[0] for seed in (8, 9, 10)]
        assert len(set(by_seed)) == 4, f"another seed, another answer: {by_seed}"


@check
def samplers_are_taken(s):
    extra = {"top_k": 20, "min_p": 0.1, "typical_p": 0.9, "repetition_penalty": 1.1, "repeat_last_n": 32,
             "dry_multiplier": 0.8, "xtc_probability": 0.2, "xtc_threshold": 0.1, "ignore_eos": True}
    answer = s.chat(temperature=0.9, frequency_penalty=0.2, presence_penalty=0.2, max_tokens=12, extra_body=extra)
    assert answer.usage.completion_tokens == 12 and answer.choices[0].finish_reason == "length"


@check
def logit_bias(s):
    free = s.complete(logprobs=1, max_tokens=1)
    ids = s.complete(prompt="The capital of France is", max_tokens=1).choices[0].text
    banned = s.complete(max_tokens=1, logit_bias={str(i): -100 for i in range(1000)}, logprobs=1)
    assert banned.usage.completion_tokens == 1 and free.choices[0].text == ids


SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "languages": {"type": "array", "items": {"enum": ["Rust", "Python", "C"]}, "minItems": 1, "maxItems": 3},
    },
    "required": ["name", "age", "languages"],
    "additionalProperties": False,
}


def fits(value):
    assert list(value) == ["name", "age", "languages"], value
    assert isinstance(value["name"], str) and len(value["name"]) <= 20, value
    assert type(value["age"]) is int and 0 <= value["age"] <= 150, value
    assert 1 <= len(value["languages"]) <= 3 and set(value["languages"]) <= {"Rust", "Python", "C"}, value
    return value


@check
def json_for_a_schema(s):
    ask = [{"role": "user", "content": "Ada is 36 and writes Rust and Python. Give name, age and languages as JSON."}]
    form = {"type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": SCHEMA}}
    for extra in [{}, {"temperature": 1.5, "seed": 1}, {"temperature": 1.5, "seed": 2}]:
        answer = s.chat(messages=ask, response_format=form, max_tokens=200, **extra).choices[0]
        assert answer.finish_reason == "stop", answer
        fits(json.loads(answer.message.content))
    greedy = s.chat(messages=ask, response_format=form, max_tokens=200).choices[0].message.content
    assert text_of(s.chat(messages=ask, response_format=form, max_tokens=200, stream=True)) == greedy
    free = s.chat(messages=ask, response_format={"type": "json_object"}, max_tokens=300, temperature=1, seed=3).choices[0]
    assert free.finish_reason == "length" or isinstance(json.loads(free.message.content), dict)
    return greedy


@check
def the_parse_helper_works(s):
    import pydantic

    class Person(pydantic.BaseModel):
        name: str = pydantic.Field(max_length=30)
        age: int

    answer = s.client.chat.completions.parse(
        model=s.model, messages=PROMPT, response_format=Person, max_tokens=100, temperature=0)
    assert isinstance(answer.choices[0].message.parsed, Person), answer
    return repr(answer.choices[0].message.parsed)


@check
def other_forms(s):
    choice = s.chat(extra_body={"structured_outputs": {"choice": ["Paris", "Rome"]}}).choices[0].message.content
    assert choice in ("Paris", "Rome"), choice
    date = s.complete(max_tokens=40, extra_body={"guided_regex": r"[0-9]{4}-[0-9]{2}-[0-9]{2}"}).choices[0].text
    assert len(date) == 10 and date[4] == date[7] == "-" and date.replace("-", "").isdigit(), date
    lark = s.chat(extra_body={"grammar": 'start: "yes" | "no" "!"{2}'}).choices[0].message.content
    assert lark in ("yes", "no!!"), lark
    gbnf = s.chat(extra_body={"grammar": 'root ::= "(" root ")" | [0-9]{1,3}'}, max_tokens=60).choices[0]
    assert gbnf.finish_reason == "length" or gbnf.message.content.strip("()").isdigit(), gbnf
    bad = openai.BadRequestError
    fails(bad, "invalid_value", "guided_json", lambda: s.chat(extra_body={"guided_json": {"type": "integer", "minimum": 3, "maximum": 1}}))
    fails(bad, "invalid_value", "grammar", lambda: s.chat(extra_body={"grammar": "root ::= missing"}))
    return f"{choice}, {date}, {lark}"


WEATHER = {"type": "function", "function": {
    "name": "weather", "description": "The weather in a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}}, "required": ["city"],
                   "additionalProperties": False}}}
CLOCK = {"type": "function", "function": {
    "name": "clock", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}}
WEATHER_PROMPT = [{"role": "user", "content": "What is the weather in Rome?"}]


@check
def tools_that_may_be_called(s):
    answer = s.chat(messages=WEATHER_PROMPT, tools=[WEATHER], tool_choice="auto", max_tokens=100)
    choice = answer.choices[0]
    if choice.finish_reason == "tool_calls":
        assert choice.message.tool_calls[0].function.name, answer
        return choice.message.tool_calls[0].function.arguments
    return f"no call: {choice.message.content!r}"


@check
def tools_that_must_be_called(s):
    named = {"type": "function", "function": {"name": "weather"}}
    for choice, one in [("required", False), (named, True)]:
        ask = dict(messages=WEATHER_PROMPT, tools=[WEATHER, CLOCK], tool_choice=choice, max_tokens=300, temperature=0.7, seed=5)
        whole = s.chat(**ask).choices[0]
        if whole.finish_reason == "length":
            continue
        assert whole.finish_reason == "tool_calls", whole
        calls = whole.message.tool_calls
        assert len({c.id for c in calls}) == len(calls) and (len(calls) == 1 or not one), calls
        for call in calls:
            arguments = json.loads(call.function.arguments)
            assert list(arguments) == (["city"] if call.function.name == "weather" else []), call
        streamed = {}
        for chunk in s.chat(stream=True, **ask):
            for piece in (chunk.choices[0].delta.tool_calls or []) if chunk.choices else []:
                name, so_far = streamed.get(piece.index, ("", ""))
                streamed[piece.index] = (name or piece.function.name, so_far + (piece.function.arguments or ""))
        assert [streamed[i] for i in sorted(streamed)] == [(c.function.name, c.function.arguments) for c in calls]
    # The result goes back, and an answer comes.
    again = WEATHER_PROMPT + [whole.message.model_dump(exclude_none=True)]
    again += [{"role": "tool", "tool_call_id": c.id, "content": "Sunny, 25 degrees"} for c in calls]
    answer = s.chat(messages=again, tools=[WEATHER, CLOCK]).choices[0].message
    assert answer.content or answer.tool_calls, answer
    return f"{streamed} then {answer.content!r}"


@check
def errors_are_openais(s):
    bad, value = openai.BadRequestError, "invalid_value"
    fails(bad, value, "temperature", lambda: s.chat(temperature=9))
    fails(bad, value, "n", lambda: s.chat(n=99))
    fails(bad, value, "messages", lambda: s.chat(messages=[]))
    fails(bad, value, "messages[0].role", lambda: s.chat(messages=[{"role": "king", "content": "x"}]))
    fails(bad, value, "top_logprobs", lambda: s.chat(logprobs=True, top_logprobs=50))
    fails(bad, "invalid_value", "tool_choice", lambda: s.chat(tool_choice="required"))
    fails(bad, "unsupported_parameter", "suffix", lambda: s.complete(suffix="x"))
    fails(openai.NotFoundError, "model_not_found", "model", lambda: s.chat(model="gpt-9"))
    context = s.client.models.list().data[0].max_model_len
    error = fails(bad, "context_length_exceeded", "prompt", lambda: s.complete(prompt=[1] * (context + 5)))
    assert str(context) in error.message and str(context + 5) in error.message, error.message
    status, headers, text = s.raw("/v1/chat/completions", b'{"messages": [}', {"content-type": "application/json"})
    assert status == 400 and "line 1 column" in json.loads(text)["error"]["message"], text
    assert headers["x-request-id"]
    assert s.raw("/v1/nothing")[0] == 404
    assert s.raw("/v1/chat/completions")[0] == 405
    assert s.raw("/v1/chat/completions", b"{}", {"content-type": "text/plain"})[0] == 415
    assert s.raw("/v1/completions", b" " * (5 << 20), {"content-type": "application/json"})[0] == 413


@check
def eight_at_once_are_each_as_alone(s):
    prompts = [f"Count from {i} to {i + 9}:" for i in range(8)]
    alone = [s.complete(prompt=p, max_tokens=24).choices[0].text for p in prompts]

    async def together():
        client = openai.AsyncOpenAI(base_url=f"{s.url}/v1", api_key=s.key or "none", max_retries=0, timeout=300)
        calls = [client.completions.create(model=s.model, prompt=p, max_tokens=24, temperature=0) for p in prompts]
        return [a.choices[0].text for a in await asyncio.gather(*calls)]

    began = time.monotonic()
    texts = asyncio.run(together())
    assert texts == alone, [(a, b) for a, b in zip(alone, texts) if a != b]
    return f"8 × 24 tokens in {time.monotonic() - began:.1f} s"


@check
def who_leaves_is_cancelled(s):
    def running():
        lines = s.raw("/metrics")[2].splitlines()
        return sum(float(l.rsplit(" ", 1)[1]) for l in lines if l.startswith("vllm:num_requests_running{"))

    stream = s.chat(stream=True, max_tokens=400, extra_body={"ignore_eos": True})
    next(iter(stream))
    assert running() == 1
    stream.close()
    end = time.monotonic() + 5
    while running() and time.monotonic() < end:
        time.sleep(0.02)
    assert running() == 0, "still running"


@check
def metrics_parse(s):
    def families(parser, accept):
        status, headers, text = s.raw("/metrics", headers={"accept": accept})
        assert status == 200
        return {f.name: f for f in parser(text)}, headers["content-type"]

    old, kind = families(parse_prometheus, "text/plain")
    assert kind.startswith("text/plain; version=0.0.4")
    new, kind = families(parse_open_metrics, "application/openmetrics-text")
    assert kind.startswith("application/openmetrics-text")
    for name in ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc",
                 "vllm:time_to_first_token_seconds", "vllm:inter_token_latency_seconds",
                 "vllm:e2e_request_latency_seconds", "vllm:request_time_per_output_token_seconds",
                 "vllm:request_queue_time_seconds", "vllm:request_prefill_time_seconds",
                 "vllm:request_decode_time_seconds", "vllm:request_prompt_tokens", "vllm:request_generation_tokens",
                 "vllm:prompt_tokens", "vllm:generation_tokens", "vllm:request_success", "vllm:num_preemptions"):
        assert name in old, f"{name} is not in the Prometheus text"
        assert name in new, f"{name} is not in the OpenMetrics text"
        assert old[name].type == new[name].type != "unknown", (name, old[name].type, new[name].type)
    return f"{len(old)} families"


@check
def a_response_is_made_kept_and_gone_on_from(s):
    asked = dict(model=s.model, max_output_tokens=32, temperature=0)
    first = s.client.responses.create(input=PROMPT[0]["content"], **asked)
    assert first.output_text == s.chat().choices[0].message.content, first
    assert first.status in ("completed", "incomplete") and first.usage.output_tokens > 0
    assert s.client.responses.retrieve(first.id).output_text == first.output_text
    second = s.client.responses.create(input="And of Spain?", previous_response_id=first.id, **asked)
    assert second.usage.input_tokens > first.usage.input_tokens and second.output_text
    s.client.responses.delete(first.id)
    fails(openai.NotFoundError, "response_not_found", "response_id", lambda: s.client.responses.retrieve(first.id))
    return second.output_text[:40]


@check
def a_streamed_response_adds_up(s):
    asked = dict(model=s.model, max_output_tokens=32, temperature=0, input=PROMPT[0]["content"])
    whole = s.client.responses.create(**asked)
    with s.client.responses.stream(**asked) as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        try:
            last = stream.get_final_response()
        except RuntimeError:
            # The package takes a response that was cut by max_output_tokens for one without an end.
            last = whole
    assert text == whole.output_text == last.output_text, (text, whole.output_text)
    return f"{whole.usage.output_tokens} tokens"


@check
def a_response_in_the_background(s):
    asked = dict(model=s.model, max_output_tokens=400, input="Count to a thousand.", background=True)
    begun = s.client.responses.create(**asked)
    assert begun.status == "in_progress", begun.status
    cancelled = s.client.responses.cancel(begun.id)
    assert cancelled.status in ("cancelled", "completed", "incomplete"), cancelled.status
    begun = s.client.responses.create(**asked | {"max_output_tokens": 4})
    end = time.time() + 60
    while (state := s.client.responses.retrieve(begun.id)).status == "in_progress":
        assert time.time() < end
        time.sleep(0.05)
    assert state.status in ("completed", "incomplete") and state.output_text, state
    return state.status


@check
def a_kept_beginning_is_told(s):
    system = {"role": "system", "content": "You know all about mills, rivers and bread. " * 20}
    first, second = (s.chat(messages=[system] + PROMPT) for _ in range(2))
    assert first.choices[0].message.content == second.choices[0].message.content
    cached = second.usage.prompt_tokens_details.cached_tokens
    assert cached > 100, second.usage
    return f"{cached} of {second.usage.prompt_tokens} tokens"


@check
def text_and_tokens(s):
    post = lambda path, body: json.loads(
        s.raw(path, json.dumps(body).encode(), {"content-type": "application/json"})[2]
    )
    tokens = post("/tokenize", {"prompt": "A grist mill", "add_special_tokens": False})
    assert tokens["count"] == len(tokens["tokens"]) > 0
    assert post("/detokenize", {"tokens": tokens["tokens"]})["prompt"] == "A grist mill"
    prompt = post("/apply-template", {"messages": PROMPT})["prompt"]
    assert PROMPT[0]["content"] in prompt
    counted = post("/tokenize", {"messages": PROMPT})["count"]
    assert counted == s.chat().usage.prompt_tokens, counted
    return f"{counted} tokens"


parser = arguments(__doc__.splitlines()[0])
parser.add_argument("--model")
parser.add_argument("--sensible", metavar="WORD", help="a word the answer about the capital of France must have")
parser.add_argument("--only", default="", help="run the checks whose name has this in it")
options = parser.parse_args()
server = Server(options.url, options.api_key, options.model)
server.sensible = options.sensible
run(server, options.only)
