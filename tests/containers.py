#!/usr/bin/env python3
"""Builds the image and runs deploy/compose.yaml, where a Docker engine answers.

    tests/containers.py              # builds a static binary, the image from it, and tries the whole file
    MESH_BINARY=path tests/containers.py

Everything it makes carries a project name of its own and is removed at the end, also when a step fails. It needs
docker, docker-compose (or `docker compose`) and cargo, and nothing from the network. DOCKER_BUILDKIT=1 builds with BuildKit.
"""

import ipaddress
import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from datetime import datetime
from io import BytesIO

sys.dont_write_bytecode = True
import compose
import grpc_call
from compose import Failed, check, run
from otlp import Receiver

ROOT = pathlib.Path(__file__).resolve().parent.parent
NAME = f"meshtest{os.getpid()}"
IMAGE = f"agent-mesh:{NAME}"
# A separate loopback address for this run, so that a process at 127.0.0.1:8000 does not conflict.
LOOPBACK = f"{83 + os.getpid() % 100}.{os.getpid() // 250 % 250}.{1 + os.getpid() % 250}"
PORTS = {"blackboard": 7999, "registry": 8000, "planner": 8001, "builder-fast": 8002, "reviewer": 8004, "orchestrator": 8005}
TEAM = {"planner-01", "builder-fast", "builder-1", "reviewer-01", "orchestrator-01"}
HEALTHY = "health_status: healthy"
REQUEST = "A REST API for a greenhouse: plants (name, species) and sensors (kind, reading:float)"


def eventually(what, look, within=90):
    """Calls `look` until it returns something."""
    deadline, seen = time.monotonic() + within, None
    while time.monotonic() < deadline:
        try:
            found = look()
            if found:
                return found
        except (OSError, ValueError, KeyError, TypeError, urllib.error.URLError) as error:
            seen = error
        time.sleep(0.2)
    raise Failed(f"never seen within {within} s: {what}" + (f" (last: {seen!r})" if seen else ""))


def http(port, path, body=None, wait=None, within=60):
    """Status and JSON of a request to a published port."""
    headers = {"host": f"localhost:{port}", "content-type": "application/json"}
    if wait:
        headers["prefer"] = f"wait={wait}"
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(f"http://127.{LOOPBACK}:{port}{path}", data=data, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=within) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read() or b"null")


def get(port, path):
    return http(port, path)[1]


def published(service):
    """The address of a service on this machine."""
    return f"http://127.{LOOPBACK}:{PORTS[service]}"


