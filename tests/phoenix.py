#!/usr/bin/env python3
"""One task is one trace, in a real backend: Arize Phoenix, from PyPI, on loopback.

Installs Phoenix into target/phoenix (854 MB, two minutes; once), runs a registry, a blackboard and four agents, each a
process of its own, with OTLP to it, and asks Phoenix over its REST API what it has seen: of a task that goes through an
agent that can't do it, of one whose winner is killed (-9) in the middle of it, and of one that a model does (played by this
script).

    cargo build && python3 tests/phoenix.py [target/debug/mesh]
"""

import http.server
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

VERSION = "20.26.1"
ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
MESH = str(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else TARGET / "debug" / "mesh").resolve())
PATIENCE = 90
# Fewer than the spans of a trace, so that there are several pages.
PAGE = 40
# The attributes of every span, and further ones by kind of span.
ALWAYS = ["gen_ai.agent.id", "peer.from", "mesh.task.id", "mesh.conversation.id", "mesh.skill"]
MESSAGE = ["peer.to", "mesh.message.type", "mesh.message.id", "messaging.message.id", "messaging.destination.name"]
SAID = {
    "receive": MESSAGE,
    "conversation": ["peer.to", "mesh.message.id", "mesh.pattern", "gen_ai.conversation.id", "gen_ai.operation.name"],
    "cfp": MESSAGE,
    "bid": MESSAGE + ["mesh.bid.cost", "mesh.bid.eta_ms"],
    "award": MESSAGE + ["mesh.epoch"],
    "claim": ["peer.to", "mesh.epoch"],
    "think": ["mesh.turn"],
    "tell": MESSAGE,
    "publish": MESSAGE,
    "chat": ["mesh.turn", "gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.conversation.id"],
    "tool": ["mesh.turn", "gen_ai.operation.name", "gen_ai.tool.name", "gen_ai.tool.call.id", "gen_ai.conversation.id"],
}
# What the model of the script takes for each of its calls, and its price per million tokens.
INPUT, OUTPUT, INPUT_PRICE, OUTPUT_PRICE = 1200, 30, 3, 15
PROJECT = "agent-mesh"
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
running = []


def fail(why):
    print(f"phoenix.py: {why}", file=sys.stderr)
    sys.exit(1)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def call(url, body=None, headers=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json", **(headers or {})})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=PATIENCE) as answer:
        return json.loads(answer.read() or b"null")


def eventually(what, look):
    """Calls `look` until it returns something."""
    ends, last = time.monotonic() + PATIENCE, None
    while time.monotonic() < ends:
        try:
            found = look()
            if found:
                return found
        except (OSError, urllib.error.URLError, ValueError, KeyError) as error:
            last = error
        time.sleep(0.1)
    fail(f"never seen: {what} ({last})")


def install():
    """Installs Phoenix in a virtual environment; returns its program."""
    place = TARGET / "phoenix" / VERSION
    program = place / "bin" / "phoenix"
    if not program.exists():
        print(f"installing arize-phoenix {VERSION} into {place}", flush=True)
        try:
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
            pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, f"arize-phoenix=={VERSION}"], check=True, timeout=900)
        except (OSError, subprocess.SubprocessError) as error:
            subprocess.run(["rm", "-rf", str(place)], check=False)
            fail(f"Phoenix can't be installed, so nothing is proven: {error}")
    return str(program)


def start(args, log, env=None):
    """A process in its own group that ends with this one."""
    out = open(log, "ab")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "MESH_"))}
    process = subprocess.Popen(
        args, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env={**clean, **(env or {})}, start_new_session=True
    )
    running.append(process)
    return process


def end(process, by=signal.SIGKILL):
    """Ends a process and waits for its exit."""
    if process.poll() is None:
        process.send_signal(by)
    process.wait(PATIENCE)


