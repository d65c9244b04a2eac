"""Brains for agents of Agent Mesh: Python 3.9 and later, the standard library only.

    import mesh_agent as agent

    @agent.turn
    def work(turn: agent.Turn) -> str:
        turn.status("at it")
        color = turn.ask("color", "Red or blue?").text
        turn.artifact("notes.md", f"It is {color}.")
        return "done in " + color

    if __name__ == "__main__":
        agent.run()

With `worker: true` a process runs many turns, one after the other, so that imports and global
variables stay; otherwise it runs one. A request (`ask`, `help`, `delegate`, `find`, `together`) returns its
answer if there is one. Otherwise it ends the turn, and the next turn runs the function again from its start:
the request then returns the answer. Work that must not run again goes into `once`. An exception
fails the turn with the last line of its traceback; the whole traceback and what the function
prints go to the log of the node.
"""

from __future__ import annotations

import base64
import json
import os
import queue
import signal
import sys
import threading
import traceback
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, NoReturn, Optional, Sequence, TypeVar, Union

Json = Any
Line = dict[str, Json]
Emit = Callable[[Line], None]
Settle = Callable[[int], None]
T = TypeVar("T")


@dataclass(frozen=True)
class Artifact:
    """A result: of this task, given with it, or of another agent."""

    id: str
    name: str
    parts: Sequence[Mapping[str, Json]]
    description: str = ""

    @property
    def text(self) -> str:
        """All its text, one part after the other."""
        return "".join(part["text"] for part in self.parts if "text" in part)

    @property
    def data(self) -> list[Json]:
        """The JSON values of its parts."""
        return [part["data"] for part in self.parts if "data" in part]


@dataclass(frozen=True)
class Task:
    """The task to do."""

    id: str
    description: str
    capability: Optional[str] = None
    input: Json = None
    artifacts: Sequence[Artifact] = ()
    deadline: Optional[str] = None
    accepted_modes: Sequence[str] = ()


@dataclass(frozen=True)
class PeerQuestion:
    """A question of another agent. What the function returns is the answer."""

    question: str
    capability: Optional[str] = None
    artifacts: Sequence[Artifact] = ()


@dataclass(frozen=True)
class Answer:
    """The result of a request. `text` is the answer, or why there is none if `ok` is false."""

    id: str
    ok: bool
    text: str
    sender: Optional[str] = None
    artifacts: Sequence[Artifact] = ()
    decision: Optional[str] = None
    """`approve` or `deny`, of a question of kind `approval`."""
    values: Mapping[str, Json] = field(default_factory=dict)
    """The values of a form."""
    task_id: Optional[str] = None
    """The id of a delegated task at its doer."""


@dataclass(frozen=True)
class Revision:
    """What was refused of an earlier result."""

    findings: str
    artifacts: Sequence[Artifact] = ()


@dataclass(frozen=True)
class Peer:
    """Another agent of the mesh."""

    id: str
    description: str
    skills: Sequence[Mapping[str, Json]]


@dataclass(frozen=True)
class Ask:
    """A question to the person who owns the task. `kind` is text, choice, form, approval or
    credential."""

    id: str
    text: str
    kind: str = "text"
    options: Sequence[str] = ()
    schema: Json = None
    call: Json = None
    expires_at: Optional[str] = None
    on_timeout: Json = None

    def line(self) -> Line:
        return _line(
            "question",
            id=self.id,
            text=self.text,
            kind=self.kind,
            options=list(self.options) or None,
            schema=self.schema,
            call=self.call,
            expiresAt=self.expires_at,
            onTimeout=self.on_timeout,
        )


@dataclass(frozen=True)
class Help:
    """A question to other agents. `to` is an agent's id or `capability:NAME`; `artifacts` are
    ids; `budget` is what it may use: `tokens`, `cost`."""

    id: str
    to: str
    question: str
    artifacts: Sequence[str] = ()
    budget: Optional[Mapping[str, Json]] = None

    def line(self) -> Line:
        return _line(
            "help",
            id=self.id,
            to=self.to,
            question=self.question,
            artifacts=list(self.artifacts) or None,
            budget=self.budget and dict(self.budget),
        )


