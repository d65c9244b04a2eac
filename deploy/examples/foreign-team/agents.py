"""Two A2A agents that know nothing of the mesh, on 127.0.0.1: a calendar at port 27201, the weather at port 27202.

    python3 deploy/examples/foreign-team/agents.py
"""
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

AGENTS = {
    27201: ("Calendar Agent", "check_availability", "Says when you are free", "calendar", "Am I free on Friday afternoon?",
            "You are free from 13:00 to 17:00."),
    27202: ("WeatherBot", "get_forecast", "The forecast for a place and a day", "weather",
            "Is the weather good for a picnic outdoors?", "Clear, 22 C."),
}


class Agent(BaseHTTPRequestHandler):
    def do_GET(self):
        port = self.server.server_port
        name, skill, description, tag, example, _ = AGENTS[port]
        self.answer({
            "name": name, "description": description, "version": "1.0.0", "capabilities": {},
            "supportedInterfaces": [
                {"url": f"http://127.0.0.1:{port}/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
            "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
            "skills": [{"id": skill, "name": skill, "description": description, "tags": [tag], "examples": [example]}],
        })

    def do_POST(self):
        call = json.loads(self.rfile.read(int(self.headers["content-length"])))
        task = {
            "id": "task-1", "contextId": "context-1", "status": {"state": "TASK_STATE_COMPLETED"},
            "artifacts": [{"artifactId": "answer", "parts": [{"text": AGENTS[self.server.server_port][-1]}]}],
        }
        self.answer({"jsonrpc": "2.0", "id": call["id"], "result": {"task": task}})

    def answer(self, body):
        body = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


servers = [ThreadingHTTPServer(("127.0.0.1", port), Agent) for port in AGENTS]
for server in servers[1:]:
    Thread(target=server.serve_forever, daemon=True).start()
print("ready", flush=True)
servers[0].serve_forever()
