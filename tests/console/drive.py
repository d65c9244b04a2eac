"""Drives every view of the console in chromium: signs in by the link of `mesh console`, sends a task, answers, denies, cancels,
sends again, chats, filters, loses the node and finds it again. Screenshots go to the folder that is the second argument."""

import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright

TEAM = """
agents:
  - agent: planner-01
    open: true
    description: Plans work and asks before it removes anything.
    skills: [{ id: plan, description: plans a piece of work }]
    brain: { scripted: planner.yaml }
  - agent: builder-01
    description: Builds small services.
    skills: [{ id: build, description: builds a service }]
    bid: { cost: 0.02 }
    brain: { scripted: builder.yaml }
  - agent: builder-02
    description: Builds small services, slowly.
    skills: [{ id: build, description: builds a service }]
    bid: { cost: 0.01, eta: 5min }
    brain: { scripted: builder.yaml }
  - agent: analyst-01
    description: Reads logs and says what stands out.
    role: analyst
    skills: [{ id: analyse, description: reads logs, tags: [read] }]
    brain: { exec: [python3, analyst.py] }
    quotas: [{ tokens: 20000, per: day }, { capability: analyse, cost: 1, per: month }]
mesh:
  callers: [{ user: alice, apiKey: alices-own-key-0001 }, { user: bob, apiKey: bobs-own-key-000002 }]
"""
ANALYST = """
import json, sys
text = json.loads(sys.stdin.readline())["task"]["description"]
print(json.dumps({"type": "usage", "model": "local-1", "inputTokens": 400 * len(text), "outputTokens": 900, "cost": 0.012 * len(text)}))
print(json.dumps({"type": "done", "message": "Two lines stand out."}))
"""
SESSION = """
budget: { turns: 20, tokens: 100k, time: 10min }
stages:
  - { id: draft, task: Write a draft., seats: [planner-01] }
  - { id: ideas, after: [draft], sealed: true, seats: [builder-01, builder-02] }
  - { id: table, task: Discuss the draft and the ideas., after: [ideas], order: turns, seats: [planner-01, { person: ada, task: Say what users want. }] }
  - { id: check, after: [table], seats: [planner-01], next: { again: table }, loops: 1 }
"""
PLANNER = """
turns:
  - when: { contains: remove, turn: 1 }
    say:
      - { type: question, id: rm, kind: approval, text: May I remove the old release folder?, call: { name: remove_folder, args: { path: /srv/releases/2025-11, recursive: true } } }
  - when: { contains: deploy, turn: 1 }
    say:
      - { type: question, id: go, kind: approval, editable: true, text: May I deploy it?, call: { name: deploy, args: { to: production, replicas: 3 } } }
  - when: { contains: size, turn: 1 }
    say:
      - { type: question, id: size, kind: choice, text: Which size should the machine have?, options: [small, medium, large] }
  - when: { contains: form, turn: 1 }
    say:
      - type: question
        id: order
        kind: form
        text: What should be ordered?
        schema: { type: object, required: [item], properties: { item: { type: string, title: Item }, count: { type: integer, minimum: 1, default: 1 }, gift: { type: boolean, title: It is a gift }, speed: { enum: [slow, fast] } } }
  - when: { contains: break }
    end: { failed: The old switch does not answer. }
  - when: { contains: slowly, turn: 1 }
    say:
      - { type: artifact, artifactId: answer, name: answer, text: "Here is the first half." }
      - { type: question, id: half, text: Shall I write the other half? }
  - when: { contains: one line, turn: 1 }
    say: [{ type: artifact, name: "long \u202eline <b>.txt", text: "%s" }]
    end: { done: It is one line. }
  - when: { contains: wait, turn: 1 }
    say: [{ type: question, id: later, text: Shall I go on? }]
  - say:
      - { type: artifact, name: plan.md, mediaType: text/markdown, text: "# Plan\\n\\n1. Look at what is there\\n2. Change one thing\\n3. Measure it" }
      - { type: artifact, name: facts.json, data: { steps: 3, risky: false } }
    end: { done: The plan has three steps. }
"""
BUILDER = """
turns:
  - say: [{ type: artifact, name: main.py, mediaType: text/x-python, text: "print('hello')" }]
    end: { done: built it }
"""
HOSTILE = "<img src=x onerror=\"document.title='owned'\"> \u202egnp.exe \x1b[31m " + "long" * 400


