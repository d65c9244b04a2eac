#!/usr/bin/env python3
"""Checks the resolved deploy/*.yaml and deploy/.env without starting anything; needs docker-compose and no engine.

    tests/compose.py

tests/containers.py, which starts the containers, runs these steps first.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"
SERVERS = ("blackboard", "registry", "planner", "builder-fast", "builder", "reviewer", "orchestrator")
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


class Failed(Exception):
    """A step failed."""


def check(holds, what):
    if not holds:
        raise Failed(what)


def run(*command, ok=(0,), within=600, **more):
    """Runs a command; returns its output. An exit code that is not in `ok` fails the step."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=within, **more)
    if ok is not None and done.returncode not in ok:
        raise Failed(f"{' '.join(map(str, command))}\n  ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done


def tool():
    """The compose command of this machine: docker's plugin or docker-compose."""
    if subprocess.run(["docker", "compose", "version"], capture_output=True).returncode == 0:
        return ["docker", "compose"]
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    raise Failed("there is no docker-compose: install it")


def compose(*words, files=("compose.yaml",), ok=(0,), **variables):
    """The output of compose, called from another directory with only `variables` set."""
    ours = ("COMPOSE_", "MESH_", "OTEL_", "LANGFUSE_", "RUST_LOG")
    env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    named = [word for file in files for word in ("-f", str(DEPLOY / file))]
    return run(*tool(), *named, *words, ok=ok, env={**env, **variables}, cwd="/")


def services(config):
    """The text of each service, by name."""
    within = re.search(r"^services:\n((?: .*\n|\n)*)", config, re.M).group(1)
    parts = re.split(r"^  ([\w-]+):\n", within, flags=re.M)[1:]
    return dict(zip(parts[::2], parts[1::2]))


def set_to(service, name):
    """The environment of a service."""
    found = re.search(rf"^      {name}: (.*)$", service, re.M)
    return found and found.group(1).strip("'\"")


def starts(name, **variables):
    """Whether a service would start; docker-compose 1.29 lists all of them, whatever the profiles."""
    shows_all = run(*tool(), "version", "--short").stdout.startswith("1.")
    return None if shows_all else name in compose("config", "--services", **variables).stdout.split()


def the_file_beside_it_is_read_and_the_shell_goes_before_it():
    check(starts("jaeger") in (True, None), "the profile that deploy/.env names")
    check(starts("jaeger", COMPOSE_PROFILES="") in (False, None), "a shell that names none")
    known = services(compose("config").stdout)
    told = {name: set_to(known[name], ENDPOINT) for name in SERVERS}
    check(set(told.values()) == {"http://jaeger:4318"}, f"and its endpoint: {told}")
    check(all("pull_policy: never" in known[name] for name in SERVERS), "what is built here is asked for nowhere")
    variables = {ENDPOINT: "http://elsewhere:4318", "MESH_IMAGE": "other:1", "MESH_CAPTURE": "full", "MESH_PULL": "if_not_present"}
    known = services(compose("config", **variables).stdout)
    for name in SERVERS:
        told = (set_to(known[name], ENDPOINT), set_to(known[name], "MESH_CAPTURE"))
        check(told == ("http://elsewhere:4318", "full") and "image: other:1" in known[name], f"{name}: {told}")
        # v2 uses another name.
        check(re.search("pull_policy: (if_not_present|missing)", known[name]), f"{name}: an image that lies in a registry")


def whatever_the_program_reads_of_the_standard_reaches_its_containers():
    text = (DEPLOY / "config" / "settings.md").read_text().split("\n## From the environment\n")[1].split("\n## ")[0]
    # Each service has its own service name; the resource attributes have a variable that docker does not overwrite.
    names = set(re.findall(r"^\| `(OTEL_\w+)`", text, re.M)) - {"OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"}
    check(len(names) > 20, f"{names}")
    known = services(compose("config", **{name: f"said-{name}" for name in names}).stdout)
    for service in SERVERS:
        untold = {name for name in names if set_to(known[service], name) != f"said-{name}"}
        check(not untold, f"{service} is not told {untold}")


def the_files_for_other_backends_are_laid_over_it():
    bare = services(compose("config").stdout)
    variables = {"LANGFUSE_URL": "https://langfuse.example", "LANGFUSE_AUTH": "cGs6c2s="}
    langfuse = services(compose("config", files=("compose.yaml", "compose.langfuse.yaml"), **variables).stdout)
    collector = services(compose("config", files=("compose.yaml", "compose.collector.yaml")).stdout)
    check(re.search(r"^      traces:", collector["collector"], re.M), f"the collector can be called: {collector['collector']}")
    check(not re.search(r"^    ports:", collector["collector"], re.M), "by nobody else")
    # Environments are merged key by key; everything else stays the same, possibly in another notation.
    word = lambda line: line.strip().removeprefix("- ").removesuffix(": {}").replace(": null", "")
    # docker-compose 1.29 drops pull_policy when files are merged. It builds before it pulls.
    ours = ("OTEL_EXPORTER_OTLP_", "pull_policy")
    plain = lambda text: {word(line) for line in text.splitlines() if not any(name in line for name in ours)}
    for name in SERVERS:
        told = (set_to(langfuse[name], ENDPOINT), set_to(langfuse[name], "OTEL_EXPORTER_OTLP_HEADERS"))
        check(told[0] == "https://langfuse.example/api/public/otel", f"{name}: {told}")
        check(told[1].startswith("Authorization=Basic%20cGs6c2s=,"), f"{name}: {told}")
        check(set_to(collector[name], ENDPOINT) == "http://collector:4318", name)
        for other in (langfuse, collector):
            check(plain(other[name]) == plain(bare[name]), f"{name} is changed beyond that: {plain(other[name]) ^ plain(bare[name])}")
    missing = compose("config", files=("compose.yaml", "compose.langfuse.yaml"), ok=None)
    check(missing.returncode != 0 and "the base URL of Langfuse" in missing.stderr, f"what is not set is named: {missing}")


def prometheus_reads_every_process_and_grafana_is_published_at_loopback():
    files = ("compose.yaml", "compose.grafana.yaml")
    known = services(compose("config", files=files, MESH_LOOPBACK="9.8.7").stdout)
    for name in SERVERS:
        check(re.search(r"^      metrics:|^    - metrics$", known[name], re.M), f"{name} is in the network of Prometheus")
        callers = set_to(known[name], "MESH_METRICS_CALLERS")
        check(callers == "172.16.0.0/12,192.168.0.0/16", f"{name} lets {callers} read its metrics")
        scraped = re.search(rf"[ \[]{name}:\d+[,\]]", (DEPLOY / "prometheus.yaml").read_text())
        check(scraped, f"{name} is no target of Prometheus")
    check("published" not in known["prometheus"] and "ports:" not in known["prometheus"], "Prometheus is called by Grafana only")
    check("9.8.7" in known["grafana"], f"Grafana is published at loopback: {known['grafana']}")
    for word in ("GF_AUTH_ANONYMOUS_ORG_ROLE: Viewer", "GF_AUTH_DISABLE_LOGIN_FORM: 'true'", "GF_AUTH_BASIC_ENABLED: 'false'"):
        check(word in known["grafana"].replace('"', "'"), f"{word} is missing")


def every_port_is_published_at_loopback_and_grpc_beside_each_agents():
    known = services(compose("config", MESH_LOOPBACK="9.8.7").stdout)
    for name in SERVERS:
        text = known[name]
        long = re.findall(r"host_ip: (\S+)\n\s+target: (\d+)\n\s+published: \"?([\d-]+)", text)
        short = re.findall(r"^    - ([\d.]+):([\d-]+):(\d+)", text, re.M)
        at = {target: (ip, port) for ip, target, port in long} | {target: (ip, port) for ip, port, target in short}
        check(at and {ip for ip, _ in at.values()} == {"127.9.8.7"}, f"{name}: {at}")
        if name not in ("blackboard", "registry"):
            ends = [tuple(int(end) for end in at[target][1].split("-")) for target in ("8001", "9001")]
            check(tuple(end + 1000 for end in ends[0]) == ends[1], f"{name}: {at}")


def every_container_is_read_only_and_limited_and_its_image_has_an_exact_version():
    overlays = ("compose.collector.yaml", "compose.grafana.yaml")
    for files in (("compose.yaml",), *(("compose.yaml", overlay) for overlay in overlays)):
        for name, text in services(compose("config", files=files, COMPOSE_PROFILES="jaeger").stdout).items():
            image = re.search(r"^    image: (\S+)$", text, re.M).group(1)
            check(re.search(r":v?\d+\.\d+\.\d+(@sha256:[0-9a-f]{64})?$", image), f"{name}: {image} has no exact version")
            for wanted in (r"read_only: true", r"mem_limit: \S+", r"pids_limit: \d+", r"cap_drop:\n    (  )?- ALL", r"no-new-privileges:true"):
                check(re.search(wanted, text), f"{name}: {wanted} is missing in {text}")
    limited = services(compose("config", MESH_MEMORY="256m").stdout)
    memory = set_to_member(limited["builder"], "mem_limit")
    check(memory in ("256m", "268435456"), memory)


def set_to_member(service, name):
    """A member of a service."""
    return re.search(rf"^    {name}: (.*)$", service, re.M).group(1).strip("'\"")


STEPS = [
    the_file_beside_it_is_read_and_the_shell_goes_before_it,
    whatever_the_program_reads_of_the_standard_reaches_its_containers,
    the_files_for_other_backends_are_laid_over_it,
    prometheus_reads_every_process_and_grafana_is_published_at_loopback,
    every_port_is_published_at_loopback_and_grpc_beside_each_agents,
    every_container_is_read_only_and_limited_and_its_image_has_an_exact_version,
]


def main():
    for step in STEPS:
        print(f"  {step.__name__.replace('_', ' ')}", flush=True)
        step()
    print(f"compose: all {len(STEPS)} steps passed")


if __name__ == "__main__":
    try:
        main()
    except Failed as failed:
        sys.exit(f"FAILED: {failed}")
