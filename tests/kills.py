#!/usr/bin/env python3
"""Kills the processes of a mesh while it works, and checks that nothing is lost: tests/kills.py [MESH] [--quick]
[--seed N] [--tasks N] [--kills N].

A board, a registry, two managers and four workers run as eight processes. Between them every piece of data is late by up
to 200 ms. Callers send tasks in three ways: to a manager, which awards them, to a worker, and as offers on the board.
Meanwhile one process after the other is killed with SIGKILL, ended with SIGTERM, or stopped and continued. In the end:

- every acknowledged task is completed at the agent that acknowledged it,
- the board has one `task.complete` and no `task.failed` of each,
- no work began for a task after a caller had seen its end.

The seed decides the tasks and the order of the kills, not what the machine does meanwhile. Everything is on loopback,
bounded in count and time, in a scratch directory that is removed if all is well, and in processes that are ended by
their ids.
"""

import argparse
import asyncio
import collections
import http.client
import json
import multiprocessing
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
MANAGERS = ["manager-01", "manager-02"]
WORKERS = ["worker-01", "worker-02", "worker-03", "worker-04"]
# Nodes call each other at this address, where the data is made late. They listen on 127.0.0.1.
LATE = "127.0.0.2"
LATEST = 0.2
CALLERS = 64
# What a caller repeats a request after. A process that was stopped answers 408: it could not read the request in time.
RETRIED = (408, 429, 503)
# The time limits of a start and of a stop, and of all tasks after the last kill, seconds.
START, STOP, REST = 60, 60, 300

