"""The official SDKs of OpenAI, Anthropic and ollama's compatible endpoint against the stub provider of the tests: what they
understand as text, calls of tools, usage and errors is what the stub means. Usage: sdks.py BASE_URL"""

import json
import sys
import threading
import time

import anthropic
import openai

base = sys.argv[1]
TOOL = {"type": "object", "properties": {"timezone": {"type": "string"}}}


def check(name, found, expected):
    assert found == expected, f"{name}: {found!r}, expected {expected!r}"
    print(f"ok: {name}")


def check_broken(name, ask):
    try:
        ask("break off")
    except Exception as error:  # the SDKs pass on errors of their HTTP clients
        print(f"ok: {name} broken stream: {type(error).__name__}")
    else:
        raise AssertionError(f"{name}: a broken stream went unnoticed")


def check_hung(name, ask):
    """An answer of pings only says nothing; a silent connection ends at the SDK's time-out."""
    said = []
    threading.Thread(target=lambda: said.append(ask("hang")), daemon=True).start()
    time.sleep(2)
    check(f"{name} hung answer", said, [])
    try:
        ask("silent", timeout=1)
        raise AssertionError(f"{name}: a silent connection was answered")
    except (openai.APITimeoutError, anthropic.APITimeoutError) as error:
        print(f"ok: {name} silent connection: {type(error).__name__}")


def openai_sdk():
    client = openai.OpenAI(base_url=base, api_key="key", max_retries=0)
    tools = [{"type": "function", "function": {"name": "clock", "description": "d", "parameters": TOOL}}]

    def ask(text, results=(), timeout=60):
        messages = [{"role": "system", "content": "s"}, {"role": "user", "content": text}]
        for result in results:
            call = {"id": "call_0", "type": "function", "function": {"name": "clock", "arguments": "{}"}}
            messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": "call_0", "content": result})
        with client.chat.completions.stream(
            model="stub", messages=messages, tools=tools, timeout=timeout, stream_options={"include_usage": True}
        ) as stream:
            for _ in stream:
                pass
            return stream.get_final_completion()

    found = ask("say: Hello, World. This is a longer text.")
    check("openai text", found.choices[0].message.content, "Hello, World. This is a longer text.")
    check("openai finish", found.choices[0].finish_reason, "stop")
    check("openai usage", (found.usage.prompt_tokens, found.usage.completion_tokens > 0), (100, True))
    call = ask('call: clock {"timezone": "Europe/Berlin"}').choices[0]
    check("openai call", call.message.tool_calls[0].function.name, "clock")
    check("openai arguments", json.loads(call.message.tool_calls[0].function.arguments), {"timezone": "Europe/Berlin"})
    check("openai call finish", call.finish_reason, "tool_calls")
    check("openai result", ask('call: clock {"a": 1}', ["noon"]).choices[0].message.content, "noon")
    for text, status, kind in [
        ("refuse: 429", 429, openai.RateLimitError),
        ("refuse: 500", 500, openai.InternalServerError),
        ("refuse: 401", 401, openai.AuthenticationError),
        ("refuse: 400", 400, openai.BadRequestError),
    ]:
        try:
            ask(text)
            raise AssertionError(f"{text}: no error")
        except kind as error:
            check(f"openai {status}", error.status_code, status)
            if status == 429:
                check("openai retry-after", error.response.headers["retry-after"], "7")
            if status == 400:
                check("openai context", error.code, "context_length_exceeded")
    check_broken("openai", ask)
    bad = ask("call: clock {broken").choices[0].message.tool_calls[0].function.arguments
    check("openai bad arguments", bad, "{broken")
    check_hung("openai", ask)


def anthropic_sdk():
    client = anthropic.Anthropic(base_url=base.removesuffix("/v1"), api_key="key", max_retries=0)
    tools = [{"name": "clock", "description": "d", "input_schema": TOOL}]

    def ask(text, results=(), timeout=60):
        messages = [{"role": "user", "content": text}]
        for result in results:
            use = {"type": "tool_use", "id": "toolu_0", "name": "clock", "input": {}}
            messages.append({"role": "assistant", "content": [use]})
            content = [{"type": "tool_result", "tool_use_id": "toolu_0", "content": result}]
            messages.append({"role": "user", "content": content})
        with client.messages.stream(
            model="stub", max_tokens=100, system="s", messages=messages, tools=tools, timeout=timeout
        ) as stream:
            return stream.get_final_message()

    found = ask("say: Hello, World. This is a longer text.")
    check("anthropic text", found.content[0].text, "Hello, World. This is a longer text.")
    check("anthropic stop", found.stop_reason, "end_turn")
    usage = found.usage
    check("anthropic usage", usage.input_tokens + usage.cache_read_input_tokens, 100)
    call = ask('call: clock {"timezone": "Europe/Berlin"}')
    check("anthropic call", (call.content[-1].type, call.content[-1].name), ("tool_use", "clock"))
    check("anthropic arguments", call.content[-1].input, {"timezone": "Europe/Berlin"})
    check("anthropic call stop", call.stop_reason, "tool_use")
    check("anthropic result", ask('call: clock {"a": 1}', ["noon"]).content[0].text, "noon")
    for text, status, kind in [
        ("refuse: 429", 429, anthropic.RateLimitError),
        ("refuse: 529", 529, anthropic.APIStatusError),
        ("refuse: 401", 401, anthropic.AuthenticationError),
        ("refuse: 400", 400, anthropic.BadRequestError),
    ]:
        try:
            ask(text)
            raise AssertionError(f"{text}: no error")
        except kind as error:
            check(f"anthropic {status}", error.status_code, status)
            if status == 429:
                check("anthropic retry-after", error.response.headers["retry-after"], "7")
    check_broken("anthropic", ask)
    try:
        ask("call: clock {broken")
        raise AssertionError("anthropic bad arguments: no error")
    except ValueError as error:
        check("anthropic bad arguments", "{broken" in str(error), True)
    check_hung("anthropic", ask)


def ollama_endpoint():
    # ollama documents its compatible endpoint by this SDK, with any key.
    client = openai.OpenAI(base_url=base, api_key="ollama", max_retries=0)
    chunks = client.chat.completions.create(
        model="qwen3", messages=[{"role": "user", "content": "say: from ollama"}], stream=True
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    check("ollama's compatible endpoint", text, "from ollama")


openai_sdk()
anthropic_sdk()
ollama_endpoint()