@dataclass(frozen=True)
class Delegate:
    """A task for another agent. `to` is an agent's id or `capability:NAME`; `artifacts` are ids;
    `budget` is what it may use: `tokens`, `cost`."""

    id: str
    to: str
    description: str
    input: Json = None
    artifacts: Sequence[str] = ()
    capability: Optional[str] = None
    budget: Optional[Mapping[str, Json]] = None

    def line(self) -> Line:
        return _line(
            "delegate",
            id=self.id,
            to=self.to,
            description=self.description,
            input=self.input,
            artifacts=list(self.artifacts) or None,
            capability=self.capability,
            budget=self.budget and dict(self.budget),
        )


@dataclass(frozen=True)
class Find:
    """A search in the space of the task. At least one of `kind`, `tag` and `text` is given."""

    id: str
    kind: Optional[str] = None
    tag: Optional[str] = None
    text: Optional[str] = None

    def line(self) -> Line:
        return _line("find", id=self.id, kind=self.kind, tag=self.tag, text=self.text)


@dataclass(frozen=True)
class Call:
    """A call for proposals. `cost`, `eta` (milliseconds) and `match` are those of the bid that is
    made without an answer."""

    task_id: str
    capability: str
    description: str
    bid_by: str
    constraints: Mapping[str, Json]
    cost: float
    eta: int
    match: float


@dataclass(frozen=True)
class Bid:
    """A bid; what is None is as in the call. `eta` is milliseconds or a text such as `3m`."""

    cost: Optional[float] = None
    eta: Union[int, str, None] = None
    match: Optional[float] = None


class TurnEnded(BaseException):
    """Ends a turn from anywhere in the function. `except Exception` does not catch it."""


