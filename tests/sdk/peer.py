"""An agent of the official Python SDK (a2a-sdk) as a peer of our mesh: it joins by its card, is awarded a task, streams,
asks, and is cancelled. Called by tests/sdk/run: peer.py MESH BINDING…, where MESH is the program.

Each check is a sentence; the first that does not hold ends the run with its reason.
"""

import asyncio
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

import grpc
import httpx
import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import a2a_pb2 as a2a
from a2a.types import a2a_pb2_grpc
from starlette.applications import Starlette

PATIENCE = 30
cancelled = []


def holds(sentence, is_so, seen=None):
    if not is_so:
        print(f"FAILED {sentence}\n  seen: {seen}")
        sys.exit(1)
    print(f"  {sentence}")


class Poet(AgentExecutor):
    """Tells a text in three pieces; asks when the text wants it; works for ever when it says so."""

    async def execute(self, context, queue):
        said = context.get_user_input()
        if context.current_task is None:
            status = a2a.TaskStatus(state=a2a.TASK_STATE_SUBMITTED)
            await queue.enqueue_event(
                a2a.Task(id=context.task_id, context_id=context.context_id, status=status, history=[context.message])
            )
        task = TaskUpdater(queue, context.task_id, context.context_id)
        await task.start_work(task.new_agent_message([a2a.Part(text="searching for words")]))
        if "for ever" in said:
            await asyncio.sleep(600)
        if "about what" in said:
            await task.requires_input(task.new_agent_message([a2a.Part(text="About what?")]))
            return
        for at, piece in enumerate(["roses are red, ", "and this is about ", said]):
            await task.add_artifact(
                [a2a.Part(text=piece)], artifact_id="poem", name="poem", append=at > 0, last_chunk=at == 2
            )
        await task.complete()

    async def cancel(self, context, queue):
        cancelled.append(context.task_id)
        await TaskUpdater(queue, context.task_id, context.context_id).cancel()


def card(url, binding, calls):
    base = {"JSONRPC": f"{url}/rpc", "HTTP+JSON": f"{url}/rest", "GRPC": f"127.0.0.1:{calls}"}[binding]
    return a2a.AgentCard(
        name="Python Poet",
        description="Writes poems",
        version="1.0.0",
        supported_interfaces=[a2a.AgentInterface(url=base, protocol_binding=binding, protocol_version="1.0")],
        capabilities=a2a.AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[a2a.AgentSkill(id="write_poem", name="Poems", description="Writes a poem", tags=["poem"])],
    )


async def serve(binding):
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    calls = grpc.aio.server()
    shown = card(url, binding, calls.add_insecure_port("127.0.0.1:0"))
    handler = DefaultRequestHandler(agent_executor=Poet(), task_store=InMemoryTaskStore(), agent_card=shown)
    routes = create_agent_card_routes(shown)
    routes += create_jsonrpc_routes(handler, "/rpc")
    routes += create_rest_routes(handler, path_prefix="/rest")
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(handler), calls)
    await calls.start()
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="error", lifespan="off"))
    running = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:
        await asyncio.sleep(0.02)
    return url, server, running, calls


async def until(look, what):
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends:
        found = await look()
        if found:
            return found
        await asyncio.sleep(0.05)
    holds(what, False, "it never came")


def state(task):
    return task["status"]["state"].removeprefix("TASK_STATE_").lower()


async def check(mesh, binding, http, scratch):
    poet, server, running, calls = await serve(binding)
    team = scratch / f"{binding[:4]}.yaml"
    team.write_text(
        "mesh: { outside: { allow: [127.0.0.0/8] } }\n"
        "agents:\n"
        "  - { agent: desk, skills: [desk], brain: { echo: {} } }\n"
        f"  - {{ agent: poet, brain: {{ a2a: {{ card: '{poet}' }} }}, bid: {{ maxParallel: 4 }} }}\n"
    )
    data = scratch / binding[:4]
    command = [mesh, "up", str(team), "--port", "0", "--profile", "fast", "--data", str(data), "--join", str(data / "join")]
    node = await asyncio.create_subprocess_exec(*command, stderr=subprocess.DEVNULL)
    try:
        run = data / "run.json"

        async def started():
            return run.exists() and json.loads(run.read_text())

        desk = (await until(started, "the node starts"))["agents"]["desk"]

        async def send(text):
            payload = {"description": text, "capability": "write_poem"}
            message = {"fromAgentId": "me", "toAgentId": "desk", "type": "task-request", "payload": payload}
            return (await http.post(f"{desk}/a2a/messages", json=message)).json()["taskId"]

        async def task_in(task, states, what):
            async def look():
                seen = (await http.get(f"{desk}/a2a/tasks/{task}")).json()
                return seen if state(seen) in states else None

            return await until(look, what)

        task = await send("the sea")
        done = await task_in(task, ["completed", "failed"], "the task ends")
        text = "".join(part["text"] for artifact in done.get("artifacts", []) for part in artifact["parts"])
        holds(f"{binding}: its pieces come together", text == "roses are red, and this is about the sea", done)
        award = (await http.get(f"{desk}/a2a/tasks/{task}/award")).json()["award"]
        winner = award["rounds"][0]["candidates"][0]
        holds(f"{binding}: it won a contract net", (winner["agent"], winner["fate"]) == ("poet", "completed"), award)

        task = await send("tell me about what")
        asking = await task_in(task, ["input_required", "failed"], "it asks")
        question = asking["status"]["message"]["parts"][0]["text"]
        holds(f"{binding}: what it asks is asked of the owner", question == "About what?", asking)
        await http.post(f"{desk}/a2a/tasks/{task}/answer", json={"text": "stones"})
        done = await task_in(task, ["completed", "failed"], "the task ends")
        text = "".join(part["text"] for artifact in done.get("artifacts", []) for part in artifact["parts"])
        holds(f"{binding}: the answer reaches its task", text.endswith("about stones"), done)

        task = await send("for ever")

        async def known():
            return "searching for words" in (await http.get(f"{desk}/a2a/tasks/{task}")).text

        await until(known, "it is at work")
        before = len(cancelled)
        await http.post(f"{desk}/a2a/tasks/{task}/cancel", json={"reason": "enough"})

        async def heard():
            return len(cancelled) > before

        await until(heard, "the cancel arrives")
        seen = (await http.get(f"{desk}/a2a/tasks/{task}")).json()
        holds(f"{binding}: a cancel reaches it mid-run", state(seen) == "canceled", seen)
    finally:
        node.kill()
        await node.wait()
        server.should_exit = True
        server.force_exit = True
        await running
        await calls.stop(0)


async def main():
    with tempfile.TemporaryDirectory() as scratch:
        async with httpx.AsyncClient(timeout=PATIENCE, trust_env=False) as http:
            for binding in sys.argv[2:]:
                await check(sys.argv[1], binding, http, pathlib.Path(scratch))
    print("the Python SDK is a peer like any other")


asyncio.run(main())
