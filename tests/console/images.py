"""Makes the images of docs/console.md out of the screenshots of drive.py: images.py FOLDER, which SHOTS has named."""

import sys
from pathlib import Path

from PIL import Image

# The views, by the names of their screenshots.
VIEWS = [
    "start", "inbox", "tasks", "task", "task-award", "bulk", "chat", "session", "board", "space", "brief", "agents", "mesh", "agent",
    "cost", "health",
]
HEIGHT, COLOURS = 900, 64


def main():
    shots, docs = Path(sys.argv[1]), Path(__file__).resolve().parents[2] / "docs" / "images"
    for view in VIEWS:
        for scheme in ["light", "dark"]:
            shot = "mesh-start" if view == "start" else view
            image = Image.open(shots / f"{shot}-{scheme}.png").convert("RGB")
            image = image.crop((0, 0, image.width, min(image.height, HEIGHT)))
            image = image.quantize(COLOURS, dither=Image.Dither.NONE)
            image.save(docs / f"console-{view}-{scheme}.png", optimize=True)


main()
