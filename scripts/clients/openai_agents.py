"""OpenAI Agents SDK: function tools, hand-offs and sessions, on responses and on chat completions."""
import asyncio

from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, SQLiteSession, function_tool
from agents import set_tracing_disabled
from openai import AsyncOpenAI
from openai_chat import IMAGE_URL, SEEN, Event, options


@function_tool
def weather(city: str) -> str:
    """The weather."""
    return f"mild {city}"


async def tools(model):
    agent = Agent(name="asker", model=model, tools=[weather])
    result = await Runner.run(agent, "weather Rome Oslo")
    assert result.final_output == "2 results: mild Oslo", result
    streamed = Runner.run_streamed(agent, "weather Rome Oslo")
    kinds = {event.type async for event in streamed.stream_events()}
    assert "raw_response_event" in kinds and streamed.final_output == "2 results: mild Oslo", streamed


async def mixed(model):
    """A call of the server's tool and one of the client's function in the same answer."""
    agent = Agent(name="asker", model=model, tools=[weather])
    result = await Runner.run(agent, "compute")
    assert result.final_output == "2 results: mild Rome", result
    streamed = Runner.run_streamed(agent, "compute")
    async for _ in streamed.stream_events():
        pass
    assert streamed.final_output == "2 results: mild Rome", streamed


async def handoffs(model):
    helper = Agent(name="helper", model=model)
    result = await Runner.run(Agent(name="desk", model=model, handoffs=[helper]), "hand me over")
    assert result.last_agent.name == "helper", result


async def sessions(model):
    agent, session = Agent(name="talker", model=model, tools=[weather]), SQLiteSession("one")
    for text, answer in [("weather Rome", "1 results: mild Rome"), ("hello", "You said: hello")]:
        result = await Runner.run(agent, text, session=session)
        assert result.final_output == answer, result
    assert len(await session.get_items()) >= 6, await session.get_items()


async def structured(model):
    result = await Runner.run(Agent(name="planner", model=model, output_type=Event), "event")
    assert result.final_output.guests == ["Ann", "Bob"], result


async def images(model):
    picture = {"type": "input_image", "image_url": IMAGE_URL, "detail": "auto"}
    message = {"role": "user", "content": [{"type": "input_text", "text": "look"}, picture]}
    result = await Runner.run(Agent(name="looker", model=model), [message])
    assert result.final_output == SEEN, result


def run(url):
    set_tracing_disabled(True)
    for kind in (OpenAIResponsesModel, OpenAIChatCompletionsModel):
        parts = (tools, mixed, handoffs, sessions, structured, images)
        for part in parts:

            async def act():
                async with AsyncOpenAI(**options(url)) as client:
                    await part(kind("org/agent" if part is mixed else "scripted", client))

            asyncio.run(act())
        yield f"{kind.__name__} ({', '.join(part.__name__ for part in parts)})"
