"""anthropic-python: messages, with responses and events that must match the package's types."""
import asyncio, json

import anthropic
from anthropic import types
from openai_chat import PNG, SEEN
from pydantic import BaseModel, TypeAdapter

EVENT = TypeAdapter(types.RawMessageStreamEvent)
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "weather", "description": "d", "input_schema": SCHEMA}
THINKING = {"type": "enabled", "budget_tokens": 1024}


class Event(BaseModel):
    name: str
    day: str
    guests: list[str]


def ask(text, **fields):
    return {"model": "scripted", "max_tokens": 2000, "messages": [{"role": "user", "content": text}]} | fields


def options(url):
    return {"base_url": url.removesuffix("/v1"), "api_key": "unused", "max_retries": 0, "_strict_response_validation": True}


def answered(message):
    """The message and a result for each of its calls, as a client sends them back."""
    calls = [block for block in message.content if block.type == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": c.id, "content": f"mild {n}"} for n, c in enumerate(calls)]
    return [{"role": "assistant", "content": message.content}, {"role": "user", "content": results}]


def whole(client):
    answer = client.messages.create(**ask("hello", metadata={"user_id": "ann"}, extra_body={"top_k": 5}, system="be brief"))
    assert [block.text for block in answer.content] == ["You said: hello"], answer
    assert answer.stop_reason == "end_turn" and answer.id.startswith("msg_") and answer._request_id, answer
    usage = answer.usage
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens) == (6, 4, 5), usage
    assert usage.output_tokens_details.thinking_tokens == 2, usage
    assert client.messages.create(**ask("long", max_tokens=5)).stop_reason == "max_tokens"


def streamed(client):
    with client.messages.with_streaming_response.create(**ask("hello", stream=True, thinking=THINKING)) as response:
        lines = list(response.iter_lines())
    frames = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    kinds = [EVENT.validate_json(frame, strict=True).type for frame in frames]
    assert (kinds[0], kinds[-1]) == ("message_start", "message_stop"), kinds
    assert sum(line.startswith("event: ") for line in lines) == len(frames)
    with client.messages.stream(**ask("hello")) as stream:
        assert "".join(stream.text_stream) == "You said: hello"
        assert stream.get_final_message().usage.output_tokens == 5


def thinking(client):
    answer = client.messages.create(**ask("hello", thinking=THINKING))
    assert [block.type for block in answer.content] == ["thinking", "text"] and answer.content[0].thinking == "hm"
    with client.messages.stream(**ask("hello", thinking=THINKING)) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_message()
    assert {"thinking", "signature", "text"} <= kinds, kinds
    assert final.content[0].thinking == "hm" and final.content[0].signature, final
    follow_up = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": final.content}, *ask("more")["messages"]]
    assert client.messages.create(**ask("", messages=follow_up)).content[0].text == "You said: more"


def tools(client):
    fields = {"tools": [WEATHER], "thinking": THINKING}
    question = ask("weather Rome Oslo")["messages"]
    first = client.messages.create(**ask("", messages=question, **fields))
    assert first.stop_reason == "tool_use" and [c.input["city"] for c in first.content] == ["Rome", "Oslo"], first
    second = client.messages.create(**ask("", messages=question + answered(first), **fields))
    assert second.content[0].text == "2 results: mild 1", second
    with client.messages.stream(**ask("", messages=question, **fields)) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_message()
    assert "input_json" in kinds and [c.input["city"] for c in final.content] == ["Rome", "Oslo"], final


