#!/usr/bin/env python3
"""Measures a release build of `mesh`: tests/figures.py [MESH] [--only ROW …] [--quick] [--json].

MESH is a program, `target/release/mesh` if not given. Only its command line and its HTTP are used, so that the same
script measures every version. Everything is on loopback, bounded in count and time, in a scratch directory below --dir
that is removed, and in processes that are ended by their ids. Wall-clock figures are worth something on a quiet machine
only: the load average before the run is printed with them. Processor times and bytes depend much less on it.
"""

import argparse
import base64
import collections
import dataclasses
import datetime
import http.server
import json
import os
import pathlib
import platform
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
TICK = os.sysconf("SC_CLK_TCK")
BIDDERS = 10
MANAGER, HOLDER = "manager-01", "holder-01"
CHUNKS, CHUNK_BYTES = 5_000, 1_024
# The time limit of a start, a stop and one answer, seconds.
START, STOP, ANSWER = 60, 60, 60


class Process:
    """One `mesh` process and its kernel counters."""

    def __init__(self, options, data, *arguments):
        self.data = data
        data.mkdir(parents=True, exist_ok=True)
        (data / "run.json").unlink(missing_ok=True)
        env = {name: value for name, value in os.environ.items() if not name.startswith(("MESH_", "OTEL_"))}
        command = [options.mesh, *arguments, "--port", "0", "--data", data, "--join", options.scratch / "join"]
        self.log = data.parent / f"{data.name}.log"
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=env | {"HOME": str(options.scratch)},
            )
        self.pid = self.process.pid
        running.append(self)
        self.described = self._described()

    def _described(self):
        deadline = time.monotonic() + START
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                return json.loads((self.data / "run.json").read_text())
            except (FileNotFoundError, json.JSONDecodeError):
                time.sleep(0.002)
        sys.exit(f"mesh did not start: {self.log.read_text()[-2000:]}")

    def address(self, agent=None):
        url = self.described["agents"][agent] if agent else self.described["url"]
        host, port = url.removeprefix("http://").rsplit(":", 1)
        return host, int(port)

    def processor(self):
        """Processor time so far in seconds, of all threads, without children."""
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def written(self):
        """Bytes written to the disk so far."""
        return self._number("io", "write_bytes")

    def resident(self):
        return self._number("status", "VmRSS") * 1024

    def _number(self, file, name):
        for line in pathlib.Path(f"/proc/{self.pid}/{file}").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1])
        raise KeyError(name)

    def stop(self):
        """Ends it, and returns when its store is closed."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        running.remove(self)


running = []


class Connection:
    """A minimal HTTP/1.1 client with little processor time."""

    def __init__(self, address):
        self.host = f"{address[0]}:{address[1]}"
        self.socket = socket.create_connection(address, timeout=ANSWER)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def call(self, method, path, body=None, headers=""):
        text = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nhost: {self.host}\r\n{headers}"
        if body is not None:
            head += f"content-type: application/json\r\ncontent-length: {len(text)}\r\n"
        self.socket.sendall(head.encode() + b"\r\n" + text)
        received = b""
        while b"\r\n\r\n" not in received:
            received += self._more()
        head, received = received.split(b"\r\n\r\n", 1)
        fields = head.lower().split(b"\r\n")
        parts = [received]
        size = len(received)
        length = next(int(line[15:]) for line in fields if line.startswith(b"content-length:"))
        while size < length:
            parts.append(self._more())
            size += len(parts[-1])
        pause = next((float(line[12:]) for line in fields if line.startswith(b"retry-after:")), 0.1)
        return int(fields[0][9:12]), b"".join(parts), pause

    def _more(self):
        chunk = self.socket.recv(1 << 16)
        if not chunk:
            raise ConnectionError("the connection was closed before the answer's end")
        return chunk


@dataclasses.dataclass
class Load:
    """The results of many calls."""

    elapsed: float
    seconds: list
    refusals: collections.Counter
    failures: collections.Counter

    @property
    def done(self):
        return len(self.seconds)

    @property
    def rate(self):
        return self.done / self.elapsed

    def quantile(self, share):
        return sorted(self.seconds)[min(self.done - 1, int(self.done * share))] * 1e3

    def says(self):
        refused = ", ".join(f"{count} × {status}" for status, count in sorted(self.refusals.items()))
        failed = ", ".join(f"{count} × {why}" for why, count in sorted(self.failures.items()))
        return f"refused: {refused or 'none'}" + (f"; FAILED: {failed}" if failed else "")


def load(address, count, connections, limit, request, expected=b""):
    """Calls `request(number)` for numbers below `count`, at most for `limit` seconds. A refusal by 429 or 503 is
    counted and retried after its Retry-After; the time of a call runs from its first attempt."""
    numbers = iter(range(count))
    lock = threading.Lock()
    result = Load(0, [], collections.Counter(), collections.Counter())
    begin = time.monotonic()

    def caller():
        connection = Connection(address)
        seconds, refusals, failures = [], collections.Counter(), collections.Counter()
        while time.monotonic() < begin + limit:
            with lock:
                number = next(numbers, None)
            if number is None:
                break
            arguments = request(number)
            started = time.monotonic()
            while True:
                status, body, pause = connection.call(*arguments)
                if status not in (429, 503) or time.monotonic() > begin + limit:
                    break
                refusals[status] += 1
                time.sleep(min(pause, 1))
            if status == 200 and expected in body:
                seconds.append(time.monotonic() - started)
            else:
                failures[f"{status} {body[:200]!r}" if status != 200 else "200, unexpected"] += 1
        with lock:
            result.seconds += seconds
            result.refusals += refusals
            result.failures += failures

    threads = [threading.Thread(target=caller, daemon=True) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(limit + ANSWER)
    result.elapsed = time.monotonic() - begin
    if not result.done:
        sys.exit(f"no call was answered as it should be: {result.says()}")
    return result


def rpc(method, params):
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return "POST", "/a2a/rpc", body, "a2a-version: 1.0\r\n"


def message(name):
    message = {"messageId": name, "role": "ROLE_USER", "parts": [{"text": "Say back these few words."}]}
    return rpc("SendMessage", {"message": message})


def task(name, capability, to):
    payload = {"taskId": name, "description": "Say back these few words.", "capability": capability}
    body = {"messageId": f"m-{name}", "fromAgentId": "me", "toAgentId": to, "type": "task-request", "payload": payload}
    return "POST", "/a2a/messages", body, "prefer: wait=30\r\n"


def agent(name, brain="{ echo: {} }", skills=""):
    return f"  - agent: {name}\n    skills: [{skills}]\n    bid: {{ maxParallel: 256 }}\n    brain: {brain}\n"


def team(options, name, *agents):
    path = options.scratch / f"{name}.yaml"
    path.write_text("agents:\n" + "".join(agents))
    return path


def bidder(number):
    return f"bidder-{number:02}"


def size(data):
    return sum(file.stat().st_size for file in data.rglob("*") if file.is_file())


def counted(address, name):
    """The sum of a counter of `/metrics` over its labels named `rate_limited`, `overloaded`, or without any."""
    text = Connection(address).call("GET", "/metrics")[1].decode()
    return sum(
        float(line.rsplit(" ", 1)[1])
        for line in text.splitlines()
        if line.startswith(name + " ") or line.startswith(name + "{") and ("rate_limited" in line or "overloaded" in line)
    )


def awarded(options, manager, processes, count, connections):
    """Awards `count` tasks; returns the load, and the processor seconds of `processes` meanwhile."""
    address = manager.address(MANAGER)
    warm_up(address)
    before = sum(process.processor() for process in processes)
    result = load(
        address, count, connections, options.limit, lambda n: task(f"t-{n}", "work", MANAGER), b"TASK_STATE_COMPLETED"
    )
    return result, sum(process.processor() for process in processes) - before


def warm_up(address):
    """Awards tasks until all bidders bid for one: until the manager knows them."""
    deadline = time.monotonic() + START
    number, heard = 0, counted(address, "mesh_auction_bids_heard_total")
    while time.monotonic() < deadline:
        Connection(address).call(*task(f"warm-{number}", "work", MANAGER))
        number, before, heard = number + 1, heard, counted(address, "mesh_auction_bids_heard_total")
        if heard - before == BIDDERS:
            return
    sys.exit(f"not all {BIDDERS} bidders bid")


def one_process(options):
    data = options.scratch / "one"
    agents = [agent(bidder(number), skills="work") for number in range(1, BIDDERS + 1)]
    node = Process(options, data, "up", team(options, "one", agent(MANAGER), *agents))
    before = size(data)
    result, seconds = awarded(options, node, [node], options.count(3_000), 64)
    node.stop()
    tasks = f"{result.done} tasks, 64 connections; {result.says()}"
    yield "contract net, ten bidders, one process", result.rate, "tasks/s", tasks
    yield "  p50", result.quantile(0.5), "ms", ""
    yield "  p99", result.quantile(0.99), "ms", ""
    yield "  processor", seconds / result.done * 1e3, "ms/task", ""
    yield "  on disk", (size(data) - before) / result.done, "B/task", "growth of the data directory, after a clean stop"


def many_processes(options):
    data = options.scratch / "many"
    board = Process(options, data / "blackboard", "blackboard")
    registry = Process(options, data / "registry", "registry", "--board", board.described["url"])
    known = "--registry", registry.described["url"], "--board", board.described["url"]
    manager = Process(options, data / MANAGER, "node", team(options, MANAGER, agent(MANAGER)), *known)
    names = [bidder(number) for number in range(1, BIDDERS + 1)]
    bidders = [
        Process(options, data / name, "node", team(options, name, agent(name, skills="work")), *known) for name in names
    ]
    processes = [board, registry, manager, *bidders]
    result, seconds = awarded(options, manager, processes, options.count(2_000), 64)
    addresses = [manager.address(MANAGER)] + [node.address(name) for node, name in zip(bidders, names)]
    between = sum(counted(address, "mesh_http_refused_total") for address in addresses)
    for process in reversed(processes):
        process.stop()
    tasks = f"{result.done} tasks, 64 connections; the client {result.says()}; 429/503 between nodes: {between:.0f}"
    yield "the same, thirteen processes", result.rate, "tasks/s", tasks
    yield "  p50", result.quantile(0.5), "ms", ""
    yield "  p99", result.quantile(0.99), "ms", ""
    yield "  processor", seconds / result.done * 1e3, "ms/task", "all thirteen"


def a2a(options):
    node = Process(options, options.scratch / "a2a", "up", team(options, "a2a", agent(HOLDER)))
    address = node.address(HOLDER)
    load(address, 200, 8, options.limit, lambda n: message(f"warm-{n}"), b'"result"')
    known = json.loads(Connection(address).call(*message("known"))[1])["result"]["task"]["id"]
    for what, request in (
        ("A2A SendMessage", lambda n: message(f"m-{n}")),
        ("A2A GetTask", lambda n: rpc("GetTask", {"id": known})),
    ):
        before = node.processor()
        result = load(address, options.count(10_000), 32, options.limit, request, b'"result"')
        seconds = node.processor() - before
        yield what, result.rate, "requests/s", f"{result.done} requests, 32 connections; {result.says()}"
        yield "  p50", result.quantile(0.5), "ms", ""
        yield "  p99", result.quantile(0.99), "ms", ""
        yield "  processor", seconds / result.done * 1e6, "µs/request", ""
    node.stop()


def sends(options):
    """The cost of one send after another on the memory store: the last tenth of them, to the first."""
    node = Process(options, options.scratch / "sends", "up", "--store", "memory", team(options, "sends", agent(HOLDER)))
    connection, count = Connection(node.address(HOLDER)), options.count(20_000)
    times = []
    for number in range(count):
        begin = time.perf_counter()
        connection.call(*message(f"s-{number}"))
        times.append(time.perf_counter() - begin)
    tenth = count // 10
    first, last = (statistics.median(part) * 1e6 for part in (times[:tenth], times[-tenth:]))
    yield "send, first tenth", first, "µs", f"{count} sends, one after another"
    yield "  last tenth", last, "µs", ""
    yield "  last to first", last / first, "", ""
    node.stop()


def chunks(options):
    count = options.count(CHUNKS)
    script = options.scratch / "chunks.py"
    script.write_text(
        "import json, sys\nsys.stdin.readline()\n"
        f"for number in range({count}):\n"
        '    line = {"type": "artifact", "name": "log", "text": f"{number:08}" + "x" * %d, "append": number > 0}\n'
        "    print(json.dumps(line))\n"
        'print(\'{"type":"done"}\')\n' % (CHUNK_BYTES - 8)
    )
    brain = f"{{ exec: [{json.dumps(sys.executable)}, {json.dumps(str(script))}] }}"
    node = Process(options, options.scratch / "chunks", "up", team(options, "chunks", agent(HOLDER, brain)))
    address = node.address(HOLDER)
    load(address, 1, 1, options.limit, lambda _: ("GET", "/healthz"))
    written, seconds, begin = node.written(), node.processor(), time.monotonic()
    parameters = message("chunks")[2]["params"] | {"configuration": {"returnImmediately": True}}
    name = json.loads(Connection(address).call(*rpc("SendMessage", parameters))[1])["result"]["task"]["id"]
    state = None
    while state not in ("TASK_STATE_COMPLETED", "TASK_STATE_FAILED") and time.monotonic() < begin + options.limit:
        time.sleep(0.05)
        answer = Connection(address).call(*rpc("GetTask", {"id": name, "historyLength": 0}))[1]
        got = json.loads(answer)["result"]
        state = got["status"]["state"]
    text = sum(len(part.get("text", "")) for artifact in got.get("artifacts", []) for part in artifact["parts"])
    elapsed = time.monotonic() - begin
    written, seconds = node.written() - written, node.processor() - seconds
    node.stop()
    complete = "all of it kept" if text == count * CHUNK_BYTES else f"{text:,} of {count * CHUNK_BYTES:,} bytes kept"
    said = got["status"].get("message", {}).get("parts", [{}])[0].get("text", "")[:80]
    yield f"one task, {count:,} chunks of 1 KiB: written", written / 1e6, "MB", f"{state}, {complete}: {said!r}"
    yield "  per byte of the artifact", written / (count * CHUNK_BYTES), "×", ""
    yield "  processor", seconds, "s", "the looks at it every 50 ms included"
    yield "  elapsed", elapsed, "s", ""


def lists(options):
    count = options.count(50_000)
    data, file = options.scratch / "lists", team(options, "lists", agent(HOLDER))
    node = Process(options, data, "up", file)
    made = load(node.address(HOLDER), count, 32, options.limit * 5, lambda n: message(f"m-{n}"), b'"result"').done
    node.stop()
    begin = time.monotonic()
    node = Process(options, data, "up", file)
    started = time.monotonic() - begin
    address = node.address(HOLDER)
    for what, arguments in (
        ("A2A ListTasks (pageSize 50)", rpc("ListTasks", {"pageSize": 50})),
        ("GET /a2a/tasks", ("GET", "/a2a/tasks")),
    ):
        seconds, bodies = [], []
        for _ in range(11):
            begin = time.monotonic()
            status, body, _ = Connection(address).call(*arguments)
            seconds.append((time.monotonic() - begin) * 1e3)
            if status != 200 or b'"tasks"' not in body:
                sys.exit(f"{what} answered {status}: {body[:500]!r}")
            bodies.append(len(body))
        yield f"{what}, {made:,} tasks: first", seconds[0], "ms", "after a start" if what.startswith("A2A") else ""
        yield "  later", statistics.median(seconds[1:]), "ms", f"median of {len(seconds) - 1}; {bodies[-1]:,} bytes"
    yield f"start with {made:,} tasks", started * 1e3, "ms", "until the addresses are written down"
    yield "  resident", node.resident() / 2**20, "MiB", "after the lists"
    node.stop()
    yield "  on disk", size(data) / made, "B/task", "one echo task each, after a clean stop"


def memory(options):
    begin = time.monotonic()
    node = Process(options, options.scratch / "memory", "up")
    Connection(node.address()).call("GET", "/healthz")
    yield "`mesh up`: start to first answer", (time.monotonic() - begin) * 1e3, "ms", "the demo team, fresh data"
    time.sleep(3)
    yield "`mesh up` at rest: resident", node.resident() / 2**20, "MiB", "3 s after its start"
    node.stop()


def files(options):
    """Fifty tasks with a file of 5 MB each, sent by four clients, while eight of them are worked on at a time."""
    team = options.scratch / "files.yaml"
    script = options.scratch / "files.sh"
    script.write_text("read -r line; sleep 2; echo '{\"type\":\"done\"}'")
    brain = f"brain: {{ exec: [sh, {script}] }}"
    team.write_text(f"agents:\n  - {{ agent: files-01, skills: [look], bid: {{ maxParallel: 8 }}, {brain} }}\n")
    node = Process(options, options.scratch / "files", "up", team)
    time.sleep(3)
    yield "50 files of 5 MB over A2A: resident before", node.resident() / 2**20, "MiB", "one agent, 3 s after its start"
    raw = base64.b64encode(os.urandom(5_000_000)).decode()
    url, numbers = node.described["agents"]["files-01"], iter(range(options.count(50)))

    def rpc(method, params):
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        headers = {"content-type": "application/json", "a2a-version": "1.0"}
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        return json.load(opener.open(urllib.request.Request(f"{url}/a2a/rpc", body, headers), timeout=ANSWER))

    def send():
        for number in numbers:
            # Each is another file.
            parts = [{"raw": f"{number:04}{raw[4:]}", "mediaType": "image/png"}]
            message = {"messageId": f"m{number}", "role": "ROLE_USER", "parts": parts}
            answer = rpc("SendMessage", {"message": message, "configuration": {"returnImmediately": True}})
            assert "result" in answer, answer

    clients = [threading.Thread(target=send) for _ in range(4)]
    [client.start() for client in clients]
    [client.join() for client in clients]
    deadline = time.monotonic() + 10 * options.limit
    while time.monotonic() < deadline:
        tasks = rpc("ListTasks", {"pageSize": 100})["result"]["tasks"]
        if all(task["status"]["state"] == "TASK_STATE_COMPLETED" for task in tasks):
            break
        time.sleep(0.5)
    yield "  at most", node._number("status", "VmHWM") / 1024, "MiB", f"until {len(tasks)} tasks were completed"
    node.stop()


class CachingProvider(http.server.BaseHTTPRequestHandler):
    """Anthropic's Messages with its cache: what a mark has covered before is read, what it covers now is written. It calls a tool twenty
    times, each time with other arguments."""

    def do_POST(self):
        body, blocks, marks = json.loads(self.rfile.read(int(self.headers["content-length"]))), [], []
        texts = lambda content: [{"type": "text", "text": content}] if isinstance(content, str) else content
        messages = [dict(block, role=said["role"]) for said in body["messages"] for block in texts(said["content"])]
        for block in [*body.get("tools", []), *texts(body.get("system", [])), *messages]:
            is_marked = block.pop("cache_control", None)
            blocks.append(json.dumps(block, sort_keys=True))
            marks += [len(blocks)] if is_marked else []
        tokens = lambda blocks: sum(map(len, blocks)) // 4
        read = max((len(known) for known in self.server.known if blocks[: len(known)] == known), default=0)
        written = max(marks, default=read)
        self.server.known += [blocks[:mark] for mark in marks]
        counts = [tokens(blocks[written:]), tokens(blocks[:read]), tokens(blocks[read:written])]
        self.server.paid = [sum(pair) for pair in zip(self.server.paid, counts)]
        self.server.requests += 1
        names = ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"]
        usage, is_call = dict(zip(names, counts)), self.server.requests <= 20
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": "done"}
        if is_call:
            block = {"type": "tool_use", "id": f"t{self.server.requests}", "name": "read_signals", "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps({"limit": self.server.requests})}
        events = [
            {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [], "usage": usage}},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use" if is_call else "end_turn"}, "usage": {"output_tokens": 20}},
            {"type": "message_stop"},
        ]
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write("".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode())

    def log_message(self, *_):
        pass


def cache(options):
    """What a task of twenty calls pays for its requests, with and without the marks for the provider's cache."""
    for is_marked in ["true", "false"]:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), CachingProvider)
        server.known, server.paid, server.requests = [], [0, 0, 0], 0
        threading.Thread(target=server.serve_forever, daemon=True).start()
        team = options.scratch / f"cache-{is_marked}.yaml"
        model = f"model: anthropic/claude-sonnet-4-5, url: 'http://127.0.0.1:{server.server_port}', key: none-needed-00"
        team.write_text(f"agent: cache-01\nskills: [look]\nbrain: {{ llm: {{ {model}, cache: {is_marked} }} }}\n")
        node = Process(options, options.scratch / f"cache-{is_marked}", "up", team)
        ask = [options.mesh, "ask", "look", "--capability", "look", "--quiet", "--url", node.described["url"]]
        env = os.environ | {"HOME": str(options.scratch)}
        subprocess.run([str(word) for word in ask], check=True, env=env, timeout=ANSWER, stdout=subprocess.DEVNULL)
        fresh, read, written = server.paid
        what = "tokens paid in a task of 20 calls, " + ("marked for the cache" if is_marked == "true" else "not marked")
        detail = f"{server.requests} requests: {fresh} + {read} read at a tenth + {written} written at 1.25; bytes / 4"
        yield what, fresh + read / 10 + written * 1.25, "tokens", detail
        node.stop()
        server.shutdown()