class Mesh:
    """Registry, blackboard and agents, each a process that sends its traces to `otlp`."""

    def __init__(self, place, otlp):
        self.place, self.processes = place, {}
        self.env = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": otlp,
            "OTEL_BSP_SCHEDULE_DELAY": "200",
            "OTEL_RESOURCE_ATTRIBUTES": f"openinference.project.name={PROJECT}",
            "MESH_CAPTURE": "full",
        }
        self.join = place / "join"
        self.join.write_text("0123456789abcdef" * 4)
        self.board = self.run("board", ["blackboard", "--port", str(free_port())])["url"]
        self.registry = self.run("registry", ["registry", "--board", self.board, "--port", str(free_port())])["url"]

    def run(self, name, args):
        data = self.place / name
        data.mkdir(exist_ok=True)
        told = data / "run.json"
        told.unlink(missing_ok=True)
        more = ["--profile", "fast", "--data", str(data), "--join", str(self.join)]
        process = start([MESH, *args, *more], data / "log", self.env)
        self.processes[name] = (process, args)

        def ready():
            if process.poll() is not None:
                fail(f"{name} ended: {(data / 'log').read_text()[-2000:]}")
            return told.exists() and json.loads(told.read_text())

        return eventually(f"{name} listening", ready)

    def node(self, name, yaml):
        team = self.place / f"{name}.yaml"
        team.write_text(yaml)
        args = ["node", "--registry", self.registry, "--board", self.board, "--port", "0", str(team)]
        url = self.run(name, args)["agents"][name]
        alive = lambda: call(f"{self.registry}/registry/agents/{name}")["state"] == "alive"
        eventually(f"{name} registered", alive)
        return url

    def kill(self, name):
        end(self.processes[name][0])

    def revive(self, name):
        return self.run(name, self.processes[name][1])

    def stop(self):
        for process, _ in self.processes.values():
            end(process, signal.SIGTERM)
            if process.returncode not in (0, -signal.SIGKILL):
                fail(f"a process left with {process.returncode}")


class Phoenix:
    """The backend and its REST API."""

    def __init__(self, program, place):
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        env = {
            "PHOENIX_WORKING_DIR": str(place),
            "PHOENIX_HOST": "127.0.0.1",
            "PHOENIX_PORT": str(port),
            "PHOENIX_GRPC_PORT": str(free_port()),
            "PHOENIX_TELEMETRY_ENABLED": "false",
            "PHOENIX_AGENTS_DISABLE_BASH": "true",
            "PHOENIX_AGENTS_DISABLE_WEB_ACCESS": "true",
            "PHOENIX_DISABLE_AGENT_ASSISTANT": "true",
        }
        self.process = start([program, "serve"], place / "log", env)
        self.log = place / "log"

        def ready():
            if self.process.poll() is not None:
                fail(f"Phoenix ended: {self.log.read_text()[-2000:]}")
            return call(f"{self.url}/v1/projects")

        eventually("Phoenix listening", ready)

    def all_spans(self):
        """All spans, page by page."""
        spans, cursor = [], ""
        while True:
            page = call(f"{self.url}/v1/projects/{PROJECT}/spans?limit={PAGE}{cursor}")
            spans += page["data"]
            if not page.get("next_cursor"):
                return spans
            cursor = "&cursor=" + urllib.parse.quote(page["next_cursor"])

    def spans_where(self, what, trace, is_it):
        """The spans of a trace once `is_it`, and once no more come; that nothing of its tasks lies outside of it."""

        def look():
            found = self.all_spans()
            if not is_it([span for span in found if span["context"]["trace_id"] == trace]):
                return None
            time.sleep(1.5)
            return found if len(self.all_spans()) == len(found) else None

        found = eventually(what, look)
        spans = [span for span in found if span["context"]["trace_id"] == trace]
        tasks = {of(span, "mesh.task.id") for span in spans} - {""}
        stray = [span for span in found if of(span, "mesh.task.id") in tasks and span not in spans]
        assert not stray, f"of {tasks} and outside the trace: {[(s['name'], s['context']) for s in stray]}"
        return spans


def of(span, name):
    return span["attributes"].get(name, "")


def words(spans):
    return {of(span, "mesh.span") for span in spans}


def agents(spans):
    return {of(span, "gen_ai.agent.id") for span in spans}


def ended(spans, agent, pattern):
    return any(of(s, "gen_ai.agent.id") == agent and of(s, "mesh.pattern") == pattern for s in spans)


def assert_one_tree(spans, caller=None):
    ids = {span["context"]["span_id"] for span in spans}
    assert len(ids) == len(spans), "a span stands there twice"
    assert len({span["context"]["trace_id"] for span in spans}) == 1
    roots = [span for span in spans if span["parent_id"] not in ids]
    assert [span["parent_id"] for span in roots] == [caller], [(s["name"], s["parent_id"]) for s in roots]


