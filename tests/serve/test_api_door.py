"""Who wants more of the API than is theirs: other tenants' things, others' share, or a server that answers nobody."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("starlette", reason="the HTTP faces need starlette: pip install quintain[serve]")
pytest.importorskip("uvicorn", reason="the HTTP faces need uvicorn: pip install quintain[serve]")

from quintain.cli.main import command
from quintain.sandbox import NativeBackend
from quintain.serve import ApiError, Client, Doorkeeper, KeyRing, Quota, RunAsked, Scope
from quintain.serve.bounds import AuditLog, Buckets, Entry
from tests.serve.house import FILES, served, serving


class Keyed:
    def __init__(self, url: str, root: Path, alice: str, mallory: str) -> None:
        self.url, self.root, self.alice, self.mallory = url, root, alice, mallory


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    root = tmp_path_factory.mktemp("served")
    ring = KeyRing(root / "keys.json")
    alice, mallory = (ring.create(tenant, Scope)[0] for tenant in ("alice", "mallory"))
    ring.allow("alice", Quota(runs=1, requests_per_second=1000, burst=1000))
    ring.allow("mallory", Quota(sandboxes=1, requests_per_second=1000, burst=1000))
    with serving(root, runs_at_once=1) as (url, api):
        with Client(url, alice) as client:
            client.hand_in("mine", FILES)
        # what waits is never played here: these tests are about who sees it
        api.house.plays._at_once = 0
        with Client(url, alice) as client:
            client.submit(RunAsked(taskset="my:mine", policy="oracle", name="hers"))
        yield Keyed(url, root, alice, mallory)


def status(keyed: Keyed, method: str, path: str, key: str, **more: object) -> int:
    return httpx.request(method, keyed.url + path, headers={"authorization": f"Bearer {key}"}, **more).status_code  # type: ignore[arg-type]


@pytest.mark.parametrize("path", [
    "/v1/runs/hers", "/v1/runs/hers/episodes", "/v1/runs/hers/events", "/v1/runs/hers/trajectories",
    "/v1/runs/hers/episode?id=x", "/v1/runs/hers/blobs/" + "0" * 64, "/v1/runs/..%2f..%2falice%2fruns%2fhers",
    "/v1/runs/%2e%2e/alice", "/v1/runs/../../alice/runs/hers", "/v1/runs/hers%00",
])
def test_another_tenants_run_is_not_there(keyed: Keyed, path: str) -> None:
    assert status(keyed, "GET", path, keyed.mallory) == 404


def test_another_tenants_things_cannot_be_named_changed_or_ended(keyed: Keyed) -> None:
    assert status(keyed, "GET", "/v1/runs/hers", keyed.alice) == 200
    for method, path in (("DELETE", "/v1/runs/hers"), ("POST", "/v1/runs/hers/stop"), ("POST", "/v1/runs/hers/resume"),
                         ("DELETE", "/v1/tasksets/mine")):
        assert status(keyed, method, path, keyed.mallory) == 404
    with Client(keyed.url, keyed.mallory) as client:
        assert client.runs().runs == () and client.standings().tasks == ()
        for taskset in ("my:mine", "my:../../alice/tasksets/mine", "my:.", "my:", str(keyed.root), "os:system"):
            with pytest.raises(ApiError) as refused:
                client.submit(RunAsked(taskset=taskset, policy="oracle"))
            assert refused.value.problem.status in (404, 422)
            assert str(keyed.root) not in refused.value.problem.expected
        for policy in ("os:system", "replay:/etc", "openai:x", "trained:.."):
            with pytest.raises(ApiError) as refused:
                client.submit(RunAsked(taskset="my:mine", policy=policy))
            assert refused.value.problem.where == "body.policy"
    assert status(keyed, "GET", "/v1/runs/hers", keyed.alice) == 200


@pytest.mark.parametrize(
    "path", ["../out", "/etc/x", "a/../../b", "a//b", ".hidden", "a\\..\\b", "x\0y", "", "a/" * 40])
def test_no_path_of_a_taskset_leads_out_of_it(keyed: Keyed, path: str) -> None:
    with Client(keyed.url, keyed.mallory) as client, pytest.raises(ApiError) as refused:
        client.hand_in("evil", {path: b"x"})
    assert refused.value.problem.status == 422
    assert not (keyed.root / "tenants/mallory/tasksets/evil").exists()


def test_a_task_that_asks_for_a_network_or_all_of_the_memory_is_not_taken(keyed: Keyed) -> None:
    for line in ('network = "full"', '[limits.episode]\nmemory_bytes = 99999999999999', 'image = "dir:/etc"'):
        files = {**FILES, "double/task.toml": f'id = "double"\n{line}\n'.encode()}
        with Client(keyed.url, keyed.mallory) as client, pytest.raises(ApiError) as refused:
            client.hand_in("greedy", files)
        assert refused.value.problem.status == 422


def test_no_header_makes_another_tenant_of_me(keyed: Keyed) -> None:
    mine = f"Bearer {keyed.mallory}"
    tricks = [("X-Tenant", "alice"), ("X-Forwarded-For", "127.0.0.1"), ("X-Original-URL", "/v1/runs/hers"),
              ("X-HTTP-Method-Override", "DELETE"), ("Host", "alice"), ("X-Forwarded-User", "alice")]
    found = httpx.get(keyed.url + "/v1/runs", headers=[("Authorization", mine), *tricks])
    assert found.status_code == 200 and found.json()["runs"] == []
    twice = [("Authorization", mine), ("Authorization", f"Bearer {keyed.alice}")]
    assert httpx.get(keyed.url + "/v1/runs", headers=twice).status_code == 401


def test_keys_open_what_their_scopes_say_until_they_are_revoked_and_are_written_nowhere(keyed: Keyed) -> None:
    ring = KeyRing(keyed.root / "keys.json")
    shown, key = ring.create("alice", [Scope.RUNS_READ])
    assert status(keyed, "GET", "/v1/runs", shown) == 200
    assert status(keyed, "POST", "/v1/sandboxes", shown, json={}) == 403
    assert status(keyed, "GET", "/v1/runs", shown[:-1] + ("A" if shown[-1] != "A" else "B")) == 401
    ring.revoke(key.id)
    assert status(keyed, "GET", "/v1/runs", shown) == 401
    assert httpx.get(keyed.url + "/v1/runs").json() | {"request": ""} == {
        "status": 401, "code": "key", "expected": "a key: Authorization: Bearer qk_…", "found": "none",
        "where": "header.authorization", "request": ""}
    secrets = [one.rpartition("_")[2].encode() for one in (shown, keyed.alice, keyed.mallory)]
    assert (keyed.root / "keys.json").stat().st_mode & 0o777 == 0o600
    for path in keyed.root.rglob("*"):
        if path.is_file():
            assert not any(secret in path.read_bytes() for secret in secrets), path
    assert b'"status":401' in (keyed.root / "audit.jsonl").read_bytes()


def test_who_guesses_keys_is_slowed_down_and_others_are_not(keyed: Keyed) -> None:
    with httpx.Client(base_url=keyed.url, headers={"authorization": "Bearer qk_x"}) as guesser:
        answers = (guesser.get("/v1/runs") for _ in range(1_000))  # faster than what a second gives back
        last = next((answer for answer in answers if answer.status_code != 401), None)
    assert last is not None and last.status_code == 429 and int(last.headers["retry-after"]) >= 1
    assert status(keyed, "GET", "/v1/runs", keyed.alice) == 200


def test_who_asks_too_often_waits_and_others_do_not(keyed: Keyed) -> None:
    shown, _ = KeyRing(keyed.root / "keys.json").create("eager", [Scope.RUNS_READ])
    KeyRing(keyed.root / "keys.json").allow("eager", Quota(requests_per_second=1, burst=3))
    found = [httpx.get(keyed.url + "/v1/runs", headers={"authorization": f"Bearer {shown}"}) for _ in range(5)]
    assert [one.status_code for one in found[:3]] == [200] * 3 and found[-1].status_code == 429
    assert int(found[-1].headers["retry-after"]) >= 1 and found[-1].json()["code"] == "rate"
    assert status(keyed, "GET", "/v1/runs", keyed.alice) == 200


@pytest.mark.parametrize(("content", "kind", "expected"), [
    (b"{", "application/json", 400), (b"[" * 100_000, "application/json", 422), (b"\xff", "application/json", 400),
    (b'{"taskset": 3}', "application/json", 422), (b'{"taskset":"a","policy":"b","x":1}', "application/json", 422),
    (b"{}", "text/plain", 415), (b" " * (2 * 1024 * 1024), "application/json", 413),
])
def test_a_body_that_is_none_is_refused_in_one_shape(keyed: Keyed, content: bytes, kind: str, expected: int) -> None:
    found = httpx.post(keyed.url + "/v1/runs", content=content, headers={
        "authorization": f"Bearer {keyed.alice}", "content-type": kind})
    assert found.status_code == expected
    assert set(found.json()) == {"status", "code", "expected", "found", "where", "request"}


@pytest.mark.skipif(not NativeBackend().probe().available, reason="this host has no sandboxes")
def test_a_sandbox_is_its_tenants_alone_and_not_more_than_the_quota(keyed: Keyed) -> None:
    with Client(keyed.url, keyed.mallory) as mallory, Client(keyed.url, keyed.alice) as alice:
        hers = alice.open_sandbox(lease_seconds=60).id
        mallory.open_sandbox(lease_seconds=60)
        with pytest.raises(ApiError) as refused:
            mallory.open_sandbox(lease_seconds=60)
        assert refused.value.problem.status == 429 and refused.value.retry_seconds
        for attempt in (lambda: mallory.command(hers, ["id"]), lambda: mallory.read_file(hers, "x"),
                        lambda: mallory.end_sandbox(hers), lambda: mallory.renew(hers, 1.0)):
            with pytest.raises(ApiError) as refused:
                attempt()
            assert refused.value.problem.status == 404
        assert alice.command(hers, ["echo", "mine"]).stdout == b"mine\n"


def test_without_keys_a_page_or_a_name_that_is_not_local_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path) as (url, _):
        assert httpx.get(url + "/v1/runs").status_code == 200
        assert httpx.get(url + "/v1/runs", headers={"host": "evil.example"}).status_code == 421
        assert httpx.get(url + "/v1/runs", headers={"origin": "http://evil.example"}).status_code == 421


async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A request of which the head never ends; returns when the server has had enough of it."""
    writer.write(b"GET /healthz HTTP/1.1\r\nx-slow: ")
    for _ in range(1000):
        try:
            writer.write(b"a")
            await writer.drain()
        except ConnectionError:
            return
        if reader.at_eof() or reader.exception() is not None:
            return
        await asyncio.sleep(0.02)
    pytest.fail("a request whose head never ends was waited for")


