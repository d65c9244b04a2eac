"""The brain of every agent of the team: it says what script.json has for its turn, and waits where that says `hold`.

The script is a map from the name of the work to the lines of a turn, or to a map from the number of the turn to them. A name
may have the agent before it. `{"hold": true}` waits for the file `open` beside this one, after a note in `reached`. `{"exit": 1}` ends
the process. A turn that is given checkpoints does not write them again, and does not pause. In a text, `{checkpoints}`, `{answers}`, `{messages}`, `{findings}` and `{size}` are what the turn was given.
"""

import json
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def name_of(turn):
    if "cfp" in turn:
        return "cfp " + turn["cfp"]["description"]
    if "help" in turn:
        return "help " + turn["help"]["question"]
    if "signal" in turn:
        return "signal " + turn["signal"]["subject"]
    given = turn["task"].get("input")
    seat = given.get("seat") if isinstance(given, dict) else None
    if seat:
        return "%s %s %s.%s.%s" % (seat["session"], seat["seat"], seat["stage"], seat["iteration"], seat["round"])
    if turn["agent"] == "reviewer-01":
        return "review"
    return turn["task"]["description"][:40].split("\n")[0]


def wait(name, turn):
    with open(os.path.join(HERE, "reached"), "a") as reached:
        reached.write("%s|%s|%s\n" % (turn["agent"], name, turn.get("turn", 0)))
    while not os.path.exists(os.path.join(HERE, "open")):
        if not os.path.isdir(HERE):
            sys.exit(1)
        time.sleep(0.03)


def said(answer):
    if "values" in answer:
        return json.dumps(answer["values"])
    return answer.get("decision") or answer.get("text", "")


def fill(line, turn):
    given = {
        "{checkpoints}": json.dumps(turn.get("checkpoints", [])),
        "{answers}": "; ".join("%s=%s" % (one["id"], said(one)) for one in turn.get("answers", [])),
        "{messages}": "; ".join(part.get("text", "") for one in turn.get("messages", []) for part in one["parts"]),
        "{findings}": (turn.get("revision") or {}).get("findings", "").strip(),
        "{size}": str(turn.get("task", {}).get("descriptionRef", {}).get("size", 0)),
    }
    return {key: replaced(value, given) if isinstance(value, str) else value for key, value in line.items()}


def replaced(text, given):
    for mark, value in given.items():
        text = text.replace(mark, value)
    return text


def main():
    turn = json.loads(sys.stdin.readline())
    with open(os.path.join(HERE, "script.json")) as script:
        script = json.load(script)
    name = name_of(turn)
    lines = script.get("%s: %s" % (turn["agent"], name), script.get(name))
    if isinstance(lines, dict):
        lines = lines.get(str(turn["turn"]), lines.get("*"))
    if lines is None:
        print(json.dumps({"type": "failed", "reason": "no script for %r of %s" % (name, turn["agent"])}))
        return
    known = len(turn.get("checkpoints", []))
    for line in lines:
        if "hold" in line:
            wait(name, turn)
        elif "exit" in line:
            sys.exit(line["exit"])
        elif line["type"] == "checkpoint" and known > 0:
            known -= 1
        elif line["type"] == "pause" and turn.get("checkpoints"):
            continue
        else:
            print(json.dumps(fill(line, turn)), flush=True)
            if line["type"] == "pause":
                return


main()
