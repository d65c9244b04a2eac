"""A persona without a model: ideators say three ideas in three turns, the others say how much they were given."""

import json
import sys

turn = json.loads(sys.stdin.readline())
task = turn["task"]
seat = task["input"]["seat"]
name, stage = seat["seat"], seat["stage"]
heard = [artifact["artifactId"] for artifact in task.get("artifacts", [])]


def tell(**line):
    print(json.dumps(line), flush=True)


if stage == "divergent":
    # A sealed seat counts its own ideas; it is told of no others.
    own = sum(name.startswith("divergent.") for name in heard)
    tell(type="pass" if own < 2 else "done", message=f"Idea {own + 1} of {name}")
elif stage == "convergent" and name == "synthesizer":
    for number in (1, 2, 3):
        tell(type="say", to=["team"], text=f"Candidate {number}: {len(heard)} findings in one")
    tell(type="done", message="These are the candidates.")
else:
    tell(type="done", message=f"{name} was given {len(heard)} findings")