# A line of one megabyte, with what would run or turn text.
PLANNER = PLANNER.replace("%s", "<script>document.title='owned'</script> " + "x" * 1_000_000)


class Mesh:
    """A running mesh."""

    def __init__(self, program, folder):
        self.program, self.folder, self.data = program, folder, folder / "data"
        for name, text in [("team.yaml", TEAM), ("planner.yaml", PLANNER), ("builder.yaml", BUILDER), ("analyst.py", ANALYST), ("session.yaml", SESSION)]:
            (folder / name).write_text(text)
        # Consecutive ports, the same after a restart.
        self.port = str(free_ports(5))
        self.start()

    def start(self):
        run = self.data / "run.json"
        run.unlink(missing_ok=True)
        command = [self.program, "up", "--port", self.port, "--profile", "fast", "--data", self.data, self.folder / "team.yaml"]
        self.log = open(self.folder / "log", "a")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        self.addresses = eventually(lambda: run.exists() and json.loads(run.read_text()))
        self.url = self.addresses["url"]

    def kill(self):
        self.process.kill()
        self.process.wait()

    def command(self, *words):
        environment = {**os.environ, "MESH_URL": self.url, "MESH_TOKEN_FILE": str(self.data / "token")}
        return subprocess.run([self.program, *words], env=environment, check=True, capture_output=True, text=True).stdout

    def post(self, path, body):
        headers = {"Authorization": f"Bearer {(self.data / 'token').read_text().strip()}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers)
        return json.load(urllib.request.urlopen(request))

    def link(self, *agent):
        return self.command("console", "--no-open", *agent).strip()


def free_ports(count):
    while True:
        first = random.randrange(20_000, 30_000)
        try:
            for port in range(first, first + count):
                with socket.socket() as listener:
                    listener.bind(("127.0.0.1", port))
            return first
        except OSError:
            continue


def eventually(look, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            found = look()
        except json.JSONDecodeError:
            found = None
        if found:
            return found
        time.sleep(0.02)
    raise TimeoutError("not seen in time")


class Driver:
    """One page, and what was found on it."""

    def __init__(self, page, shots):
        self.page, self.shots, self.faults = page, shots, []
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("console", lambda line: line.type == "error" and self.faults.append(f"console: {line.text}"))

    def open(self, link, heading):
        self.page.goto("about:blank")
        self.page.goto(link)
        expect(self.page.locator("h1")).to_contain_text(heading)
        expect(self.page.locator("#link-state")).to_contain_text("live")

    def go(self, name, heading):
        # The view that was there goes when the new one has come: what is filled in before is lost.
        self.page.evaluate("document.querySelector('[data-view]').dataset.old = 'yes'")
        self.page.get_by_role("navigation", name="Console").get_by_role("link", name=name).click()
        expect(self.page.locator("[data-old]")).to_have_count(0)
        expect(self.page.locator("h1")).to_contain_text(heading)

    def shoot(self, name):
        for scheme in ["light", "dark"]:
            self.page.emulate_media(color_scheme=scheme)
            found = Axe().run(self.page, options={"resultTypes": ["violations"]})
            for violation in found.response["violations"]:
                nodes = [node["html"][:160] for node in violation["nodes"][:3]]
                self.faults.append(f"axe, {name} {scheme}: {violation['id']}: {violation['help']}: {nodes}")
            width = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            if width > 0:
                self.faults.append(f"{name}: the page is {width} px wider than the window")
            if self.shots:
                self.page.screenshot(path=self.shots / f"{name}-{scheme}.png", full_page=True)
        self.page.emulate_media(color_scheme="light")

    def send(self, text, capability=None):
        self.go("Start", "planner-01")
        self.page.get_by_label("What is to be done").fill(text)
        if capability:
            self.page.get_by_label("Capability").select_option(capability)
        self.page.get_by_role("button", name="Send").click()
        expect(self.page.locator(".stack[data-view=task]")).to_be_visible()


def drive(driver, mesh):
    page = driver.page
    # An empty mesh says what to do.
    driver.open(mesh.link("planner-01"), "planner-01")
    driver.shoot("start-empty")
    driver.go("Tasks", "Tasks")
    expect(page.get_by_text("No task yet.")).to_be_visible()
    driver.go("Inbox", "Inbox")
    expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
    driver.shoot("inbox-empty")
    # A task, followed to its end without a reload.
    driver.send("Plan the move of the build to the new machines")
    expect(page.locator(".head .state")).to_have_text("completed")
    expect(page.get_by_text("The plan has three steps.").first).to_be_visible()
    expect(page.locator(".prose", has_text="Look at what is there").first).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save plan.md").click()
    assert download.value.suggested_filename == "plan.md"
    assert Path(download.value.path()).read_text().startswith("# Plan")
    driver.shoot("task")
    # An auction.
    driver.send("Build the inventory service", "build")
    expect(page.locator(".head .state")).to_have_text("completed")
    expect(page.get_by_role("heading", name="Award")).to_be_visible()
    expect(page.get_by_role("cell", name="outbid")).to_be_visible()
    driver.shoot("task-award")
    # What waits: the badge, an approval, a choice, a form.
    driver.send("Please remove the old release")
    expect(page.locator("#waiting")).to_have_text("1")
    driver.send("Please deploy it")
    driver.send("Choose the size of the machine")
    driver.send("Fill the form of the order")
    expect(page.locator("#waiting")).to_have_text("4")
    expect(page).to_have_title(re.compile(r"^\(4\)"))
    driver.go("Inbox", "Inbox")
    driver.shoot("inbox")
    approval = page.locator(".ask", has_text="old release folder")
    approval.get_by_label("Reason").fill("it is still in use")
    approval.get_by_role("button", name="Deny").click()
    expect(page.locator(".ask")).to_have_count(3)
    expect(page.locator("#done")).to_contain_text("Your answer is on its way")
    # Edit and approve: the agent is told with what the call was approved.
    approval = page.locator(".ask", has_text="May I deploy it?")
    approval.get_by_text("Approve with other arguments").click()
    approval.get_by_label("The arguments, as JSON").fill('{ "to": "staging", "replicas": 1 }')
    approval.get_by_role("button", name="Approve").click()
    expect(page.locator(".ask")).to_have_count(2)
    choice = page.locator(".ask", has_text="Which size")
    choice.get_by_label("medium").check()
    choice.get_by_role("button", name="Answer").click()
    expect(page.locator(".ask")).to_have_count(1)
    form = page.locator(".ask", has_text="What should be ordered")
    form.get_by_label("Item").fill("paper")
    form.get_by_label("It is a gift").check()
    form.get_by_role("button", name="Answer").click()
    expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
    expect(page.locator("#waiting")).to_be_hidden()
    # Cancel, and send again.
    driver.send("Only wait for me")
    expect(page.get_by_role("heading", name="It waits for you")).to_be_visible()
    page.get_by_role("button", name="Cancel the task").click()
    expect(page.locator(".head .state")).to_have_text("canceled")
    first = page.url
    page.get_by_role("button", name="Send it again").click()
    expect(page.get_by_role("heading", name="It waits for you")).to_be_visible()
    assert page.url != first
    # What is typed stays while the page changes.
    page.get_by_label("Your answer").fill("not yet sent")
    mesh.command("ask", "--to", "planner-01", "Plan something else")
    expect(page.get_by_label("Your answer")).to_have_value("not yet sent")
    # Hostile text runs nothing and breaks no layout.
    driver.send(HOSTILE)
    expect(page.locator(".head .state")).to_have_text("completed")
    assert page.title() != "owned"
    driver.shoot("task-hostile")
    # Filters are in the address.
    driver.go("Tasks", "Tasks")
    expect(page.locator("tbody tr")).to_have_count(10)
    driver.shoot("tasks")
    page.get_by_label("State").select_option("canceled")
    expect(page.locator("tbody tr")).to_have_count(1)
    assert "state=canceled" in page.url
    page.reload()
    expect(page.locator("tbody tr")).to_have_count(1)
    lists(driver)
    by_chance(driver, mesh)
    fifty(driver, mesh)
    failures(driver)
    driver.send("Give me one line")
    expect(page.locator(".head .state")).to_have_text("completed")
    assert page.title() != "owned"
    driver.shoot("task-long-line")
    # A chat remembers, shows an answer as it comes, and takes files.
    driver.go("Chat", "Chat with planner-01")
    page.get_by_label("Your message").fill("Hello, what do you do?")
    page.get_by_label("Your message").press("Control+Enter")
    expect(page.locator(".prose", has_text="Look at what is there").first).to_be_visible()
    page.get_by_label("Your message").fill("Say it slowly")
    page.locator("summary", has_text="Files").click()
    page.locator("input[type=file]").set_input_files(mesh.folder / "session.yaml")
    page.get_by_role("button", name="Say").click()
    # What is typed meanwhile is the next message.
    page.get_by_label("Your message").press_sequentially("and the other")
    expect(page.get_by_text("Here is the first half.")).to_be_visible()
    expect(page.get_by_label("Your message")).to_have_value("and the other")
    page.get_by_label("Your message").fill("")
    expect(page.get_by_text("with session.yaml")).to_be_visible()
    driver.shoot("chat")
    page.locator(".ask, .said", has_text="the other half").last.get_by_label("Your answer").fill("No, it is enough.")
    page.get_by_role("button", name="Answer").click()
    expect(page.get_by_label("Your answer")).to_have_count(0)
    driver.go("Agents", "Agents")
    expect(page.locator("tbody tr")).to_have_count(4)
    driver.shoot("agents")
    sessions(driver, mesh)
    board(driver, mesh)
    whole_mesh(driver, mesh)
    # Narrow and wide.
    for width, name in [(360, "narrow"), (3840, "wide")]:
        page.set_viewport_size({"width": width, "height": 900 if width < 1000 else 2160})
        for view, heading in VIEWS:
            driver.go(view, heading)
            driver.shoot(f"{view.lower()}-{name}")
        driver.go("Sessions", "Sessions")
        page.locator("tbody a").first.click()
        expect(page.locator("svg.plan")).to_be_visible()
        driver.shoot(f"session-{name}")
        driver.go("Agents", "Agents")
        page.locator("tbody a").first.click()
        expect(page.locator("h1")).to_have_text("analyst-01")
        driver.shoot(f"agent-{name}")
    page.set_viewport_size({"width": 1280, "height": 860})
    driver.open(mesh.link("planner-01"), "planner-01")
    # The keyboard reaches what can be done.
    driver.go("Start", "planner-01")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement !== document.body")
    # The node goes away under an open page, and comes back.
    faults = len(driver.faults)
    mesh.kill()
    expect(page.locator("#link-state")).to_contain_text("no connection")
    mesh.start()
    expect(page.locator("#link-state")).to_contain_text("live", timeout=30_000)
    # Sessions end with the process; the page says so, and how to sign in again.
    expect(page.get_by_text("You are looking without being signed in.")).to_be_visible()
    del driver.faults[faults:]
    driver.shoot("signed-out")
    # The port of the registry shows all agents of the process.
    driver.open(mesh.link(), "The mesh, from here")
    driver.shoot("mesh-start")
    driver.go("Tasks", "Tasks")
    driver.shoot("mesh-tasks")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_text("You are looking without being signed in.")).to_be_visible()


def lists(driver):
    page = driver.page
    # A view is stored in the browser, opened and forgotten.
    page.get_by_text("Saved views").click()
    page.get_by_label("Name").fill("what I <b>stopped")
    page.get_by_role("button", name="Save this view").click()
    expect(page.get_by_role("link", name="what I <b>stopped")).to_be_visible()
    driver.shoot("saved-views")
    driver.go("Tasks", "Tasks")
    page.get_by_text("Saved views").click()
    page.get_by_role("link", name="what I <b>stopped").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_text("Saved views").click()
    page.get_by_role("button", name="Delete the view what I <b>stopped").click()
    expect(page.get_by_role("link", name="what I <b>stopped")).to_have_count(0)
    # Many tasks at once: shown first, then done.
    page.get_by_role("link", name="Send these again").click()
    expect(page.locator("h1")).to_have_text("Send 1 task again")
    driver.shoot("bulk")
    page.get_by_role("button", name="Send 1 task again").click()
    expect(page.get_by_text("1 of 1 done.")).to_be_visible()
    expect(page.get_by_role("link", name="the new task")).to_be_visible()
    driver.shoot("bulk-done")


def by_chance(driver, mesh):
    """What people do by chance, in several tabs."""
    page = driver.page
    driver.send("Please remove the backups")
    reason = page.get_by_label("Reason")
    reason.fill("no, never")
    # Enter approves nothing, and the link to the content loses nothing.
    reason.press("Enter")
    page.get_by_role("link", name="Skip to the content").focus()
    page.keyboard.press("Enter")
    mesh.command("ask", "--to", "planner-01", "Plan something else")
    expect(page.get_by_role("button", name="Deny")).to_be_visible()
    expect(reason).to_have_value("no, never")
    # Another tab is signed in by this one. It answers, too, while it does not know that the question is closed.
    other = page.context.new_page()
    other.goto(page.url)
    expect(other.get_by_role("button", name="Deny")).to_be_visible()
    other.route("**/console/view*", lambda route: route.abort())
    page.get_by_role("button", name="Deny").click()
    expect(page.get_by_role("button", name="Deny")).to_have_count(0)
    other.get_by_role("button", name="Deny").click()
    expect(other.locator(".form-error")).to_be_visible()
    other.unroute("**/console/view*")
    expect(other.locator(".head .state")).to_have_text("completed")
    expect(other.locator(".form-error")).to_be_visible()
    # What can't be shown says why, and who is there; a wrong filter is mended in its form.
    other.goto(page.url.split("?")[0] + "?view=tasks&min_cost=abc")
    expect(other.get_by_role("alert")).to_contain_text("min")
    expect(other.locator("#who")).to_have_text("user:local")
    other.get_by_label("Cost from").fill("0")
    other.get_by_role("button", name="Filter").click()
    expect(other.locator("tbody tr").first).to_be_visible()
    # A link opens once. A second one leaves open tabs signed in.
    link = mesh.link("planner-01")
    other.goto("about:blank")
    other.goto(link)
    expect(other.locator("h1")).to_contain_text("planner-01")
    driver.go("Inbox", "Inbox")
    expect(page.locator("#who")).to_have_text("user:local")
    stranger = page.context.browser.new_context().new_page()
    stranger.goto(link)
    expect(stranger.locator("#done")).to_contain_text("opened before")
    expect(stranger.locator("#who")).to_have_text("user:local, not signed in")
    stranger.context.close()
    # Many hidden tabs that notify share one stream: the seventh page opens.
    crowd = [page.context.new_page() for _ in range(7)]
    for one in crowd:
        one.add_init_script("Object.defineProperty(Document.prototype, 'hidden', { get: () => true });"
                            "Object.defineProperty(Notification, 'permission', { get: () => 'granted' });")
        one.goto(page.url)
        expect(one.locator("h1")).to_have_text("Inbox")
    for one in [other, *crowd]:
        one.close()


def fifty(driver, mesh):
    page = driver.page
    for number in range(50):
        mesh.post("/a2a/messages", {
            "fromAgentId": "me", "toAgentId": "planner-01", "type": "task-request",
            "payload": {"taskId": f"fifty-{number}", "description": f"One of the fifty that wait: {number}"},
        })
    driver.go("Tasks", "Tasks")
    page.get_by_label("Text", exact=True).fill("one of the fifty")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_role("link", name="Clear")).to_be_visible()
    expect(page.locator("tbody .state", has_text="waiting for an answer")).to_have_count(50)
    page.get_by_role("link", name="Cancel these").click()
    expect(page.locator("h1")).to_have_text("Cancel 50 tasks")
    page.get_by_role("button", name="Cancel 50 tasks").click()
    expect(page.get_by_text("50 of 50 done.")).to_be_visible(timeout=20_000)
    driver.shoot("bulk-fifty")
    # A list goes on where it is scrolled to. What is new waits until its reader asks for it.
    driver.go("Tasks", "Tasks")
    rows = page.locator("tbody.tasks tr[data-key]")
    # A page has 50, and all of the last millisecond.
    expect(rows.nth(49)).to_be_attached()
    first = rows.count()
    page.locator(".older").scroll_into_view_if_needed()
    expect(page.locator(".older")).to_have_count(0)
    keys = [row.get_attribute("data-key") for row in rows.all()]
    assert len(set(keys)) == len(keys) > first, keys
    mesh.post("/a2a/messages", {
        "fromAgentId": "me", "toAgentId": "planner-01", "type": "task-request",
        "payload": {"taskId": "newest", "description": "The newest of all"},
    })
    expect(page.locator("#newer")).to_be_visible()
    expect(rows).to_have_count(len(keys))
    page.locator("#newer").click()
    expect(rows.first).to_contain_text("The newest of all")
    expect(page.locator(".older")).to_have_count(1)


