"""What the Python programs of this directory share: their virtual environment, checks, a node of the mesh, and a server that stands
for a provider of models."""

import http.server
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

TESTS = pathlib.Path(__file__).resolve().parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", TESTS.parent / "target"))
MESH = str(pathlib.Path(os.environ.get("MESH", TARGET / "debug" / "mesh")).resolve())
PATIENCE = 90
OURS = "urn:agent-mesh:ext:task:v1"
failures, running = [], []


def within(requirements):
    """Goes on in the virtual environment of tests/python/REQUIREMENTS.txt."""
    made = subprocess.run([TESTS / "python/venv", TESTS / f"python/{requirements}.txt"], stdout=subprocess.PIPE, timeout=900, text=True)
    if made.returncode:
        sys.exit(f"{requirements} can't be installed, so nothing is proven")
    python = made.stdout.strip()
    if pathlib.Path(sys.prefix) != pathlib.Path(python).parent.parent:
        os.execv(python, [python, *sys.argv])


def check(sentence, holds, seen=None):
    """Prints whether a sentence holds, and what was seen if not."""
    if not holds:
        failures.append(sentence)
        seen = seen if isinstance(seen, str) else json.dumps(seen, default=str)
        say(f"FAILED: {sentence}\n  seen: {seen[:3000]}")
    else:
        say(f"ok: {sentence}")
    return holds


def say(line):
    """Prints a line at once, also beside other threads."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def eventually(what, look):
    """Calls `look` until it returns something."""
    ends, last = time.monotonic() + PATIENCE, None
    while time.monotonic() < ends:
        try:
            if found := look():
                return found
        except (OSError, ValueError, KeyError) as error:
            last = error
        time.sleep(0.1)
    raise TimeoutError(f"never seen: {what} ({last})")


def start(args, log, env=None):
    """A process that `conclude` ends."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "MESH_"))}
    with open(log, "ab") as out:
        process = subprocess.Popen(
            [str(arg) for arg in args], stdin=subprocess.DEVNULL, stdout=out, stderr=out, env={**clean, **(env or {})}
        )
    running.append(process)
    return process


def conclude(name, run, place):
    """Calls `run`, ends what was started, and exits; after a failure the ends of the logs in `place` are shown."""
    try:
        run()
    except Exception as error:
        check(f"the run goes on to its end: {type(error).__name__}: {error}", False)
        raise
    finally:
        for process in running:
            process.send_signal(signal.SIGTERM)
        for process in running:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for log in pathlib.Path(place).rglob("*.log") if failures else ():
            print(f"--- {log.name}\n{log.read_text(errors='replace')[-2000:]}", file=sys.stderr)
    if failures:
        sys.exit(f"{name}: {len(failures)} checks failed")
    print(f"{name}: all checks passed")


def call(url, body=None, headers=(), method=None):
    """The status, headers and bytes of an answer."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json", **dict(headers)}, method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=PATIENCE) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


class Node:
    """`mesh up` of a team, with what it says of itself."""

    def __init__(self, place, team, env=None):
        if not os.access(MESH, os.X_OK):
            raise FileNotFoundError(f"there is no {MESH}: cargo build first")
        (place / "team.yaml").write_text(json.dumps(team))
        data = place / "data"
        process = start(
            [MESH, "up", place / "team.yaml", "--port", "0", "--data", data, "--join", place / "join"], place / "node.log",
            env,
        )

        def ready():
            if process.poll() is not None:
                raise RuntimeError(f"the node has ended: {(place / 'node.log').read_text()}")
            return json.loads((data / "run.json").read_text())

        self.said = eventually("the node runs", ready)

    def send(self, agent, text, headers=(), **payload):
        """Gives an agent a task; returns what it says."""
        request = {"fromAgentId": "me", "toAgentId": agent, "type": "task-request", "payload": {"description": text, **payload}}
        status, _, body = call(f"{self.said['agents'][agent]}/a2a/messages", request, headers)
        if status not in (200, 202):
            raise RuntimeError(f"a task is answered {status}: {body.decode()}")
        return json.loads(body)

    def ask(self, agent, text, **payload):
        """Gives an agent a task; returns it at its end, or after a minute."""
        return self.send(agent, text, {"prefer": "wait=60"}, **payload)

    def watch(self, agent, task, until):
        """The task, once `until` holds of it, or it has ended."""

        def look():
            seen = json.loads(call(f"{self.said['agents'][agent]}/a2a/tasks/{task}")[2])
            return seen if until(seen) or state(seen) in ("completed", "failed", "canceled", "rejected") else None

        return eventually(f"what is said of {task} of {agent}", look)


def state(task):
    return task["status"]["state"].removeprefix("TASK_STATE_").lower()


def status_text(task):
    return "".join(part.get("text", "") for part in (task["status"].get("message") or {}).get("parts", []))


def artifact(task, name="answer"):
    found = [a for a in task.get("artifacts") or [] if a["artifactId"] == name]
    return "".join(part.get("text", "") or json.dumps(part.get("data")) for a in found for part in a["parts"])


class Provider:
    """A server of models. `script` takes a request and returns a list of server-sent events, or `(status, headers, body)`."""

    def __init__(self, script):
        self.requests, provider = [], self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                request = {"path": self.path, "headers": {k.lower(): v for k, v in self.headers.items()}, "body": body}
                provider.requests.append(request)
                answer = script(request)
                if isinstance(answer, tuple):
                    status, headers, said = answer
                    headers = {"content-type": "application/json", **headers}
                    said = [json.dumps(said)]
                else:
                    status, headers, said = 200, {"content-type": "text/event-stream"}, answer
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                for event in said:
                    self.wfile.write(event.encode())
                    self.wfile.flush()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
