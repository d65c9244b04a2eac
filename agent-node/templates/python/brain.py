"""Counts the words of a text. Replace `work` with what your agent does."""

import mesh_agent as agent


@agent.turn
def work(turn: agent.Turn) -> str:
    if turn.question:  # another agent asks for help
        return "I count words: text.split()."
    text = turn.task.description.partition(":")[2].strip()
    if not text:  # asks a person; `mesh answer` answers
        text = turn.ask("text", "Which text shall I count?").text
    turn.status(f"counting {len(text)} characters")
    count = len(text.split())
    check = turn.delegate("check", to="capability:proofread", description=text)  # to another agent
    proof = check.artifacts[0].text if check.artifacts else check.text
    turn.artifact("report.md", f"# {count} words\n\n{proof}\n", media_type="text/markdown")
    return f"{count} words"


if __name__ == "__main__":
    agent.run()
