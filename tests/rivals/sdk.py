"""An echo agent on the official Python SDK with its own in-memory store: sdk.py PORT."""

import sys

import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import a2a_pb2 as a2a
from starlette.applications import Starlette


class Echo(AgentExecutor):
    """Task, artifact, status: the events of the mesh's echo brain."""

    async def execute(self, context, queue):
        status = a2a.TaskStatus(state=a2a.TASK_STATE_SUBMITTED)
        await queue.enqueue_event(
            a2a.Task(id=context.task_id, context_id=context.context_id, status=status, history=[context.message])
        )
        task = TaskUpdater(queue, context.task_id, context.context_id)
        await task.add_artifact([a2a.Part(text=context.get_user_input())], name="result", last_chunk=True)
        await task.complete()

    async def cancel(self, context, queue):
        await TaskUpdater(queue, context.task_id, context.context_id).cancel()


def main():
    port = int(sys.argv[1])
    card = a2a.AgentCard(
        name="Echo",
        description="Gives back what it is told",
        version="1.0.0",
        supported_interfaces=[
            a2a.AgentInterface(url=f"http://127.0.0.1:{port}/a2a/rpc", protocol_binding="JSONRPC", protocol_version="1.0")
        ],
        capabilities=a2a.AgentCapabilities(),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[a2a.AgentSkill(id="echo", name="Echo", description="Gives back what it is told", tags=["echo"])],
    )
    handler = DefaultRequestHandler(agent_executor=Echo(), task_store=InMemoryTaskStore(), agent_card=card)
    routes = create_jsonrpc_routes(handler, "/a2a/rpc")
    uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=port, log_level="error", lifespan="off")


main()