EVENTS = 20_000
# A turn may report 10,000 times.
TALKER = """
import pathlib, sys
sys.stdin.readline()
done = pathlib.Path(__file__).with_suffix(".turns")
turn = int(done.read_text()) if done.exists() else 0
done.write_text(str(turn + 1))
for number in range(turn * 5_000, min(turn * 5_000 + 5_000, %d)):
    print('{"type":"tool","id":"c%%d","name":"step_%%d"}' %% (number, number), flush=number %% 50 == 0)
if turn * 5_000 + 5_000 < %d:
    print('{"type":"pause","afterMs":1000,"reason":"there are more"}')
else:
    print('{"type":"done","message":"all steps"}')
"""


class Page:
    """A page of the console: what its script does, without a browser."""

    def __init__(self, options, node, name):
        environment = {**os.environ, "MESH_URL": node.described["url"], "MESH_TOKEN_FILE": str(node.data / "token")}
        link = subprocess.run(
            [options.mesh, "console", "--no-open", name], env=environment, check=True, capture_output=True, text=True
        ).stdout.strip()
        self.origin, code = link.split("/#code=")
        self.host, self.port = self.origin.removeprefix("http://").rsplit(":", 1)
        request = urllib.request.Request(
            self.origin + "/console/session",
            json.dumps({"code": code}).encode(),
            {"Content-Type": "application/json", "Origin": self.origin},
        )
        with urllib.request.urlopen(request) as answer:
            self.headers = {
                "Mesh-Console-Key": json.load(answer)["key"],
                "Cookie": answer.headers["Set-Cookie"].split(";")[0],
            }

    def get(self, path):
        request = urllib.request.Request(f"{self.origin}/console/{path}", headers=self.headers)
        return urllib.request.urlopen(request)

    def view(self, query):
        """The view, and the milliseconds until it was whole."""
        begin = time.monotonic()
        with self.get(f"view?{query}") as answer:
            text = answer.read().decode()
        return text, (time.monotonic() - begin) * 1e3

    def stay(self, query, seconds):
        """Shows the view for a while, as the script does: it asks again for what has changed, at most twice a second."""
        end, loads, last = time.monotonic() + seconds, 0, 0
        lines, changed = self.get(f"stream?{query}"), threading.Event()

        def read():
            try:
                for line in lines:
                    if line.startswith(b"data:") and b'"of":[]' not in line:
                        changed.set()
            except (OSError, ValueError):
                pass  # The page is closed.

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        while time.monotonic() < end:
            if changed.wait(max(0, end - time.monotonic())):
                time.sleep(max(0, last + 0.5 - time.monotonic()))
                changed.clear()
                last, loads = time.monotonic(), loads + 1
                self.view(query)
        lines.fp.raw._sock.shutdown(socket.SHUT_RDWR)
        reader.join(ANSWER)
        return loads


