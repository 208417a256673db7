#!/usr/bin/env python3
"""Exercises a running server through the `anthropic` package.

    gristmill serve MODEL --port 8080 &
    pip install -r tools/clients/requirements.txt
    python tools/clients/anthropic_check.py http://127.0.0.1:8080 [--api-key KEY]

Prints one line a check and leaves with 1 if any failed. Nothing here depends on a model.
"""

import anthropic
from checks import arguments, check, run

ASKED = [{"role": "user", "content": "What is the capital of France? Answer in one sentence."}]
# The package has no argument for it any more.
GREEDY = {"temperature": 0}
TOOL = {
    "name": "weather",
    "description": "The weather at a place.",
    "input_schema": {
        "type": "object",
        "properties": {"place": {"type": "string", "maxLength": 40}},
        "required": ["place"],
        "additionalProperties": False,
    },
}


class Server:
    def __init__(self, url, key):
        self.client = anthropic.Anthropic(base_url=url, api_key=key or "none", max_retries=0, timeout=300)
        self.model = self.client.models.list().data[0].id

    def ask(self, **extra):
        body = dict(model=self.model, max_tokens=32, messages=ASKED, extra_body=GREEDY) | extra
        return self.client.messages.create(**body)


@check
def a_message(s):
    said = s.ask()
    assert (said.type, said.role, said.model) == ("message", "assistant", s.model)
    assert said.stop_reason in ("end_turn", "max_tokens") and said.content[0].text
    return said.content[0].text[:60]


@check
def a_stream_adds_up(s):
    whole = s.ask()
    with s.client.messages.stream(model=s.model, max_tokens=32, messages=ASKED, extra_body=GREEDY) as stream:
        text = "".join(stream.text_stream)
        last = stream.get_final_message()
    assert text == whole.content[0].text == last.content[0].text, (text, whole.content)
    assert last.usage.output_tokens == whole.usage.output_tokens
    return f"{last.usage.output_tokens} tokens"


@check
def tokens_are_counted(s):
    said = s.ask(system="Be brief.")
    counted = s.client.messages.count_tokens(model=s.model, messages=ASKED, system="Be brief.").input_tokens
    assert counted == said.usage.input_tokens + said.usage.cache_read_input_tokens, (counted, said.usage)
    return counted


@check
def what_is_cached_is_told(s):
    system = "You know all about mills, rivers, bread and the people who live by them. " * 12
    first, second = s.ask(system=system), s.ask(system=system)
    assert second.usage.cache_read_input_tokens > 100 > first.usage.cache_read_input_tokens, (first.usage, second.usage)
    assert first.content == second.content
    return second.usage.cache_read_input_tokens


@check
def a_tool_that_must_be_called_is(s):
    choice = {"type": "tool", "name": "weather"}
    try:
        said = s.ask(tools=[TOOL], tool_choice=choice, max_tokens=100)
    except anthropic.BadRequestError as error:
        # A template without tools says so.
        assert "tool" in str(error), error
        return "refused: the model's template has no tools"
    call = said.content[-1]
    assert (call.type, call.name, said.stop_reason) == ("tool_use", "weather", "tool_use"), said
    assert isinstance(call.input["place"], str)
    turns = ASKED + [
        {"role": "assistant", "content": [block.model_dump() for block in said.content]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}]},
    ]
    assert s.ask(messages=turns, tools=[TOOL]).content
    return call.input


@check
def the_stop_sequence_is_told(s):
    free = s.ask().content[0].text
    stop = free[len(free) // 2 :][:4]
    cut = s.ask(stop_sequences=["never said", stop])
    assert (cut.stop_reason, cut.stop_sequence) == ("stop_sequence", stop), cut
    assert cut.content[0].text == free[: free.index(stop)], cut
    return stop


@check
def a_begun_answer_goes_on(s):
    begun = ASKED + [{"role": "assistant", "content": "The capital of France is the city of"}]
    said = s.ask(messages=begun).content[0].text
    assert said and not said.startswith("The capital"), said
    return said[:60]


@check
def faults_have_their_classes(s):
    for wrong, kind in [
        (dict(max_tokens=0), anthropic.BadRequestError),
        (dict(model="nobody"), anthropic.NotFoundError),
        (dict(messages=[{"role": "tool", "content": "x"}]), anthropic.BadRequestError),
        (dict(messages=[{"role": "user", "content": [{"type": "image", "source": {}}]}]), anthropic.BadRequestError),
    ]:
        try:
            s.ask(**wrong)
        except kind as error:
            assert error.body["type"] == "error", error.body
        else:
            raise AssertionError(f"{wrong} was answered")


args = arguments().parse_args()
run(Server(args.url, args.api_key))