def users(driver, mesh, browser):
    """Two callers see only their own."""
    seen = {}
    for name, key in [("alice", "alices-own-key-0001"), ("bob", "bobs-own-key-000002")]:
        context = browser.new_context()
        page = context.new_page()
        page.goto(mesh.addresses["agents"]["planner-01"])
        page.get_by_role("button", name="Sign in").click()
        page.get_by_label("Credential").fill(key)
        page.locator("#sign-in").get_by_role("button", name="Sign in").click()
        expect(page.locator("#who")).to_have_text(f"user:{name}")
        page.get_by_label("What is to be done").fill(f"A secret of {name}")
        page.get_by_role("button", name="Send").click()
        expect(page.locator(".head .state")).to_have_text("completed")
        page.get_by_role("link", name="Tasks").click()
        expect(page.get_by_text(f"A secret of {name}").first).to_be_visible()
        seen[name] = page.locator("tbody").inner_text()
        context.close()
    assert "secret of alice" not in seen["bob"] and "secret of bob" not in seen["alice"], seen
    assert "inventory" not in seen["bob"], seen


def failures(driver):
    page = driver.page
    driver.send("Try not to break the network")
    expect(page.locator(".head .state")).to_have_text("failed")
    driver.go("Inbox", "Inbox")
    failed = page.locator("li", has_text="The old switch does not answer.")
    expect(failed).to_be_visible()
    driver.shoot("inbox-failed")
    failed.get_by_role("button", name="Dismiss").click()
    expect(failed).to_be_hidden()
    page.reload()
    expect(page.locator(".ask").first).to_be_visible()
    expect(failed).to_be_hidden()
    # The badge grows, and the browser says so once it may.
    page.get_by_role("button", name="Notify me in this browser").click()
    expect(page.get_by_role("button", name="Notify me in this browser")).to_be_hidden()
    driver.send("Please remove the old release, too")
    expect(page.get_by_role("heading", name="It waits for you")).to_be_visible()
    eventually(lambda: page.evaluate("notes.length") == 1)
    page.get_by_role("button", name="Cancel the task").click()
    expect(page.locator(".head .state")).to_have_text("canceled")


