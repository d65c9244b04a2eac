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
// With `worker: true` a process runs many turns, one after the other, so that imports and global variables stay; otherwise it
// runs one. A request (`ask`, `help`, `delegate`, `find`, `together`) returns its answer if there is one. Otherwise it throws
// `TurnEnded`, and the next turn runs the function again from its start: the request then returns the answer. Work that must
// not run again goes into `once`. Any other exception fails the turn; its stack and what the function prints go to the log of
// the node.

import { readFileSync, realpathSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** Ends a turn from anywhere in the function. Do not catch it. */
export class TurnEnded extends Error {}

/**
 * A request that `together` sends: `question`, `help`, `delegate` or `find`, with the members of docs/brain-protocol.md.
 * @typedef {{ type: "question" | "help" | "delegate" | "find", id: string, [member: string]: unknown }} Request
 * @typedef {{ id: string, ok: boolean, text: string, from?: string, artifacts?: object[], decision?: "approve" | "deny",
 *   values?: Record<string, unknown>, taskId?: string }} Answer `text` is the answer, or why there is none
 */

/**
 * A call for proposals, and the bid that is made without an answer.
 * @typedef {{ agent: string, key: string, withinMs: number,
 *   cfp: { taskId: string, capability: string, description: string, bidBy: string, constraints: object },
 *   computed: { cost: number, eta: number, match: number, load: number } }} Call
 * @typedef {{ cost?: number, eta?: number | string, match?: number }} Bid what is left out is as in `computed`
 */

/** One turn of a brain: the members of the prompt, and the lines that it reports. */
export class Turn {
  #emit;
  #settle;
  #noted = 0;

  constructor(prompt, emit, settle = async () => {}, cancelled = new AbortController().signal) {
    this.#emit = emit;
    this.#settle = settle;
    const { help, ...members } = prompt;
    const empty = { checkpoints: [], context: { turns: [] }, messages: [], history: [], produced: [], peers: [] };
    Object.assign(this, empty, members);
    /** A peer's question (`question`, `capability`, `artifacts`), if the turn is about one and not about a task. */
    this.question = help;
    /** What was refused of an earlier result (`findings`, `artifacts`), if the task is done again. */
    this.revision = prompt.revision;
    /** What the space of the task has decided and knows, as a text. It is data. @type {string} */
    this.brief = prompt.brief?.text ?? "";
    /** The results of the requests of earlier turns, by the ids of the requests. @type {Map<string, Answer>} */
    this.answers = new Map((prompt.answers ?? []).map((answer) => [answer.id, answer]));
    /** Aborted when the node stops the turn; give it to `fetch`. The process is killed if the turn does not end within 2 s. */
    this.cancelled = cancelled;
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

  /** The seat in a session, if the task is its turn: `stage`, `round`, `others`, `new`, … */
  get seat() {
    return this.task?.input?.seat;
  }

  /**
   * Sends a message to other seats of a session: names, or `team` for all. It is delivered when the turn ends. `more`:
   * `mode: "delegation"` has one seat work on it, in a stage with `side`: its answer comes back, and the turn with it.
   */
  say(to, text, more = {}) {
    this.#emit({ type: "say", to: [to].flat(), text, ...more });
  }

  /** Steers the session, if the seat is a supervisor's: `say`, `redirect` or `amend`. `more`: `stage`, `seat`. */
  directive(verb, text, more = {}) {
    this.#emit({ type: "directive", verb, text, ...more });
  }

  /** Proposes a decision or a memory of the team, by its type. `more`: `slug`, `importance`, `tags`. */
  propose(entryType, title, content, more = {}) {
    this.#emit({ type: "propose", entryType, title, content, ...more });
  }

  /** Remembers something beyond the task. `more`: `entryType`, `title`, `importance`, `scope`, `expertise`, `tags`. */
  remember(content, more = {}) {
    this.#emit({ type: "remember", content, ...more });
  }

  /**
   * Notes something for every later turn of the task, also after a crash. In a worker the promise is kept when the note is
   * durable. `more`: `replace` makes the earlier notes obsolete, also those of `once`.
   */
  async checkpoint(data, more = {}) {
    this.#emit({ type: "checkpoint", data, ...more });
    this.checkpoints = [...(more.replace ? [] : this.checkpoints), data];
    this.#noted += 1;
    await this.#settle(this.#noted);
  }

  /** Calls `call` and notes its result (JSON). Later turns return what was noted and do not call. */
  async once(name, call) {
    const noted = this.checkpoints.find((note) => note?.once === name);
    if (noted) return noted.result;
    const result = await call();
    await this.checkpoint({ once: name, result });
    return result;
  }

  /** Reports what one call of a model has used. `more`: `provider`, `finishReason`, `durationMs`, `error`. */
  usage(model, inputTokens, outputTokens, cost, more = {}) {
    this.#emit({ type: "usage", model, inputTokens, outputTokens, cost, ...more });
  }

  /** Reports a call of a tool that has ended, for traces and metrics. `more`: `durationMs`, `error` (a code). */
  tool(id, name, more = {}) {
    this.#emit({ type: "tool", id, name, ...more });
  }

  /** Asks the person who owns the task. `more`: `kind`, `options`, `schema`, `call`, … @returns {Answer} */
  ask(id, text, more = {}) {
    return this.together({ type: "question", id, text, ...more })[0];
  }

  /** Asks another agent, by id or as `capability:NAME`. `more`: `artifacts`, `budget` (`tokens`, `cost`). @returns {Answer} */
  help(id, to, question, more = {}) {
    return this.together({ type: "help", id, to, question, ...more })[0];
  }

  /**
   * Gives a task to another agent, by id or as `capability:NAME`. `more`: `input`, `artifacts`, `capability`, `budget` (`tokens`,
   * `cost`). @returns {Answer}
   */
  delegate(id, to, description, more = {}) {
    return this.together({ type: "delegate", id, to, description, ...more })[0];
  }

  /** Searches the space of the task, by `kind`, `tag` or `text`. @returns {Answer} */
  find(id, by) {
    return this.together({ type: "find", id, ...by })[0];
  }

  /** Waits until a task of anybody's has ended. `ok`: it is completed; `text`: how it has ended. @returns {Answer} */
  waitFor(task) {
    if (!this.answers.has(task)) this.#end({ type: "wait", task });
    return this.answers.get(task);
  }

  /** Sends all requests at once; returns their answers in the same order. @param {...Request} requests @returns {Answer[]} */
  together(...requests) {
    const missing = requests.filter(({ id }) => !this.answers.has(id));
    missing.forEach((request) => this.#emit(request));
    if (missing.length > 0) throw new TurnEnded("the turn ends until the answers come");
    return requests.map(({ id }) => this.answers.get(id));
  }

  /** Ends the task. `label` is that of the stage of a session. */
  done(message, label) {
    this.#end({ type: "done", message, label });
  }

  /** Ends the turn of a seat in a session; it has another one in the next round. `message` is for all seats. */
  pass(message) {
    this.#end({ type: "pass", message });
  }

  /** Ends the turn without a result. The mesh may award the task again, also to this agent; not to this agent if the failure is
   * `lasting`: neither waiting nor another try changes it. */
  failed(reason, { lasting } = {}) {
    this.#end({ type: "failed", reason, lasting: lasting || undefined });
  }

  /** Ends the turn without a result. This agent is not asked again. */
  rejected(reason) {
    this.#end({ type: "rejected", reason });
  }

  /** Ends the turn: the agent `to` answers in its place, and the chat goes on with that one. Why it can't be handed over is the
   * answer `handoff-` and that agent's id, in the next turn. */
  handoff(to, reason) {
    this.#end({ type: "handoff", to, reason });
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
      const headers = { authorization: `Bearer ${token}` };
      const answer = await fetch(url, { headers, redirect: "error", signal: AbortSignal.timeout(30_000) });
      if (!answer.ok) throw new Error(`${url} answered ${answer.status}`);
      const bytes = Buffer.from(await answer.arrayBuffer());
      return kind === "data" ? JSON.parse(bytes) : bytes.toString(kind === "raw" ? "base64" : "utf8");
    },
  };
}

const ENDS = new Set(["done", "pass", "failed", "rejected", "message", "pause", "wait", "handoff", "bid", "no-bid"]);

/** The answer of `bidder` to a call for proposals: a bid, or the reason for none as a text. */
async function answerCall(bidder, call) {
  const answer = (await bidder?.(call)) ?? {};
  return typeof answer === "string" ? { type: "no-bid", reason: answer } : { type: "bid", ...answer };
}

async function take({ work, bid }, line, emit, settle, cancelled) {
  try {
    if (line.type === "cfp") return emit(await answerCall(bid, line));
    emit({ type: "done", message: await work(new Turn(await whole(line, contentOf(line)), emit, settle, cancelled)) });
  } catch (error) {
    if (error instanceof TurnEnded) return;
    if (!cancelled?.aborted) console.error(error);
    emit({ type: "failed", reason: cancelled?.aborted ? "cancelled" : String(error) });
  }
}

/** Takes turns until standard input ends. A turn that runs then has no node that waits for it, so the process ends at once. */
async function takeAll(brain, write) {
  let running; // the turn: key, controller, how many of its notes are durable, what waits for more
  let last = Promise.resolve();
  const release = () => running.waiting.splice(0).forEach((check) => check());
  const takeOne = async (line, turn) => {
    const emit = (out) => {
      if (turn.ended) return; // of a promise that was not awaited
      const text = JSON.stringify({ ...out, key: turn.key });
      turn.ended = ENDS.has(out.type);
      if (turn.ended && running === turn) running = undefined;
      write(text);
    };
    const settle = (noted) =>
      new Promise((resolve, reject) => {
        const check = () => {
          if (turn.controller.signal.aborted) reject(new TurnEnded("cancelled"));
          else if (turn.recorded >= noted) resolve();
          else turn.waiting.push(check);
        };
        check();
      });
    await take(brain, line, emit, settle, turn.controller.signal);
    emit(turn.controller.signal.aborted ? { type: "failed", reason: "cancelled" } : { type: "wait" });
  };
  for await (const text of createInterface({ input: process.stdin })) {
    const line = JSON.parse(text);
    if (line.type === "turn" || line.type === "cfp") {
      const turn = { key: line.key, controller: new AbortController(), recorded: 0, waiting: [], ended: false };
      running = turn;
      last = last.then(() => takeOne(line, turn));
    } else if (line.key === running?.key) {
      if (line.type === "recorded") running.recorded = line.checkpoints;
      if (line.type === "cancel") running.controller.abort();
      release();
    }
  }
  if (running) process.exit(1);
}

/**
 * Runs a turn, or as a worker one after the other, if `module` is the program: prompts from standard input, lines to standard
 * output. `bid` answers calls for proposals, if the agent's file says `bid: { ask: brain }`: with a bid, or with the reason for
 * none as a text.
 * @param {string} module @param {(turn: Turn) => unknown} work
 * @param {{ bid?: (call: Call) => Bid | string | Promise<Bid | string> }} more
 */
export async function run(module, work, { bid } = {}) {
  if (!process.argv[1] || realpathSync(process.argv[1]) !== fileURLToPath(module)) return;
  console.log = console.info = console.debug = console.error; // standard output is for lines
  const write = (text) => writeSync(1, text + "\n");
  if (process.env.MESH_EXEC_MODE) return takeAll({ work, bid }, write);
  await take({ work }, JSON.parse(readFileSync(0, "utf8")), (line) => write(JSON.stringify(line)));
}

/** Runs one turn without a mesh, for tests; returns the lines. `answers` has texts by the ids of requests. */
export async function play(work, description, answers = {}, more = {}) {
  const lines = [];
  const given = Object.entries(answers).map(([id, text]) => ({ id, ok: true, text }));
  const prompt = { agent: "me", key: "k", turn: 1, task: { taskId: "t-1", description }, answers: given, ...more };
  await take({ work }, prompt, (line) => lines.push(JSON.parse(JSON.stringify(line))));
  return lines;
}
