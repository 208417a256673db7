#!/usr/bin/env python3
"""Exercises a running server through `litellm`, which translates for many applications.

    python tools/clients/litellm_check.py http://127.0.0.1:8080 [--api-key KEY]

Prints one line a check and leaves with 1 if any failed.
"""

import json
import os

# Its table of prices is not asked for over the network.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm  # noqa: E402
import openai  # noqa: E402
from checks import arguments, check, run  # noqa: E402

litellm.telemetry = False
litellm.suppress_debug_info = True
ASKED = [{"role": "user", "content": "What is the capital of France? Answer in one sentence."}]
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}}, "required": ["city"]},
    },
}


class Server:
    def __init__(self, url, key):
        self.base, self.key = f"{url.rstrip('/')}/v1", key or "none"
        self.model = openai.OpenAI(base_url=self.base, api_key=self.key).models.list().data[0].id

    def common(self, **extra):
        body = dict(api_base=self.base, api_key=self.key, max_tokens=24, temperature=0, num_retries=0, timeout=300)
        return body | extra

    def chat(self, **extra):
        # With tools it would look for a gateway's first, by a package that it does not bring along.
        extra.setdefault("_skip_mcp_handler", True)
        return litellm.completion(**self.common(model=f"openai/{self.model}", messages=ASKED) | extra)

    def complete(self, **extra):
        extra = dict(model=f"text-completion-openai/{self.model}", prompt="The capital of France is") | extra
        return litellm.text_completion(**self.common(**extra))

    def anthropic(self, **extra):
        extra = dict(model=f"anthropic/{self.model}", messages=ASKED, api_base=self.base.removesuffix("/v1")) | extra
        return litellm.completion(**self.common() | extra)


def refused(kind, word, call):
    try:
        call()
    except kind as error:
        assert word in str(error), error
        return
    raise AssertionError(f"no {kind.__name__} about {word}")


@check
def a_chat_streamed_is_the_same(s):
    plain = s.chat()
    said = plain.choices[0].message.content
    stream = s.chat(stream=True, stream_options={"include_usage": True})
    chunks = list(stream)
    assert said and said == "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert chunks[-1].usage.completion_tokens == plain.usage.completion_tokens
    return said


@check
def several_answers_with_logprobs(s):
    answer = s.chat(n=2, temperature=1, seed=4, logprobs=True, top_logprobs=3)
    assert len(answer.choices) == 2
    assert len(answer.choices[0].logprobs.content[0].top_logprobs) == 3


@check
def a_form_is_held(s):
    schema = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}}, "required": ["city"],
              "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "city", "strict": True, "schema": schema}}
    said = json.loads(s.chat(response_format=form, max_tokens=100).choices[0].message.content)
    assert list(said) == ["city"], said
    return said


@check
def a_tool_is_called_and_answered(s):
    answer = s.chat(tools=[TOOL], tool_choice="required", max_tokens=100)
    message = answer.choices[0].message
    call = message.tool_calls[0]
    assert answer.choices[0].finish_reason == "tool_calls" and call.function.name == "weather"
    assert "city" in json.loads(call.function.arguments)
    result = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
    after = s.chat(messages=ASKED + [message.model_dump(exclude_none=True), result], tools=[TOOL])
    assert after.choices[0].finish_reason in ("stop", "length", "tool_calls")
    return call.function.arguments


@check
def anthropics_way_in(s):
    assert s.anthropic().choices[0].message.content
    said = "".join(c.choices[0].delta.content or "" for c in s.anthropic(stream=True) if c.choices)
    assert said == s.anthropic().choices[0].message.content


@check
def completions_and_the_best_of_them(s):
    assert s.complete().choices[0].text
    best = s.complete(best_of=3, n=1, temperature=1, seed=2, max_tokens=6)
    assert len(best.choices) == 1 and best.usage.completion_tokens <= 18 and best.usage.completion_tokens > 6, best.usage
    refused(litellm.BadRequestError, "suffix", lambda: s.complete(suffix="."))


@check
def the_extras_of_other_servers(s):
    extra = lambda **fields: s.chat(extra_body=fields)
    assert extra(min_tokens=20, ignore_eos=False).usage.completion_tokens >= 20
    free = extra().choices[0].message.content
    assert "Paris" not in extra(bad_words=["Paris"]).choices[0].message.content
    assert extra(top_n_sigma=1.0, dynatemp_range=0.3).choices[0].message.content == free
    assert extra(mirostat=2, mirostat_tau=4).choices[0].message.content == free
    stop = free.split()[2]
    kept = extra(stop=[stop], include_stop_str_in_output=True)
    assert kept.choices[0].message.content.endswith(stop), kept
    assert free.startswith(extra(top_k=5, min_p=0.1, repetition_penalty=1.0).choices[0].message.content[:1])


@check
def faults_have_their_classes(s):
    refused(litellm.BadRequestError, "temperature", lambda: s.chat(temperature=9))
    refused(litellm.NotFoundError, "nobody", lambda: s.chat(model="openai/nobody"))
    refused(litellm.BadRequestError, "context", lambda: s.complete(prompt=[1] * 100_000))
    # The request's own time, not the client's.
    slow = lambda: s.chat(max_tokens=4000, extra_body={"timeout": 0.05, "ignore_eos": True})
    refused((litellm.Timeout, litellm.APIError), "time limit", slow)


args = arguments().parse_args()
run(Server(args.url, args.api_key))