def console(options):
    """Pages over many tasks and over a long history, and what an open page costs while the mesh works."""
    (options.scratch / "talker.py").write_text(TALKER % ((options.count(EVENTS),) * 2))
    talker = agent("talker-01", f"{{ exec: [python3, {options.scratch}/talker.py] }}")
    node = Process(options, options.scratch / "console", "up", team(options, "console", agent(HOLDER), talker))
    holder = node.address(HOLDER)
    made = load(holder, options.count(10_000), 32, options.limit, lambda n: message(f"m-{n}"), b'"result"').done
    page = Page(options, node, HOLDER)
    query = "view=tasks"
    times, seen = [], 0
    while query and seen < made:
        text, took = page.view(query)
        times.append(took)
        seen += text.count('<tr data-key="task-')
        older = re.search(r'href="\?([^"]*)">Older', text)
        query = older[1].replace("&amp;", "&") if older else ""
    yield f"console, a page of 50 of {made:,} tasks", statistics.median(times), "ms", f"median of {len(times)} pages, all {seen:,} tasks"
    yield "  slowest", max(times), "ms", ""
    yield "  text in none of the newest 2,000", page.view("view=tasks&text=nowhere")[1], "ms", ""
    body = {"fromAgentId": "me", "toAgentId": "talker-01", "type": "task-request", "payload": {"taskId": "long", "description": "talk"}}
    Connection(node.address("talker-01")).call("POST", "/a2a/messages", body, "prefer: wait=60\r\n")
    talk = Page(options, node, "talker-01")
    text, took = talk.view("view=task&agent=talker-01&id=long")
    events = text.split("<h2>Events</h2>")[1].split(" event")[0].rsplit(">", 1)[-1]
    yield "console, a task with a long history", took, "ms", f"{events} events, {len(text):,} bytes"
    yield "  filtered", talk.view("view=task&agent=talker-01&id=long&text=step_7")[1], "ms", ""
    seconds = 10 if options.quick else 20
    for query in ("view=start", "view=tasks", "view=mesh"):
        spent = []
        for is_open in (False, True):
            stop, loads = threading.Event(), []
            work = threading.Thread(target=lambda: trickle(holder, stop))
            watch = threading.Thread(target=lambda: loads.append(page.stay(query, seconds)))
            before = node.processor()
            work.start()
            if is_open:
                watch.start()
                watch.join()
            else:
                time.sleep(seconds)
            spent.append(node.processor() - before)
            stop.set()
            work.join()
        detail = f"at two tasks a second, {loads[0]} loads in {seconds} s; {spent[0] / seconds:.1%} without"
        yield f"an open page, {query}", (spent[1] - spent[0]) / seconds * 100, "% of a core", detail
    node.stop()


