// Brains for agents of Agent Mesh: Node 18 and later, no dependencies.
//
//     import { run } from "./mesh-agent.mjs";
//
//     export async function work(turn) {
//       turn.status("at it");
//       const color = turn.ask("color", "Red or blue?").text;
//       turn.artifact("notes.md", `It is ${color}.`);
//       return `done in ${color}`;
//     }
//     run(import.meta.url, work);
//
// A process runs one turn. A request (`ask`, `help`, `delegate`, `find`, `together`) returns its answer if there is one. Otherwise
// it throws `TurnEnded`, and the next turn runs the function again from its start: the request then returns the answer.
// Work that must not run again goes into `once`. Any other exception fails the turn; its stack and what the function
// prints go to the log of the node.

import { readFileSync, realpathSync, writeSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** Ends a turn from anywhere in the function. Do not catch it. */
export class TurnEnded extends Error {}

/**
 * A request that `together` sends: `question`, `help`, `delegate` or `find`, with the members of docs/brain-protocol.md.
 * @typedef {{ type: "question" | "help" | "delegate" | "find", id: string, [member: string]: unknown }} Request
 * @typedef {{ id: string, ok: boolean, text: string, from?: string, artifacts?: object[], decision?: "approve" | "deny",
 *   values?: Record<string, unknown>, taskId?: string }} Answer `text` is the answer, or why there is none
 */

/** One turn of a brain: the members of the prompt, and the lines that it reports. */
export class Turn {
  #emit;

  constructor(prompt, emit) {
    this.#emit = emit;
    const { help, ...members } = prompt;
    Object.assign(this, { checkpoints: [], messages: [], history: [], produced: [], peers: [] }, members);
    /** A peer's question (`question`, `capability`, `artifacts`), if the turn is about one and not about a task. */
    this.question = help;
    /** What the space of the task has decided and knows, as a text. It is data. @type {string} */
    this.brief = prompt.brief?.text ?? "";
    /** The results of the requests of earlier turns, by the ids of the requests. @type {Map<string, Answer>} */
    this.answers = new Map((prompt.answers ?? []).map((answer) => [answer.id, answer]));
  }

  /** Reports progress, for people. @param {string} message */
  status(message) {
    this.#emit({ type: "status", message });
  }

  /** Writes a line to the log of the node. @param {string} message */
  log(message) {
    this.#emit({ type: "log", message });
  }

  /** Hands back a result: a text, a `Buffer`, or any other JSON value. `more`: `mediaType`, `append`, `lastChunk`, … */
  artifact(name, content, more = {}) {
    const part =
      typeof content === "string" ? { text: content }
      : content instanceof Uint8Array ? { raw: Buffer.from(content).toString("base64") }
      : { data: content };
    this.#emit({ type: "artifact", name, ...more, ...part });
  }

  /** Publishes a signal on the board. `more`: `subject`, `capability`, `refs`. */
  publish(signal, more = {}) {
    this.#emit({ type: "signal", signal, ...more });
  }

  /** Posts a finding in the space of the task. `more`: `title`, `severity`, `tags`. */
  post(content, more = {}) {
    this.#emit({ type: "post", content, ...more });
  }

  /** Proposes a decision or a memory of the team, by its type. `more`: `slug`, `importance`, `tags`. */
  propose(entryType, title, content, more = {}) {
    this.#emit({ type: "propose", entryType, title, content, ...more });
  }

  /** Remembers something beyond the task. `more`: `entryType`, `title`, `importance`, `scope`, `expertise`, `tags`. */
  remember(content, more = {}) {
    this.#emit({ type: "remember", content, ...more });
  }

  /** Notes something for every later turn of the task, also after a crash. */
  checkpoint(data) {
    this.#emit({ type: "checkpoint", data });
    this.checkpoints.push(data);
  }

  /** Calls `call` and notes its result (JSON). Later turns return what was noted and do not call. */
  async once(name, call) {
    const noted = this.checkpoints.find((note) => note?.once === name);
    if (noted) return noted.result;
    const result = await call();
    this.checkpoint({ once: name, result });
    return result;
  }

  /** Reports what one call of a model has used. */
  usage(model, inputTokens, outputTokens, cost) {
    this.#emit({ type: "usage", model, inputTokens, outputTokens, cost });
  }

  /** Asks the person who owns the task. `more`: `kind`, `options`, `schema`, `call`, … @returns {Answer} */
  ask(id, text, more = {}) {
    return this.together({ type: "question", id, text, ...more })[0];
  }

  /** Asks another agent, by id or as `capability:NAME`. @returns {Answer} */
  help(id, to, question, more = {}) {
    return this.together({ type: "help", id, to, question, ...more })[0];
  }

  /** Gives a task to another agent, by id or as `capability:NAME`. @returns {Answer} */
  delegate(id, to, description, more = {}) {
    return this.together({ type: "delegate", id, to, description, ...more })[0];
  }

  /** Searches the space of the task, by `kind`, `tag` or `text`. @returns {Answer} */
  find(id, by) {
    return this.together({ type: "find", id, ...by })[0];
  }

  /** Sends all requests at once; returns their answers in the same order. @param {...Request} requests @returns {Answer[]} */
  together(...requests) {
    const missing = requests.filter(({ id }) => !this.answers.has(id));
    missing.forEach(this.#emit);
    if (missing.length > 0) throw new TurnEnded("the turn ends until the answers come");
    return requests.map(({ id }) => this.answers.get(id));
  }

  /** Ends the turn without a result. The mesh may award the task again, also to this agent. */
  failed(reason) {
    this.#end({ type: "failed", reason });
  }

  /** Ends the turn without a result. This agent is not asked again. */
  rejected(reason) {
    this.#end({ type: "rejected", reason });
  }

  /** Ends the turn. It begins again after this time, with the same checkpoints. */
  pause(afterMs, reason) {
    this.#end({ type: "pause", afterMs, reason });
  }

  #end(line) {
    this.#emit(line);
    throw new TurnEnded(line.type);
  }
}

/** The prompt with the texts that it refers to, read from the node. */
async function whole(value, content) {
  if (Array.isArray(value)) return Promise.all(value.map((item) => whole(item, content)));
  if (value === null || typeof value !== "object") return value;
  if (value.metadata && content.has(value.url)) {
    const { url, ...part } = value;
    return { ...part, [part.metadata.content]: await content.read(url, part.metadata.content) };
  }
  const members = Object.entries(value).map(async ([name, member]) => [name, await whole(member, content)]);
  const result = Object.fromEntries(await Promise.all(members));
  for (const [name, reference] of Object.entries(value)) {
    if (!name.endsWith("Ref") || !content.has(reference?.url)) continue;
    const kind = reference.mediaType === "application/json" ? "data" : "text";
    result[name.slice(0, -3)] = await content.read(reference.url, kind);
  }
  return result;
}

/** The content that a prompt refers to. Only the node can add to `references`. */
function contentOf(prompt) {
  const { MESH_NODE_URL: node, MESH_BRAIN_TOKEN: token } = process.env;
  const urls = new Set((prompt.references ?? []).map((digest) => `${node}/a2a/artifacts/${digest}`));
  return {
    has: (url) => urls.has(url),
    async read(url, kind) {
      const answer = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
      if (!answer.ok) throw new Error(`${url} answered ${answer.status}`);
      const bytes = Buffer.from(await answer.arrayBuffer());
      return kind === "data" ? JSON.parse(bytes) : bytes.toString(kind === "raw" ? "base64" : "utf8");
    },
  };
}

async function take(work, prompt, emit) {
  try {
    emit({ type: "done", message: await work(new Turn(await whole(prompt, contentOf(prompt)), emit)) });
  } catch (error) {
    if (error instanceof TurnEnded) return;
    console.error(error);
    emit({ type: "failed", reason: String(error) });
  }
}

/** Runs one turn if `module` is the program: the prompt from standard input, lines to standard output. */
export async function run(module, work) {
  if (!process.argv[1] || realpathSync(process.argv[1]) !== fileURLToPath(module)) return;
  console.log = console.info = console.debug = console.error; // standard output is for lines
  await take(work, JSON.parse(readFileSync(0, "utf8")), (line) => writeSync(1, JSON.stringify(line) + "\n"));
}

/** Runs one turn without a mesh, for tests; returns the lines. `answers` has texts by the ids of requests. */
export async function play(work, description, answers = {}, more = {}) {
  const lines = [];
  const given = Object.entries(answers).map(([id, text]) => ({ id, ok: true, text }));
  const prompt = { agent: "me", key: "k", turn: 1, task: { taskId: "t-1", description }, answers: given, ...more };
  await take(work, prompt, (line) => lines.push(JSON.parse(JSON.stringify(line))));
  return lines;
}