# Stands for the notifications of the browser, which a headless one has not.
NOTIFICATION = """
window.notes = [];
window.Notification = class {
  static permission = 'default';
  static async requestPermission() { this.permission = 'granted'; }
  constructor(title) { notes.push(title); }
};
"""

VIEWS = [
    ("Start", "The mesh, from here"), ("Tasks", "Tasks"), ("Sessions", "Sessions"), ("Board", "Board"), ("Agents", "Agents"),
    ("Mesh", "Mesh"), ("Cost", "Cost"), ("Health", "Health"),
]


def sessions(driver, mesh):
    page = driver.page
    driver.go("Sessions", "Sessions")
    expect(page.get_by_text("No session yet.")).to_be_visible()
    mesh.command("convene", "--no-wait", str(mesh.folder / "session.yaml"), "Which database do we use?", "--host", "planner-01")
    page.locator("tbody a").click()
    expect(page.locator("h1")).to_contain_text("Which database")
    expect(page.locator("svg.plan a")).to_have_count(4)
    expect(page.locator(".state", has_text="asked")).to_be_visible()
    expect(page.get_by_role("heading", name="draft: the whole table")).to_be_visible()
    driver.shoot("session")
    # A person steers it, and its own seat is asked.
    steer = page.locator("section", has_text="What to do")
    steer.get_by_role("textbox", name="Words").fill("Keep it small.")
    steer.get_by_role("button", name="Steer").click()
    expect(page.locator("#done")).to_contain_text("The session is told.")
    driver.go("Inbox", "Inbox")
    # What the person has steered is new to the seat: it is asked again.
    for text in ["done: We have two writers.", "done"]:
        asked = page.locator(".ask", has_text="Which database")
        key = asked.get_attribute("data-key")
        asked.get_by_label("Your answer").fill(text)
        asked.get_by_role("button", name="Answer").click()
        expect(page.locator(f'[data-key="{key}"]')).to_have_count(0)
    driver.go("Sessions", "Sessions")
    expect(page.locator("tbody .state")).to_have_text("completed")
    driver.shoot("sessions")
    page.locator("tbody a").click()
    expect(page.get_by_role("heading", name="ideas: the whole table")).to_be_visible()
    expect(page.get_by_role("button", name="Steer")).to_have_count(0)
    driver.shoot("session-ended")