def trickle(address, stop):
    """Two tasks a second until `stop`."""
    connection = Connection(address)
    while not stop.wait(0.5):
        connection.call(*message(f"trickle-{time.monotonic_ns()}"))


ROWS = {
    "one-process": one_process,
    "processes": many_processes,
    "a2a": a2a,
    "sends": sends,
    "chunks": chunks,
    "lists": lists,
    "memory": memory,
    "files": files,
    "cache": cache,
    "console": console,
}


def machine():
    name = next(
        (line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown"
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} × {name}, {memory:.0f} GiB, {platform.system()} {platform.release()}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mesh", nargs="?", default=ROOT / "target/release/mesh", type=pathlib.Path)
    parser.add_argument("--only", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--quick", action="store_true", help="a tenth of every count")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    parser.add_argument("--dir", help="where the scratch directory is made: on the disk to be measured")
    parser.add_argument("--limit", type=float, default=60, help="seconds after which a load ends early (60)")
    options = parser.parse_args()
    options.mesh = options.mesh.resolve()
    if not options.mesh.is_file():
        parser.error(f"{options.mesh} is not there: cargo build --release, or name another program")
    options.count = lambda count: count // 10 if options.quick else count
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    figures, busy = [], os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="mesh-figures-", dir=options.dir) as scratch:
        options.scratch = pathlib.Path(scratch)
        try:
            for row in options.only:
                for what, value, unit, detail in ROWS[row](options):
                    figures.append({"row": row, "what": what, "value": value, "unit": unit, "detail": detail})
                    print(f"{what}: {value:.4g} {unit}", file=sys.stderr)
        finally:
            for process in list(running):
                process.process.kill()
                process.process.wait()
    about = {
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "loadBefore": busy,
        "quick": options.quick,
        "figures": figures,
    }
    if options.json:
        print(json.dumps(about, indent=1, ensure_ascii=False))
        return
    print(f"{about['machine']}; {about['date']}; load average before the run {busy:.1f}" + ("; --quick" * options.quick))
    print("\n| row | figure | value | unit | detail |\n| --- | --- | ---: | --- | --- |")
    for line in figures:
        value = f"{line['value']:,.0f}" if line["value"] >= 100 else f"{line['value']:.2f}"
        what = line["what"].replace("  ", "… ", 1) if line["what"].startswith("  ") else line["what"]
        print(f"| {line['row']} | {what} | {value} | {line['unit']} | {line['detail']} |")


if __name__ == "__main__":
    main()
