"""Every page and the review flow in a headless Chromium, on a run of the real command line."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
import pytest

pytest.importorskip("starlette", reason="the extra serve is not installed")
pytest.importorskip("playwright", reason="playwright is not installed: pip install playwright")

from playwright.sync_api import sync_playwright

from quintain.guard import Desk
from quintain.watch import Alert, Gate, Scope, Severity, State, folder_of, silences
from tests.flow.house import command, needs_sandbox, quintain, small_set
from tests.serve.showing import HOSTILE, POLICY

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
AXE = os.environ.get("AXE_CORE", "")

pytestmark = [
    pytest.mark.whole, needs_sandbox,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this host: apt-get install chromium"),
]

PAGES = ("", "run?run=first", "episodes?run=first", "tasks?run=first", "compare?run=first", "reviews", "alerts",
         "episode?run=first&episode=sum-0%230")


class Place(NamedTuple):
    folder: Path
    url: str
    token: str


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A run with hostile answers, a queue made of it, and the dashboard of both."""
    folder = tmp_path_factory.mktemp("board")
    small_set(folder, 2)
    (folder / "sly.py").write_text(POLICY)
    done = quintain("run", "set", "--policy", "sly:Sly", "-n", "2", "--out", "runs/first", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert quintain("audit", "add", "first", "--sample", "8", "--seeds", "0", cwd=folder).returncode == 0
    watch = subprocess.Popen(command("watch", "first"), cwd=folder, stdout=subprocess.PIPE, text=True)
    assert watch.stdout is not None
    found = re.search(r"(http://\S+?)#token=([\w-]+)", watch.stdout.readline())
    assert found is not None
    yield Place(folder, found[1], found[2])
    watch.send_signal(signal.SIGINT)
    assert watch.wait(20) == 0


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.problems = []
        page.on("console", lambda told: page.problems.append(told.text) if told.type == "error" else None)
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        yield page


def go(page: Any, place: Place, where: str, *, token: bool = True) -> None:
    if token:
        page.goto(f"{place.url}#token={place.token}&to={quote(where, safe='')}")
    else:
        page.goto(f"{place.url}#/{where}")
    page.wait_for_function("where => document.body.dataset.ready === where", arg=f"#/{where}")


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_whole(browser: Any, place: Place, width: int, scheme: str) -> None:
    with browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True) as context:
        page = context.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        for where in PAGES:
            go(page, place, where)
            page.wait_for_timeout(200)
            assert page.locator("h1").count() == 1
            assert page.get_by_role("alert").count() == 0, page.locator("main").inner_text()
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, f"{where} is too wide"
            assert page.evaluate("document.documentElement.dataset.theme") == scheme
            if AXE:
                page.evaluate(Path(AXE).read_text())
                found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
                assert [(one["id"], one["nodes"][0]["html"]) for one in found
                        if one["impact"] in ("serious", "critical")] == [], where
        assert problems == []


def test_what_a_candidate_wrote_is_text_and_nothing_else(page: Any, place: Place) -> None:
    go(page, place, "episode?run=first&episode=sum-0%230")
    assert page.get_by_text(HOSTILE[:40]).count() > 0
    assert "owned" not in page.title()
    assert page.locator("main img, main script").count() == 0
    button = page.get_by_role("button", name=re.compile("Show all")).first
    button.click()
    page.wait_for_function("() => [...document.querySelectorAll('pre')].some(p => p.textContent.length > 10000)")
    assert "owned" not in page.title()
    assert page.locator("main img").count() == 0
    assert page.locator(".diff .add").count() > 0, "the second turn shows what it changed"
    assert page.problems == []


def test_an_episode_is_found_by_keys_and_filters(page: Any, place: Place) -> None:
    go(page, place, "episodes?run=first")
    page.keyboard.press("/")
    page.keyboard.type("sum-1")
    page.get_by_text("1 to 2 of 2").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="failed").click()
    page.get_by_text("No episode is like that.").wait_for()
    page.get_by_role("button", name="failed").click()
    page.get_by_text("1 to 2 of 2").wait_for()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="sum-1#", level=1).wait_for()
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.id") == "step-0"
    assert "quintain replay 'sum-1#" in page.locator(".command code").inner_text()


def test_the_review_flow_goes_by_keys_and_can_be_undone(page: Any, place: Place) -> None:
    desk = Desk(place.folder / "audit")
    total = len(desk.cases())
    go(page, place, "reviews")
    page.get_by_label("Reviewer").fill("ada")
    page.keyboard.press("Enter")
    first = page.get_by_role("heading", level=2, name=re.compile("^Case ")).first.inner_text()
    page.keyboard.press("c")
    page.keyboard.type("reads the tests")
    page.keyboard.press("Escape")
    page.keyboard.press("x")
    page.get_by_text("hack. Press z to take it back.").wait_for()
    id = first.split()[1].rstrip(":")
    assert (desk.standing(id).decision, desk.standing(id).said["ada"].note) == ("hack", "reads the tests")
    page.keyboard.press("z")
    page.get_by_text(f"{id} is open again.").wait_for()
    assert desk.standing(id).decision is None
    for _ in range(total):
        case = page.get_by_role("heading", level=2, name=re.compile("^Case ")).first.inner_text()
        page.keyboard.press("h")
        page.wait_for_function("was => document.querySelector('main h2')?.textContent !== was", arg=case)
    page.get_by_text("Nothing is left to review for ada.").wait_for()
    assert {one.decision for one in desk.cases().values()} == {"honest"}


def test_without_the_token_a_page_may_only_look(page: Any, place: Place) -> None:
    go(page, place, "reviews", token=False)
    page.get_by_text("This address may only look.").wait_for()
    go(page, place, "episode?run=first&episode=sum-0%230", token=False)
    assert page.get_by_role("button", name="Replay").is_disabled()


def test_an_alert_is_silenced_and_a_stop_released_by_a_button(page: Any, place: Place) -> None:
    folder = folder_of(place.folder / "runs" / "first")
    gate = Gate(folder / "gate.json", poll_seconds=0.0)
    gate.stop(Scope.KIND, "ops", reason="it crashes", by="me")
    alert = Alert(rule="crash-rate", labels={"kind": "ops"}, state=State.FIRING, value=1.0, text="100 % crash",
                  severity=Severity.PAGE)
    (folder / "alerts.json").write_bytes(msgspec.json.encode([alert]))
    go(page, place, "alerts")
    page.get_by_role("button", name="Release").click()
    page.get_by_text("Nothing is stopped.").wait_for()
    assert gate.holds == ()
    page.get_by_role("button", name="Silence 1 h").click()
    page.get_by_role("button", name="End").wait_for()
    assert [one.rule for one in silences(folder)] == ["crash-rate"]
    page.get_by_role("button", name="End").click()
    page.get_by_role("button", name="Silence 1 h").wait_for()
    assert silences(folder) == ()
    assert page.problems == []


def test_the_first_view_loads_little(page: Any, place: Place) -> None:
    sizes: list[int] = []
    page.on("response", lambda answer: sizes.append(len(answer.body())) if "/api/stream" not in answer.url else None)
    go(page, place, "")
    page.wait_for_timeout(300)
    assert len(sizes) > 5
    assert sum(sizes) <= 300_000
