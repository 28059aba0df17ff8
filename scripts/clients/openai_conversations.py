"""openai-python: conversations, their items and responses that belong to them."""
import openai
from openai_chat import options


def texts(items):
    return [item.content[0].text for item in items if item.type == "message"]


def answered(client):
    """Responses of a conversation read what it has, and add what they say."""
    given = [{"type": "message", "role": "developer", "content": "be brief"}]
    conversation = client.conversations.create(items=given, metadata={"topic": "a"})
    first = client.responses.create(model="scripted", conversation=conversation.id, input="hello")
    assert (first.output_text, first.conversation.id) == ("You said: hello", conversation.id), first
    client.conversations.items.create(
        conversation.id, items=[{"type": "message", "role": "user", "content": "and you?"}], include=["reasoning.encrypted_content", "web_search_call.results"]
    )
    second = client.responses.create(model="scripted", conversation=conversation.id)
    assert second.output_text == "You said: and you?", second
    said = texts(client.conversations.items.list(conversation.id, limit=1, order="asc"))
    assert said == ["be brief", "hello", "You said: hello", "and you?", "You said: and you?"], said


def changed(client):
    conversation = client.conversations.create(items=[{"type": "message", "role": "user", "content": "one"}])
    items = client.conversations.items
    (one,) = items.list(conversation.id)
    assert items.retrieve(one.id, conversation_id=conversation.id) == one
    (two,) = items.create(conversation.id, items=[{"type": "message", "role": "user", "content": "two"}]).data
    assert items.delete(one.id, conversation_id=conversation.id).id == conversation.id
    assert [item.id for item in items.list(conversation.id)] == [two.id]
    updated = client.conversations.update(conversation.id, metadata={"topic": "b"})
    assert updated == client.conversations.retrieve(conversation.id) and updated.metadata == {"topic": "b"}, updated
    assert client.conversations.delete(conversation.id).deleted
    try:
        client.conversations.retrieve(conversation.id)
    except openai.NotFoundError:
        pass
    else:
        raise AssertionError("a deleted conversation was found")


def run(url):
    with openai.OpenAI(**options(url)) as client:
        for part in (answered, changed):
            part(client)
            yield part.__name__
