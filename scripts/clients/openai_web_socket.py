"""openai-python: responses over a WebSocket, with events that must match the package's types."""
import asyncio, json

import openai
from openai.lib.responses_websocket import ResponsesWebSocketError, ResponsesWebSocketLimits, ResponsesWebSocketSession
from openai_chat import options
from openai_responses import WEATHER, arguments_of, crash, results

MODEL = "scripted"
LAST = ("response.completed", "response.failed", "response.incomplete", "error")
LIMITS = ResponsesWebSocketLimits(
    max_lanes=1, max_events_per_lane=512, max_events=512, max_bytes_per_lane=1 << 24, max_bytes=1 << 24)


def turn(connection, **fields):
    connection.response.create(**({"model": MODEL} | fields))
    events = []
    while not events or events[-1].type not in LAST:
        events.append(connection.recv())
    return events


def streamed(client):
    with client.responses.connect() as connection:
        events = turn(connection, input="hello")
        assert [event.sequence_number for event in events] == list(range(len(events))), events
        last = events[-1].response
        assert last.output_text == "You said: hello", last
        rest = list(client.responses.retrieve(last.id, stream=True, starting_after=5))
        assert [e.to_dict() for e in rest] == [e.to_dict() for e in events[6:]], rest


def chained(client):
    with client.responses.connect() as connection:
        events = turn(connection, input="weather Rome Oslo", tools=[WEATHER], store=False)
        assert arguments_of(events) == [{"city": "Rome"}, {"city": "Oslo"}], events
        first = events[-1].response
        second = turn(
            connection, input=results(first), tools=[WEATHER], store=False, previous_response_id=first.id)[-1]
        assert second.response.output_text == "2 results: mild 1", second
        lost = turn(connection, input="x", store=False, previous_response_id=first.id)
        assert (lost[0].type, lost[0].status, lost[0].error.code) == ("error", 400, "previous_response_not_found"), lost
        connection.send_raw("no json")
        assert connection.recv().error.code == "invalid_request"
        assert turn(connection, input="hello")[-1].response.output_text == "You said: hello"


def collected(client):
    with client.responses.connect() as connection, ResponsesWebSocketSession(connection, limits=LIMITS) as session:
        lane = session.default
        lane.send({"type": "response.create", "model": MODEL, "input": "hello"})
        assert lane.get_final_response().output_text == "You said: hello"
        lane.send({"type": "response.create", "model": "no-such-model", "input": "hello"})
        try:
            raise AssertionError(lane.get_final_response())
        except ResponsesWebSocketError as error:
            assert error.event.error.code == "model_not_found", error.event


def resumed_after_kill(client):
    events = []
    try:
        with client.responses.connect() as connection:
            connection.response.create(model=MODEL, input="slow")
            for event in connection:
                events.append(event)
                if len(events) == 12:
                    crash()
    except Exception as error:  # of the package websockets
        assert type(error).__name__ == "ConnectionClosedError", error
    newest = events[-1].sequence_number
    events += client.responses.retrieve(events[0].response.id, stream=True, starting_after=newest)
    assert [event.sequence_number for event in events] == list(range(len(events))), events
    assert events[-1].response.output_text == "".join(f"{n} " for n in range(40)), events[-1]


async def concurrent(url):
    async def one(client, text):
        async with client.responses.connect() as connection:
            await connection.response.create(model=MODEL, input=text)
            async for event in connection:
                if event.type in LAST:
                    return event.response.output_text

    async with openai.AsyncOpenAI(**options(url)) as client:
        texts = await asyncio.gather(*(one(client, f"no {n}") for n in range(8)))
    assert texts == [f"You said: no {n}" for n in range(8)], texts


def run(url):
    client = openai.OpenAI(**options(url))
    for check in (streamed, chained, collected, resumed_after_kill):
        check(client)
        yield check.__name__.replace("_", " ")
    asyncio.run(concurrent(url))
    yield "async, eight connections"
