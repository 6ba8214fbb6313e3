"""The dashboard's HTTP face: what it tells of runs as they grow, and whom it answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

import httpx
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("starlette", reason="the extra serve is not installed")

from starlette.applications import Starlette
from starlette.routing import Mount

from quintain.serve import (
    AlarmsView,
    AlertLine,
    CaseView,
    Declined,
    ReviewStats,
    TaskStanding,
    board,
    listening,
)
from quintain.types import Closed, Stop
from tests.serve.showing import HOSTILE, a_run, attempt, broken, opened


def ask(app: Starlette, path: str, *, post: object = None, headers: Mapping[str, str] | None = None,
        content: bytes | None = None, host: str = "127.0.0.1") -> httpx.Response:
    async def go() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}:8000") as client:
            if post is None and content is None:
                return await client.get(path, headers=headers)
            if content is not None:
                return await client.post(path, content=content, headers=headers)
            return await client.post(path, json=post, headers=headers)

    return asyncio.run(go())


def test_a_run_is_told_at_a_glance_and_grows(tmp_path: Path) -> None:
    app = board(tmp_path)
    with a_run(tmp_path, "first", [
        *attempt("t#0"), *attempt("t#1", solved=False, unix=1_010.0), *broken("u#0", task="u"), opened("t#2"),
    ]) as run:
        seen = ask(app, "/api/overview?run=first").json()
        assert seen["line"]["pace"] == "live"
        assert (seen["line"]["episodes"], seen["line"]["open"], seen["line"]["solved"]) == (4, 1, 1)
        assert seen["line"]["reward"] == pytest.approx(0.35)
        assert {state: n for state, n in seen["states"].items() if n} == {
            "solved": 1, "failed": 1, "broken": 1, "generating": 1}
        assert seen["owners"] == {"policy": 1, "task": 0, "house": 1}
        assert {"owner": "policy", "fault": "D.wrong_answer", "count": 1} in seen["faults"]
        assert sum(seen["rewards"]) == 2
        assert sum(moment["closed"] for moment in seen["moments"]) == 3
        assert seen["tasks"] == {"mixed": 1, "broken": 1}
        assert seen["components"] == {"partial": 0.5}
        run.journal.append(Closed(episode="t#2", index=1, at_seconds=1.0, stop=Stop.GAVE_UP))
        fresh = board(tmp_path)  # and the one that has read it before
        for one in (fresh, app):
            async def later(app: Starlette = one) -> int:
                await asyncio.sleep(0.3)
                async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app),
                                             base_url="http://localhost") as client:
                    return int((await client.get("/api/overview?run=first")).json()["line"]["open"])
            assert asyncio.run(later()) == 0
    listed = ask(app, "/api/runs").json()
    assert [line["name"] for line in listed] == ["first"]
    assert listed[0]["episodes"] == 4


def test_a_second_attempt_takes_the_place_of_the_first(tmp_path: Path) -> None:
    with a_run(tmp_path, "r", broken("t#0")) as run:
        for nth, event in enumerate(attempt("t#0")):
            changes = {"index": 3 + nth} | ({"attempt": 2} if nth == 0 else {})
            run.journal.append(msgspec.structs.replace(event, **changes))
    seen = ask(board(tmp_path), "/api/overview?run=r").json()
    assert (seen["line"]["episodes"], seen["line"]["solved"], seen["owners"]["house"]) == (1, 1, 0)


def test_episodes_are_chosen_and_sorted(tmp_path: Path) -> None:
    with a_run(tmp_path, "r", [
        *attempt("t#0"), *attempt("t#1", solved=False), *attempt("u#0", task="u", flag="hollow"),
        *broken("u#1", task="u"),
    ]):
        pass
    app = board(tmp_path)

    def ids(query: str) -> list[str]:
        return [line["id"] for line in ask(app, f"/api/episodes?run=r&{query}").json()["episodes"]]

    assert ids("state=failed&state=broken&order=task&falling=0") == ["t#1", "u#1"]
    assert ids("owner=house") == ["u#1"]
    assert ids("flag=hollow") == ["u#0"]
    assert ids("fault=D.wrong_answer") == ["t#1"]
    assert ids("text=IS NOT 4") == ["t#1"]
    assert ids("order=reward&falling=0&limit=2") == ["u#1", "t#1"]
    assert ids("order=task&falling=0&limit=1&offset=3") == ["u#1"]
    page = ask(app, "/api/episodes?run=r").json()
    assert (page["total"], page["flags"], page["kinds"]) == (4, ["hollow"], ["code"])
    for wrong in ("order=luck", "state=lost", "offset=-1", "limit=x"):
        answer = ask(app, f"/api/episodes?run=r&{wrong}")
        assert answer.status_code == 400
        assert "expected" in answer.json()["error"]


def test_a_long_text_is_cut_and_had_whole_by_its_place(tmp_path: Path) -> None:
    text = HOSTILE + "é" * 9_000
    with a_run(tmp_path, "r", attempt("t#0", text=text)):
        pass
    app = board(tmp_path)
    steps = ask(app, "/api/episode?run=r&episode=t%230").json()["steps"]
    assert [step["number"] for step in steps] == [0, 1]
    kinds = [part["kind"] for part in steps[1]["parts"]]
    assert kinds == ["reply", "program", "verdict", "reward", "closed"]
    shown = steps[1]["parts"][0]["texts"][0]
    assert (len(shown["text"]), shown["chars"]) == (6_000, len(text))
    whole = ask(app, f"/api/text?run=r&episode=t%230&event={shown['event']}&field={shown['field']}")
    assert whole.text == text
    assert whole.headers["content-type"].startswith("text/plain")
    assert whole.headers["x-content-type-options"] == "nosniff"
    for event, field in (("99", "text"), ("1", "nothing"), ("x", "text")):
        assert ask(app, f"/api/text?run=r&episode=t%230&event={event}&field={field}").status_code == 404


@pytest.mark.parametrize("name", ["nobody", "../elsewhere", "..", ".", "a/b", "%00", ".hidden"])
def test_nothing_outside_the_runs_is_read(tmp_path: Path, name: str) -> None:
    with a_run(tmp_path / "elsewhere", "x"), a_run(tmp_path / "runs", "r", attempt("t#0")):
        pass
    app = board(tmp_path / "runs")
    for path in ("overview", "episodes", "tasks", "episode", "stream"):
        answer = ask(app, f"/api/{path}?run={name}&episode=t%230")
        assert answer.status_code == 404
    assert ask(app, "/static/../app.py").status_code == 404
    assert ask(app, "/static/%2e%2e/app.py").status_code == 404
    assert ask(app, "/api/episode?run=r&episode=nobody").status_code == 404
    assert ask(app, "/api/overview").status_code == 400


def test_another_name_and_another_site_are_refused(tmp_path: Path) -> None:
    app = board(tmp_path)
    assert ask(app, "/api/runs", host="evil.example").status_code == 403
    assert ask(app, "/", host="evil.example").status_code == 403
    assert ask(app, "/api/runs", headers={"origin": "http://evil.example"}).status_code == 403
    assert ask(app, "/api/runs", headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}).status_code == 403
    for host in ("localhost", "127.0.0.1", "[::1]"):
        assert ask(app, "/api/runs", host=host).status_code == 200
    policy = ask(app, "/").headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "<script>" not in ask(app, "/").text, "nothing inline"


class Queue:
    """One case; remembers what was said."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str, str, str]] = []

    def stats(self, reviewer: str) -> ReviewStats:
        return ReviewStats(cases=1, open=1 - len(self.said), decided={}, reviewed=0, hits=0, upper=1.0,
                           mine=len(self.said))

    def _case(self) -> CaseView:
        return CaseView(case="c1", until_unix_seconds=0.0, content=json_raw({"task": "t"}))

    def next(self, reviewer: str) -> CaseView | None:
        return None if self.said else self._case()

    def decide(self, reviewer: str, case: str, decision: str, note: str) -> None:
        if case != "c1":
            raise Declined(f"expected c1, found {case}")
        self.said.append((reviewer, case, decision, note))

    def undo(self, reviewer: str) -> CaseView:
        if not self.said:
            raise Declined("nothing to undo")
        self.said.pop()
        return self._case()


