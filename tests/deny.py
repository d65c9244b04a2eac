#!/usr/bin/env python3
"""Checks licences, banned crates and sources of all dependencies against .cargo/deny.toml.

    tests/deny.py

cargo-deny does the same and checks advisories, but takes longer to build than everything else that CI runs.
"""

import json
import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent


def is_allowed(expression, allowed):
    """Whether an SPDX expression leaves a choice of which every part is allowed."""
    tokens = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))

    def alternatives():
        fits = together()
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            fits = together() or fits
        return fits

    def together():
        fits = one()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            fits = one() and fits
        return fits

    def one():
        token = tokens.pop(0)
        if token == "(":
            fits = alternatives()
            tokens.pop(0)
            return fits
        if tokens and tokens[0] == "WITH":
            token = f"{token} WITH {tokens[1]}"
            del tokens[:2]
        return token in allowed

    return alternatives()


def faults(packages, deny):
    """What is wrong with each package."""
    allowed = set(deny["licenses"]["allow"])
    banned = {ban["name"] for ban in deny["bans"]["deny"]}
    registries = {f"registry+{registry}" for registry in deny["sources"]["allow-registry"]}
    for package in packages:
        name = f"{package['name']} {package['version']}"
        if package["name"] in banned:
            yield f"{name} is banned"
        if package["source"] not in registries | {None}:
            yield f"{name} comes from {package['source']}"
        if not package["license"] or not is_allowed(package["license"], allowed):
            yield f"{name} has the licence {package['license']!r}"


def main():
    deny = tomllib.loads((ROOT / ".cargo" / "deny.toml").read_text())
    # The checks fail where they should.
    bad = {"name": "openssl", "version": "0", "source": "git+https://x", "license": "MIT AND (GPL-3.0 OR AGPL-3.0)"}
    assert len(list(faults([bad], deny))) == 3
    good = {"name": "a", "version": "0", "source": None, "license": "(MIT OR GPL-3.0) AND Apache-2.0 WITH LLVM-exception"}
    assert not list(faults([good], deny))
    metadata = ["cargo", "metadata", "--locked", "--all-features", "--format-version", "1"]
    packages = json.loads(subprocess.run(metadata, cwd=ROOT, check=True, capture_output=True).stdout)["packages"]
    found = sorted(faults(packages, deny))
    if found:
        sys.exit("FAILED: " + "\n  ".join(found))
    print(f"deny: {len(packages)} packages keep to .cargo/deny.toml")


if __name__ == "__main__":
    main()