def test_connections_that_say_nothing_or_a_letter_at_a_time_keep_nobody_out(tmp_path: Path) -> None:
    async def siege() -> None:
        doorkeeper = Doorkeeper(most=40, most_of_one=1000, wait_seconds=0.5)
        async with served(tmp_path, doorkeeper=doorkeeper) as (url, _):
            place = urlsplit(url)
            idle = [await asyncio.open_connection(place.hostname, place.port) for _ in range(150)]
            async with httpx.AsyncClient() as client:
                assert (await client.get(url + "/v1/runs")).status_code == 200
            assert doorkeeper.inside <= 41
            reader, writer = await asyncio.open_connection(place.hostname, place.port)
            await trickle(reader, writer)
            for _, one in (*idle, (reader, writer)):
                one.close()
        assert doorkeeper.inside == 0

    asyncio.run(siege())


def test_one_address_cannot_take_all_places(tmp_path: Path) -> None:
    with serving(tmp_path, doorkeeper=Doorkeeper(most=100, most_of_one=5)) as (url, _):
        place = urlsplit(url)
        held = [socket.create_connection((place.hostname, place.port)) for _ in range(5)]  # type: ignore[arg-type]
        with pytest.raises(httpx.TransportError):
            httpx.get(url + "/healthz")
        for one in held:
            one.close()


