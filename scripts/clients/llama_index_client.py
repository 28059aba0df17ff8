"""LlamaIndex: llama-index-llms-openai (chat and responses) and llama-index-llms-openai-like."""
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai import OpenAI, OpenAIResponses
from llama_index.llms.openai_like import OpenAILike
from openai_chat import IMAGE_URL, SEEN, Event


def weather(city: str) -> str:
    """The weather."""
    return f"mild {city}"


TOOL = FunctionTool.from_defaults(weather)


def talk(llm):
    messages = [ChatMessage(role="user", content="hello")]
    assert llm.chat(messages).message.content == "You said: hello"
    pieces = list(llm.stream_chat(messages))
    assert "".join(piece.delta or "" for piece in pieces) == "You said: hello", pieces


def tools(llm):
    asked = ChatMessage(role="user", content="weather Rome Oslo")
    response = llm.chat_with_tools([TOOL], chat_history=[asked], allow_parallel_tool_calls=True)
    calls = llm.get_tool_calls_from_response(response)
    assert [call.tool_kwargs["city"] for call in calls] == ["Rome", "Oslo"], response
    key = "call_id" if isinstance(llm, OpenAIResponses) else "tool_call_id"
    results = [
        ChatMessage(role="tool", content=weather(**c.tool_kwargs), additional_kwargs={key: c.tool_id}) for c in calls
    ]
    second = llm.chat_with_tools([TOOL], chat_history=[asked, response.message, *results])
    assert second.message.content == "2 results: mild Oslo", second
    *_, last = llm.stream_chat_with_tools([TOOL], chat_history=[asked], allow_parallel_tool_calls=True)
    calls = llm.get_tool_calls_from_response(last)
    assert [call.tool_kwargs["city"] for call in calls] == ["Rome", "Oslo"], last


def structured(llm):
    event = llm.as_structured_llm(Event).chat([ChatMessage(role="user", content="event")]).raw
    assert event.guests == ["Ann", "Bob"], event


def images(llm):
    message = ChatMessage(role="user", blocks=[TextBlock(text="look"), ImageBlock(url=IMAGE_URL)])
    assert llm.chat([message]).message.content == SEEN


def run(url):
    fields = {"api_base": url, "api_key": "unused", "max_retries": 0}
    for name, llm in [
        ("OpenAI", OpenAI(model="gpt-4o", **fields)),
        ("OpenAIResponses", OpenAIResponses(model="gpt-4o", **fields)),
        ("OpenAILike", OpenAILike(model="scripted", is_chat_model=True, is_function_calling_model=True, **fields)),
    ]:
        for part in (talk, tools, structured, images):
            part(llm)
        yield f"{name} ({', '.join(part.__name__ for part in (talk, tools, structured, images))})"