class Turn:
    """One turn of a brain: what it is given, and the lines that it reports."""

    def __init__(
        self, prompt: Mapping[str, Json], emit: Emit, settle: Settle = lambda noted: None
    ):
        self._emit = emit
        self._settle = settle
        self._noted = 0
        self._subject = prompt
        self.agent: str = prompt.get("agent", "")
        """The id of this agent."""
        self.key: str = prompt.get("key", "")
        """The same if the turn begins again after a crash."""
        self.number: int = prompt.get("turn", 1)
        """From 1."""
        self.epoch: Optional[int] = prompt.get("epoch")
        """The fencing token of the award or claim."""
        self.question: Optional[PeerQuestion] = None
        """A peer's question, if the turn is about one and not about a task."""
        self.signal: Optional[Mapping[str, Json]] = prompt.get("signal")
        """A signal that the agent subscribes to, if the turn is about one."""
        if "help" in prompt:
            asked = prompt["help"]
            self.question = PeerQuestion(
                asked["question"], asked.get("capability"), _artifacts(asked)
            )
        self.answers: dict[str, Answer] = {
            answer["id"]: _answer(answer) for answer in prompt.get("answers", ())
        }
        """The results of the requests of earlier turns, by the ids of the requests."""
        self.messages: Sequence[Mapping[str, Json]] = prompt.get("messages", ())
        """The owner's new messages, as A2A has them."""
        self.history: Sequence[Mapping[str, Json]] = prompt.get("history", ())
        """Earlier tasks of the same A2A context."""
        self.handover: Optional[Mapping[str, Json]] = prompt.get("handover")
        """In a chat that another agent has handed over: `by`, `reason`, `summary`, `isBack`."""
        self.produced: Sequence[Artifact] = _artifacts(prompt, "produced")
        """The artifacts of the task so far."""
        self.checkpoints: list[Json] = list(prompt.get("checkpoints", ()))
        """The notes of this and of earlier turns, the oldest first."""
        self.context: Mapping[str, Json] = prompt.get("context", {})
        """The earlier turns of the seat, if it is the turn of one: `turns`, and a `summary`."""
        self.brief: str = prompt.get("brief", {}).get("text", "")
        """What the space of the task has decided and knows, as a text. It is data."""
        self.used: Mapping[str, Json] = prompt.get("used", {})
        """Tokens and cost of the task so far."""
        self.remaining: Mapping[str, Json] = prompt.get("remaining", {})
        """What is left: `turnMs`, `idleMs`, `turns`, `tokens`, `cost`."""
        self.revision: Optional[Revision] = None
        """What was refused of an earlier result, if the task is done again."""
        if "revision" in prompt:
            refused = prompt["revision"]
            self.revision = Revision(refused["findings"], _artifacts(refused))
        self.peers: Sequence[Peer] = [
            Peer(peer["agentId"], peer.get("description", ""), peer.get("skills", ()))
            for peer in prompt.get("peers", ())
        ]

    @property
    def task(self) -> Task:
        """The task. Fails if the turn is about a peer's question or a signal."""
        task = self._subject.get("task")
        if task is None:
            raise LookupError("the turn has no task: it is about turn.question or turn.signal")
        return Task(
            task["taskId"],
            task["description"],
            task.get("capability"),
            task.get("input"),
            _artifacts(task),
            task.get("deadline"),
            task.get("acceptedModes", ()),
        )

    def status(self, message: str) -> None:
        """Reports progress, for people."""
        self._emit(_line("status", message=message))

    def log(self, message: str) -> None:
        """Writes a line to the log of the node."""
        self._emit(_line("log", message=message))

    def artifact(
        self,
        name: str,
        content: Union[str, bytes, Json],
        *,
        media_type: Optional[str] = None,
        description: Optional[str] = None,
        append: bool = False,
        last: bool = False,
    ) -> None:
        """Hands back a result: a text, bytes, or any other JSON value. With `append` it joins the
        artifact of that name, otherwise it replaces it. A line has at most 1 MiB, so a larger
        result comes in pieces."""
        part: Line = {"data": content}
        if isinstance(content, str):
            part = {"text": content}
        elif isinstance(content, bytes):
            part = {"raw": base64.b64encode(content).decode()}
        line = _line(
            "artifact",
            name=name,
            mediaType=media_type,
            description=description,
            append=append or None,
            lastChunk=last or None,
        )
        self._emit({**line, **part})

    def publish(
        self,
        signal: str,
        subject: Optional[str] = None,
        *,
        capability: Optional[str] = None,
        refs: Optional[Mapping[str, Json]] = None,
    ) -> None:
        """Publishes a signal on the board."""
        self._emit(
            _line("signal", signal=signal, subject=subject, capability=capability, refs=refs)
        )

    def post(
        self,
        content: str,
        *,
        title: Optional[str] = None,
        severity: Optional[str] = None,
        tags: Sequence[str] = (),
    ) -> None:
        """Posts a finding in the space of the task. `severity` is low, medium or high."""
        self._emit(
            _line(
                "post", content=content, title=title, severity=severity, tags=list(tags) or None
            )
        )

    def say(
        self, to: Union[str, Sequence[str]], text: str, *, mode: Optional[str] = None
    ) -> None:
        """Sends a message to other seats of a session: a name, names, or `team` for all. It is
        delivered when the turn ends. `mode="delegation"` has one seat work on it, in a stage with
        `side`: its answer comes back, and the turn with it."""
        to = [to] if isinstance(to, str) else list(to)
        self._emit(_line("say", to=to, text=text, mode=mode))

    def directive(
        self, verb: str, text: str, *, stage: Optional[str] = None, seat: Optional[str] = None
    ) -> None:
        """Steers the session, if the seat is a supervisor's: `say`, `redirect` or `amend`."""
        self._emit(_line("directive", verb=verb, text=text, stage=stage, seat=seat))

    def propose(
        self,
        entry_type: str,
        title: str,
        content: str,
        *,
        slug: Optional[str] = None,
        importance: Optional[str] = None,
        tags: Sequence[str] = (),
    ) -> None:
        """Proposes a decision (architectural, scope, process, technical) or a memory of the team
        (learning, pattern, update). A person or a curator decides."""
        self._emit(
            _line(
                "propose",
                entryType=entry_type,
                title=title,
                content=content,
                slug=slug,
                importance=importance,
                tags=list(tags) or None,
            )
        )

    def remember(
        self,
        content: str,
        *,
        entry_type: Optional[str] = None,
        title: Optional[str] = None,
        importance: Optional[str] = None,
        scope: Optional[str] = None,
        expertise: Optional[Mapping[str, int]] = None,
        tags: Sequence[str] = (),
    ) -> None:
        """Remembers something beyond the task. `scope` is own or team; `entry_type` is core-context,
        learning, pattern or update. `expertise` names areas in which the agent knows more now."""
        self._emit(
            _line(
                "remember",
                content=content,
                entryType=entry_type,
                title=title,
                importance=importance,
                scope=scope,
                expertise=expertise,
                tags=list(tags) or None,
            )
        )

    def checkpoint(self, data: Json, *, replace: bool = False) -> None:
        """Notes something for every later turn of the task, also after a crash. `replace` makes the
        earlier notes obsolete, also those of `once`. A worker returns when the note is durable."""
        self._emit({**_line("checkpoint", replace=replace or None), "data": data})
        self._noted += 1
        self._settle(self._noted)
        self.checkpoints = [*([] if replace else self.checkpoints), data]

    def once(self, name: str, call: Callable[[], T]) -> T:
        """Calls `call` and notes its result (JSON). Later turns return the note and do not call."""
        for note in self.checkpoints:
            if isinstance(note, dict) and note.get("once") == name:
                noted: T = note["result"]
                return noted
        result = call()
        self.checkpoint({"once": name, "result": result})
        return result

    def usage(
        self,
        model: str,
        input_tokens: int,
        output_tokens: int,
        cost: Optional[float] = None,
        *,
        provider: Optional[str] = None,
        finish_reason: Optional[str] = None,
        duration_ms: Optional[int] = None,
        error: Optional[str] = None,
    ) -> None:
        """Reports what one call of a model has used. `error` is a code, such as `429`, of a call without an answer."""
        self._emit(
            _line(
                "usage",
                model=model,
                inputTokens=input_tokens,
                outputTokens=output_tokens,
                cost=cost,
                provider=provider,
                finishReason=finish_reason,
                durationMs=duration_ms,
                error=error,
            )
        )

    def tool(
        self,
        id: str,
        name: str,
        *,
        duration_ms: Optional[int] = None,
        error: Optional[str] = None,
    ) -> None:
        """Reports a call of a tool that has ended, for traces and metrics. `error` is a code."""
        self._emit(_line("tool", id=id, name=name, durationMs=duration_ms, error=error))

    def ask(
        self,
        id: str,
        text: str,
        *,
        kind: str = "text",
        options: Sequence[str] = (),
        schema: Json = None,
        call: Json = None,
        expires_at: Optional[str] = None,
        on_timeout: Json = None,
    ) -> Answer:
        """Asks the person who owns the task."""
        return self.together(Ask(id, text, kind, options, schema, call, expires_at, on_timeout))[0]

    def help(
        self,
        id: str,
        to: str,
        question: str,
        *,
        artifacts: Sequence[str] = (),
        budget: Optional[Mapping[str, Json]] = None,
    ) -> Answer:
        """Asks another agent."""
        return self.together(Help(id, to, question, artifacts, budget))[0]

    def delegate(
        self,
        id: str,
        to: str,
        description: str,
        *,
        input: Json = None,
        artifacts: Sequence[str] = (),
        capability: Optional[str] = None,
        budget: Optional[Mapping[str, Json]] = None,
    ) -> Answer:
        """Gives a task to another agent."""
        return self.together(Delegate(id, to, description, input, artifacts, capability, budget))[0]

    def find(
        self,
        id: str,
        *,
        kind: Optional[str] = None,
        tag: Optional[str] = None,
        text: Optional[str] = None,
    ) -> Answer:
        """Searches the space of the task: decisions, memories, findings, proposals."""
        return self.together(Find(id, kind, tag, text))[0]

    def wait_for(self, task: str) -> Answer:
        """Waits until a task of anybody's has ended. `ok`: it is completed; `text`: how it has ended."""
        if task not in self.answers:
            self._end(_line("wait", task=task))
        return self.answers[task]

    def together(self, *requests: Union[Ask, Help, Delegate, Find]) -> list[Answer]:
        """Sends all requests at once; returns their answers in the same order. An id is used once in
        a task."""
        missing = [request for request in requests if request.id not in self.answers]
        for request in missing:
            self._emit(request.line())
        if missing:
            raise TurnEnded
        return [self.answers[request.id] for request in requests]

    @property
    def seat(self) -> Optional[Mapping[str, Json]]:
        """The seat in a session, if the task is its turn: `stage`, `round`, `others`, `new`, …"""
        task_input = (self._subject.get("task") or {}).get("input")
        return task_input.get("seat") if isinstance(task_input, dict) else None

    def done(self, message: Optional[str] = None, *, label: Optional[str] = None) -> NoReturn:
        """Ends the task; the same as to return `message`. A task needs an artifact or a message.
        `label` is that of the stage of a session."""
        self._end(_line("done", message=message, label=label))

    def pass_(self, message: Optional[str] = None) -> NoReturn:
        """Ends the turn of a seat in a session; it has another one in the next round. `message` is
        for all seats."""
        self._end(_line("pass", message=message))

    def failed(self, reason: str, *, lasting: bool = False) -> NoReturn:
        """Ends the turn without a result. The mesh may award the task again, also to this agent; not
        to this agent if the failure is `lasting`: neither waiting nor another try changes it."""
        self._end(_line("failed", reason=reason, lasting=lasting or None))

    def rejected(self, reason: str) -> NoReturn:
        """Ends the turn without a result. This agent is not asked again."""
        self._end(_line("rejected", reason=reason))

    def handoff(self, to: str, reason: str) -> NoReturn:
        """Ends the turn: the agent `to` answers in its place, and the chat goes on with that one. Why it
        can't be handed over is the answer `handoff-` and that agent's id, in the next turn."""
        self._end(_line("handoff", to=to, reason=reason))

    def pause(self, seconds: float, reason: str) -> NoReturn:
        """Ends the turn. It begins again after this time, with the same checkpoints."""
        self._end(_line("pause", afterMs=round(seconds * 1000), reason=reason))

    def _end(self, line: Line) -> NoReturn:
        self._emit(line)
        raise TurnEnded


