"""LiteLLM as a client: its `openai/` provider."""
import json

import litellm
from openai_chat import SEEN, WEATHER, Event, look, user
from openai_responses import WEATHER as RESPONSE_WEATHER
from openai_responses import results


def chat(fields):
    answer = litellm.completion(messages=user("hello"), **fields)
    assert answer.choices[0].message.content == "You said: hello" and answer.usage.total_tokens == 15, answer


def stream(fields):
    pieces = list(litellm.completion(messages=user("hello"), stream=True, **fields))
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == "You said: hello", pieces


def tools(fields):
    messages = user("weather Rome Oslo")
    first = litellm.completion(messages=messages, tools=[WEATHER], **fields).choices[0].message
    answers = [{"role": "tool", "tool_call_id": call.id, "content": "mild"} for call in first.tool_calls]
    second = litellm.completion(messages=[*messages, first, *answers], tools=[WEATHER], **fields)
    assert second.choices[0].message.content == "2 results: mild", second


def streamed_tools(fields):
    messages = user("weather Rome Oslo")
    pieces = list(litellm.completion(messages=messages, tools=[WEATHER], stream=True, **fields))
    message = litellm.stream_chunk_builder(pieces, messages=messages).choices[0].message
    cities = [json.loads(call.function.arguments)["city"] for call in message.tool_calls]
    assert cities == ["Rome", "Oslo"], message
    events = list(litellm.responses(input="weather Rome Oslo", tools=[RESPONSE_WEATHER], stream=True, **fields))
    deltas = [event.delta for event in events if event.type == "response.function_call_arguments.delta"]
    calls = [item.arguments for item in events[-1].response.output]
    assert len(deltas) > len(calls) == 2 and "".join(deltas) == "".join(calls), events


def structured(fields):
    answer = litellm.completion(messages=user("event"), response_format=Event, **fields)
    assert Event.model_validate_json(answer.choices[0].message.content).day == "Friday", answer


def images(fields):
    answer = litellm.completion(messages=look(), **fields)
    assert answer.choices[0].message.content == SEEN, answer


def responses(fields):
    first = litellm.responses(input="weather Rome Oslo", tools=[RESPONSE_WEATHER], **fields)
    second = litellm.responses(input=results(first), tools=[RESPONSE_WEATHER], previous_response_id=first.id, **fields)
    assert second.output[-1].content[0].text == "2 results: mild 1", second
    kinds = [event.type for event in litellm.responses(input="hello", stream=True, **fields)]
    assert kinds[-1] == "response.completed", kinds


def run(url):
    litellm.suppress_debug_info = True
    fields = {"model": "openai/scripted", "api_base": url, "api_key": "unused", "max_retries": 0}
    for part in (chat, stream, tools, streamed_tools, structured, images, responses):
        part(fields)
        yield part.__name__
