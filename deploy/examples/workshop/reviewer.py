"""A reviewer without a model: it says of each expected outcome by which files it is met."""

import json
import sys

turn = json.loads(sys.stdin.readline())
seat = turn["task"]["input"]["seat"]
heard = [artifact for artifact in turn["task"].get("artifacts", []) if artifact["artifactId"].startswith("assemble.")]
parts = len(heard[-1]["parts"][0]["text"].splitlines()) - 1
files = ", ".join(seat["files"])
verdicts = [{"outcome": outcome["number"], "met": True, "by": files} for outcome in seat["spec"]["outcome"]]
words = f"{json.dumps(verdicts)}\nReviewed: {parts} parts, as planned."
print(json.dumps({"type": "done", "message": words}), flush=True)
