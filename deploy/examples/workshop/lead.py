"""A lead without a model: it writes the outcome spec, plans three items of work, and puts the results together."""

import json
import sys

PLAN = [
    {"id": "api", "task": "Write the endpoint that checks a passkey.", "capability": "build", "files": ["api.py"], "outcomes": [1]},
    {"id": "page", "task": "Write the page that asks for a passkey.", "agent": "builder-02", "files": ["page.html"], "outcomes": [1]},
    {"id": "guide", "task": "Say how one logs in.", "capability": "build", "after": ["api", "page"], "files": ["guide.md"]},
]

turn = json.loads(sys.stdin.readline())
task = turn["task"]
seat = task["input"]["seat"]
heard = {artifact["artifactId"]: artifact["parts"][0]["text"] for artifact in task.get("artifacts", [])}
goal = task["description"].splitlines()[0]


def done(message):
    print(json.dumps({"type": "done", "message": message}), flush=True)


if seat["stage"] == "spec":
    wishes = [f"As you said: {text}" for text in list(heard.values())[1:]]
    spec = {
        "goal": goal,
        "outcome": ["Somebody can log in.", *wishes],
        "scope": {"out": ["passwords"]},
        "assumptions": ["a browser with passkeys"],
    }
    done(json.dumps(spec))
elif seat["stage"] == "plan":
    done(json.dumps(PLAN))
else:
    files = seat.get("files", {}).values()
    work = [text for name, text in heard.items() if name.startswith("plan/") and name not in files]
    done("\n".join(["All of it:", *work]))
