"""The official SDK for Python: python_sdk.py http URL, or python_sdk.py stdio COMMAND…"""
import asyncio, sys

from mcp import Client, StdioServerParameters

KIND, *TARGET = sys.argv[1:]


def server():
    return TARGET[0] if KIND == "http" else StdioServerParameters(command=TARGET[0], args=TARGET[1:])


async def tools(client):
    names = [tool.name for tool in (await client.list_tools()).tools]
    assert "run_python" in names and "submit_job" in names, names
    result = await client.call_tool("run_python", {"code": "print(6 * 7)"})
    assert result.structured_content["output"] == "42\n", result
    result = await client.call_tool("run_shell", {"command": "exit 3"})
    assert result.is_error, result


async def progress(client):
    seen = []

    async def note(progress, total, message):
        seen.append(progress)

    await client.call_tool("run_shell", {"command": "sleep 3"}, progress_callback=note)
    assert seen and seen == sorted(set(seen)), seen


async def timeout(client):
    """The client gives up, and the next call works."""
    try:
        await client.call_tool("run_shell", {"command": "sleep 600", "timeout": 600}, read_timeout_seconds=1)
        raise AssertionError("no time-out")
    except AssertionError:
        raise
    except Exception:
        pass
    result = await client.call_tool("run_shell", {"command": "echo on"})
    assert result.structured_content["output"] == "on\n", result


async def jobs(client):
    job = (await client.call_tool("submit_job", {"input": "hello"})).structured_content
    ended = (await client.call_tool("wait_job", {"job_id": job["id"], "timeout_s": 30})).structured_content
    assert ended["status"] == "succeeded", ended
    page = (await client.call_tool("job_events", {"job_id": job["id"]})).structured_content
    assert page["events"][-1]["event"] == "done", page


async def resources(client):
    await client.call_tool("run_shell", {"command": "echo kept > note.txt"})
    found, cursor = [], None
    while True:
        page = await client.list_resources(cursor=cursor)
        found += page.resources
        cursor = page.next_cursor
        if cursor is None:
            break
    note = next(one for one in found if str(one.uri).endswith("/note.txt"))
    read = await client.read_resource(str(note.uri))
    assert read.contents[0].text == "kept\n", read
    assert len((await client.list_resource_templates()).resource_templates) == 2


async def main():
    async with Client(server()) as client:
        for check in (tools, progress, timeout, jobs, resources):
            await check(client)
            print(check.__name__, flush=True)


asyncio.run(main())