def json_raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value).encode())


def test_only_the_token_changes_anything_and_never_by_get(tmp_path: Path) -> None:
    queue = Queue()
    app = board(tmp_path, token="secret", reviews=queue)
    token = {"x-quintain-token": "secret"}
    said = {"reviewer": "ada", "case": "c1", "decision": "hack", "note": "exits"}
    for headers in ({}, {"x-quintain-token": "secreT"}, {"x-quintain-token": ""}):
        assert ask(app, "/api/reviews/decide", post=said, headers=headers).status_code == 401
    for path in ("reviews/next", "reviews/decide", "reviews/undo", "replay"):
        assert ask(app, f"/api/{path}", headers=token).status_code == 405
    assert queue.said == []
    assert ask(app, "/api/reviews/next", post={"reviewer": "ada"}, headers=token).json()["case"]["content"] == {
        "task": "t"}
    assert ask(app, "/api/reviews/decide", post=said, headers=token).status_code == 200
    assert queue.said == [("ada", "c1", "hack", "exits")]
    assert ask(app, "/api/reviews/next", post={"reviewer": "ada"}, headers=token).json() == {"case": None}
    assert ask(app, "/api/reviews/undo", post={"reviewer": "ada"}, headers=token).json()["case"]["case"] == "c1"
    again = ask(app, "/api/reviews/undo", post={"reviewer": "ada"}, headers=token)
    assert (again.status_code, again.json()) == (409, {"error": "nothing to undo"})
    assert ask(app, "/api/reviews/decide", content=b"{}", headers=token).status_code == 415, "a form of another site"
    asked = {**token, "content-type": "application/json"}
    assert ask(app, "/api/reviews/decide", content=b"[1", headers=asked).status_code == 400
    assert ask(app, "/api/reviews/decide", content=b" " * 70_000, headers=asked).status_code == 413
    assert ask(app, "/api/replay", post={"run": "r", "episode": "e"}, headers=token).status_code == 404
    assert ask(board(tmp_path), "/api/reviews").status_code == 404