Work = Callable[[Turn], Optional[str]]
Bidder = Callable[[Call], Union[Bid, str]]
_work: Optional[Work] = None
_bidder: Optional[Bidder] = None


def turn(work: Work) -> Work:
    """Makes `work` the function that `run` calls. What it returns is the message of `done`."""
    global _work
    _work = work
    return work


def bid(bidder: Bidder) -> Bidder:
    """Makes `bidder` the function that answers calls for proposals, with a bid or with the reason
    for none. The agent's file says `bid: { ask: brain }`."""
    global _bidder
    _bidder = bidder
    return bidder


def run() -> None:
    """Runs a turn, or as a worker one after the other: prompts from standard input, lines to
    standard output."""
    if _work is None:
        raise SystemExit(
            "mesh_agent.run() has no function to call: write @mesh_agent.turn above one"
        )
    # What the function and its subprocesses print goes to standard error, not between the lines.
    with os.fdopen(os.dup(1), "w", encoding="ascii") as output:
        os.dup2(2, 1)
        sys.stdout.reconfigure(line_buffering=True)  # what is printed is in the log at once

        def write(line: str) -> None:
            output.write(line + "\n")
            output.flush()

        if os.environ.get("MESH_EXEC_MODE"):
            _Worker(_work, write).run()
        else:
            prompt = json.loads(sys.stdin.buffer.readline())
            _take(_work, prompt, lambda line: write(_json(line)))


