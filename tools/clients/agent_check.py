#!/usr/bin/env python3
"""An agent of `pydantic-ai` on a running server: a tool, then an answer of a type, over both of OpenAI's endpoints.

    python tools/clients/agent_check.py http://127.0.0.1:8080 [--api-key KEY]

Nothing depends on how able the model is: what it may call next is one tool at a time, and the framework asks for a
call (`tool_choice: "required"`), so that a loop which ends is the server's and the framework's doing.
"""

import argparse
import sys

import openai
from pydantic import BaseModel, Field
from pydantic_ai import Agent, UsageLimits
from pydantic_ai.capabilities import PrepareOutputTools
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


class Report(BaseModel):
    city: str = Field(max_length=20)
    degrees: int = Field(ge=-50, le=60)


def agent_on(model, called):
    async def only_in_the_first_step(context, tool):
        return tool if not called else None

    async def only_after(context, tools):
        return tools if called else []

    agent = Agent(model, output_type=Report, retries=3, capabilities=[PrepareOutputTools(only_after)],
                  model_settings={"temperature": 0, "max_tokens": 120})

    @agent.tool_plain(prepare=only_in_the_first_step)
    def temperature(city: str = "") -> str:
        """The temperature of a city, in degrees.

        Args:
            city: its name
        """
        called.append(city)
        return "It is 21 degrees."

    return agent


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--api-key")
    args = parser.parse_args()
    base, key = f"{args.url.rstrip('/')}/v1", args.api_key or "none"
    name = openai.OpenAI(base_url=base, api_key=key).models.list().data[0].id
    model = OpenAIChatModel(name, provider=OpenAIProvider(base_url=base, api_key=key))
    failed = False
    for way in ["plain", "streamed"]:
        called = []
        agent = agent_on(model, called)
        limits = UsageLimits(request_limit=6)
        try:
            if way == "plain":
                result = agent.run_sync("How warm is it in Paris?", usage_limits=limits)
                output, usage = result.output, result.usage
            else:
                output, usage = streamed(agent, limits)
            assert called, "the tool was not called"
            assert isinstance(output, Report), output
            print(f"ok    an agent's loop, {way}: {called} {output!r}, {usage.requests} requests", flush=True)
        except Exception as error:
            failed = True
            print(f"FAIL  an agent's loop, {way}: {type(error).__name__}: {error}", flush=True)
    sys.exit(failed)


def streamed(agent, limits):
    import asyncio

    async def run():
        async with agent.run_stream("How warm is it in Paris?", usage_limits=limits) as result:
            return await result.get_output(), result.usage

    return asyncio.run(run())


main()