def test_tasks_come_with_their_standing_and_its_reason(tmp_path: Path) -> None:
    standing = TaskStanding(task="t", version="v", state="suspended", since_unix_seconds=1.0, verdicts=3)
    (tmp_path / "health.jsonl").write_text("")
    with a_run(tmp_path, "r", [*attempt("t#0"), *attempt("u#0", task="u", solved=False)]):
        pass
    page = ask(board(tmp_path, standings=lambda ledger: {"t": standing}), "/api/tasks?run=r").json()
    assert [(line["task"], line["fares"]) for line in page["tasks"]] == [("t", "always solved"), ("u", "never solved")]
    assert page["tasks"][0]["standing"]["state"] == "suspended"
    assert ask(board(tmp_path), "/api/tasks?run=r").json()["ledger"] is None


def test_a_training_shows_its_curve_as_it_grows(tmp_path: Path) -> None:
    folder = tmp_path / "train-1"
    folder.mkdir()
    (folder / "training.json").write_text("{}")
    log = folder / "metrics.jsonl"
    log.write_text('{"_step": 1, "train/reward": 0.25, "held_out/pass_at_1": 0.5}\n{"_step": 2, "train/rew')
    app = board(tmp_path)
    first = ask(app, "/api/overview?run=train-1").json()
    assert first["line"]["is_training"]
    assert {curve["name"]: curve["points"] for curve in first["curves"]} == {
        "held out, first attempt": [[1.0, 0.5]], "reward in training": [[1.0, 0.25]]}
    with log.open("a") as file:
        file.write('ard": 0.75}\n')
    later = ask(app, "/api/overview?run=train-1").json()
    assert later["curves"][1]["points"] == [[1.0, 0.25], [2.0, 0.75]]


def test_the_stream_tells_of_a_change_and_is_silent_otherwise(tmp_path: Path) -> None:
    async def go() -> list[int]:
        told: list[int] = []
        with a_run(tmp_path, "r", [opened("t#0")]) as run:
            async with (
                listening(board(tmp_path), grace_seconds=1) as url, httpx.AsyncClient() as client,
                client.stream("GET", f"{url}/api/stream?run=r") as answer,
            ):
                assert answer.headers["content-type"].startswith("text/event-stream")
                async for line in answer.aiter_lines():
                    if not line.startswith("data: "):
                        continue
                    told.append(json.loads(line[6:])["line"]["open"])
                    if len(told) == 2:
                        break
                    run.journal.append(Closed(episode="t#0", index=1, at_seconds=1.0, stop=Stop.GAVE_UP))
        return told

    assert asyncio.run(asyncio.wait_for(go(), 30)) == [1, 0]


