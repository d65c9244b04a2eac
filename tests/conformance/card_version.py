"""A plugin of pytest: the kit names version 1.0 in all its requests but those for the card, which it then checks by the schema of 1.0.
This adds the header there, too. Without it the card is one for clients of 0.3, with members that the schema does not have.
"""

import httpx

fetch = httpx.get


def get(url, **more):
    if str(url).endswith("/agent-card.json"):
        more["headers"] = {"A2A-Version": "1.0", **(more.get("headers") or {})}
    return fetch(url, **more)


httpx.get = get
