// Counts the words of a text. Replace `work` with what your agent does.

import { run } from "./mesh-agent.mjs";

export async function work(turn) {
  if (turn.question) return "I count words: text.split(/\\s+/)."; // another agent asks for help
  let text = turn.task.description.split(":").slice(1).join(":").trim();
  if (!text) text = turn.ask("text", "Which text shall I count?").text; // asks a person; `mesh answer` answers
  turn.status(`counting ${text.length} characters`);
  const count = text.split(/\s+/).filter(Boolean).length;
  const check = turn.delegate("check", "capability:proofread", text); // to another agent
  const proof = check.artifacts?.[0]?.parts[0]?.text ?? check.text;
  turn.artifact("report.md", `# ${count} words\n\n${proof}\n`, { mediaType: "text/markdown" });
  return `${count} words`;
}

run(import.meta.url, work);