def find(spans, name, agent):
    found = [s for s in spans if s["name"] == name and of(s, "gen_ai.agent.id") == agent]
    assert found, f"no {name} of {agent} among {sorted((s['name'], of(s, 'gen_ai.agent.id')) for s in spans)}"
    return found[0]


def parent(span, of_span):
    assert span["parent_id"] == of_span["context"]["span_id"], f"{span['name']} is not under {of_span['name']}"


def assert_each_says_what_it_should(spans):
    """Every span names its agent, task, conversation and skill; spans of messages name the message and its sender."""
    for span in spans:
        word = of(span, "mesh.span")
        missing = [name for name in ALWAYS + SAID[word] if of(span, name) in ("", None)]
        assert not missing, f"{span['name']} of {of(span, 'gen_ai.agent.id')} lacks {missing}: {span['attributes']}"
        if word in ("tell", "cfp", "bid", "award", "publish"):
            assert of(span, "peer.from") == of(span, "gen_ai.agent.id"), span
            assert of(span, "messaging.message.id") == of(span, "mesh.message.id"), span
        if word in ("receive", "conversation"):
            assert of(span, "peer.to") == of(span, "gen_ai.agent.id"), span


def assert_parents(spans):
    """Spans of an agent are children of its conversation; received messages too, or of the span of the requester."""
    by_id = {span["context"]["span_id"]: span for span in spans}
    for span in spans:
        above = by_id.get(span["parent_id"])
        if above is None:
            continue
        word, over = of(span, "mesh.span"), of(above, "mesh.span")
        same = of(span, "gen_ai.agent.id") == of(above, "gen_ai.agent.id")
        expected = {
            "receive": same and over == "conversation" or over in ("cfp", "award", "tell"),
            "conversation": same and over == "receive",
            "bid": same and over == "receive",
            "chat": same and over == "think",
            "tool": same and over == "think",
        }.get(word, same and over == "conversation")
        assert expected, f"{span['name']} of {of(span, 'gen_ai.agent.id')} hangs under {above['name']}"
        if word == "receive" and over != "conversation":
            assert of(span, "mesh.message.id") == of(above, "mesh.message.id"), f"{span['name']} is not what was sent"
            assert of(span, "peer.from") == of(above, "peer.from"), span


def demo_agent(name, skill, *brain, bid="cost: 0, eta: 1s"):
    program = ", ".join([f"'{MESH}'", "brain", *brain])
    return f"agents:\n  - {{ agent: {name}, skills: [{skill}], brain: {{ exec: [{program}] }}, bid: {{ {bid} }} }}\n"


