"""openai-python: responses, with events and objects that must match the package's types."""
import asyncio, base64, json, os, time, urllib.request

import openai
from openai_chat import IMAGE_URL, PARAMETERS, PNG, SEEN, Event, options

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


def arguments_of(events):
    """The arguments of each completed call, after a check that its events agree."""
    found = []
    assert [event.sequence_number for event in events] == list(range(len(events))), events
    of = lambda kind: [event for event in events if event.type == kind]
    for added in of("response.output_item.added"):
        if added.item.type != "function_call":
            continue
        mine = [e for e in events if added.item.id in (getattr(e, "item_id", None), getattr(getattr(e, "item", None), "id", None))]
        assert {e.output_index for e in mine} == {added.output_index}, mine
        kinds = [e.type.removeprefix("response.") for e in mine]
        ended = mine[-1].item
        assert (kinds[0], kinds[-1], added.item.arguments) == ("output_item.added", "output_item.done", ""), kinds
        deltas = [e.delta for e in mine[1:-2]]
        assert kinds[1:-2] == ["function_call_arguments.delta"] * len(deltas) and len(deltas) > 1, kinds
        assert "".join(deltas) == mine[-2].arguments == ended.arguments, mine
        assert (mine[-2].name, ended.name, ended.status) == ("weather", "weather", "completed"), mine
        found.append(ended)
    assert events[-1].type == "response.completed", events[-1]
    assert [item for item in events[-1].response.output if item.type == "function_call"] == found, events[-1]
    return [json.loads(call.arguments) for call in found]


def streamed_functions(client):
    """Two calls whose arguments come in pieces, read from every place on in both dialects."""
    fields = {"model": "scripted", "input": "weather Rome Oslo", "tools": [WEATHER]}
    events = list(client.responses.create(stream=True, **fields))
    assert arguments_of(events) == [{"city": "Rome"}, {"city": "Oslo"}], events
    response = events[-1].response
    again = lambda **more: list(client.responses.retrieve(response.id, stream=True, **more))
    assert again() == events
    for place in range(len(events)):
        assert again(starting_after=place) == events[place + 1:], place
        assert again(extra_headers={"Last-Event-ID": str(place)}) == events[place + 1:], place
    assert client.responses.retrieve(response.id).output == response.output
    with client.responses.stream(**fields) as stream:
        deltas = [event for event in stream if event.type == "response.function_call_arguments.delta"]
        final = stream.get_final_response()
    assert [event.snapshot for event in deltas if event.snapshot.endswith("}")] == [i.arguments for i in final.output]
    second = client.responses.create(**fields | {"input": results(final)}, previous_response_id=final.id)
    assert second.output_text == "2 results: mild 1", second


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


def functions_resumed_after_kill(client):
    """The server ends in the middle of the arguments of a call."""
    events, pieces = [], 0
    fields = {"model": "scripted", "input": "weather everywhere Oslo", "tools": [WEATHER]}
    with client.responses.create(background=True, stream=True, **fields) as stream:
        for event in stream:
            events.append(event)
            pieces += event.type == "response.function_call_arguments.delta"
            if pieces == 4:
                break
    crash()
    id, newest = events[0].response.id, events[-1].sequence_number
    events += client.responses.retrieve(id, stream=True, starting_after=newest)
    calls = arguments_of(events)
    assert [call["city"][:5] for call in calls] == ["0_1_2", "Oslo"], calls
    assert list(client.responses.retrieve(id, stream=True)) == events
    with client.responses.stream(response_id=id, tools=[WEATHER]) as stream:
        assert [event.sequence_number for event in stream][-1] == events[-1].sequence_number
        final = stream.get_final_response().output
    assert [item.call_id for item in final] == [item.call_id for item in events[-1].response.output], final
    header = {"Last-Event-ID": str(newest)}
    assert list(client.responses.retrieve(id, stream=True, extra_headers=header)) == events[newest + 1:]
    second = client.responses.create(**fields | {"input": results(events[-1].response)}, previous_response_id=id)
    assert second.output_text == "2 results: mild 1", second


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


def look(**image):
    """A message with a text and an image."""
    image = {"type": "input_image", "detail": "auto"} | image
    return [{"role": "user", "content": [{"type": "input_text", "text": "look"}, image]}]


def images(client):
    """Of a data URL, and of an uploaded file that is gone when the next response reads it again."""
    assert client.responses.create(model="scripted", input=look(image_url=IMAGE_URL)).output_text == SEEN
    file = client.files.create(file=("a.png", base64.b64decode(PNG)), purpose="vision")
    first = client.responses.create(model="scripted", input=look(file_id=file.id))
    assert first.output_text == SEEN, first
    assert client.files.delete(file.id).deleted
    pages = client.responses.input_items.list(first.id, include=["message.input_image.image_url", "reasoning.encrypted_content"])
    assert [item.role for item in pages] == ["user"], pages
    again = client.responses.create(model="scripted", input="more", previous_response_id=first.id)
    assert again.output_text == "You said: more", again


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
        assert (await client.responses.create(model="scripted", input=look(image_url=IMAGE_URL))).output_text == SEEN
        parsed = await client.responses.parse(model="scripted", input="event", text_format=Event)
        assert parsed.output_parsed.guests == ["Ann", "Bob"], parsed
        fields = {"model": "scripted", "tools": [WEATHER]}
        first = await client.responses.create(input="weather Rome Oslo", **fields)
        second = await client.responses.create(input=results(first), previous_response_id=first.id, **fields)
        assert second.output_text == "2 results: mild 1", second
        waiting = await client.responses.create(model="scripted", input="hello", background=True)
        while waiting.status in ("queued", "in_progress"):
            await asyncio.sleep(0.05)
            waiting = await client.responses.retrieve(waiting.id)
        assert waiting.output_text == "You said: hello", waiting


def run(url):
    with openai.OpenAI(**options(url)) as client:
        parts = (
            whole, streamed, functions, streamed_functions, mixed, listed_tools, structured, background,
            resumed_after_kill, functions_resumed_after_kill, stored, images, refused)
        for part in parts:
            part(client)
            yield part.__name__
    asyncio.run(asynchronous(url))
    yield asynchronous.__name__