class _Worker:
    """Runs the turns that come on a standard input which stays open. A thread reads it: a `cancel`
    interrupts the turn, and the end of the input, as when the node dies, ends the process."""

    def __init__(self, work: Work, write: Callable[[str], None]):
        self._work = work
        self._write = write
        self._writing = threading.Lock()
        self._prompts: queue.Queue[Optional[Line]] = queue.Queue()
        self._change = threading.Condition()
        self._running: Optional[Line] = None
        self._recorded = 0

    def run(self) -> None:
        signal.signal(signal.SIGINT, self._interrupt)
        threading.Thread(target=self._read, daemon=True).start()
        while (prompt := self._prompts.get()) is not None:
            self._run_turn(prompt)

    def _run_turn(self, prompt: Line) -> None:
        def emit(line: Line) -> None:
            text = _json({**line, "key": prompt["key"]})
            with self._writing:
                if self._running is not prompt:
                    return  # of a thread that goes on after its turn
                if line["type"] in _ENDS:
                    sys.stdout.flush()
                    self._running = None
                self._write(text)

        def settle(noted: int) -> None:
            with self._change:
                self._change.wait_for(
                    lambda: self._running is not prompt or self._recorded >= noted
                )

        with self._change:
            self._running, self._recorded = prompt, 0
            self._change.notify_all()
        end = _line("wait")
        try:
            _take(self._work, prompt, emit, settle)
        except _Cancelled:
            end = _line("failed", reason="cancelled")
        emit(end)

    def _interrupt(self, *_: Json) -> None:
        if self._running is not None:
            raise _Cancelled

    def _read(self) -> None:
        for text in sys.stdin.buffer:
            line = json.loads(text)
            if line["type"] in ("turn", "cfp"):
                self._prompts.put(line)
                continue
            running = self._running
            if running is None or line["key"] != running["key"]:
                continue
            if line["type"] == "recorded":
                with self._change:
                    self._recorded = line["checkpoints"]
                    self._change.notify_all()
            elif line["type"] == "cancel":
                ident = threading.main_thread().ident
                if ident is not None:
                    signal.pthread_kill(ident, signal.SIGINT)
        if self._running is not None:
            os._exit(1)
        self._prompts.put(None)


class _Cancelled(BaseException):
    """The turn was stopped."""