def test_it_works_mounted_below_a_path(tmp_path: Path) -> None:
    with a_run(tmp_path, "r", attempt("t#0")):
        pass
    app = Starlette(routes=[Mount("/board", app=board(tmp_path))])
    assert ask(app, "/board/api/runs").json()[0]["name"] == "r"
    page = ask(app, "/board/").text
    assert 'src="static/app.js"' in page, "addresses are relative"
    assert ask(app, "/board/static/app.js").headers["content-type"].startswith("text/javascript")


def test_the_first_view_is_small(tmp_path: Path) -> None:
    with a_run(tmp_path, "r", attempt("t#0")):
        pass
    app = board(tmp_path)
    paths = ["/", "/api/runs", "/api/house", *(f"/static/{name}" for name in (
        "app.js", "api.js", "dom.js", "charts.js", "style.css", "mark.svg", "pages/runs.js"))]
    assert sum(len(ask(app, path).content) for path in paths) < 300_000
    tag = ask(app, "/static/app.js").headers["etag"]
    assert ask(app, "/static/app.js", headers={"if-none-match": tag}).status_code == 304


@settings(max_examples=15)
@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=40))
def test_no_query_breaks_it(tmp_path_factory: pytest.TempPathFactory, run: str, episode: str, other: str) -> None:
    app = board(tmp_path_factory.getbasetemp() / "nothing")
    query = str(httpx.QueryParams({"run": run, "episode": episode, "event": other, "field": other, "order": other}))
    for path in ("overview", "episodes", "episode", "text", "tasks", "compare", "alerts"):
        assert ask(app, f"/api/{path}?{query}").status_code in (200, 400, 404)


class Hushed:
    """One alert and one stop; remembers what a viewer did to them."""

    def __init__(self) -> None:
        self.done: list[tuple[object, ...]] = []

    def of(self, run: Path) -> AlarmsView:
        on = AlertLine(run=run.name, rule="crash-rate", labels={"kind": "ops"}, turn="firing", severity="page",
                       text="all crash", value=1.0, unix_seconds=1.0)
        return AlarmsView(on=(on,), numbers={"loss": 0.5}, sandboxes={"in_use": 2.0})

    def silence(self, run: Path, rule: str, labels: Mapping[str, str], seconds: float, reason: str) -> None:
        self.done.append((run.name, rule, dict(labels), seconds, reason))

    def unsilence(self, run: Path, id: str) -> None:
        raise Declined(f"there is no silence {id!r} any more")

    def release(self, run: Path, scope: str, key: str) -> None:
        self.done.append((run.name, scope, key))


def test_alerts_are_silenced_and_stops_released_by_who_has_the_token(tmp_path: Path) -> None:
    with a_run(tmp_path, "r", attempt("t#0")):
        pass
    alarms = Hushed()
    app = board(tmp_path, token="secret", alarms=alarms)
    token = {"x-quintain-token": "secret"}
    hush = {"run": "r", "rule": "crash-rate", "labels": {"kind": "ops"}, "seconds": 60, "reason": "known"}
    free = {"run": "r", "scope": "kind", "key": "ops"}
    for path, said in (("silence", hush), ("release", free), ("unsilence", {"run": "r", "id": "x"})):
        assert ask(app, f"/api/alerts/{path}", post=said).status_code == 401
        assert ask(board(tmp_path, token="secret"), f"/api/alerts/{path}", post=said, headers=token).status_code == 404
        assert ask(app, f"/api/alerts/{path}", post={**said, "run": "../r"}, headers=token).status_code == 404
    assert alarms.done == []
    assert ask(app, "/api/alerts/silence", post=hush, headers=token).status_code == 200
    assert ask(app, "/api/alerts/release", post=free, headers=token).status_code == 200
    assert alarms.done == [("r", "crash-rate", {"kind": "ops"}, 60.0, "known"), ("r", "kind", "ops")]
    gone = ask(app, "/api/alerts/unsilence", post={"run": "r", "id": "x"}, headers=token)
    assert (gone.status_code, gone.json()) == (409, {"error": "there is no silence 'x' any more"})
    assert ask(app, "/api/alerts/silence", post={**hush, "seconds": 1e9}, headers=token).status_code == 400
    seen = ask(app, "/api/overview?run=r").json()
    assert (seen["alerts"], seen["numbers"], seen["sandboxes"]) == (1, {"loss": 0.5}, {"in_use": 2.0})