def streamed_tools(client):
    """Two calls whose input comes in pieces."""
    fields = ask("weather Rome Oslo", tools=[WEATHER])
    with client.messages.with_streaming_response.create(**fields, stream=True) as response:
        frames = [line.removeprefix("data: ") for line in response.iter_lines() if line.startswith("data: ")]
    events = [EVENT.validate_json(frame, strict=True) for frame in frames]
    blocks = [event for event in events if event.type.startswith("content_block")]
    inputs = []
    for place, city in enumerate(("Rome", "Oslo")):
        start, *deltas, stop = [event for event in blocks if event.index == place]
        assert (start.type, stop.type) == ("content_block_start", "content_block_stop"), blocks
        assert (start.content_block.name, start.content_block.input) == ("weather", {}), start
        pieces = [event.delta.partial_json for event in deltas]
        assert len(pieces) > 1 and json.loads("".join(pieces)) == {"city": city}, pieces
        inputs.append("".join(pieces))
    assert [event.index for event in blocks] == sorted(event.index for event in blocks), "one block after the other"
    assert events[-2].delta.stop_reason == "tool_use" and events[-1].type == "message_stop", events
    with client.messages.stream(**fields) as stream:
        pieces = [event.partial_json for event in stream if event.type == "input_json"]
        final = stream.get_final_message()
    assert "".join(pieces) == "".join(inputs), pieces
    assert [block.input for block in final.content] == [{"city": "Rome"}, {"city": "Oslo"}], final
    second = client.messages.create(**fields | {"messages": fields["messages"] + answered(final)})
    assert second.content[0].text == "2 results: mild 1", second


def tool_runner(client):
    @anthropic.beta_tool
    def weather(city: str) -> str:
        """The weather.

        Args:
            city: where
        """
        return f"mild in {city}"

    runner = client.beta.messages.tool_runner(**ask("weather Rome", tools=[weather]))
    assert runner.until_done().content[0].text == "1 results: mild in Rome"


def mixed(client):
    question = ask("compute")["messages"]
    first = client.messages.create(**ask("", messages=question, model="org/agent", tools=[WEATHER]))
    assert [block.name for block in first.content] == ["weather"], first
    second = client.messages.create(**ask("", messages=question + answered(first), model="org/agent", tools=[WEATHER]))
    assert second.content[0].text == "2 results: mild 0", "the model has the result of the server's tool, too"


def structured(client):
    parsed = client.messages.parse(**ask("event", output_format=Event))
    assert parsed.parsed_output.guests == ["Ann", "Bob"], parsed


def images(client):
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    answer = client.messages.create(**ask([{"type": "text", "text": "look"}, {"type": "image", "source": source}]))
    assert [block.text for block in answer.content] == [SEEN], answer


def counted(client):
    messages = ask("hello")["messages"]
    few = client.messages.count_tokens(model="scripted", messages=messages).input_tokens
    many = client.messages.count_tokens(model="scripted", messages=messages, tools=[WEATHER], system="x").input_tokens
    assert 0 < few < many, (few, many)


def models(client):
    ids = [model.id for model in client.models.list(limit=1)]
    assert {"scripted", "org/agent"} <= set(ids) and len(ids) == len(set(ids)), "all pages, each model once"
    one = client.models.retrieve("org/agent")
    assert one.type == "model" and one.created_at.year == 1970 and one.display_name, one
    assert one == client.models.list(after_id=ids[ids.index("org/agent") - 1]).data[0]
    assert client.beta.models.retrieve("scripted").id == "scripted"
    try:
        client.models.retrieve("gone")
    except anthropic.NotFoundError as error:
        assert error.body["error"]["type"] == "not_found_error", error
    else:
        raise AssertionError("an unknown model was found")


def errors(client):
    for fields, kind, name in [
        ({"extra_body": {"wat": 1}}, anthropic.BadRequestError, "invalid_request_error"),
        ({"model": "gone"}, anthropic.NotFoundError, "not_found_error"),
        ({"messages": [{"role": "user", "content": "x" * 20_000_000}]}, anthropic.RequestTooLargeError, "request_too_large"),
    ]:
        for stream in (False, True):
            try:
                client.messages.create(**ask("x", stream=stream) | fields)
            except kind as error:
                assert error.body["error"]["type"] == name and error.request_id == error.body["request_id"], error
            else:
                raise AssertionError(f"{name} was accepted")


async def asynchronous(url):
    async with anthropic.AsyncAnthropic(**options(url)) as client:
        answer = await client.messages.create(**ask("hello"))
        assert answer.content[0].text == "You said: hello", answer
        async with client.messages.stream(**ask("hello")) as stream:
            assert "".join([text async for text in stream.text_stream]) == "You said: hello"


def run(url):
    with anthropic.Anthropic(**options(url)) as client:
        for part in (whole, streamed, thinking, tools, streamed_tools, tool_runner, mixed, structured, images, counted, models, errors):
            part(client)
            yield part.__name__
    asyncio.run(asynchronous(url))
    yield asynchronous.__name__