BRAIN = """#!/bin/sh
# A node that is killed leaves its brain without a request, or ends `date` before the shell.
read -r line || exit 1
task=${line#*'"taskId":"'}
task=${task%%'"'*}
began=$(date +%s%N) || exit 1
echo "$began $task" >> WORKS
sleep 0.0$((${#line} % 10))
echo '{"type":"artifact","name":"out.txt","text":"'"$task"'"}'
echo '{"type":"done"}'
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Node:
    """A `mesh` process that can be started again on its port and data."""

    def __init__(self, options, name, *arguments):
        self.name, self.port = name, free_port()
        self.url, self.late_url = f"http://127.0.0.1:{self.port}", f"http://{LATE}:{self.port}"
        self.data = options.scratch / name
        self.data.mkdir()
        self.log = options.scratch / f"{name}.log"
        self.command = [options.mesh, *arguments, "--port", str(self.port), "--advertise", LATE]
        self.command += ["--data", self.data, "--join", options.scratch / "join"]
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("MESH_", "OTEL_"))}
        self.environment["HOME"] = str(options.scratch)
        self.process = None

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [str(word) for word in self.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
            )
        deadline = time.monotonic() + START
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if self.call("GET", "/healthz")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.02)
        sys.exit(f"{self.name} did not start:\n{self.log.read_text()[-2000:]}")

    def signal(self, number):
        self.process.send_signal(number)

    def end(self, number):
        """Ends it by a signal; returns its exit status."""
        self.signal(number)
        try:
            return self.process.wait(STOP)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return "no end in time"

    def call(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"content-type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        except (http.client.HTTPException, json.JSONDecodeError) as error:
            raise OSError(f"no whole answer: {error}") from error
        finally:
            connection.close()


async def late_links(ports, seed):
    """Forwards connections to `LATE` to 127.0.0.1, each piece of data late by up to `LATEST` seconds."""
    chance = random.Random(seed)

    async def pump(reader, writer):
        try:
            while piece := await reader.read(1 << 16):
                await asyncio.sleep(chance.random() * LATEST)
                writer.write(piece)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def forward(port, reader, writer):
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))

    def link(port):
        return asyncio.start_server(lambda reader, writer: forward(port, reader, writer), LATE, port)

    servers = [await link(port) for port in ports]
    await asyncio.gather(*(server.serve_forever() for server in servers))


def run_late_links(ports, seed):
    asyncio.run(late_links(ports, seed))


class Run:
    """What callers know."""

    def __init__(self, options, nodes):
        self.options, self.nodes = options, nodes
        self.chance = random.Random(options.seed)
        self.numbers = iter(range(options.tasks))
        self.lock = threading.Lock()
        self.acknowledged, self.ended, self.errors = {}, {}, []
        self.deadline = None

    def next_task(self):
        with self.lock:
            number = next(self.numbers, None)
            return number if number is None else (f"t-{number}", self.chance.random(), self.chance.random())

    def caller(self):
        while task := self.next_task():
            try:
                self.one(*task)
            except Exception as error:  # A caller that ends silently would hide what it saw.
                self.errors.append(f"{task[0]}: {error!r}")

    def one(self, task, way, which):
        work = {"taskId": task, "description": "Work.", "capability": "work"}
        if way < 0.2:
            node, kind = WORKERS[int(which * len(WORKERS))], "task-request"
        else:
            node, kind = MANAGERS[int(which * len(MANAGERS))], "task-request" if way < 0.8 else "broadcast"
        payload = work
        if kind == "broadcast":
            payload = {"signal": "task.available", "taskId": task, "capability": "work", "refs": {"description": "Work."}}
        message = {"messageId": f"m-{task}", "fromAgentId": "me", "toAgentId": node, "type": kind, "payload": payload}
        while True:
            status, answer = self.insist(node, "POST", "/a2a/messages", message)
            if status in (200, 202):
                break
            if status not in RETRIED:
                raise AssertionError(f"{kind} to {node} refused: {status} {answer}")
            time.sleep(0.2)
        self.acknowledged[task] = (node, kind)
        while True:
            status, answer = self.insist(node, "GET", f"/a2a/tasks/{task}")
            if status == 200 and (state := answer["status"]["state"]) not in OPEN:
                self.ended[task] = (time.time_ns(), state, answer)
                return
            if status not in (200, *RETRIED):
                raise AssertionError(f"{kind} acknowledged by {node}, then {status} {answer}")
            time.sleep(0.25)

    def insist(self, node, *request):
        """Calls until there is an answer: the process may be dead or stopped."""
        while True:
            try:
                return self.nodes[node].call(*request)
            except OSError as error:
                if self.deadline and time.monotonic() > self.deadline:
                    raise TimeoutError(f"{node} does not answer: {error}") from error
                time.sleep(0.1)

    def kill(self):
        """One process after the other dies, stops or pauses, evenly over the tasks."""
        chance = random.Random(f"kills {self.options.seed}")
        kinds = collections.Counter()
        for number in range(self.options.kills):
            name = chance.choice(list(self.nodes))
            kind = chance.choices(["SIGKILL", "SIGTERM", "SIGSTOP"], [70, 15, 15])[0]
            pause = chance.random() * (6 if kind == "SIGSTOP" else 2)
            while len(self.ended) + len(self.errors) < self.options.tasks * number // self.options.kills:
                time.sleep(0.01)
            node = self.nodes[name]
            kinds[kind] += 1
            if kind == "SIGSTOP":
                node.signal(signal.SIGSTOP)
                time.sleep(pause)
                node.signal(signal.SIGCONT)
                continue
            status = node.end(signal.Signals[kind])
            if kind == "SIGTERM" and status != 0:
                self.errors.append(f"{name} ended with {status} after SIGTERM")
            time.sleep(pause)
            node.start()
        return kinds


OPEN = {"TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"}


def signals(board, kind):
    """How often the board has a signal of this type for each task."""
    count, after = collections.Counter(), ""
    while True:
        status, page = board.call("GET", f"/board/signals?type={kind}&limit=1000{after}")
        if status != 200:
            sys.exit(f"the board answered {status}: {page}")
        count.update(signal["taskId"] for signal in page["signals"])
        if not page["signals"]:
            return count
        after = f"&after={page['next']}"


def violations(run, board, works):
    yield from run.errors
    for task in sorted(set(run.acknowledged) - set(run.ended)):
        yield f"{task}: acknowledged by {run.acknowledged[task]} and without an end"
    for task, (_, state, answer) in run.ended.items():
        if state != "TASK_STATE_COMPLETED":
            yield f"{task} at {run.acknowledged[task]}: {state}: {answer['status'].get('message')}"
    for line in works.read_text().splitlines():
        began, task = line.split()
        if task in run.ended and int(began) > run.ended[task][0]:
            yield f"{task}: work began after its end was seen"
    deadline = time.monotonic() + START
    while True:
        complete, failed = signals(board, "task.complete"), signals(board, "task.failed")
        wrong = [task for task in run.ended if complete[task] != 1] + list(failed)
        if not wrong or time.monotonic() > deadline:
            break
        time.sleep(1)
    for task in wrong:
        yield f"{task}: {complete[task]} × task.complete, {failed[task]} × task.failed on the board"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("mesh", nargs="?", type=pathlib.Path, default=ROOT / "target/release/mesh", metavar="MESH")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tasks", type=int, default=9_000)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--quick", action="store_true", help="300 tasks, 15 kills")
    options = parser.parse_args()
    options.mesh = options.mesh.resolve()
    if options.quick:
        options.tasks, options.kills = 300, 15
    options.scratch = pathlib.Path(tempfile.mkdtemp(prefix="mesh-kills-"))
    works, brain = options.scratch / "works", options.scratch / "brain.sh"
    works.touch()
    brain.write_text(BRAIN.replace("WORKS", str(works)))
    brain.chmod(0o755)

    nodes = {"board": Node(options, "board", "blackboard")}
    nodes["registry"] = Node(options, "registry", "registry", "--board", nodes["board"].late_url)
    known = "--registry", nodes["registry"].late_url, "--board", nodes["board"].late_url
    for name in MANAGERS + WORKERS:
        kind = "skills: [work]\n    subscribe: [task.available]\n    bid: { maxParallel: 16 }" if name in WORKERS else "skills: []"
        does = f"{{ exec: [{brain}] }}" if name in WORKERS else "{ echo: {} }"
        team = options.scratch / f"{name}.yaml"
        team.write_text(
            f"mesh: {{ auction: {{ leaseMs: 10000 }} }}\nagents:\n  - agent: {name}\n    {kind}\n    brain: {does}\n"
        )
        nodes[name] = Node(options, name, "node", team, *known)
    links = multiprocessing.Process(target=run_late_links, args=([node.port for node in nodes.values()], options.seed))
    links.start()
    begin = time.monotonic()
    try:
        for node in nodes.values():
            node.start()
        run = Run(options, nodes)
        callers = [threading.Thread(target=run.caller, daemon=True) for _ in range(CALLERS)]
        for caller in callers:
            caller.start()
        kinds = run.kill()
        run.deadline = time.monotonic() + REST
        for caller in callers:
            caller.join(max(0, run.deadline - time.monotonic()))
        found = list(violations(run, nodes["board"], works))
    finally:
        for node in reversed(nodes.values()):
            if node.process and node.process.poll() is None:
                node.end(signal.SIGTERM)
        links.kill()
        links.join()
    turns = len(works.read_text().splitlines())
    did = ", ".join(f"{count} × {kind}" for kind, count in sorted(kinds.items()))
    seconds = time.monotonic() - begin
    print(f"{len(run.acknowledged)} tasks acknowledged, {len(run.ended)} ended, {turns} turns; {did}; {seconds:.0f} s")
    for violation in found[:50]:
        print(violation)
    if found:
        sys.exit(f"{len(found)} violations; logs and data are in {options.scratch}")
    shutil.rmtree(options.scratch)


if __name__ == "__main__":
    main()
