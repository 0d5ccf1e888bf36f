# SPDX-License-Identifier: Apache-2.0
"""Images of the documentation: `python -m docs.screenshots` (needs chromium, and Java for the demo).

The page is the report of the sample capture: `python -m docs.screenshots report` draws only this. Rich draws the terminal from the
output of the demo, without some of its tables.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text
from tests import programs

from zenlake import report
from zenlake.sample_captures import sample

IMAGES = Path(__file__).parent / "images"
COLUMNS = 118
OMITTED_TABLES = ("messages", "declarations", "errors", "sessions", "gaps", "latest", "rates")

# black, red, green, yellow, blue, magenta, cyan, white
_INKS = "282c34 c42b1c 107c41 9e6a03 0366d6 87399e 006e87 5a626e"
_LIGHTS = "3c4048 e8503c 3cbe78 dcaa3c 5aaafa c882dc 46bed2 e1e4e8"


def _colours(text: str) -> list[tuple[int, int, int]]:
    return [(int(each[:2], 16), int(each[2:4], 16), int(each[4:], 16)) for each in text.split()]


THEMES = {
    "light": TerminalTheme((255, 255, 255), (29, 35, 48), _colours(_INKS)),
    "dark": TerminalTheme((20, 23, 28), (225, 228, 232), _colours(_LIGHTS)),
}


def run_demo(folder: Path) -> str:
    """Run the demo and return its output, with colours."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # as in an activated environment
    env = {**os.environ, "PATH": path, "FORCE_COLOR": "1", "TTY_INTERACTIVE": "0", "COLUMNS": str(COLUMNS)}
    command = [sys.executable, "-c", "from zenlake.cli import main; main()", "demo"]
    return subprocess.run(command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True, check=True).stdout


def select_paragraphs(printed: str) -> Text:
    """Return the part of the output that fits on one screen."""
    paragraphs = re.split(r"\n(?=\n)", printed)
    names = [Text.from_ansi(each).plain.split(maxsplit=1)[:1] for each in paragraphs]
    selected = [each for each, name in zip(paragraphs, names, strict=True) if not name or name[0] not in OMITTED_TABLES]
    return Text.assemble(("$ make demo\n", "bold"), Text.from_ansi("\n".join(selected).strip()))


def draw(text: Text, scheme: str, out: Path) -> None:
    with open(os.devnull, "w") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True)
        console.print(text, soft_wrap=True)
        console.print()  # the drawing cuts off the last line
        drawing = console.export_svg(title="", theme=THEMES[scheme], unique_id=f"demo-{scheme}")
    # Remove the web font of the drawing and use local fonts.
    drawing = re.sub(r"@font-face \{.*?\}\s*", "", drawing, flags=re.DOTALL)
    out.write_text(
        drawing.replace("Fira Code, monospace", "ui-monospace, DejaVu Sans Mono, Menlo, Consolas, monospace")
    )
    print(out)


def photograph_report(folder: Path) -> None:
    """Draw the head of the report of the sample capture."""
    page = folder / "report.html"
    page.write_text(report.page(sample()), encoding="utf-8")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=programs.browser(), args=["--no-sandbox"])
        for scheme, suffix in (("light", ""), ("dark", "-dark")):
            view = browser.new_page(viewport={"width": 1180, "height": 1100}, color_scheme=scheme)
            view.goto(page.as_uri())
            view.wait_for_selector("html[data-ready]")
            view.screenshot(path=IMAGES / f"report{suffix}.png")
            print(IMAGES / f"report{suffix}.png")
        browser.close()


def main() -> None:
    programs.main()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        photograph_report(folder)
        if sys.argv[1:] == ["report"]:
            return
        text = select_paragraphs(run_demo(folder))
        for scheme, suffix in (("light", ""), ("dark", "-dark")):
            draw(text, scheme, IMAGES / f"demo{suffix}.svg")


if __name__ == "__main__":
    main()
