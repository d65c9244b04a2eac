"""An agent with a language model and real MCP servers: mcp-server-time over stdio, a fastmcp server over stdio and streamable
HTTP. Usage: tools.py MESH BASE_URL"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

mesh, base = sys.argv[1:]
scratch = pathlib.Path(tempfile.mkdtemp())
bin_dir = pathlib.Path(sys.executable).parent
SERVER = """
import sys
from fastmcp import FastMCP
server = FastMCP("adder")

@server.tool(annotations={"readOnlyHint": True})
def add(a: int, b: int) -> int:
    "Adds two numbers."
    return a + b

if sys.argv[1:] == ["http"]:
    server.run(transport="http", host="127.0.0.1", port=int(sys.stdin.readline()), path="/mcp")
else:
    server.run()
"""
(scratch / "adder.py").write_text(SERVER)


def free_port():
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def eventually(what, look):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if found := look():
                return found
        except OSError:
            pass
        time.sleep(0.05)
    raise AssertionError(f"never seen: {what}")


port = free_port()
adder = subprocess.Popen(
    [sys.executable, scratch / "adder.py", "http"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True
)
adder.stdin.write(f"{port}\n")
adder.stdin.flush()
adder_url = f"http://127.0.0.1:{port}/mcp"


def is_listening():
    import socket

    return socket.create_connection(("127.0.0.1", port), 1).close() is None


eventually("the adder listens", is_listening)

team = {
    "agents": [
        {
            "agent": f"thinker-{name}",
            "skills": [name],
            "brain": {"llm": {"model": f"{form}/stub", "url": base, "key": "k", "tools": [server]}},
        }
        for name, form, server in [
            ("time", "anthropic", {"mcp": [str(bin_dir / "mcp-server-time"), "--local-timezone", "UTC"]}),
            ("stdio", "openai", {"mcp": [sys.executable, str(scratch / "adder.py")], "allow": ["add"]}),
            ("http", "ollama", {"mcp": adder_url}),
        ]
    ]
}
(scratch / "team.yaml").write_text(json.dumps(team))
log = open(scratch / "log", "w")
node = subprocess.Popen(
    [mesh, "up", "--port", "0", "--data", scratch / "data", scratch / "team.yaml"],
    stderr=log,
    env={**os.environ, "PATH": f"{bin_dir}:{os.environ['PATH']}"},
)
try:
    run = eventually("the node runs", lambda: json.loads((scratch / "data" / "run.json").read_text()))
    for name, text, expected in [
        ("time", 'call: get_current_time {"timezone": "Asia/Tokyo"}', "Asia/Tokyo"),
        ("stdio", 'call: add {"a": 40, "b": 2}', "42"),
        ("http", 'call: add {"a": 40, "b": 2}', "42"),
    ]:
        agent = f"thinker-{name}"
        envelope = {
            "fromAgentId": "me",
            "toAgentId": agent,
            "type": "task-request",
            "payload": {"description": text, "capability": name},
        }
        request = urllib.request.Request(
            f"{run['agents'][agent]}/a2a/messages",
            json.dumps(envelope).encode(),
            {"content-type": "application/json", "prefer": "wait=60"},
        )
        task = json.load(urllib.request.urlopen(request, timeout=90))
        artifacts = task.get("artifacts") or []
        answer = "".join(p.get("text", "") for a in artifacts if a["artifactId"] == "answer" for p in a["parts"])
        assert expected in answer, f"{name}: {json.dumps(task, indent=1)}"
        print(f"ok: {name}: {answer[:60]!r}")
finally:
    node.kill()
    adder.kill()
    node.wait()
    if sys.exc_info()[0]:
        print((scratch / "log").read_text()[-4000:])
