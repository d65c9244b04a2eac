"""A builder without a model: it makes the files of its item, and proposes what the team should remember."""

import json
import sys

turn = json.loads(sys.stdin.readline())
task = turn["task"]
seat = task["input"]["seat"]
item = seat["stage"].split("/")[1]
named = [line for line in task["description"].splitlines() if line.startswith("Files: ")]
files = named[0].removeprefix("Files: ").split(", ") if named else []


def tell(**line):
    print(json.dumps(line), flush=True)


changes = [artifact["parts"][0]["text"] for artifact in task.get("artifacts", []) if artifact["artifactId"].startswith("review.")][-1:]
said = f"{item} by {turn['agent']}" + "".join(f", changed: {text}" for text in changes)
for file in files:
    tell(type="artifact", name=file, filename=file, text=f"{said}\n")
tell(type="propose", slug=f"about-{item}-{seat['iteration']}", entryType="learning", title=f"How {item} was built", content="In one file.")
tell(type="done", message=said)
