"""FastMCP's client: fastmcp_client.py http URL, or fastmcp_client.py stdio COMMAND…"""
import asyncio, sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport

KIND, *TARGET = sys.argv[1:]


def server():
    return TARGET[0] if KIND == "http" else StdioTransport(command=TARGET[0], args=TARGET[1:])


async def main():
    async with Client(server()) as client:
        assert await client.ping()
        assert "run_shell" in [tool.name for tool in await client.list_tools()]
        result = await client.call_tool("run_javascript", {"code": "console.log(6 * 7)"})
        assert result.structured_content["output"] == "42\n", result
        result = await client.call_tool("run_python", {"code": "1/0"}, raise_on_error=False)
        assert result.is_error and "ZeroDivisionError" in result.content[0].text, result
        print("tools", flush=True)
        job = (await client.call_tool("submit_job", {"input": "hello"})).structured_content
        ended = (await client.call_tool("wait_job", {"job_id": job["id"], "timeout_s": 30})).structured_content
        assert ended["status"] == "succeeded", ended
        read = await client.read_resource(f"nanoclaw://jobs/{job['id']}")
        assert job["id"] in read[0].text, read
        assert any(str(one.uri).endswith(job["id"]) for one in await client.list_resources())
        print("jobs and resources", flush=True)


asyncio.run(main())
