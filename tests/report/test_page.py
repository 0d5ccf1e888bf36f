# SPDX-License-Identifier: Apache-2.0
"""The page in a real browser: it draws, prints nothing on the console, fits a phone, and runs no injected script."""

import os
from functools import cache
from importlib.resources import files
from pathlib import Path

import pytest

from tests import programs
from tests.report.fixtures import HOSTILE, INHERITED, halves, hostile, lake_of_rows, slow_subscriber
from zenlake import report
from zenlake.sample_captures import sample

pytestmark = pytest.mark.skipif("ZENLAKE_PURE" in os.environ, reason="the same either way: run once, compiled")
SCREENSHOTS = os.environ.get("ZENLAKE_SCREENSHOTS")  # a folder to keep them in, to look at


@pytest.fixture(scope="module")
def browser():
    program = programs.browser()
    if program is None:
        pytest.skip("no chromium here; `python -m tests.programs` as root installs it on Debian")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    slow = lake_of_rows(folder / "slow", **slow_subscriber())
    made = {"sample": report.page(sample()), "two": report.page(*halves(folder)), "slow": report.page(slow),
            "hostile": report.page(hostile(folder / '"><svg onload=window.harmed=7>.pcap'))}  # fmt: skip
    for name, text in made.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def visit(browser, pages):
    """Open a page, or return to it. Messages and network requests of the browser are collected as trouble."""
    trouble, contexts = [], []

    @cache
    def opened(name, scheme="light", width=1280, height=900):
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        context.set_default_timeout(10_000)
        contexts.append(context)
        page = context.new_page()
        address = (pages / f"{name}.html").as_uri()
        page.on("console", lambda said: trouble.append(f"console {said.type}: {said.text}"))
        page.on("pageerror", lambda error: trouble.append(f"error: {error}"))
        page.on("request", lambda asked: asked.url == address or trouble.append(f"asked for {asked.url}"))
        page.on("dialog", lambda dialog: (trouble.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.goto(address)
        page.wait_for_selector("html[data-ready]")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert trouble == []  # messages on the console, requests, dialogs


def facts(page):
    return dict(
        zip(page.locator(".fact dt").all_inner_texts(), page.locator(".fact dd").all_inner_texts(), strict=True)
    )


@pytest.mark.parametrize(
    ("name", "scheme", "width"),
    [("sample", "light", 1280), ("sample", "dark", 390), ("two", "dark", 1280), ("two", "light", 390)],
)
def test_it_draws_in_both_schemes_from_phone_to_desktop(visit, tmp_path, name, scheme, width):
    page = visit(name, scheme, width)
    # Every chart holds a canvas on which something is drawn in more than one colour.
    drawn = page.evaluate(
        """() => [...document.querySelectorAll('.chart')].map((box) => {
            const canvas = box.querySelector('canvas');
            const seen = new Uint32Array(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.buffer);
            return new Set(seen).size;
        })"""
    )
    assert len(drawn) == (11 if name == "sample" else 1)
    assert min(drawn) > 10
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    light = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(251, 251, 249)"
    assert light == (scheme == "light")
    shot = Path(SCREENSHOTS or tmp_path) / f"{name}-{scheme}-{width}.png"
    page.screenshot(path=shot, full_page=SCREENSHOTS is not None)
    assert shot.stat().st_size > 20_000


def test_the_facts_on_the_page_are_the_figures(visit):
    page = visit("sample")
    overview = report.data(sample())["recordings"][0]["overview"]
    shown = {name: text.splitlines()[0] for name, text in facts(page).items()}
    # Numbers that Zenoh itself skips are not in the headlines.
    assert list(shown)[:5] == ["Publications", "Deliveries", "Gets", "Losses", "Span"]
    assert shown["Publications"] == f"{overview['publications']:,}"
    assert shown["Deliveries"] == f"{overview['deliveries']:,}"
    assert facts(page)["Gets"].splitlines() == ["67", "46 answered, 3 failed, 18 without reply"]
    assert facts(page)["Losses"].splitlines() == ["22", "22 frames in the network"]
    assert shown["Messages"] == f"{overview['messages']:,}"
    assert shown["Hops of publications"] == f"{overview['samples'] - overview['replies']:,}"
    assert shown["Bytes"] == "1.01 MB"
    assert overview["bytes"] == 1_005_190
    assert shown["Keys"] == str(overview["keys"])
    sizes = {
        name: page.evaluate("(dt) => parseFloat(getComputedStyle(dt.nextElementSibling).fontSize)", element)
        for name, element in zip(shown, page.locator(".fact dt").element_handles(), strict=True)
    }
    assert min(list(sizes.values())[:4]) > max(list(sizes.values())[4:])  # what applications did is in the largest type
    assert page.locator(".findings a").count() == 5
    page.locator(".findings a").first.click()
    assert page.evaluate("location.hash") == "#losses"


def test_tables_sort_and_filter_by_keyboard(visit):
    page = visit("sample")
    table = page.get_by_role("region", name="All keys")
    table.get_by_role("button", name="Publications").focus()
    page.keyboard.press("Enter")
    samples = [int(text.replace(",", "")) for text in table.locator("tbody tr td:nth-child(2)").all_inner_texts()]
    assert samples == sorted(samples, reverse=True)
    assert table.locator("th[aria-sort=descending]").inner_text() == "Publications"
    page.keyboard.press("Enter")
    samples = [int(text.replace(",", "")) for text in table.locator("tbody tr td:nth-child(2)").all_inner_texts()]
    assert samples == sorted(samples)
    page.get_by_label("Filter All keys").fill("r3 pose")
    assert table.locator("tbody tr td:first-child").all_inner_texts() == ["fleet/r3/pose"]


def test_charts_show_figures_under_the_pointer_and_zoom(visit):
    page = visit("sample")
    chart = page.locator("#throughput .chart").first
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_selector("#throughput .tip")
    assert "publications" in page.locator("#throughput .tip").inner_text()
    before = chart.evaluate("(box) => echarts.getInstanceByDom(box).getOption().dataZoom[0].end")
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    page.wait_for_function(
        "(before) => echarts.getInstanceByDom(document.querySelector('#throughput .chart')).getOption().dataZoom[0].end < before",
        arg=before,
    )
    page.mouse.move(0, 0)
    page.locator("#throughput").get_by_role("button", name="Gets").click()
    assert page.locator("#throughput button[aria-pressed=true]").first.inner_text() == "Gets"


def test_two_recordings_have_three_views(visit):
    page = visit("two")
    assert facts(page)["Missing in B"].startswith("0")
    page.get_by_role("button", name="A: robots.pcap").click()
    assert page.locator("h1").inner_text() == "robots.pcap"
    assert page.locator(".chart canvas:first-child").count() == 9  # the robots received nothing
    page.get_by_role("button", name="B: base.pcap").click()
    assert page.locator("h1").inner_text() == "base.pcap"


def test_colours_can_be_chosen(visit):
    page = visit("sample", "light")
    page.locator("#theme").click()
    page.locator("#theme").click()
    assert page.locator("#theme").inner_text() == "Colours: dark"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 28)"


CONTRAST_OF_TEXT, CONTRAST_OF_MARKS = 4.5, 3.0


@pytest.mark.parametrize("name", ["sample", "two", "slow", "hostile"])
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)])
def test_axe_finds_nothing(visit, name, scheme, width):
    page = visit(name, scheme, width)
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    pytest.importorskip("axe_playwright_python")
    page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")
    assert [(each["id"], [node["html"][:300] for node in each["nodes"]][:5]) for each in found["violations"]] == []
    assert len(found["passes"]) > 20