def board(driver, mesh):
    page = driver.page
    for slug, content in [("wal", "Keep the write-ahead log on a disk of its own."), ("hostile", HOSTILE)]:
        mesh.post("/board/spaces/default/entries", {"kind": "proposal", "type": "technical", "slug": slug, "title": content[:80], "content": content})
    mesh.post("/board/spaces/default/entries", {"kind": "finding", "content": "The nightly build takes 41 minutes.", "severity": "high"})
    driver.go("Board", "Board")
    expect(page.locator(".lines .state").first).to_be_visible()
    driver.shoot("board")
    # A signal comes without a reload.
    mesh.post("/board/signals", {"type": "acme.build.started", "subject": "build 7"})
    expect(page.get_by_text("build 7")).to_be_visible()
    page.get_by_label("Type").select_option("agent.joined")
    expect(page.get_by_text("build 7")).to_have_count(0)
    assert "kind=agent.joined" in page.url
    page.get_by_role("link", name="default").click()
    expect(page.locator("h1")).to_have_text("Space default")
    driver.shoot("space")
    # A proposal is merged in place.
    entry = page.locator("li", has_text="write-ahead log")
    entry.get_by_text("Decide").click()
    entry.get_by_label("Reason").fill("agreed")
    # Enter merges nothing.
    entry.get_by_label("Reason").press("Enter")
    # What is typed and opened stays while others post.
    mesh.post("/board/spaces/default/entries", {"kind": "finding", "content": "The cache is cold on Mondays."})
    expect(page.get_by_text("The cache is cold on Mondays.")).to_be_visible()
    expect(entry.get_by_label("Reason")).to_have_value("agreed")
    entry.get_by_role("button", name="Merge").click()
    expect(page.locator("#done")).to_contain_text("The entry is changed.")
    decided = page.locator("section", has=page.get_by_role("heading", name="Decided"))
    expect(decided.get_by_text("write-ahead log").first).to_be_visible()
    driver.shoot("space-decided")
    # What the next turn of an agent is given, and why.
    page.get_by_role("link", name="What an agent is given").click()
    expect(page.locator("h1")).to_contain_text("Brief")
    driver.shoot("brief")