def test_it_does_not_listen_elsewhere_without_keys(tmp_path: Path) -> None:
    found = CliRunner().invoke(command, ["serve", str(tmp_path), "--host", "0.0.0.0"])
    assert found.exit_code == 2 and "has no keys" in found.output


def test_a_key_is_shown_once(tmp_path: Path) -> None:
    made = CliRunner().invoke(command, ["keys", "create", "alice", "--folder", str(tmp_path)])
    shown = made.stdout.strip().splitlines()[-1]
    assert KeyRing(tmp_path / "keys.json").known(shown) is not None
    listed = CliRunner().invoke(command, ["keys", "list", "--json", "--folder", str(tmp_path)])
    assert "alice" in listed.output and shown.rpartition("_")[2] not in listed.output and "digest" not in listed.output


@given(st.lists(st.floats(min_value=0, max_value=5), max_size=60), st.integers(1, 10), st.floats(1, 20))
def test_a_bucket_never_gives_more_than_its_rate_and_its_burst(
    pauses: list[float], burst: int, per_second: float,
) -> None:
    now = [0.0]
    buckets, given = Buckets(clock=lambda: now[0]), 0
    for pause in pauses:
        now[0] += pause
        given += buckets.take("one", per_second=per_second, burst=burst) == 0
        assert given <= burst + per_second * now[0] + 1e-6


def test_the_audit_log_never_grows_beyond_its_bound(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl", most_bytes=4000)
    for nth in range(200):
        log.write(Entry(
            at_unix_seconds=0.0, request=str(nth), remote="", method="GET", path="/", status=200, seconds=0.0))
    log.close()
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 4000
    assert b'"request":"199"' in (tmp_path / "audit.jsonl").read_bytes()
