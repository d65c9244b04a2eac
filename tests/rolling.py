#!/usr/bin/env python3
"""Restarts a team of five under load, one node after another: tests/rolling.py [MESH] [--before MESH] [--tasks N] [--rounds N].

A board, a registry, a front and five workers run as eight processes. Callers send tasks of ten paid steps (`turn.once`) to the
front, which awards them. Meanwhile each process is ended with SIGTERM and started again, one after another; with --before the
first life of each is another binary, so that this is the upgrade from it. In the end every acknowledged task is completed; between
two lives of the same binary each step was paid once. The longest time that a task took, and that nothing was paid, are shown.
"""

import argparse
import collections
import pathlib
import shutil
import signal
import sys
import tempfile
import threading
import time

from kills import ROOT, Node

WORKERS = [f"worker-0{number}" for number in range(1, 6)]
STEPS = 10
CALLERS = 8

BRAIN = """
import sys, time
sys.path.insert(0, DIR)
import mesh_agent as agent

@agent.turn
def work(turn):
    def pay(step):
        time.sleep(0.1)
        with open(PAID, "a") as paid:
            paid.write(f"{time.time()} {turn.task.id} {step}\\n")
    for step in range(STEPS):
        turn.once(f"step {step}", lambda: pay(step))
    return "done"

agent.run()
"""


class Load:
    """Callers that send one task after another until there are enough."""

    def __init__(self, front, tasks):
        self.front, self.tasks, self.next = front, tasks, 0
        self.lock, self.took, self.errors = threading.Lock(), {}, []

    def insist(self, *request):
        until = time.monotonic() + 240
        while True:
            try:
                status, answer = self.front.call(*request)
                if status not in (408, 429, 503):
                    return status, answer
            except OSError:
                pass
            if time.monotonic() > until:
                raise TimeoutError(f"no answer to {request[:2]}")
            time.sleep(0.1)

    def caller(self):
        while True:
            with self.lock:
                number, self.next = self.next, self.next + 1
            if number >= self.tasks:
                return
            try:
                self.one(f"t-{number}")
            except Exception as error:  # A caller that ends silently would hide what it saw.
                self.errors.append(f"t-{number}: {error!r}")

    def one(self, task):
        began = time.monotonic()
        payload = {"taskId": task, "description": "Work.", "capability": "work"}
        message = {"messageId": f"m-{task}", "fromAgentId": "me", "toAgentId": "front-01", "type": "task-request", "payload": payload}
        status, answer = self.insist("POST", "/a2a/messages", message)
        if status not in (200, 202):
            raise AssertionError(f"refused: {status} {answer}")
        while time.monotonic() < began + 600:
            status, answer = self.insist("GET", f"/a2a/tasks/{task}")
            state = answer["status"]["state"] if status == 200 else f"{status}"
            if state == "TASK_STATE_COMPLETED":
                self.took[task] = time.monotonic() - began
                return
            if state not in ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"):
                raise AssertionError(f"{state}: {answer}")
            time.sleep(0.1)
        raise TimeoutError("not done in ten minutes")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("mesh", nargs="?", type=pathlib.Path, default=ROOT / "target/release/mesh", metavar="MESH")
    parser.add_argument("--before", type=pathlib.Path, metavar="MESH", help="the binary of the first life of each process")
    parser.add_argument("--tasks", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=2, help="how often all are restarted")
    options = parser.parse_args()
    after = options.mesh.resolve()
    options.mesh = (options.before or after).resolve()
    options.scratch = pathlib.Path(tempfile.mkdtemp(prefix="mesh-rolling-"))
    module = (ROOT / "agent-node/templates/python/mesh_agent.py").read_text()
    (options.scratch / "mesh_agent.py").write_text(module)
    paid, brain = options.scratch / "paid", options.scratch / "brain.py"
    paid.touch()
    text = BRAIN.replace("DIR", repr(str(options.scratch))).replace("PAID", repr(str(paid))).replace("STEPS", str(STEPS))
    brain.write_text(text)

    nodes = {"board": Node(options, "board", "blackboard")}
    nodes["registry"] = Node(options, "registry", "registry", "--board", nodes["board"].url)
    known = "--registry", nodes["registry"].url, "--board", nodes["board"].url
    for name in ["front-01", *WORKERS]:
        does = f"brain: {{ exec: {{ command: [python3, '{brain}'], worker: true }} }}\n    skills: [work]\n    bid: {{ maxParallel: 2 }}"
        team = options.scratch / f"{name}.yaml"
        team.write_text(f"agents:\n  - agent: {name}\n    {does if name in WORKERS else 'brain: { echo: {} }'}\n")
        nodes[name] = Node(options, name, "node", team, *known, "--grace", "1s")
    for node in nodes.values():
        node.command[node.command.index("--advertise") + 1] = "127.0.0.1"
    found, begin = [], time.monotonic()
    try:
        for node in nodes.values():
            node.start()
        load = Load(nodes["front-01"], options.tasks)
        callers = [threading.Thread(target=load.caller, daemon=True) for _ in range(CALLERS)]
        for caller in callers:
            caller.start()
        for number in range(options.rounds):
            for place, (name, node) in enumerate(nodes.items()):
                share = (number * len(nodes) + place + 1) / (options.rounds * len(nodes) + 1)
                while len(load.took) + len(load.errors) < options.tasks * share * 0.9:
                    time.sleep(0.02)
                status = node.end(signal.SIGTERM)
                if status != 0:
                    found.append(f"{name} ended with {status} after SIGTERM")
                node.command[0] = str(after)
                node.start()
        for caller in callers:
            caller.join(600)
        found += load.errors
    finally:
        for node in reversed(nodes.values()):
            if node.process and node.process.poll() is None:
                node.end(signal.SIGTERM)
    lines = [line.split() for line in paid.read_text().splitlines()]
    counts = collections.Counter((task, step) for _, task, step in lines)
    repeats = sum(count - 1 for count in counts.values())
    if not options.before:
        found += [f"{task}, step {step}: paid {count} times" for (task, step), count in counts.items() if count != 1]
    missing = [task for task in load.took if sum(1 for of, _ in counts if of == task) < STEPS]
    found += [f"{task}: steps are missing" for task in missing]
    times = sorted(float(at) for at, _, _ in lines)
    pause = max((later - earlier for earlier, later in zip(times, times[1:])), default=0)
    longest = max(load.took.values(), default=0)
    print(
        f"{len(load.took)} of {options.tasks} tasks completed, {repeats} steps paid again; the longest task took {longest:.1f} s, "
        f"the longest time without a step was {pause:.1f} s; {time.monotonic() - begin:.0f} s"
    )
    for what in found[:50]:
        print(what)
    if found:
        sys.exit(f"{len(found)} violations; logs and data are in {options.scratch}")
    shutil.rmtree(options.scratch)


if __name__ == "__main__":
    main()