_ENDS = ("done", "pass", "failed", "rejected", "message", "pause", "wait", "handoff", "bid", "no-bid")


def play(
    work: Work,
    description: str = "",
    *,
    answers: Optional[Mapping[str, str]] = None,
    prompt: Optional[Mapping[str, Json]] = None,
) -> list[Line]:
    """Runs one turn without a mesh, for tests; returns the lines. `answers` has texts by the ids of
    requests, `prompt` replaces members of the prompt."""
    given = [{"id": id, "ok": True, "text": text} for id, text in (answers or {}).items()]
    task = {"taskId": "t-1", "description": description}
    about = {} if prompt and ("help" in prompt or "signal" in prompt) else {"task": task}
    lines: list[Line] = []
    whole = {"agent": "me", "key": "k", "turn": 1, "answers": given, **about, **(prompt or {})}
    _take(work, whole, lambda line: lines.append(json.loads(_json(line))))
    return lines


def _answer_call(line: Mapping[str, Json]) -> Line:
    call, computed = line["cfp"], line["computed"]
    if _bidder is None:
        return _line("bid")
    answer = _bidder(
        Call(
            call["taskId"],
            call["capability"],
            call["description"],
            call["bidBy"],
            call.get("constraints", {}),
            computed["cost"],
            computed["eta"],
            computed["match"],
        )
    )
    if isinstance(answer, str):
        return _line("no-bid", reason=answer)
    return _line("bid", cost=answer.cost, eta=answer.eta, match=answer.match)


def _take(
    work: Work,
    prompt: Mapping[str, Json],
    emit: Emit,
    settle: Settle = lambda noted: None,
) -> None:
    try:
        if prompt.get("type") == "cfp":
            return emit(_answer_call(prompt))
        emit(_line("done", message=work(Turn(_whole(prompt, _Content(prompt)), emit, settle))))
    except TurnEnded:
        pass
    except Exception as error:
        traceback.print_exc()
        emit(
            _line("failed", reason=traceback.format_exception_only(type(error), error)[-1].strip())
        )


def _line(type: str, **members: Json) -> Line:
    return {"type": type, **{name: value for name, value in members.items() if value is not None}}


def _json(line: Line) -> str:
    return json.dumps(line, allow_nan=False)


class _Content:
    """The content that a prompt refers to. Only the node can add to `references`."""

    def __init__(self, prompt: Mapping[str, Json]):
        node = os.environ.get("MESH_NODE_URL", "")
        self._urls = {f"{node}/a2a/artifacts/{digest}" for digest in prompt.get("references", ())}

    def has(self, url: Json) -> bool:
        return isinstance(url, str) and url in self._urls

    def read(self, url: str, kind: str) -> Json:
        import urllib.request  # only here, because it makes the start slower

        token = os.environ.get("MESH_BRAIN_TOKEN", "")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # no proxy sees the token
        request = urllib.request.Request(url)
        request.add_unredirected_header("Authorization", f"Bearer {token}")
        with opener.open(request, timeout=30) as answer:
            content: bytes = answer.read()
        if kind == "data":
            return json.loads(content)
        return base64.b64encode(content).decode() if kind == "raw" else content.decode()


def _whole(value: Json, content: _Content) -> Json:
    """The prompt with the texts that it refers to."""
    if isinstance(value, list):
        return [_whole(item, content) for item in value]
    if not isinstance(value, dict):
        return value
    if "metadata" in value and content.has(value.get("url")):
        kind = value["metadata"]["content"]
        part = {name: member for name, member in value.items() if name != "url"}
        return {**part, kind: content.read(value["url"], kind)}
    whole = {name: _whole(member, content) for name, member in value.items()}
    for name, reference in value.items():
        if name.endswith("Ref") and isinstance(reference, dict) and content.has(reference["url"]):
            is_json = reference["mediaType"] == "application/json"
            whole[name[:-3]] = content.read(reference["url"], "data" if is_json else "text")
    return whole


def _artifacts(of: Mapping[str, Json], member: str = "artifacts") -> list[Artifact]:
    return [
        Artifact(
            given["artifactId"],
            given.get("name", given["artifactId"]),
            given["parts"],
            given.get("description", ""),
        )
        for given in of.get(member, ())
    ]


def _answer(given: Mapping[str, Json]) -> Answer:
    return Answer(
        given["id"],
        given["ok"],
        given["text"],
        given.get("from"),
        _artifacts(given),
        given.get("decision"),
        given.get("values", {}),
        given.get("taskId"),
    )
