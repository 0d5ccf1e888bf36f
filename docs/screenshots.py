# SPDX-License-Identifier: Apache-2.0
"""The pictures in the documentation, made from the sample capture: `python -m docs.screenshots` (needs chromium)."""

import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright
from tests.report.browser import found, install

from zenlake.examples import sample
from zenlake.report import page

IMAGES = Path(__file__).parent / "images"


def main() -> None:
    print(install())
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        report = Path(folder) / "report.html"
        report.write_text(page(sample()), encoding="utf-8")
        browser = driver.chromium.launch(executable_path=found(), args=["--no-sandbox"])
        for scheme, name in (("light", "report.png"), ("dark", "report-dark.png")):
            view = browser.new_page(viewport={"width": 1180, "height": 1010}, color_scheme=scheme)
            view.goto(report.as_uri())
            view.wait_for_selector("html[data-ready]")
            view.screenshot(path=IMAGES / name)
        browser.close()


if __name__ == "__main__":
    main()
