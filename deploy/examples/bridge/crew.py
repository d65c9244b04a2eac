"""A member of the crew, without a model: crew.py FIELD TEAMMATE.

It posts what it finds, remembers it in its vault, asks its teammate without waiting, and answers with all of that.
"""

import json
import sys

field, teammate = sys.argv[1:]
turn = json.loads(sys.stdin.readline())
brief = turn.get("brief", {"text": "", "included": []})


def tell(**line):
    print(json.dumps(line), flush=True)


def memories():
    return sum(entry["kind"] == "memory" for entry in brief["included"])


if "help" in turn:
    tell(type="done", message=f"I know {memories()} things of {field}, and the board has "
         f"{brief['text'].count('- [')} notes.")
elif not turn.get("answers"):
    order = turn["task"]["description"]
    tell(type="help", id="h1", to=teammate, question=f"What do you know of: {order}?", wait=False)
    tell(type="post", content=f"{order}: looked at its {field}.", severity="low", tags=[field])
    tell(type="remember", scope="own", content=f"Was sent to: {order}.", expertise={field: 1})
    tell(type="status", message=f"looks at the {field}")
    tell(type="wait")
else:
    order, [answer] = turn["task"]["description"], turn["answers"]
    earlier = [task["description"] for task in turn.get("history", [])]
    before = f" Before that: {', '.join(earlier)}." if earlier else ""
    tell(type="done", message=f"Done: {order}.{before} {answer.get('from', teammate)} says: {answer['text']}")
