"""Turns of the brain without a mesh: `python3 -m unittest`."""

import unittest

import brain
import mesh_agent as agent


class BrainTest(unittest.TestCase):
    def test_a_task_without_a_text_asks_a_person(self) -> None:
        lines = agent.play(brain.work, "Count")
        self.assertEqual([line["type"] for line in lines], ["question"])

    def test_a_text_is_delegated_for_a_check(self) -> None:
        status, request = agent.play(brain.work, "Count: one two three")
        self.assertEqual(status["message"], "counting 13 characters")
        self.assertEqual(
            (request["to"], request["description"]), ("capability:proofread", "one two three")
        )

    def test_a_checked_text_is_counted(self) -> None:
        lines = agent.play(brain.work, "Count", answers={"text": "one two", "check": "no faults"})
        self.assertEqual(lines[-2]["text"], "# 2 words\n\nno faults\n")
        self.assertEqual(lines[-1], {"type": "done", "message": "2 words"})

    def test_a_peer_that_asks_gets_an_answer(self) -> None:
        lines = agent.play(brain.work, prompt={"help": {"question": "How do you count?"}})
        self.assertEqual(lines[-1]["message"], "I count words: text.split().")


if __name__ == "__main__":
    unittest.main()
