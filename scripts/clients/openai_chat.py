"""openai-python: chat completions, with responses that must match the package's types."""
import asyncio, base64, json, zlib

import openai
from pydantic import BaseModel


class Event(BaseModel):
    name: str
    day: str
    guests: list[str]


PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"type": "function", "function": {"name": "weather", "description": "d", "parameters": PARAMETERS}}


# A picture of one pixel, and what the scripted model says when it has got exactly this one.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
IMAGE_URL = f"data:image/png;base64,{PNG}"
SEEN = f"You said: look image/png {zlib.crc32(base64.b64decode(PNG)):08x}"


def user(text):
    return [{"role": "user", "content": text}]


def look():
    """A message with a text and the picture."""
    return user([{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": IMAGE_URL}}])


def answered(message):
    """The message and a result for each of its calls, as a client sends them back."""
    results = [{"role": "tool", "tool_call_id": c.id, "content": f"mild {n}"} for n, c in enumerate(message.tool_calls)]
    return [message.model_dump(), *results]


def options(url):
    return {"base_url": url, "api_key": "unused", "max_retries": 0, "_strict_response_validation": True}


def models(client):
    ids = [model.id for model in client.models.list()]
    assert ids[:2] == ["scripted", "org/agent"], ids
    assert client.models.retrieve("org/agent").id == "org/agent"
    try:
        client.models.retrieve("gone")
    except openai.NotFoundError as error:
        assert error.code == "model_not_found", error
    else:
        raise AssertionError("a model that is not configured was found")


def whole(client):
    answer = client.chat.completions.create(model="scripted", messages=user("hello"), metadata={"a": "b"}, seed=1)
    choice = answer.choices[0]
    assert choice.message.content == "You said: hello" and choice.finish_reason == "stop", choice
    assert answer.usage.prompt_tokens_details.cached_tokens == 4, answer.usage
    assert answer.usage.completion_tokens_details.reasoning_tokens == 2, answer.usage
    cut = client.chat.completions.create(model="scripted", messages=user("long"), max_tokens=5)
    assert cut.choices[0].finish_reason == "length", cut


def streamed(client):
    stream = client.chat.completions.create(
        model="scripted", messages=user("hello"), stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(texts) == "You said: hello", texts
    assert chunks[-1].usage.total_tokens == 15 and not chunks[-1].choices, chunks[-1]
    reasoning = [getattr(chunk.choices[0].delta, "reasoning_content", None) for chunk in chunks if chunk.choices]
    assert "hm" in reasoning, reasoning


def stored(client):
    ask = lambda text: client.chat.completions.create(
        model="scripted", messages=user(text), store=True, metadata={"topic": text}
    )
    one, two = ask("one"), ask("two")
    listed = [completion.id for completion in client.chat.completions.list(limit=1)]
    assert listed[-2:] == [one.id, two.id], listed
    found = client.chat.completions.retrieve(one.id)
    assert found.choices == one.choices and found.usage == one.usage, found
    client.chat.completions.update(one.id, metadata={"topic": "three"})
    assert client.chat.completions.retrieve(one.id).metadata == {"topic": "three"}
    # The package's type of these messages knows answers alone.
    messages = client.chat.completions.messages.with_raw_response.list(one.id).http_response.json()
    assert [message["content"] for message in messages["data"]] == ["one"], messages
    assert client.chat.completions.delete(one.id).deleted
    try:
        client.chat.completions.retrieve(one.id)
    except openai.NotFoundError:
        pass
    else:
        raise AssertionError("a deleted completion was found")


def functions(client):
    ask = lambda messages: client.chat.completions.create(model="scripted", messages=messages, tools=[WEATHER])
    messages = user("weather Rome Oslo")
    first = ask(messages).choices[0]
    assert first.finish_reason == "tool_calls" and len(first.message.tool_calls) == 2, first
    assert json.loads(first.message.tool_calls[1].function.arguments) == {"city": "Oslo"}
    second = ask(messages + answered(first.message)).choices[0]
    assert second.message.content == "2 results: mild 1", second
    with client.chat.completions.stream(model="scripted", messages=messages, tools=[WEATHER]) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion().choices[0]
    assert "tool_calls.function.arguments.done" in kinds, kinds
    assert [call.function.name for call in final.message.tool_calls] == ["weather", "weather"], final


def streamed_functions(client):
    """Two calls whose arguments come in pieces."""
    fields = {"model": "scripted", "messages": user("weather Rome Oslo"), "tools": [WEATHER]}
    parts = [
        call
        for chunk in client.chat.completions.create(stream=True, **fields)
        if chunk.choices
        for call in chunk.choices[0].delta.tool_calls or []
    ]
    with client.chat.completions.stream(**fields) as stream:
        events = list(stream)
        message = stream.get_final_completion().choices[0].message
    of = lambda kind, place: [e for e in events if e.type == f"tool_calls.function.arguments.{kind}" and e.index == place]
    for place, city in enumerate(("Rome", "Oslo")):
        head, *pieces = [call for call in parts if call.index == place]
        assert head.id and head.function.name == "weather" and not head.function.arguments, head
        assert len(pieces) > 1 and not any(piece.id or piece.function.name for piece in pieces), pieces
        whole = "".join(piece.function.arguments for piece in pieces)
        assert json.loads(whole) == {"city": city}, pieces
        deltas = [event.arguments_delta for event in of("delta", place)]
        assert len(deltas) > 1 and "".join(deltas) == whole, deltas
        assert [event.arguments for event in of("done", place)] == [whole], events
        assert message.tool_calls[place].function.arguments == whole, message
    answer = client.chat.completions.create(**fields | {"messages": fields["messages"] + answered(message)})
    assert answer.choices[0].message.content == "2 results: mild 1", answer


def mixed(client):
    ask = lambda messages: client.chat.completions.create(model="org/agent", messages=messages, tools=[WEATHER])
    messages = user("compute")
    first = ask(messages).choices[0]
    assert [call.function.name for call in first.message.tool_calls] == ["weather"], first
    second = ask(messages + answered(first.message)).choices[0]
    assert second.message.content == "2 results: mild 0", "the model has the result of the server's tool, too"


def structured(client):
    parsed = client.chat.completions.parse(model="scripted", messages=user("event"), response_format=Event)
    assert parsed.choices[0].message.parsed.guests == ["Ann", "Bob"], parsed
    with client.chat.completions.stream(model="scripted", messages=user("event"), response_format=Event) as stream:
        for _ in stream:
            pass
        assert stream.get_final_completion().choices[0].message.parsed.day == "Friday"


def images(client):
    answer = client.chat.completions.create(model="scripted", messages=look())
    assert answer.choices[0].message.content == SEEN, answer


def refused(client):
    for fields, param in [({"n": 2}, "n"), ({"logprobs": True}, "logprobs"), ({"extra_body": {"x": 1}}, "x")]:
        try:
            client.chat.completions.create(model="scripted", messages=user("x"), **fields)
        except openai.BadRequestError as error:
            assert (error.code, error.param) == ("unsupported_parameter", param), error
        else:
            raise AssertionError(f"{param} was accepted")


async def asynchronous(url):
    async with openai.AsyncOpenAI(**options(url)) as client:
        answer = await client.chat.completions.create(model="scripted", messages=user("hello"))
        assert answer.choices[0].message.content == "You said: hello", answer
        stream = await client.chat.completions.create(model="scripted", messages=user("hello"), stream=True)
        texts = [chunk.choices[0].delta.content or "" async for chunk in stream]
        assert "".join(texts) == "You said: hello", texts
        parsed = await client.chat.completions.parse(model="scripted", messages=user("event"), response_format=Event)
        assert parsed.choices[0].message.parsed.guests == ["Ann", "Bob"], parsed
        seen = await client.chat.completions.create(model="scripted", messages=look())
        assert seen.choices[0].message.content == SEEN, seen
        messages = user("weather Rome Oslo")
        first = await client.chat.completions.create(model="scripted", messages=messages, tools=[WEATHER])
        messages += answered(first.choices[0].message)
        second = await client.chat.completions.create(model="scripted", messages=messages, tools=[WEATHER])
        assert second.choices[0].message.content == "2 results: mild 1", second


def run(url):
    with openai.OpenAI(**options(url)) as client:
        for part in (models, whole, streamed, stored, functions, streamed_functions, mixed, structured, images, refused):
            part(client)
            yield part.__name__
    asyncio.run(asynchronous(url))
    yield asynchronous.__name__
