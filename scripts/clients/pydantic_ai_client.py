"""pydantic-ai on chat completions and on responses."""
import base64

from openai_chat import PNG, SEEN, Event
from pydantic_ai import Agent, BinaryContent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider


def weather(city: str) -> str:
    """The weather."""
    return f"mild {city}"


def talk(model):
    result = Agent(model).run_sync("hello")
    assert result.output == "You said: hello", result
    again = Agent(model).run_sync("again", message_history=result.all_messages())
    assert again.output == "You said: again", again


def stream(model):
    result = Agent(model).run_stream_sync("hello")
    assert "".join(result.stream_text(delta=True)) == "You said: hello"


def tools(model):
    result = Agent(model, tools=[weather]).run_sync("weather Rome Oslo")
    assert result.output == "2 results: mild Oslo", result
    with Agent(model, tools=[weather]).run_stream_sync("weather Rome Oslo") as streamed:
        assert streamed.get_output() == "2 results: mild Oslo", streamed


def mixed(model):
    """A call of the server's tool and one of the client's function in the same answer."""
    agent = Agent(model, tools=[weather])
    result = agent.run_sync("compute")
    assert result.output == "2 results: mild Rome", result
    with agent.run_stream_sync("compute") as streamed:
        assert streamed.get_output() == "2 results: mild Rome", streamed


def structured(model):
    for output in (Event, NativeOutput(Event)):
        result = Agent(model, output_type=output).run_sync("event")
        assert result.output.guests == ["Ann", "Bob"], result


def images(model):
    picture = BinaryContent(data=base64.b64decode(PNG), media_type="image/png")
    result = Agent(model).run_sync(["look", picture])
    assert result.output == SEEN, result


def run(url):
    provider = OpenAIProvider(base_url=url, api_key="unused")
    for kind in (OpenAIChatModel, OpenAIResponsesModel):
        parts = (talk, stream, tools, structured, images)
        for part in parts:
            part(kind("scripted", provider=provider))
        mixed(kind("org/agent", provider=provider))
        yield f"{kind.__name__} ({', '.join(part.__name__ for part in (*parts, mixed))})"
