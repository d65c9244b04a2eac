"""Answers of models as server-sent events in three dialects, each event made by a type of the official SDK of OpenAI or Anthropic: one
with a member that the type lacks, or without a member that it needs, is an error here."""

import dataclasses
import json
import typing

import pydantic

# Tokens of a request, of which so many are read from the provider's cache and written to it; and of an answer.
INPUT, CACHED, WRITTEN, OUTPUT, REASONING = 120, 80, 15, 30, 10
SIGNATURE = "c2lnbmVk"


@dataclasses.dataclass
class Answer:
    """What a model says. `calls` are pairs of a name and arguments. `end` is `length` or `refusal` if it is not a good one, or `error` for
    an error in the middle, with the text as its message. `nulls` sends all members that are unset, as null."""

    text: str = ""
    calls: tuple = ()
    reasoning: str = ""
    end: str = ""
    nulls: bool = False

    def called(self):
        return [(f"call_{at}_{name}", name, json.dumps(arguments)) for at, (name, arguments) in enumerate(self.calls)]


def pieces(text):
    return [text[at : at + 5] for at in range(0, len(text), 5)]


def extras(value):
    """The names of members that the type does not know, at any depth."""
    if isinstance(value, pydantic.BaseModel):
        inner = [name for field in type(value).model_fields for name in extras(getattr(value, field))]
        return [*(value.model_extra or {}), *inner]
    if isinstance(value, (list, tuple)):
        return [name for item in value for name in extras(item)]
    return []


def made(kind, members, nulls):
    """The JSON of an event as the SDK writes it. `kind` is a model, or a union of models that differ in `type`."""
    if not isinstance(kind, type):
        kinds = typing.get_args(typing.get_args(kind)[0])
        kind = next(one for one in kinds if members["type"] in typing.get_args(one.model_fields["type"].annotation))
    event = kind.model_validate(members)
    if unknown := extras(event):
        raise TypeError(f"{kind.__name__} has no {unknown}")
    return event.model_dump(mode="json", by_alias=True, exclude_unset=not nulls)


def chat(model, answer):
    from openai.types.chat import ChatCompletionChunk

    def chunk(choices, **more):
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_790_000_000, "model": model}
        return made(ChatCompletionChunk, {**head, "choices": choices, **more}, answer.nulls)

    def delta(delta, finish=None):
        return chunk([{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}])

    chunks = [delta({"role": "assistant", "content": "", "refusal": None})]
    for piece in pieces(answer.reasoning):
        # Not of OpenAI, but of most others.
        chunks.append(delta({}))
        chunks[-1]["choices"][0]["delta"]["reasoning_content"] = piece
    if answer.end == "error":
        error = {"message": answer.text, "type": "server_error", "param": None, "code": None}
        return [f"data: {json.dumps(one)}\n\n" for one in [*chunks, {"error": error}]]
    said = "refusal" if answer.end == "refusal" else "content"
    chunks += [delta({said: piece}) for piece in pieces(answer.text)]
    for at, (id, name, arguments) in enumerate(answer.called()):
        chunks.append(delta({"tool_calls": [{"index": at, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}]}))
        chunks += [delta({"tool_calls": [{"index": at, "function": {"arguments": piece}}]}) for piece in pieces(arguments)]
    chunks.append(delta({}, "length" if answer.end == "length" else "tool_calls" if answer.calls else "stop"))
    chunks.append(chunk([], usage={
        "prompt_tokens": INPUT, "completion_tokens": OUTPUT, "total_tokens": INPUT + OUTPUT,
        "prompt_tokens_details": {"cached_tokens": CACHED, "cache_write_tokens": WRITTEN},
        "completion_tokens_details": {"reasoning_tokens": REASONING},
    }))
    return [f"data: {json.dumps(one)}\n\n" for one in chunks] + ["data: [DONE]\n\n"]


