"""A seat without a model: it says its opinion, hears the others, and stays with it. A critic asks for more, once."""

import json
import sys

opinion = sys.argv[1]
turn = json.loads(sys.stdin.readline())
task = turn["task"]
seat = task["input"]["seat"]
heard = len(task.get("artifacts", []))


def tell(**line):
    print(json.dumps(line), flush=True)


if seat["stage"] == "check" and seat["iteration"] == 1:
    tell(type="done", message="Say what it costs, too.", label="again")
elif seat["order"] == "turns" and seat["round"] == 1:
    tell(type="pass", message=opinion)
else:
    tell(type="done", message=f"After {heard} messages I stay with it: {opinion}")
