"""The mesh through an official MCP client, over streamable HTTP and over standard input and output. Usage: client.py MESH"""

import asyncio
import importlib.metadata
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import mcp
from mcp.client.stdio import StdioServerParameters, stdio_client

mesh = sys.argv[1]
major = int(importlib.metadata.version("mcp").split(".")[0])
scratch = pathlib.Path(tempfile.mkdtemp())
TEAM = """
agents:
  - { agent: front-01, open: true, skills: [front], description: Answers, brain: { scripted: script.yaml } }
"""
SCRIPT = """
turns:
  - when: { contains: delete, turn: 1 }
    say: [{ type: question, id: rm, kind: approval, text: delete it?, call: { name: rm } }]
  - when: { contains: color, turn: 1 }
    say: [{ type: question, id: c, kind: choice, text: which?, options: [red, blue] }]
  - { say: [{ type: artifact, name: a.txt, text: made }], end: { done: thanks } }
"""


async def answer(_context, params):
    """A person who approves and likes blue."""
    schema = getattr(params, "requestedSchema", None) or getattr(params, "requested_schema", None)
    content = {"decision": "approve"} if "decision" in schema["properties"] else {"answer": "blue"}
    return mcp.types.ElicitResult(action="accept", content=content)


def structured(result):
    assert not (getattr(result, "isError", None) or getattr(result, "is_error", None)), result
    return getattr(result, "structuredContent", None) or result.structured_content


async def use(session, may_approve):
    tools = {tool.name for tool in (await session.list_tools()).tools}
    assert {"list_agents", "send_task", "claim_open_task", "read_signals"} <= tools, tools
    agents = structured(await session.call_tool("list_agents", {}))["agents"]
    assert [agent["agentId"] for agent in agents] == ["front-01"], agents
    made = structured(await session.call_tool("send_task", {"description": "make it"}))
    assert made["state"] == "completed" and made["artifacts"][0]["text"] == "made", made
    colored = structured(await session.call_tool("send_task", {"description": "which color"}))
    assert colored["state"] == "completed", colored
    deleted = structured(await session.call_tool("send_task", {"description": "delete it"}))
    assert deleted["state"] == ("completed" if may_approve else "input-required"), deleted
    signal = {"type": "acme.seen.once", "refs": {"n": 1}}
    structured(await session.call_tool("publish_signal", signal))
    seen = structured(await session.call_tool("read_signals", {"types": ["acme.*"]}))
    assert seen["signals"][-1]["refs"]["n"] == 1, seen


async def over_http(url, token):
    if major >= 2:
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        headers = {"Authorization": f"Bearer {token}"} if token else {}
        for mode in ["auto", "legacy"]:
            http = httpx2.AsyncClient(headers=headers, timeout=60)
            transport = streamable_http_client(url, http_client=http)
            async with mcp.Client(transport, elicitation_callback=answer, mode=mode) as client:
                await use(client, bool(token))
                print(f"  {url}, {mode}: {client.protocol_version}")
        return
    from mcp.client.streamable_http import streamablehttp_client

    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with streamablehttp_client(url, headers=headers) as (read, write, _):
        async with mcp.ClientSession(read, write, elicitation_callback=answer) as session:
            begun = await session.initialize()
            await use(session, bool(token))
            print(f"  {url}: {begun.protocolVersion}")


async def over_stdio(url, token_file):
    arguments = ["mcp", "--url", url, "--token", str(token_file)]
    parameters = StdioServerParameters(command=mesh, args=arguments)
    if major >= 2:
        async with mcp.Client(stdio_client(parameters), elicitation_callback=answer) as client:
            await use(client, True)
            print(f"  mesh mcp: {client.protocol_version}")
        return
    async with stdio_client(parameters) as (read, write):
        async with mcp.ClientSession(read, write, elicitation_callback=answer) as session:
            begun = await session.initialize()
            await use(session, True)
            print(f"  mesh mcp: {begun.protocolVersion}")


async def main(run):
    token_file = scratch / "data/token"
    token = token_file.read_text().strip()
    url = run["url"]
    await over_http(f"{url}/mcp", None)
    await over_http(f"{url}/mcp", token)
    await over_http(f"{run['agents']['front-01']}/mcp", token)
    await over_stdio(url, token_file)


(scratch / "team.yaml").write_text(TEAM)
(scratch / "script.yaml").write_text(SCRIPT)
node = subprocess.Popen(
    [mesh, "up", "--port", "0", "--profile", "fast", "--data", scratch / "data", scratch / "team.yaml"],
    stdout=subprocess.DEVNULL,
)
try:
    deadline = time.monotonic() + 60
    while not (scratch / "data/run.json").exists():
        assert node.poll() is None and time.monotonic() < deadline, "the mesh does not start"
        time.sleep(0.05)
    print(f"mcp {importlib.metadata.version('mcp')}")
    asyncio.run(main(json.loads((scratch / "data/run.json").read_text())))
finally:
    node.terminate()
    node.wait(20)
