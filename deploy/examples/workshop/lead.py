"""A lead without a model: it writes the outcome spec, plans three items of work, and puts the results together."""

import json
import sys

PLAN = [
    {"id": "api", "task": "Write the endpoint that checks a passkey.", "capability": "build", "files": ["api.py"]},
    {"id": "page", "task": "Write the page that asks for a passkey.", "agent": "builder-02", "files": ["page.html"]},
    {"id": "guide", "task": "Say how one logs in.", "capability": "build", "after": ["api", "page"]},
]

turn = json.loads(sys.stdin.readline())
task = turn["task"]
stage = task["input"]["seat"]["stage"]
heard = {artifact["artifactId"]: artifact["parts"][0]["text"] for artifact in task.get("artifacts", [])}
goal = task["description"].splitlines()[0]


def done(message):
    print(json.dumps({"type": "done", "message": message}), flush=True)


if stage == "spec":
    wishes = "".join(f" As you said: {text}." for text in list(heard.values())[1:])
    done(f"Goal: {goal}. Outcome: somebody can log in. Scope: no passwords. Assumed: a browser with passkeys.{wishes}")
elif stage == "plan":
    done(json.dumps(PLAN))
else:
    work = [text for name, text in heard.items() if name.startswith("plan/")]
    done("\n".join(["All of it:", *work]))
