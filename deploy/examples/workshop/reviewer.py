"""A reviewer without a model: it says what it was given."""

import json
import sys

turn = json.loads(sys.stdin.readline())
heard = [artifact for artifact in turn["task"].get("artifacts", []) if artifact["artifactId"].startswith("assemble.")]
lines = len(heard[-1]["parts"][0]["text"].splitlines()) - 1
print(json.dumps({"type": "done", "message": f"Reviewed: {lines} parts, as planned."}), flush=True)
