"""LangChain (langchain-openai) on chat completions and on responses."""
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from openai_chat import PNG, SEEN, Event


@tool
def weather(city: str) -> str:
    """The weather."""
    return f"mild {city}"


def model(url, name="scripted", **fields):
    return ChatOpenAI(base_url=url, api_key="unused", model=name, max_retries=0, **fields)


def talk(llm):
    answer = llm.invoke("hello")
    assert answer.text == "You said: hello" and answer.usage_metadata["total_tokens"] == 15, answer
    pieces = list(llm.stream("hello"))
    assert "".join(piece.text for piece in pieces) == "You said: hello", pieces


def tools(llm):
    bound, messages = llm.bind_tools([weather]), [("user", "weather Rome Oslo")]
    first = bound.invoke(messages)
    assert [call["args"]["city"] for call in first.tool_calls] == ["Rome", "Oslo"], first
    second = bound.invoke([*messages, first, *(weather.invoke(call) for call in first.tool_calls)])
    assert second.text == "2 results: mild Oslo", second
    whole = None
    for piece in bound.stream(messages):
        whole = piece if whole is None else whole + piece
    assert [call["args"]["city"] for call in whole.tool_calls] == ["Rome", "Oslo"], whole


def mixed(llm):
    """A call of the server's tool and one of the client's function in the same answer."""
    bound, messages = llm.bind_tools([weather]), [("user", "compute")]
    whole = None
    for piece in bound.stream(messages):
        whole = piece if whole is None else whole + piece
    for first in (bound.invoke(messages), whole):
        assert [call["name"] for call in first.tool_calls] == ["weather"], first
        second = bound.invoke([*messages, first, *(weather.invoke(call) for call in first.tool_calls)])
        assert second.text == "2 results: mild Rome", second


def structured(llm):
    for method in ("json_schema", "function_calling"):
        event = llm.with_structured_output(Event, method=method).invoke("event")
        assert event.guests == ["Ann", "Bob"], event


def images(llm):
    picture = {"type": "image", "base64": PNG, "mime_type": "image/png"}
    answer = llm.invoke([("user", [{"type": "text", "text": "look"}, picture])])
    assert answer.text == SEEN, answer


def run(url):
    for name, fields in [
        ("chat", {"stream_usage": True}),
        ("responses", {"use_responses_api": True}),
        ("responses with previous_response_id", {"use_responses_api": True, "use_previous_response_id": True}),
    ]:
        for part in (talk, tools, structured, images):
            part(model(url, **fields))
        mixed(model(url, "org/agent", **fields))
        yield f"{name} ({', '.join(part.__name__ for part in (talk, tools, structured, images, mixed))})"