def a_task_through_an_agent_that_cannot_do_it(mesh, phoenix):
    front = mesh.node("front-01", "agents:\n  - { agent: front-01, skills: [front], brain: { echo: {} } }\n")
    mesh.node("builder-01", demo_agent("builder-01", "implement-api", "rest-builder"))
    mesh.node(
        "builder-02", demo_agent("builder-02", "implement-api", "rest-builder", bid="cost: 5, eta: 30min")
    )
    mesh.node("reviewer-01", demo_agent("reviewer-01", "code-review", "reviewer"))
    request = {
        "fromAgentId": "me",
        "toAgentId": "front-01",
        "type": "task-request",
        "payload": {
            "taskId": "t-1",
            "capability": "implement-api",
            "description": "A REST API for a greenhouse: plants (name, species) and sensors (kind, reading:float)",
        },
    }
    task = call(f"{front}/a2a/messages", request, {"prefer": "wait=60", "traceparent": CALLER})
    assert task["status"]["state"] == "TASK_STATE_COMPLETED", task["status"]
    _, trace, caller, _ = CALLER.split("-")
    spans = phoenix.spans_where(
        "the whole trace",
        trace,
        lambda spans: ended(spans, "front-01", "contract-net")
        and ended(spans, "builder-01", "delegation")
        and ended(spans, "reviewer-01", "help-request")
        and "builder-02" in agents(spans),
    )
    assert_one_tree(spans, caller)
    expected = {"receive", "conversation", "cfp", "bid", "award", "claim", "think", "tell", "publish"}
    assert words(spans) == expected, words(spans) ^ expected
    assert agents(spans) == {"front-01", "builder-01", "builder-02", "reviewer-01"}, agents(spans)
    assert len(spans) > PAGE, f"{len(spans)} spans fit on one page: nothing is shown of the others"
    assert_each_says_what_it_should(spans)
    assert_parents(spans)
    assert {of(span, "mesh.task.id") for span in spans} == {"t-1"}, {of(span, "mesh.task.id") for span in spans}
    entry = find(spans, "receive task-request", "front-01")
    work = find(spans, "invoke_agent front-01", "front-01")
    award = find(spans, "award", "front-01")
    awarded = find(spans, "receive award", "builder-01")
    parent(work, entry)
    parent(award, work)
    parent(awarded, award)
    doing = [s for s in spans if of(s, "gen_ai.agent.id") == "builder-01" and of(s, "mesh.pattern") == "delegation"]
    parent(doing[0], awarded)
    for name, value in {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.id": "front-01",
        "mesh.task.id": "t-1",
        "mesh.skill": "implement-api",
        "mesh.doer": "builder-01",
        "mesh.task.state": "completed",
        "peer.from": "me",
    }.items():
        assert of(work, name) == value, f"{name} is {of(work, name)!r}"
    assert of(award, "peer.to") == "builder-01" and of(award, "messaging.message.id") == of(awarded, "mesh.message.id")
    assert "greenhouse" in of(work, "langfuse.trace.input") and of(work, "langfuse.trace.output")
    assert work["span_kind"] == "AGENT", work["span_kind"]
    print(f"ok: {len(spans)} spans of {len(agents(spans))} agents are one trace under its caller's span")


def a_winner_killed_in_the_middle(mesh, phoenix):
    gate = mesh.place / "gate"
    script = mesh.place / "gated.sh"
    script.write_text(
        f"""#!/bin/sh
read -r line
touch "{gate}-$1"
while [ ! -e '{gate}' ]; do [ -d '{mesh.place}' ] || exit 1; sleep 0.05; done
echo '{{"type":"artifact","name":"out.txt","text":"made"}}'
echo '{{"type":"done"}}'
"""
    )
    gated = "agents:\n  - {{ agent: {0}, skills: [press], brain: {{ exec: [/bin/sh, '{1}', {0}] }}, bid: {{ {2} }} }}\n"
    front = mesh.node("front-02", "agents:\n  - { agent: front-02, skills: [front], brain: { echo: {} } }\n")
    mesh.node("press-01", gated.format("press-01", script, "cost: 0, eta: 1s"))
    mesh.node("press-02", gated.format("press-02", script, "cost: 5, eta: 30min"))
    request = {
        "fromAgentId": "me",
        "toAgentId": "front-02",
        "type": "task-request",
        "payload": {"taskId": "t-2", "capability": "press", "description": "Press it"},
    }
    call(f"{front}/a2a/messages", request)
    at_work = lambda name: pathlib.Path(f"{gate}-{name}").exists()
    eventually("the winner at work", lambda: at_work("press-01"))
    mesh.kill("press-01")
    eventually("the runner-up at work", lambda: at_work("press-02"))
    gate.touch()
    done = lambda: call(f"{front}/a2a/tasks/t-2")["status"]["state"] == "TASK_STATE_COMPLETED"
    eventually("the task done", done)
    trace = call(f"{front}/a2a/tasks/t-2/trace")["traceId"]
    whole = lambda spans: ended(spans, "front-02", "contract-net") and ended(spans, "press-02", "delegation")
    spans = phoenix.spans_where("the trace without the dead winner's part", trace, whole)
    assert_one_tree(spans)
    awards = [of(span, "peer.to") for span in spans if of(span, "mesh.span") == "award"]
    assert sorted(awards) == ["press-01", "press-02"], awards
    print(f"ok: {len(spans)} spans are one trace while the winner is dead")
    gate.unlink()
    mesh.revive("press-01")
    spans = phoenix.spans_where("the dead winner's part", trace, lambda spans: ended(spans, "press-01", "delegation"))
    assert_one_tree(spans)
    assert_parents(spans)
    lost = find(spans, "invoke_agent press-01", "press-01")
    assert lost["status_code"] == "ERROR" and of(lost, "mesh.task.state") == "canceled", lost
    print(f"ok: {len(spans)} spans are one trace after its return")