def responses(model, answer):
    from openai.types.responses import ResponseStreamEvent

    events = []

    def event(kind, **members):
        members = {"type": f"response.{kind}", "sequence_number": len(events), **members}
        events.append(made(ResponseStreamEvent, members, answer.nulls))

    def response(status, output, **more):
        return {
            "id": "resp_1", "object": "response", "created_at": 1_790_000_000, "model": model, "status": status, "output": output,
            "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None, "incomplete_details": None, **more,
        }

    event("created", response=response("in_progress", []))
    event("in_progress", response=response("in_progress", []))
    items = []
    if answer.end == "error":
        error = {"code": "server_error", "message": answer.text}
        event("failed", response=response("failed", [], error=error))
    if answer.reasoning:
        at = {"item_id": "rs_1", "output_index": len(items), "summary_index": 0}
        part = {"type": "summary_text", "text": answer.reasoning}
        whole = {"type": "reasoning", "id": "rs_1", "summary": [part], "encrypted_content": SIGNATURE}
        event("output_item.added", output_index=len(items), item={**whole, "summary": []})
        event("reasoning_summary_part.added", **at, part={"type": "summary_text", "text": ""})
        for piece in pieces(answer.reasoning):
            event("reasoning_summary_text.delta", **at, delta=piece)
        event("reasoning_summary_text.done", **at, text=answer.reasoning)
        event("reasoning_summary_part.done", **at, part=part)
        event("output_item.done", output_index=len(items), item=whole)
        items.append(whole)
    if answer.text and answer.end != "error":
        at = {"item_id": "msg_1", "output_index": len(items), "content_index": 0}
        is_refusal = answer.end == "refusal"
        part = {"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}
        begun, of_text, more = {**part, "text": ""}, "output_text", {"logprobs": []}
        if is_refusal:
            part, begun, of_text, more = {"type": "refusal", "refusal": answer.text}, {"type": "refusal", "refusal": ""}, "refusal", {}
        phase = "commentary" if answer.calls else "final_answer"
        whole = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part], "phase": phase}
        event("output_item.added", output_index=len(items), item={**whole, "status": "in_progress", "content": []})
        event("content_part.added", **at, part=begun)
        for piece in pieces(answer.text):
            event(f"{of_text}.delta", **at, delta=piece, **more)
        event(f"{of_text}.done", **at, **{"refusal" if is_refusal else "text": answer.text}, **more)
        event("content_part.done", **at, part=part)
        event("output_item.done", output_index=len(items), item=whole)
        items.append(whole)
    for id, name, arguments in answer.called():
        at = {"item_id": f"fc_{id}", "output_index": len(items)}
        whole = {"type": "function_call", "id": f"fc_{id}", "call_id": id, "name": name, "arguments": arguments, "status": "completed"}
        event("output_item.added", output_index=len(items), item={**whole, "status": "in_progress", "arguments": ""})
        for piece in pieces(arguments):
            event("function_call_arguments.delta", **at, delta=piece)
        event("function_call_arguments.done", **at, arguments=arguments)
        event("output_item.done", output_index=len(items), item=whole)
        items.append(whole)
    usage = {
        "input_tokens": INPUT, "input_tokens_details": {"cached_tokens": CACHED, "cache_write_tokens": WRITTEN},
        "output_tokens": OUTPUT, "output_tokens_details": {"reasoning_tokens": REASONING}, "total_tokens": INPUT + OUTPUT,
    }
    if answer.end == "length":
        details = {"reason": "max_output_tokens"}
        event("incomplete", response=response("incomplete", items, usage=usage, incomplete_details=details))
    elif answer.end != "error":
        event("completed", response=response("completed", items, usage=usage))
    return [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events]


def messages(model, answer):
    from anthropic.types import ErrorResponse, RawMessageStreamEvent

    events = []

    def event(kind, **members):
        events.append(made(RawMessageStreamEvent, {"type": kind, **members}, answer.nulls))

    def block(begun, deltas):
        index = sum(one["type"] == "content_block_start" for one in events)
        event("content_block_start", index=index, content_block=begun)
        for delta in deltas:
            event("content_block_delta", index=index, delta=delta)
        event("content_block_stop", index=index)

    usage = {
        "input_tokens": INPUT - CACHED - WRITTEN, "cache_read_input_tokens": CACHED, "cache_creation_input_tokens": WRITTEN,
        "output_tokens": 1,
    }
    event("message_start", message={
        "id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [], "stop_reason": None, "stop_sequence": None,
        "usage": usage,
    })
    if answer.end == "error":
        error = {"type": "error", "error": {"type": "overloaded_error", "message": answer.text}, "request_id": "req_1"}
        events.append(made(ErrorResponse, error, answer.nulls))
    if answer.reasoning:
        thoughts = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(answer.reasoning)]
        signed = {"type": "signature_delta", "signature": SIGNATURE}
        block({"type": "thinking", "thinking": "", "signature": ""}, [*thoughts, signed])
    if answer.text and answer.end not in ("refusal", "error"):
        block({"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces(answer.text)])
    for id, name, arguments in answer.called():
        begun = {"type": "tool_use", "id": id, "name": name, "input": {}}
        block(begun, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(arguments)])
    reason = {"length": "max_tokens", "refusal": "refusal"}.get(answer.end, "tool_use" if answer.calls else "end_turn")
    details = {"type": "refusal", "category": "cyber", "explanation": answer.text} if reason == "refusal" else None
    if answer.end != "error":
        delta = {"stop_reason": reason, "stop_sequence": None, "stop_details": details}
        event("message_delta", delta=delta, usage={"output_tokens": OUTPUT})
        event("message_stop")
    sent = [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events]
    return [sent[0], 'event: ping\ndata: {"type": "ping"}\n\n', *sent[1:]]


def of_path(path):
    """The dialect of a request by its path."""
    return {"completions": chat, "responses": responses, "messages": messages}[path.split("?")[0].rsplit("/", 1)[1]]