def luminance(colour):
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_have_contrast(visit, scheme):
    """axe does not see what is drawn on a canvas."""
    page = visit("sample", scheme)

    def contrast(ink):
        lights = sorted((luminance(page.evaluate("zen.colour", name)) for name in (ink, "card")), reverse=True)
        return (lights[0] + 0.05) / (lights[1] + 0.05)

    assert all(contrast(name) >= CONTRAST_OF_TEXT for name in ("ink", "soft", "faint"))
    marks = {name: round(contrast(name), 2) for name in ("c1", "c2", "c3", "c4", "c5", "c6")}
    assert min(marks.values()) >= CONTRAST_OF_MARKS, marks


@pytest.mark.parametrize("width", [1280, 390])
def test_everything_is_reached_with_the_keyboard_only_and_shows_the_focus(browser, pages, width):
    context = browser.new_context(viewport={"width": width, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    page.goto((pages / "sample.html").as_uri())
    page.wait_for_selector("html[data-ready]")
    controls = "[...document.querySelectorAll('a[href], button, input, summary, [tabindex=\"0\"]')]"
    expected = page.evaluate(f"{controls}.filter((each) => each.checkVisibility()).length")
    reached = []
    for _ in range(expected + 5):
        page.keyboard.press("Tab")
        at = page.evaluate(
            """() => { const each = document.activeElement; if (each === document.body) return null;
                each.dataset.reached ??= String(Math.random());
                const box = each.getBoundingClientRect();
                return [each.dataset.reached, getComputedStyle(each).outlineStyle, box.top < innerHeight && box.bottom > 0]; }"""
        )
        if at is None:
            break
        reached.append(at)
    assert len({at[0] for at in reached}) == len(reached) == expected
    assert {(outline, seen) for _, outline, seen in reached} == {("solid", True)}
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    page.locator("#sections a", has_text="Deliveries").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#deliveries"
    choice = page.locator("#throughput .choice").first.get_by_role("button", name="Deliveries")
    choice.focus()
    page.keyboard.press("Space")
    assert choice.get_attribute("aria-pressed") == "true"
    context.close()


def test_a_slow_subscriber_is_in_the_matrix_and_nothing_says_that_all_is_well(visit):
    page = visit("slow")
    assert "received 20 % of what it subscribed to" in page.locator(".findings .bad").first.inner_text()
    rows = page.get_by_role("region", name="Delivery matrix").locator("tbody tr").all_inner_texts()
    assert rows[0].split("\t")[2:5] == ["10", "2", "20 %"]
    assert page.locator(".findings .good").count() == 0
    assert page.locator("#timing .empty:not(.plain)").count() == 0
    assert "Some were late all the same" in page.locator("#timing .empty").inner_text()


def test_hostile_keys_and_values_stay_text(visit, pages):
    page = visit("hostile")
    shown = page.get_by_role("region", name="All keys").locator("tbody td:first-child").all_inner_texts()
    harmless = [text for text in HOSTILE if text.isprintable()]
    assert {f"evil/{text}" for text in harmless} <= set(shown)
    assert "evil/rtl\\u202egnp.exe" in shown  # a character that would reorder the line is shown as an escape
    assert page.locator("h1").inner_text() == '"><svg onload=window.harmed=7>.pcap'
    for chart in page.locator(".chart").all():  # tooltips, too
        chart.scroll_into_view_if_needed()
        box = chart.bounding_box()
        for part in range(1, 8):
            page.mouse.move(box["x"] + box["width"] * part / 8, box["y"] + box["height"] / 2)
    page.wait_for_timeout(200)
    assert page.evaluate("window.harmed") is None
    assert page.locator("main img, main svg, main script").count() == 0
    assert page.locator("#errors .bytes .error").inner_text().split("\t")[2] == "error"
    assert "PUT.payload" in page.locator("#errors summary").first.inner_text()
    text = (pages / "hostile.html").read_text(encoding="utf-8")
    assert "unsafe" not in text.split("</head>")[0].split("<style>")[0]
    assert (
        text.count("<script") - text.count('<script type="application/json"') == 6
    )  # ours, each allowed by its digest


def test_inherited_names_as_keys_leave_the_prototypes_alone(browser, visit):
    names = "[Object, Object.prototype, Function.prototype].map((each) => Object.getOwnPropertyNames(each).sort())"
    blank = browser.new_page()
    page = visit("hostile")
    shown = page.get_by_role("region", name="All keys").locator("tbody td:first-child").all_inner_texts()
    assert set(INHERITED) <= set(shown)
    assert page.evaluate(names) == blank.evaluate(names)
    blank.close()


def test_a_script_that_got_into_the_page_would_not_run(browser, pages):
    text = (pages / "sample.html").read_text(encoding="utf-8")
    page_before, _, page_after = text.rpartition("</body>")
    planted = f"{page_before}<script>window.harmed=1</script></body>{page_after}"
    (pages / "planted.html").write_text(planted, encoding="utf-8")
    page = browser.new_page()
    said = []
    page.on("console", lambda message: said.append(message.text))
    page.goto((pages / "planted.html").as_uri())
    page.wait_for_selector("html[data-ready]")
    assert page.evaluate("window.harmed") is None
    assert any("Content Security Policy" in text for text in said)
    page.close()
