// Turns of the brain without a mesh: `node --test`.

import assert from "node:assert/strict";
import { test } from "node:test";
import { work } from "./brain.mjs";
import { play } from "./mesh-agent.mjs";

test("a task without a text asks a person", async () => {
  const lines = await play(work, "Count");
  assert.deepEqual(lines.map((line) => line.type), ["question"]);
});

test("a text is delegated for a check", async () => {
  const [status, request] = await play(work, "Count: one two three");
  assert.equal(status.message, "counting 13 characters");
  assert.deepEqual([request.to, request.description], ["capability:proofread", "one two three"]);
});

test("a checked text is counted", async () => {
  const lines = await play(work, "Count", { text: "one two", check: "no faults" });
  assert.equal(lines.at(-2).text, "# 2 words\n\nno faults\n");
  assert.deepEqual(lines.at(-1), { type: "done", message: "2 words" });
});