def whole_mesh(driver, mesh):
    page = driver.page
    for text in ["the logs of Monday", "the logs of the whole week"]:
        mesh.command("ask", "--to", "analyst-01", text)
    driver.open(mesh.link(), "The mesh, from here")
    driver.go("Mesh", "Mesh")
    expect(page.locator("svg.map a")).to_have_count(4)
    driver.shoot("mesh")
    page.locator("svg.map a", has_text="analyst-01").click()
    expect(page.locator("h1")).to_have_text("analyst-01")
    expect(page.get_by_role("heading", name="Track record")).to_be_visible()
    driver.shoot("agent")
    driver.go("Cost", "Cost")
    expect(page.get_by_text("By agent")).to_be_visible()
    driver.shoot("cost")
    for key in ["Capability", "Requester", "Task", "Day"]:
        page.get_by_role("navigation", name="Sum up by").get_by_role("link", name=key, exact=True).click()
        expect(page.get_by_role("heading", name=f"By {key.lower()}").first).to_be_visible()
    driver.shoot("cost-day")
    driver.go("Health", "Health")
    expect(page.get_by_text("keepTasksMs")).to_be_visible()
    driver.shoot("health")


def quick(driver, mesh):
    """The shortest way through: a task, an approval with other arguments, fifty at once, the node gone and back."""
    page = driver.page
    driver.open(mesh.link("planner-01"), "planner-01")
    driver.shoot("start-empty")
    driver.send("Build the inventory service", "build")
    expect(page.get_by_role("heading", name="Award")).to_be_visible()
    driver.send("Please deploy it")
    expect(page.locator("#waiting")).to_have_text("1")
    driver.go("Inbox", "Inbox")
    page.get_by_text("Approve with other arguments").click()
    page.get_by_label("The arguments, as JSON").fill('{ "to": "staging" }')
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
    fifty(driver, mesh)
    faults = len(driver.faults)
    mesh.kill()
    expect(page.locator("#link-state")).to_contain_text("no connection")
    mesh.start()
    expect(page.locator("#link-state")).to_contain_text("live", timeout=30_000)
    del driver.faults[faults:]


def main():
    is_quick = "--quick" in sys.argv
    words = [word for word in sys.argv[1:] if word != "--quick"]
    program, shots = words[0], Path(words[1]) if len(words) > 1 and words[1] else None
    if shots:
        shots.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="mesh-console-"))
    mesh = Mesh(program, folder)
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            context = browser.new_context(viewport={"width": 1280, "height": 860}, bypass_csp=False)
            context.add_init_script(NOTIFICATION)
            driver = Driver(context.new_page(), shots)
            driver.page.set_default_timeout(8_000)
            expect.set_options(timeout=8_000)
            try:
                if is_quick:
                    quick(driver, mesh)
                else:
                    drive(driver, mesh)
                    users(driver, mesh, browser)
            except BaseException:
                if shots:
                    driver.page.screenshot(path=shots / "failed.png", full_page=True)
                print("\n".join(driver.faults))
                raise
            browser.close()
    finally:
        mesh.process.send_signal(signal.SIGTERM)
        mesh.process.wait()
        shutil.rmtree(folder, ignore_errors=True)
    if driver.faults:
        sys.exit("\n".join(driver.faults))
    print("the console is well")


main()
