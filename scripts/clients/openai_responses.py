"""openai-python: responses, with events and objects that must match the package's types."""
import asyncio, json, os, time, urllib.request

import openai
from openai_chat import PARAMETERS, Event, options

WEATHER = {"type": "function", "name": "weather", "description": "d", "parameters": PARAMETERS, "strict": False}


def crash():
    """Has the server killed with SIGKILL and started again."""
    urllib.request.urlopen(os.environ["CRASH_URL"], data=b"").close()


def results(response):
    calls = [item for item in response.output if item.type == "function_call"]
    return [{"type": "function_call_output", "call_id": c.call_id, "output": f"mild {n}"} for n, c in enumerate(calls)]


def whole(client):
    response = client.responses.create(model="scripted", input="hello", metadata={"a": "b"})
    assert (response.status, response.output_text) == ("completed", "You said: hello"), response
    assert response.usage.output_tokens_details.reasoning_tokens == 2, response.usage
    assert [item.type for item in response.output] == ["reasoning", "message"], response.output
    cut = client.responses.create(model="scripted", input="long", max_output_tokens=5)
    assert cut.incomplete_details.reason == "max_output_tokens", cut


def streamed(client):
    events = list(client.responses.create(model="scripted", input="hello", stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events))), events
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == "You said: hello" and events[-1].type == "response.completed", events
    rest = list(client.responses.retrieve(events[-1].response.id, stream=True, starting_after=5))
    assert rest == events[6:], rest
    with client.responses.stream(model="scripted", input="hello") as stream:
        for _ in stream:
            pass
        assert stream.get_final_response().output_text == "You said: hello"


def functions(client):
    ask = lambda items, **fields: client.responses.create(model="scripted", input=items, tools=[WEATHER], **fields)
    first = ask("weather Rome Oslo")
    calls = [json.loads(item.arguments) for item in first.output if item.type == "function_call"]
    assert calls == [{"city": "Rome"}, {"city": "Oslo"}], first
    second = ask(results(first), previous_response_id=first.id)
    assert second.output_text == "2 results: mild 1", second
    stateless = [{"role": "user", "content": "weather Rome Oslo"}, *first.output, *results(first)]
    assert ask(stateless, store=False).output_text == "2 results: mild 1"


def mixed(client):
    ask = lambda items, **more: client.responses.create(model="org/agent", input=items, tools=[WEATHER], **more)
    events = list(client.responses.create(model="org/agent", input="compute", tools=[WEATHER], stream=True))
    first = events[-1].response
    assert {"mcp_call", "function_call"} <= {item.type for item in first.output}, first.output
    second = ask(results(first), previous_response_id=first.id)
    assert second.output_text == "2 results: mild 0", second


def listed_tools(client):
    tool = {"type": "mcp", "server_label": "fake", "require_approval": "never"}
    ask = lambda **more: client.responses.create(model="scripted", input="hello", tools=[tool], **more)
    end = time.monotonic() + 30
    while True:
        try:
            events = list(ask(stream=True))
            break
        except openai.BadRequestError:  # the MCP server is still starting
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
    kinds = [event.type for event in events]
    begin = kinds.index("response.mcp_list_tools.in_progress")
    assert kinds[begin + 1] == "response.mcp_list_tools.completed", kinds
    response = events[-1].response
    assert [item.type for item in response.output] == ["mcp_list_tools", "reasoning", "message"], response.output
    assert "echo" in [tool.name for tool in response.output[0].tools], response.output[0]
    assert client.responses.retrieve(response.id).output == response.output
    assert ask(previous_response_id=response.id).output[0].type == "reasoning", "a label is listed once in a chain"


def structured(client):
    parsed = client.responses.parse(model="scripted", input="event", text_format=Event).output_parsed
    assert parsed.guests == ["Ann", "Bob"], parsed


def background(client):
    response = client.responses.create(model="scripted", input="hello", background=True)
    assert response.status in ("queued", "in_progress", "completed"), response
    end = time.monotonic() + 20
    while response.status in ("queued", "in_progress") and time.monotonic() < end:
        time.sleep(0.05)
        response = client.responses.retrieve(response.id)
    assert response.output_text == "You said: hello", response
    stopped = client.responses.cancel(client.responses.create(model="scripted", input="slow", background=True).id)
    assert stopped.status == "cancelled", stopped


def resumed_after_kill(client):
    events = []
    with client.responses.create(model="scripted", input="slow", background=True, stream=True) as stream:
        for event in stream:
            events.append(event)
            if len(events) == 12:
                break
    crash()
    events += client.responses.retrieve(events[0].response.id, stream=True, starting_after=events[-1].sequence_number)
    assert [event.sequence_number for event in events] == list(range(len(events))), events
    assert events[-1].type == "response.completed", events[-1]
    assert events[-1].response.output_text == "".join(f"{n} " for n in range(40)), events[-1]


def stored(client):
    response = client.responses.create(model="scripted", input="hello")
    items = list(client.responses.input_items.list(response.id))
    assert items[0].content[0].text == "hello", items
    client.responses.delete(response.id)
    try:
        client.responses.retrieve(response.id)
    except openai.NotFoundError:
        pass
    else:
        raise AssertionError("a deleted response was found")
    assert client.responses.input_tokens.count(model="scripted", input="hello").input_tokens > 0
    compacted = client.responses.compact(model="scripted", input="hello")
    assert client.responses.create(model="scripted", input=[*compacted.output, {"role": "user", "content": "hi"}])


def refused(client):
    for fields, param in [({"prompt": {"id": "pmpt_1"}}, "prompt"), ({"extra_body": {"x": 1}}, "x")]:
        try:
            client.responses.create(model="scripted", input="x", **fields)
        except openai.BadRequestError as error:
            assert (error.code, error.param) == ("unsupported_parameter", param), error
        else:
            raise AssertionError(f"{param} was accepted")


async def asynchronous(url):
    async with openai.AsyncOpenAI(**options(url)) as client:
        response = await client.responses.create(model="scripted", input="hello")
        assert response.output_text == "You said: hello", response
        stream = await client.responses.create(model="scripted", input="hello", stream=True)
        kinds = [event.type async for event in stream]
        assert kinds[-1] == "response.completed", kinds


def run(url):
    with openai.OpenAI(**options(url)) as client:
        parts = (whole, streamed, functions, mixed, listed_tools, structured, background, resumed_after_kill, stored, refused)
        for part in parts:
            part(client)
            yield part.__name__
    asyncio.run(asynchronous(url))
    yield asynchronous.__name__
