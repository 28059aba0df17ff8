"""LangChain's MCP adapters: langchain_client.py http URL, or langchain_client.py stdio COMMAND…"""
import asyncio, json, sys

from langchain_mcp_adapters.client import MultiServerMCPClient

KIND, *TARGET = sys.argv[1:]


def connection():
    if KIND == "http":
        return {"transport": "streamable_http", "url": TARGET[0]}
    return {"transport": "stdio", "command": TARGET[0], "args": TARGET[1:]}


def text(answer):
    return answer if isinstance(answer, str) else answer[0]["text"]


async def main():
    client = MultiServerMCPClient({"nanoclaw": connection()})
    tools = {tool.name: tool for tool in await client.get_tools()}
    answer = text(await tools["run_python"].ainvoke({"code": "print(6 * 7)"}))
    assert json.loads(answer)["output"] == "42\n", answer
    print("tools", flush=True)
    job = json.loads(text(await tools["submit_job"].ainvoke({"input": "hello"})))
    ended = json.loads(text(await tools["wait_job"].ainvoke({"job_id": job["id"], "timeout_s": 30})))
    assert ended["status"] == "succeeded", ended
    found = await client.get_resources("nanoclaw", uris=[f"nanoclaw://jobs/{job['id']}"])
    assert job["id"] in found[0].as_string(), found
    print("jobs and resources", flush=True)


asyncio.run(main())
