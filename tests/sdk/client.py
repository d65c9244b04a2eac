"""The official Python SDK (a2a-sdk) as a client of our agent, over every binding that its card offers.

Each check is a sentence; the first that does not hold ends the run with its reason. Called by tests/sdk/run, which
starts the node: client.py BASE_URL.
"""

import asyncio
import json
import sys
import uuid

import grpc
import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as a2a

PATIENCE = 20
passed = 0


def say(prefix, text="hello", **more):
    message = a2a.Message(
        message_id=f"{prefix}-{uuid.uuid4()}", role=a2a.ROLE_USER, parts=[a2a.Part(text=text)], **more
    )
    return a2a.SendMessageRequest(message=message)


def holds(sentence, is_so, seen=None):
    global passed
    if not is_so:
        print(f"FAILED {sentence}\n  seen: {seen}")
        sys.exit(1)
    passed += 1
    print(f"  {sentence}")


def state(task):
    return a2a.TaskState.Name(task.status.state)


class Webhooks:
    """A webhook receiver that keeps the notifications."""

    def __init__(self):
        self.heard = []

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.take, "127.0.0.1", 0)
        port = self.server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/hook"
        return self

    async def __aexit__(self, *_):
        self.server.close()

    async def take(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.heard.append((headers, json.loads(body)))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async def until(self, is_it):
        async with asyncio.timeout(PATIENCE):
            while not any(is_it(body) for _, body in self.heard):
                await asyncio.sleep(0.05)


async def one(client, request):
    return [event async for event in client.send_message(request)]


async def check(client, streams):
    # send
    events = await one(client, say("tck-artifact-text"))
    last = events[-1]
    task_id = last.task.id or last.status_update.task_id
    task = await client.get_task(a2a.GetTaskRequest(id=task_id))
    holds("a task that was sent is completed with its artifact", state(task) == "TASK_STATE_COMPLETED", task)
    holds("its artifact is what the agent made", task.artifacts[0].parts[0].text == "Generated text content", task)
    holds("its history begins with what was said", task.history[0].parts[0].text == "hello", task)

    answers = await one(client, say("tck-message-response"))
    is_message = len(answers) == 1 and answers[0].HasField("message")
    holds("an agent may answer with a message and no task", is_message, answers)

    if streams:
        events = await one(client, say("tck-stream-artifact-chunked"))
        kinds = [event.WhichOneof("payload") for event in events]
        holds("a stream begins with its task", kinds[0] == "task", kinds)
        holds("a stream ends completed", state(events[-1].status_update) == "TASK_STATE_COMPLETED", events)
        chunks = [e.artifact_update for e in events if e.HasField("artifact_update")]
        text = "".join(part.text for chunk in chunks for part in chunk.artifact.parts)
        holds("chunks come in order, the last one marked", text == "chunk-1 chunk-2" and chunks[-1].last_chunk, chunks)

    # multi-turn
    asked = (await one(client, say("tck-input-required")))[-1]
    task_id = asked.task.id or asked.status_update.task_id
    context_id = asked.task.context_id or asked.status_update.context_id
    task = await client.get_task(a2a.GetTaskRequest(id=task_id))
    holds("a task waits for input", state(task) == "TASK_STATE_INPUT_REQUIRED", task)
    await one(client, say("tck-input-required", "more", task_id=task_id, context_id=context_id))
    await one(client, say("tck-complete-task", "enough", task_id=task_id, context_id=context_id))
    task = await client.get_task(a2a.GetTaskRequest(id=task_id))
    holds("a task goes on with what came back", state(task) == "TASK_STATE_COMPLETED", task)
    said = [message.parts[0].text for message in task.history if message.role == a2a.ROLE_USER]
    holds("every turn is in its history, in order", said == ["hello", "more", "enough"], said)
    short = await client.get_task(a2a.GetTaskRequest(id=task_id, history_length=1))
    holds("a history may be short", [m.parts[0].text for m in short.history] == ["enough"], short.history)

    # list
    page = await client.list_tasks(a2a.ListTasksRequest(context_id=context_id))
    holds("a context lists its task", [t.id for t in page.tasks] == [task_id] and page.total_size == 1, page)
    seen, token = [], ""
    while True:
        page = await client.list_tasks(a2a.ListTasksRequest(page_size=2, page_token=token))
        seen += [t.id for t in page.tasks]
        token = page.next_page_token
        if not token:
            break
    holds("pages hold every task once", len(seen) == len(set(seen)) == page.total_size, (seen, page.total_size))

    # cancel mid-run
    held = (await one(client, say("tck-input-required")))[-1]
    task_id = held.task.id or held.status_update.task_id
    canceled = await client.cancel_task(a2a.CancelTaskRequest(id=task_id))
    holds("a task that runs is canceled", state(canceled) == "TASK_STATE_CANCELED", canceled)
    try:
        await client.cancel_task(a2a.CancelTaskRequest(id=task_id))
        holds("a canceled task is not canceled again", False)
    except Exception as error:
        holds("a canceled task is not canceled again", "ancel" in type(error).__name__ + str(error), repr(error))
    try:
        await client.get_task(a2a.GetTaskRequest(id="no-such-task"))
        holds("a task that is not there is not found", False)
    except Exception as error:
        holds("a task that is not there is not found", "NotFound" in type(error).__name__ or "no task" in str(error), repr(error))

    # subscribe after a dropped connection
    if streams:
        stream = client.send_message(say("test-resubscribe-message-id"))
        async for event in stream:
            task_id = event.task.id or event.status_update.task_id
            break
        await stream.aclose()
        events = [e async for e in client.subscribe(a2a.SubscribeToTaskRequest(id=task_id))]
        kinds = [event.WhichOneof("payload") for event in events]
        holds("who comes back sees the task as it is, once", kinds[0] == "task" and kinds.count("task") == 1, kinds)
        holds("and then hears how it ends", state(events[-1].status_update) == "TASK_STATE_COMPLETED", events)

    # push
    async with Webhooks() as hooks:
        secret = f"secret-{uuid.uuid4()}"
        request = say("tck-artifact-text")
        request.configuration.task_push_notification_config.CopyFrom(
            a2a.TaskPushNotificationConfig(
                url=hooks.url, token="t-1", authentication=a2a.AuthenticationInfo(scheme="Bearer", credentials=secret)
            )
        )
        last = (await one(client, request))[-1]
        task_id = last.task.id or last.status_update.task_id
        await hooks.until(lambda body: body.get("statusUpdate", {}).get("status", {}).get("state") == "TASK_STATE_COMPLETED")
        headers = hooks.heard[0][0]
        holds("a webhook is shown its credentials", headers["authorization"] == f"Bearer {secret}", headers)
        holds("a webhook is shown its token", headers["x-a2a-notification-token"] == "t-1", headers)
        holds("a webhook hears of the artifact", any("artifactUpdate" in body for _, body in hooks.heard), hooks.heard)
        configs = await client.list_task_push_notification_configs(
            a2a.ListTaskPushNotificationConfigsRequest(task_id=task_id)
        )
        holds("a task lists its webhooks", [c.url for c in configs.configs] == [hooks.url], configs)
        name = dict(task_id=task_id, id=configs.configs[0].id)
        await client.delete_task_push_notification_config(a2a.DeleteTaskPushNotificationConfigRequest(**name))
        configs = await client.list_task_push_notification_configs(
            a2a.ListTaskPushNotificationConfigsRequest(task_id=task_id)
        )
        holds("a webhook that was removed is gone", not configs.configs, configs)


async def main(base):
    async with httpx.AsyncClient(timeout=PATIENCE) as http:
        card = await A2ACardResolver(http, base).get_agent_card()
        print(f"{card.name} {card.version}")
        for binding in [interface.protocol_binding for interface in card.supported_interfaces]:
            for streams in [True, False]:
                print(f"{binding}, {'streaming' if streams else 'one answer a request'}")
                config = ClientConfig(
                    httpx_client=http,
                    grpc_channel_factory=grpc.aio.insecure_channel,
                    streaming=streams,
                    supported_protocol_bindings=[binding],
                    use_client_preference=True,
                )
                client = ClientFactory(config).create(card)
                async with asyncio.timeout(120):
                    await check(client, streams)
    print(f"{passed} passed, 0 failed")


asyncio.run(main(sys.argv[1]))