class Model(http.server.BaseHTTPRequestHandler):
    """A server of OpenAI Chat Completions, streamed: calls a tool, and answers after its result."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        has_result = any(message["role"] == "tool" for message in body["messages"])
        function = {"name": "publish_signal", "arguments": json.dumps({"signal": "acme.haiku.begun"})}
        call = {"index": 0, "id": "call_0", "type": "function", "function": function}
        delta, end = ({"content": "An old silent pond"}, "stop") if has_result else ({"tool_calls": [call]}, "tool_calls")
        usage = {"prompt_tokens": INPUT, "completion_tokens": OUTPUT, "total_tokens": INPUT + OUTPUT}
        chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": end}]}, {"choices": [], "usage": usage}]
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for chunk in [*map(json.dumps, chunks), "[DONE]"]:
            self.wfile.write(f"data: {chunk}\n\n".encode())

    def log_message(self, *_):
        pass


def a_task_that_a_model_does(mesh, phoenix):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/v1"
    price = f"{{ input: {INPUT_PRICE}, output: {OUTPUT_PRICE} }}"
    llm = f"{{ model: openai/stub-1, url: '{url}', key: k, price: {price} }}"
    poet = mesh.node("poet-01", f"agents:\n  - {{ agent: poet-01, skills: [haiku], brain: {{ llm: {llm} }} }}\n")
    request = {
        "fromAgentId": "me",
        "toAgentId": "poet-01",
        "type": "task-request",
        "payload": {"taskId": "t-3", "capability": "haiku", "description": "A haiku about a pond"},
    }
    task = call(f"{poet}/a2a/messages", request, {"prefer": "wait=60"})
    assert task["status"]["state"] == "TASK_STATE_COMPLETED", task["status"]
    trace = call(f"{poet}/a2a/tasks/t-3/trace")["traceId"]
    whole = lambda spans: ended(spans, "poet-01", "delegation") and {"chat", "tool"} <= words(spans)
    spans = phoenix.spans_where("the model's trace", trace, whole)
    assert_one_tree(spans)
    assert_each_says_what_it_should(spans)
    assert_parents(spans)
    chats = [span for span in spans if of(span, "mesh.span") == "chat"]
    assert len(chats) == 2, [span["name"] for span in chats]
    cost = (INPUT * INPUT_PRICE + OUTPUT * OUTPUT_PRICE) / 1e6
    for chat in chats:
        for name, value in {
            "gen_ai.request.model": "stub-1",
            "gen_ai.usage.input_tokens": INPUT,
            "gen_ai.usage.output_tokens": OUTPUT,
        }.items():
            assert of(chat, name) == value, f"{name} is {of(chat, name)!r}: {chat['attributes']}"
        assert abs(of(chat, "mesh.usage.cost") - cost) < 1e-9, chat["attributes"]
        assert chat["span_kind"] == "LLM", chat["span_kind"]
    tool = find(spans, "execute_tool publish_signal", "poet-01")
    assert tool["span_kind"] == "TOOL", tool["span_kind"]
    server.shutdown()
    print(f"ok: model, tokens and cost of {len(chats)} calls of a model and one of a tool are in the trace")


def main():
    if not os.access(MESH, os.X_OK):
        fail(f"there is no {MESH}: cargo build first")
    program = install()
    with tempfile.TemporaryDirectory(prefix="mesh-phoenix-") as place:
        place = pathlib.Path(place)
        try:
            (place / "phoenix").mkdir()
            phoenix = Phoenix(program, place / "phoenix")
            mesh = Mesh(place, phoenix.url)
            a_task_through_an_agent_that_cannot_do_it(mesh, phoenix)
            a_winner_killed_in_the_middle(mesh, phoenix)
            a_task_that_a_model_does(mesh, phoenix)
            mesh.stop()
        except AssertionError:
            for log in place.glob("*/log"):
                if log.parent.name != "phoenix":
                    print(f"--- {log.parent.name}\n{log.read_text()[-1500:]}", file=sys.stderr)
            raise
        finally:
            for process in running:
                end(process)


if __name__ == "__main__":
    main()
