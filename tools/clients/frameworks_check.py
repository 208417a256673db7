#!/usr/bin/env python3
"""openai-agents, instructor and langchain-openai on a running server: a chat, a call of a tool and an answer of a type with each.

    pip install -r tools/clients/requirements-frameworks.txt
    python tools/clients/frameworks_check.py http://127.0.0.1:8080 [--api-key KEY]

Calls are asked for by `tool_choice`, so little depends on how able the model is: a model of 135M weights may not end an answer within
the limit, which openai-agents takes as an error over the Responses API (`response.incomplete`).
"""

import asyncio

import agents
import instructor
import openai
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, ConfigDict, Field

import checks
from checks import check

QUESTION = "How warm is it in Paris?"


class Report(BaseModel):
    """A report of the weather."""

    # Otherwise the schema allows further properties, and a small model writes them until it is cut.
    model_config = ConfigDict(extra="forbid")
    city: str = Field(max_length=20)
    degrees: int = Field(ge=-50, le=60)


class Server:
    def __init__(self, url, key):
        self.base, self.key = f"{url.rstrip('/')}/v1", key or "none"
        self.model = openai.OpenAI(base_url=self.base, api_key=self.key).models.list().data[0].id

    def langchain(self, **more):
        return ChatOpenAI(base_url=self.base, api_key=self.key, model=self.model, temperature=0, max_tokens=80, **more)

    def instructor(self, mode):
        return instructor.from_openai(openai.OpenAI(base_url=self.base, api_key=self.key), mode=mode)

    def agent(self, api, **more):
        client = openai.AsyncOpenAI(base_url=self.base, api_key=self.key)
        kind = agents.OpenAIResponsesModel if api == "responses" else agents.OpenAIChatCompletionsModel
        settings = agents.ModelSettings(temperature=0, max_tokens=500, **more.pop("settings", {}))
        return agents.Agent(name="miller", instructions="Answer briefly.", model=kind(model=self.model, openai_client=client),
                            model_settings=settings, **more)


@check
def langchain_chat(server):
    answer = server.langchain().invoke(QUESTION)
    assert answer.content and answer.usage_metadata["output_tokens"] > 0, answer
    pieces = [piece.content for piece in server.langchain().stream(QUESTION)]
    assert "".join(pieces) == answer.content, pieces


@check
def langchain_tool(server):
    def temperature(city: str) -> str:
        """The temperature of a city."""
        return f"21 degrees in {city}"

    for more in ({}, {"use_responses_api": True}):
        bound = server.langchain(**more).bind_tools([temperature], tool_choice="temperature")
        answer = bound.invoke(QUESTION)
        call = answer.tool_calls[0]
        assert call["name"] == "temperature" and "city" in call["args"], answer
        turns = [("user", QUESTION), answer, {"role": "tool", "tool_call_id": call["id"], "content": temperature(**call["args"])}]
        assert server.langchain(**more).invoke(turns).content


@check
def langchain_structured(server):
    said = []
    for method in ("json_schema", "function_calling"):
        report = server.langchain().with_structured_output(Report, method=method).invoke(QUESTION)
        assert isinstance(report, Report), report
        said.append(report)
    return said


@check
def instructor_chat(server):
    client = openai.OpenAI(base_url=server.base, api_key=server.key)
    wrapped = instructor.from_openai(client)
    answer = wrapped.chat.completions.create(model=server.model, messages=[{"role": "user", "content": QUESTION}],
                                             response_model=None, max_tokens=40)
    assert answer.choices[0].message.content, answer


@check
def instructor_structured(server):
    said = []
    modes = [instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT, instructor.Mode.JSON_SCHEMA, instructor.Mode.RESPONSES_TOOLS]
    for mode in modes:
        limit = "max_output_tokens" if mode == instructor.Mode.RESPONSES_TOOLS else "max_tokens"
        report = server.instructor(mode).chat.completions.create(
            model=server.model, messages=[{"role": "user", "content": QUESTION}], response_model=Report, max_retries=1, temperature=0, **{limit: 120})
        assert isinstance(report, Report), report
        said.append(mode.name)
    return said


@check
def instructor_partial(server):
    stream = server.instructor(instructor.Mode.TOOLS).chat.completions.create_partial(
        model=server.model, messages=[{"role": "user", "content": QUESTION}], response_model=Report, max_tokens=120)
    last = list(stream)[-1]
    assert last.city is not None and last.degrees is not None, last


@check
def agents_chat(server):
    for api in ("responses", "chat"):
        result = asyncio.run(agents.Runner.run(server.agent(api), QUESTION))
        assert result.final_output, result


@check
def agents_tool(server):
    called = []

    @agents.function_tool
    def temperature(city: str) -> str:
        """The temperature of a city."""
        called.append(city)
        return "21 degrees"

    async def streamed(agent):
        result = agents.Runner.run_streamed(agent, QUESTION, max_turns=4)
        async for _ in result.stream_events():
            pass
        return result

    for api in ("responses", "chat"):
        # After its first call the framework takes `tool_choice` back. Each loop has its own connections.
        def agent():
            return server.agent(api, tools=[temperature], settings={"tool_choice": "required"})

        before = len(called)
        try:
            asyncio.run(agents.Runner.run(agent(), QUESTION, max_turns=4))
            asyncio.run(streamed(agent()))
        except agents.MaxTurnsExceeded:
            pass  # a small model calls again and again
        assert len(called) > before, api
    return called


@check
def agents_structured(server):
    for api in ("responses", "chat"):
        result = asyncio.run(agents.Runner.run(server.agent(api, output_type=Report), QUESTION))
        assert isinstance(result.final_output, Report), result.final_output


if __name__ == "__main__":
    given = checks.arguments(__doc__).parse_args()
    agents.set_tracing_disabled(True)
    checks.run(Server(given.url, given.api_key))