class Mesh:
    """The compose file, under a name of its own."""

    def __init__(self, context, traces):
        self.binary, self.traces, self.began = context / "mesh", traces, 0
        self.command = [*compose.tool(), "-f", str(ROOT / "deploy/compose.yaml")]
        self.env = {
            **os.environ,
            "COMPOSE_PROJECT_NAME": NAME,
            "COMPOSE_PROFILES": "",
            "DOCKER_BUILDKIT": os.environ.get("DOCKER_BUILDKIT", "0"),
            "MESH_IMAGE": IMAGE,
            "MESH_BUILD_CONTEXT": str(context),
            "MESH_BUILD_FILE": str(ROOT / "deploy/Dockerfile"),
            "MESH_BUILD_TARGET": "ready",
            "MESH_LOOPBACK": LOOPBACK,
            "OTEL_EXPORTER_OTLP_ENDPOINT": traces.url,
            # As the docker command passes it to compose.
            "OTEL_RESOURCE_ATTRIBUTES": "docker.cli.cobra.command_path=docker%20compose",
            "MESH_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
        }

    def do(self, *words, **more):
        return run(*self.command, *words, env=self.env, **more)

    def containers(self, service=None):
        """The containers by `docker ps`, stopped ones included."""
        wanted = ["--filter", f"label=com.docker.compose.project={NAME}"]
        if service:
            wanted += ["--filter", f"label=com.docker.compose.service={service}"]
        ids = run("docker", "ps", "-aq", *wanted).stdout.split()
        return json.loads(run("docker", "inspect", *ids).stdout) if ids else []

    def are_healthy(self, but=()):
        def look():
            all_of_them = [c for c in self.containers() if service(c) not in ("secret", *but)]
            return all_of_them and all(c["State"].get("Health", {}).get("Status") == "healthy" for c in all_of_them)

        eventually("every container healthy", look)

    def verb(self, *words, ok=(0,)):
        """Runs `mesh` on this machine, outside the containers."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("MESH_")}
        return run(self.binary, *words, ok=ok, within=60, env=env)

    def events(self):
        """The first time of each event of the containers: nanoseconds by service and event."""
        wanted = ["--filter", "type=container", "--filter", f"label=com.docker.compose.project={NAME}"]
        lines = run("docker", "events", "--since", str(self.began), "--until", str(int(time.time()) + 1), *wanted,
                    "--format", "{{json .}}").stdout
        seen = {}
        for event in map(json.loads, lines.splitlines()):
            what = (event["Actor"]["Attributes"]["com.docker.compose.service"], event["Action"])
            seen.setdefault(what, event["timeNano"])
        return seen

    def report(self):
        for words in (["ps"], ["logs", "--no-color", "--tail", "60"]):
            print(self.do(*words, ok=None).stdout, file=sys.stderr)


def bridge():
    """The address of this machine that containers can call."""
    known = json.loads(run("docker", "network", "inspect", "bridge").stdout)[0]["IPAM"]["Config"][0]
    return known.get("Gateway") or str(next(ipaddress.ip_network(known["Subnet"]).hosts()))


def seconds(stamp):
    """A time as Docker writes it, with nanoseconds and a zone."""
    return datetime.fromisoformat(re.sub(r"(\.\d{6})\d*", r"\1", stamp).replace("Z", "+00:00")).timestamp()


def service(container):
    return container["Config"]["Labels"]["com.docker.compose.service"]


def alive(capability=None):
    """The agents that are alive, by id."""
    query = f"?capability={capability}" if capability else ""
    found = get(PORTS["registry"], f"/registry/agents{query}")["agents"]
    return {entry["card"]["agentId"]: entry for entry in found if entry["state"] == "alive"}


def signals(kind):
    return get(PORTS["blackboard"], f"/board/signals?type={kind}&limit=1000")["signals"]


def ask(of, to, task, wait=None):
    payload = {"taskId": task, "capability": "implement-api", "description": REQUEST}
    envelope = {"fromAgentId": "me", "toAgentId": to, "type": "task-request", "payload": payload}
    return http(PORTS[of], "/a2a/messages", envelope, wait=wait, within=(wait or 10) + 30)


def builder_of(task):
    """The agent that built the result of a finished task."""
    by = {artifact.get("metadata", {}).get("builtBy") for artifact in task.get("artifacts", [])} - {None}
    return by.pop() if len(by) == 1 else None


# The steps, in order: each is a sentence.


def the_image_is_one_static_binary_that_needs_no_rights(mesh):
    image = json.loads(run("docker", "image", "inspect", IMAGE).stdout)[0]
    check(image["Config"]["User"] == "65532:65532", f"it does not run as root: {image['Config']['User']!r}")
    check(image["Config"]["Healthcheck"]["Test"][:2] == ["CMD", "/mesh"], "its health check is the binary's own")
    locked = ["docker", "run", "--rm", "--read-only", "--cap-drop", "ALL", "--network", "none"]
    check(run(*locked, IMAGE, "--version").stdout.startswith("mesh "), "it runs alone, on a root that can't be written")
    refused = run(*locked, IMAGE, "registry", "--listen", "0.0.0.0", ok=None)
    check(refused.returncode == 77, f"beyond loopback it needs a join secret: {refused}")
    check("mesh join-secret --init" in refused.stderr, f"it says how to make one: {refused.stderr}")


def the_first_start_builds_the_image_once_and_asks_nobody_for_it(mesh):
    run("docker", "image", "rm", "-f", IMAGE, ok=None)
    mesh.began = int(time.time())
    started = mesh.do("up", "-d", within=300)
    told = started.stdout + started.stderr
    built = re.findall(r"Successfully built|exporting to image", told)
    check(len(built) == 1, f"one service builds it for all: {told[-3000:]}")
    asked = [line for line in told.splitlines() if re.search(r"pull|\berror\b|registry-1\.docker|denied", line, re.I)]
    check(not asked, f"nobody is asked for what is made here: {asked}")


def everything_starts_in_order_and_is_healthy(mesh):
    mesh.are_healthy()
    check(len(mesh.containers()) == 8, "secret, registry, blackboard and five agents")
    eventually("five agents alive", lambda: alive().keys() == TEAM)
    when = mesh.events()
    order = [("secret", "die"), ("blackboard", "start"), ("blackboard", HEALTHY), ("registry", "start"), ("registry", HEALTHY)]
    check(all(what in when for what in order), f"all of it happened: {when}")
    times = [when[what] for what in order]
    check(times == sorted(times), f"each when the one before it was: {list(zip(order, times))}")
    for agent in ("planner", "builder-fast", "builder", "reviewer", "orchestrator"):
        check(when[agent, "start"] > when["registry", HEALTHY], f"{agent} started when the registry was healthy: {when}")


def nothing_has_more_rights_than_it_needs_or_a_port_beyond_loopback(mesh):
    for container in mesh.containers():
        host, name = container["HostConfig"], container["Name"]
        check(host["ReadonlyRootfs"], f"{name} can't write its root")
        check(host["CapDrop"] == ["ALL"] and host["Init"], f"{name} has no capabilities but those it is given, and an init")
        # What a node needs to run its brain as another user.
        is_agents = service(container) not in ("secret", "registry", "blackboard")
        given = {capability.removeprefix("CAP_") for capability in host["CapAdd"] or []}
        needed = {"CHOWN", "DAC_OVERRIDE", "KILL", "SETGID", "SETUID"} if is_agents else set()
        check(given == needed, f"{name} is given {given}")
        check("no-new-privileges:true" in host["SecurityOpt"], f"{name} gets no new privileges")
        for bindings in (host["PortBindings"] or {}).values():
            check(all(b["HostIp"].startswith("127.") for b in bindings), f"{name} is published at {bindings}")
        secrets = [line for line in container["Config"]["Env"] if re.search(r"SECRET|PASSWORD|TOKEN", line)]
        check(not secrets, f"{name} has a secret in its environment: {secrets}")


def join_secret(mesh):
    """The file of the join secret in the volume: mode, owner, content."""
    registry = mesh.containers("registry")[0]["Id"]
    packed = subprocess.run(["docker", "cp", f"{registry}:/secret/join", "-"], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=BytesIO(packed)) as tar:
        member = tar.getmembers()[0]
        return oct(member.mode & 0o777), member.uid, tar.extractfile(member).read()


def the_join_secret_is_random_private_and_written_once(mesh):
    mode, uid, first = join_secret(mesh)
    check((mode, uid) == ("0o600", 65532), f"for its owner's eyes only: {mode} {uid}")
    check(len(first) >= 32, "it can't be guessed")
    mesh.do("up", "-d", "secret")
    eventually("the init service at its end", lambda: mesh.containers("secret")[0]["State"]["Status"] == "exited")
    check(join_secret(mesh)[2] == first, "another start leaves it as it is")


def a_brain_finds_no_key_or_secret_of_the_mesh(mesh):
    name, canary = f"{NAME}-spy", "canary-in-the-environment-of-the-node"
    host = mesh.containers("planner")[0]["HostConfig"]
    secret = next(m["Name"] for m in mesh.containers("planner")[0]["Mounts"] if m["Destination"] == "/secret")
    rights = ["--user", mesh.containers("planner")[0]["Config"]["User"]]
    rights += [word for given in host["CapAdd"] for word in ("--cap-add", given)]
    rights += [word for taken in host["CapDrop"] for word in ("--cap-drop", taken)]
    rights += [word for option in host["SecurityOpt"] for word in ("--security-opt", option)]
    rights += [word for folder, options in host["Tmpfs"].items() for word in ("--tmpfs", f"{folder}:{options}")]
    with tempfile.TemporaryDirectory(prefix=NAME) as folder:
        folder = pathlib.Path(folder)
        target = re.search(r"^host: (.*)$", run("rustc", "-vV").stdout, re.M).group(1)
        static = ["--edition", "2024", "--target", target, "-C", "target-feature=+crt-static"]
        run("rustc", *static, "-o", str(folder / "spy"), str(ROOT / "tests/containers/spy.rs"))
        (folder / "spy.yaml").write_text('{ agent: spy-01, open: true, brain: { exec: [/agents/spy], user: "${BRAIN_USER:-}" } }\n')
        folder.chmod(0o755)
        mounts = ["-v", "/data", "-v", f"{folder}:/agents:ro", "-v", f"{secret}:/secret:ro"]
        told = ["-e", "BRAIN_USER=65533", "-e", "MESH_JOIN=/secret/join", "-e", f"ALICE_KEY={canary}"]
        run("docker", "run", "-d", "--name", name, "--init", "--read-only", *rights, *mounts, *told, IMAGE, "up", "/agents/spy.yaml")
        try:
            within = ["docker", "exec", name, "/mesh"]
            eventually("the spy ready", lambda: run(*within, "health", "--itself", ok=None, within=30).returncode == 0)
            task = json.loads(run(*within, "ask", "look around", "--json").stdout)
            found = bytes.fromhex("".join(part["text"] for part in task["artifacts"][0]["parts"]))
            check(b"HOME=/tmp/mesh-brain-spy-01" in found and b"# /agents/spy.yaml" in found, f"it reads what it may: {found[:2000]!r}")
            token = run(*within, "token").stdout.strip().encode()
            check(len(token) > 40 and token not in found, "it finds the person's token")
            check(join_secret(mesh)[2].strip() not in found, "it finds the join secret")
            check(canary.encode() not in found, "it reads the environment of its node")
            files = re.findall(rb"\n# (\S+)\n", found)
            kept = [file for file in files if re.match(rb"/secret/|/data/(keys|store|token|join)", file)]
            check(not kept, f"it opens {kept}")
        finally:
            run("docker", "rm", "-f", "-v", name)


def a_container_without_the_secret_gets_nowhere(mesh):
    stranger = ["docker", "run", "--rm", "--network", f"{NAME}_default", IMAGE, "health", "--itself", "--url"]
    for host in ("registry:8000", "blackboard:7999", "planner:8001"):
        refused = run(*stranger, f"http://{host}", ok=None)
        check(refused.returncode != 0 and "unauthenticated" in refused.stdout + refused.stderr, f"{host}: {refused}")


def a_task_given_to_an_agent_that_cannot_do_it_is_done_by_one_that_can(mesh):
    status, task = ask("reviewer", "reviewer-01", "t-1", wait=60)
    check(status == 200 and task["status"]["state"] == "TASK_STATE_COMPLETED", f"{status}: {task}")
    check(builder_of(task) == "builder-fast", f"the usual winner did it: {builder_of(task)}")
    card = json.dumps(get(PORTS["reviewer"], "/.well-known/agent-card.json"))
    check(f"http://localhost:{PORTS['reviewer']}/" in card, f"its card names an address that the host can call: {card}")
    code = next(a for a in task["artifacts"] if a["artifactId"] == "src/main.rs")["parts"][0]["text"]
    check("species" in code and "reading" in code, "it is about what was asked for")
    eventually("it on the board", lambda: any(s["taskId"] == "t-1" for s in signals("task.complete")))


def the_verbs_of_this_machine_reach_the_agents_at_their_published_ports(mesh):
    at = ["--at", published("reviewer")]
    for words, part in (
        (["trace", "t-1", *at], "invoke_agent reviewer-01"),
        (["trace", "t-1", *at], "invoke_agent builder-fast"),
        (["tasks", *at], "t-1"),
        (["tasks", "show", "t-1", *at], "completed"),
        (["award", "explain", "t-1", *at], "builder-fast"),
        (["trace", "t-1", "--at", published("builder-fast")], "invoke_agent builder-fast"),
        (["dlq", *at], "no dead letters"),
        (["health", *at], "reviewer-01"),
        (["ask", REQUEST, "--capability", "implement-api", "--at", published("orchestrator")], "species"),
        (["ls", "--url", published("registry")], "planner-01"),
        (["board", "tail", "--no-follow", "--url", published("blackboard")], "task.complete"),
    ):
        said = mesh.verb(*words).stdout
        check(part in said, f"{words} does not say {part!r}: {said}")
    winner = mesh.verb("award", "explain", "t-1", "--at", published("builder-fast"), ok=(6,)).stderr
    check(len(winner.splitlines()) == 1 and "from reviewer-01" in winner, f"the winner says who knows: {winner}")
    for words in (["trace", "t-1"], ["tasks"], ["dlq"], ["board", "tail", "--no-follow"]):
        lost = mesh.verb(*words, "--url", published("registry"), ok=(5,)).stderr
        what = "--url" if words[0] == "board" else "--at URL"
        check(len(lost.splitlines()) == 1 and what in lost, f"{words} says in a line what to do: {lost}")
    inside = mesh.do("exec", "-T", "reviewer", "mesh", "trace", "t-1", "--at", "http://localhost:8001").stdout
    check("invoke_agent builder-fast" in inside, inside)


def a_published_port_is_not_called_by_a_name_of_the_network(mesh):
    url = f"http://127.{LOOPBACK}:{PORTS['planner']}/state"
    for host, expected in (("planner", 401), (f"planner:{PORTS['planner']}", 401), ("evil.example", 403)):
        try:
            with urllib.request.urlopen(urllib.request.Request(url, headers={"host": host}), timeout=10) as answer:
                raise Failed(f"Host {host} is answered {answer.status}")
        except urllib.error.HTTPError as error:
            with error:
                check(error.code == expected, f"Host {host} is answered {error.code}")


def one_task_is_one_trace_of_four_agents_at_the_receiver(mesh):
    status, task = ask("planner", "planner-01", "t-traced", wait=60)
    check(status == 200 and task["status"]["state"] == "TASK_STATE_COMPLETED", f"{status}: {task}")
    trace = get(PORTS["planner"], "/a2a/tasks/t-traced/trace")["traceId"]
    agents = {"planner-01", "builder-fast", "builder-1", "reviewer-01"}
    ends = {("planner-01", "contract-net"), ("builder-fast", "delegation"), ("reviewer-01", "help-request")}

    def whole():
        spans = [span for span in mesh.traces.spans if span["trace"] == trace]
        told = {(s["attributes"].get("gen_ai.agent.id"), s["attributes"].get("mesh.pattern")) for s in spans}
        known = {span["id"] for span in spans}
        roots = [span for span in spans if span["parent"] not in known]
        return ends <= told and agents <= {agent for agent, _ in told} and len(roots) == 1 and spans

    spans = eventually("one tree of all their spans", whole)
    root = next(span for span in spans if not span["parent"])
    check((root["name"], root["service"]) == ("receive task-request", "planner"), f"it begins where the task came in: {root}")
    check({"planner", "builder-fast", "builder", "reviewer"} <= {s["service"] for s in spans}, "each tells its own part")
    resource = root["resource"]
    check(resource.get("deployment.environment.name") == "test", f"with what is said of all of them: {resource}")
    check(not any(name.startswith("docker.") for name in resource), f"and nothing that docker says of itself: {resource}")
    words = {span["attributes"].get("mesh.span") for span in spans}
    check({"receive", "conversation", "cfp", "bid", "award", "claim", "think", "tell", "publish"} <= words, f"{words}")
    stray = [s for s in mesh.traces.spans if s["attributes"].get("mesh.task.id") == "t-traced" and s["trace"] != trace]
    check(not stray, f"of that task and outside its trace: {stray}")
    print(f"    {len(spans)} spans of {len({s['service'] for s in spans})} processes")


def an_agents_port_for_grpc_takes_calls_of_this_machine(mesh):
    for name in ("planner", "builder-fast", "reviewer", "orchestrator"):
        at = (f"127.{LOOPBACK}", PORTS[name] + 1000)
        status, answered = grpc_call.call(at, "ListTasks")
        check(status == "0" and answered, f"{name} says {status}: {answered}")
        check((b"t-1" in answered) == (name in ("builder-fast", "reviewer")), f"{name} tells of its own tasks: {answered}")
    refused = grpc_call.call((f"127.{LOOPBACK}", PORTS["planner"] + 1000), "ListTasks", host="planner:9001")[0]
    check(refused not in (None, "0"), f"not by a name of the network: {refused}")


def four_builders_have_four_ids_and_ports_and_all_of_them_bid(mesh):
    mesh.do("up", "-d", "--no-recreate", "--scale", "builder=4", within=300)
    mesh.are_healthy()
    four = {f"builder-{n}" for n in range(1, 5)}
    entries = eventually("four of them alive", lambda: four <= alive().keys() and alive())
    check(len({entries[id]["card"]["endpoint"] for id in four}) == 4, f"each at an address of its own: {entries}")
    ids = set()
    for container in mesh.containers("builder"):
        port = int(container["NetworkSettings"]["Ports"]["8001/tcp"][0]["HostPort"])
        check(8010 <= port <= 8019, f"published in the range: {port}")
        ids.add(get(port, "/.well-known/agent-card.json").get("agentId") or list(get(port, "/state")["agents"])[0])
        calls = int(container["NetworkSettings"]["Ports"]["9001/tcp"][0]["HostPort"])
        check(9010 <= calls <= 9019, f"and for gRPC: {calls}")
        check(grpc_call.call((f"127.{LOOPBACK}", calls), "ListTasks")[0] == "0", "which takes calls")
    check(ids == four, f"each answers on its own port: {ids}")
    status, task = ask("orchestrator", "orchestrator-01", "t-2", wait=60)
    check(status == 200 and task["status"]["state"] == "TASK_STATE_COMPLETED", f"{status}: {task}")
    award = get(PORTS["orchestrator"], "/a2a/tasks/t-2/award")["award"]
    bidders = {c["agent"] for c in award["rounds"][0]["candidates"] if c.get("bid") and c.get("score")}
    check(bidders == four | {"builder-fast"}, f"all of them bid: {award}")


def replicas_keep_their_ids_over_a_restart(mesh):
    before = {id: entry["incarnation"] for id, entry in alive("implement-api").items()}
    for container in mesh.containers("builder"):
        run("docker", "kill", container["Id"])
    mesh.do("up", "-d", "--no-recreate", "--scale", "builder=4", within=300)

    def are_back():
        there = {id: entry["incarnation"] for id, entry in alive("implement-api").items()}
        check(there.keys() <= before.keys(), f"nobody new: {there}")
        again = [id for id in before if id != "builder-fast" and there.get(id, 0) > before[id]]
        return len(again) == 4

    eventually("the same four, each in a new life", are_back)
    mesh.are_healthy()


def when_the_winner_is_killed_at_work_the_runner_up_finishes(mesh):
    # The winner asks the reviewer before it ends, so it is at work while the reviewer is paused.
    mesh.do("pause", "reviewer")
    try:
        status, told = ask("orchestrator", "orchestrator-01", "t-3")
        check(status == 202, f"{status}: {told}")
        award = "/a2a/tasks/t-3/award"
        claimed = lambda: [s for s in signals("task.claimed") if s["taskId"] == "t-3"]
        first = eventually("it claimed", claimed)[0]
        check(first["subject"] == "builder-fast", f"the usual winner has it: {first}")
        candidates = get(PORTS["orchestrator"], award)["award"]["rounds"][0]["candidates"]
        second = next(c["agent"] for c in candidates if c.get("rank") == 2)
        eventually("it waiting for the review", lambda: any(s["taskId"] == "t-3" for s in signals("help.needed")))
        mesh.do("kill", "builder-fast")
    finally:
        mesh.do("unpause", "reviewer")
    ended = ("TASK_STATE_COMPLETED", "TASK_STATE_FAILED")
    path = "/a2a/tasks/t-3"
    look = lambda: (t := get(PORTS["orchestrator"], path))["status"]["state"] in ended and t
    task = eventually("its end", look, within=150)
    check(task["status"]["state"] == "TASK_STATE_COMPLETED", f"{task['status']}; {get(PORTS['orchestrator'], award)}")
    check(builder_of(task) == second, f"the second by the award record was {second}, it was done by {builder_of(task)}")
    fates = [(c["agent"], c["fate"]) for r in get(PORTS["orchestrator"], award)["award"]["rounds"] for c in r["candidates"]]
    check((second, "completed") in fates, f"and the record says so: {fates}")
    mesh.do("start", "builder-fast")
    eventually("the killed one back", lambda: "builder-fast" in alive())


def the_registry_comes_back_with_what_it_knew(mesh):
    mesh.are_healthy()
    before = alive()
    left = len(signals("agent.left"))
    killed = time.time()
    mesh.do("kill", "registry")
    status, task = ask("planner", "planner-01", "t-4", wait=90)
    check(status == 200 and task["status"]["state"] == "TASK_STATE_COMPLETED", f"peers go on without it: {status}: {task}")
    unready = http(PORTS["planner"], "/readyz")
    check(unready[0] == 503 and not unready[1]["checks"]["registry"]["ok"], f"and say what is missing: {unready}")


    def looks():
        health = [c["State"]["Health"] for c in mesh.containers() if service(c) not in ("secret", "registry")]
        after_it = [[look for look in h["Log"] if seconds(look["Start"]) > killed + 2] for h in health]
        return all(after_it) and [(h["Status"], [look["ExitCode"] for look in looks]) for h, looks in zip(health, after_it)]

    seen = eventually("a look at everyone's health", looks)
    check(all(h == "healthy" and set(codes) == {0} for h, codes in seen), f"that makes nobody unhealthy: {seen}")
    named = mesh.verb("health", "--at", published("planner"), ok=(1,)).stdout
    check("registry: " in named, f"and is named: {named}")
    mesh.do("start", "registry")
    eventually("everybody known", lambda: alive().keys() == before.keys())
    after = alive()
    kept = {id for id in before if after[id]["incarnation"] == before[id]["incarnation"]}
    check(kept == before.keys(), f"nobody had to begin a new life: {kept}")
    check(len(signals("agent.left")) == left, "and nobody was taken for dead")
    mesh.are_healthy()


def the_blackboard_comes_back_with_what_was_said(mesh):
    said, before = {signal["id"] for signal in signals("task.*")}, alive().keys()
    mesh.do("kill", "blackboard")
    status, task = ask("reviewer", "reviewer-01", "t-5", wait=90)
    check(status == 200 and task["status"]["state"] == "TASK_STATE_COMPLETED", f"awards need no board: {status}: {task}")
    mesh.do("start", "blackboard")
    eventually("what was said before", lambda: said <= {signal["id"] for signal in signals("task.*")})
    eventually("what waited for it", lambda: any(s["taskId"] == "t-5" for s in signals("task.complete")))
    mesh.are_healthy()
    check(alive().keys() == before, f"the same agents: {alive().keys() ^ before}")


def who_is_stopped_says_goodbye(mesh):
    mesh.do("stop", "reviewer")
    gone = lambda: [s for s in signals("agent.left") if s["subject"] == "reviewer-01"]
    check(eventually("its goodbye", gone)[-1]["refs"]["reason"] == "drained", f"it was not missed: {gone()}")
    mesh.do("start", "reviewer")
    eventually("it back", lambda: "reviewer-01" in alive())


def what_makes_no_sense_is_said_in_one_line(mesh):
    with tempfile.TemporaryDirectory(prefix=NAME) as folder:
        folder = pathlib.Path(folder)
        folder.chmod(0o777)
        (folder / "typo.yaml").write_text("agent: a-01\nbrian: { echo: {} }\n")
        store = sqlite3.connect(folder / "store.sqlite")
        store.execute("pragma user_version = 99")
        store.close()
        (folder / "store.sqlite").chmod(0o666)
        alone = ["docker", "run", "--rm", "--network", "none"]
        typo = run(*alone, "-v", f"{folder}:/agents:ro", IMAGE, "node", "/agents/typo.yaml", ok=(78,)).stderr
        check(len(typo.splitlines()) == 1 and "typo.yaml:2" in typo and "`brain`" in typo, typo)
        newer = run(*alone, "-v", f"{folder}:/data", IMAGE, "blackboard", ok=(76,)).stderr
        check(len(newer.splitlines()) == 1 and "99" in newer, newer)


def a_full_disk_is_named(mesh):
    name = f"{NAME}-full"
    alone = ["--read-only", "--cap-drop", "ALL", "--network", "none", "--tmpfs", "/data:size=2m,uid=65532,mode=700"]
    run("docker", "run", "-d", "--name", name, *alone, IMAGE, "up")
    try:
        within = ["docker", "exec", name, "/mesh"]
        eventually("it ready", lambda: run(*within, "health", "--itself", ok=None, within=30).returncode == 0)

        def is_full():
            run(*within, "ask", "-q", "--no-wait", REQUEST, "--capability", "implement-api", ok=None, within=30)
            told = run(*within, "health", "--itself", ok=None, within=30)
            return told.returncode == 1 and "store: no room" in told.stdout

        eventually("that there is no room", is_full)
        log = run("docker", "logs", name).stderr.splitlines()
        check(len(log) < 60, f"and not at every try: {len(log)} lines, the last of them {log[-5:]}")
    finally:
        run("docker", "rm", "-f", name)


def everything_stops_cleanly(mesh):
    started = time.monotonic()
    mesh.do("stop", within=120)
    codes = {c["Name"]: c["State"]["ExitCode"] for c in mesh.containers()}
    check(len(codes) == 11 and set(codes.values()) == {0}, f"all of them with exit 0: {codes}")
    print(f"    stopped in {time.monotonic() - started:.1f} s")


def what_was_known_is_known_after_a_new_start(mesh):
    mesh.do("up", "-d", "--scale", "builder=4", within=300)
    mesh.are_healthy()
    task = get(PORTS["reviewer"], "/a2a/tasks/t-1")
    check(task["status"]["state"] == "TASK_STATE_COMPLETED", f"{task}")
    four = {f"builder-{n}" for n in range(1, 5)}
    eventually("the same agents", lambda: alive().keys() == TEAM | four)


STEPS = [
    the_first_start_builds_the_image_once_and_asks_nobody_for_it,
    everything_starts_in_order_and_is_healthy,
    the_image_is_one_static_binary_that_needs_no_rights,
    nothing_has_more_rights_than_it_needs_or_a_port_beyond_loopback,
    the_join_secret_is_random_private_and_written_once,
    a_brain_finds_no_key_or_secret_of_the_mesh,
    a_container_without_the_secret_gets_nowhere,
    a_task_given_to_an_agent_that_cannot_do_it_is_done_by_one_that_can,
    the_verbs_of_this_machine_reach_the_agents_at_their_published_ports,
    a_published_port_is_not_called_by_a_name_of_the_network,
    an_agents_port_for_grpc_takes_calls_of_this_machine,
    one_task_is_one_trace_of_four_agents_at_the_receiver,
    four_builders_have_four_ids_and_ports_and_all_of_them_bid,
    replicas_keep_their_ids_over_a_restart,
    when_the_winner_is_killed_at_work_the_runner_up_finishes,
    the_registry_comes_back_with_what_it_knew,
    the_blackboard_comes_back_with_what_was_said,
    who_is_stopped_says_goodbye,
    what_makes_no_sense_is_said_in_one_line,
    a_full_disk_is_named,
    everything_stops_cleanly,
    what_was_known_is_known_after_a_new_start,
]


def static_binary():
    """A static `mesh`, built here unless one is given."""
    if given := os.environ.get("MESH_BINARY"):
        return pathlib.Path(given)
    target = re.search(r"^host: (.*)$", run("rustc", "-vV").stdout, re.M).group(1)
    env = {**os.environ, "RUSTFLAGS": "-C target-feature=+crt-static", "CARGO_PROFILE_DEV_DEBUG": "0"}
    print("    building a static binary", flush=True)
    run("cargo", "build", "--locked", "--target", target, "--bin", "mesh", cwd=ROOT, env=env, within=1500)
    folder = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return folder / target / "debug" / "mesh"


def engine_answers():
    try:
        return subprocess.run(["docker", "version"], capture_output=True, timeout=20).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def main():
    if not engine_answers():
        line = "!" * 100
        print(f"{line}\n!! NO DOCKER ENGINE ANSWERS: the image and deploy/compose.yaml were NOT tried.\n{line}", flush=True)
        return 1 if os.environ.get("MESH_NEEDS_DOCKER") else 0
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=NAME) as context:
        mesh = None
        try:
            compose.main()
            binary = pathlib.Path(context) / "mesh"
            shutil.copy(static_binary(), binary)
            if shutil.which("strip"):
                run("strip", str(binary))
            traces = Receiver(bridge())
            mesh = Mesh(pathlib.Path(context), traces)
            for step in STEPS:
                begun = time.monotonic()
                print(f"  {step.__name__.replace('_', ' ')}", flush=True)
                step(mesh)
                print(f"    ok ({time.monotonic() - begun:.1f} s)", flush=True)
        except (Failed, subprocess.SubprocessError, OSError, LookupError, ValueError) as error:
            print(f"\nFAILED: {error!r}\n{error}", file=sys.stderr, flush=True)
            if mesh:
                mesh.report()
            return 1
        finally:
            if mesh:
                mesh.do("down", "-v", "--remove-orphans", "-t", "5", ok=None)
                run("docker", "image", "rm", "-f", IMAGE, ok=None)
    print(f"containers: all {len(STEPS)} steps passed ({time.monotonic() - started:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
