"""Prints a kit's report: totals, what failed and why, and every reason for a skip."""

import collections
import json
import re
import sys

report = json.load(open(sys.argv[1]))
output = open(sys.argv[2]).read()
totals = collections.Counter((r["level"], r["status"]) for r in report["per_requirement"].values())
for (level, status), count in sorted(totals.items()):
    print(f"{level:8} {status:14} {count}")
print(re.findall(r"\d+ (?:passed|failed|skipped).*in [\d.]+s.*", output)[-1])
for name, requirement in report["per_requirement"].items():
    if requirement["status"] == "FAIL":
        print(f"FAIL {name} {requirement['transports']}: {str(requirement['errors'])[:300]}")
skips = collections.Counter()
for count, reason in re.findall(r"^SKIPPED \[(\d+)\] [^:]+:\d+: (.*)$", output, re.M):
    skips[reason] += int(count)
for reason, count in skips.most_common():
    print(f"SKIP {count:3} {reason}")
