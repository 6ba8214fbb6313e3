from __future__ import annotations

import heapq
import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quintain.fleet import Ask, Fairness, Planner, Room, Why

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases"
WHOLE = 10**12
GIB = 1024**3


def case(name: str) -> dict[str, object]:
    path = CASES / name / "trace.json"
    if not path.exists():
        pytest.skip(f"needs the handed case {name} beside the checkout")
    found: dict[str, object] = json.loads(path.read_text())
    return found


def fleet(*cpus: int, slots: int = 1000, fairness: Fairness | None = None, tokens: int = 0) -> Planner:
    planner = Planner(fairness, inference_tokens=tokens)
    for number, count in enumerate(cpus):
        planner.host(f"h{number}", Room(cpus=count, memory_bytes=count * GIB), slots=slots)
    return planner


def ask(id: str, cpus: float = 1.0, **fields: object) -> Ask:
    return Ask(id=id, need=Room(cpus=cpus), **fields)  # type: ignore[arg-type]


def ids(planner: Planner, at: float, **how: object) -> list[str]:
    return [placement.id for placement in planner.decide(at, **how)]  # type: ignore[arg-type]


def test_two_gangs_that_fit_one_at_a_time_run_one_after_the_other() -> None:
    trace = case("QS07")
    planner = fleet(int(trace["capacity"]))  # type: ignore[call-overload]
    for job in trace["jobs"]:  # type: ignore[attr-defined]
        name = job["id"]
        planner.offer_gang(name, [ask(f"{name}{n}") for n in range(job["gang"])], at=0.0)
    first = ids(planner, 0.0)
    assert first == ["A0", "A1", "A2", "A3", "A4", "A5"]
    assert planner.why("B0") is Why.NO_ROOM
    for n, id in enumerate(first):
        planner.finish(id)
        assert ids(planner, 1.0 + n) == (["B0", "B1", "B2", "B3", "B4", "B5"] if n == 3 else [])


def test_two_gangs_that_do_not_fit_are_each_tried_once() -> None:
    planner = fleet(4, 4)
    planner.offer_gang("a", [ask(f"a{n}", 3.0) for n in range(3)], at=0.0)
    planner.offer_gang("b", [ask(f"b{n}", 2.0) for n in range(5)], at=0.0)
    planner.offer(ask("c"), at=1.0)
    assert ids(planner, 1.0) == ["c"]


def test_a_place_that_failed_to_open_is_free_again() -> None:
    trace = case("QS09")
    planner = fleet(64, slots=int(trace["limit"]))  # type: ignore[call-overload]
    for n in range(int(trace["ops"][0]["times"])):  # type: ignore[index]
        planner.offer(ask(f"fails{n}"), at=0.0)
        assert ids(planner, 0.0) == [f"fails{n}"]
        planner.finish(f"fails{n}")
    planner.offer(ask("succeeds"), at=1.0)
    assert ids(planner, 1.0) == ["succeeds"]
    assert planner.running == 1


def test_low_priority_begins_within_the_bound_of_its_age() -> None:
    trace = case("QS05")
    planner = fleet(1, fairness=Fairness(ageing_seconds=15.0))
    planner.offer(ask("low", priority=0), at=0.0)
    arrivals = [0.9 * n for n in range(667)]
    now = 0.0
    while True:
        while arrivals and arrivals[0] <= now:
            planner.offer(ask(f"high{len(arrivals)}", priority=3), at=arrivals.pop(0))
        [id] = ids(planner, now)
        if id == "low":
            break
        now += 1.0
        planner.finish(id)
    assert 45.0 <= now <= float(trace["bound_s"])  # type: ignore[arg-type]


def test_the_first_of_a_new_kind_takes_the_next_place_in_a_flood_of_another() -> None:
    planner = fleet(50)
    for n in range(100_000):
        planner.offer(ask(f"flood{n}", kind="flood"), at=0.0)
    running = ids(planner, 0.0)
    planner.offer(ask("new", kind="new"), at=1.0)
    assert not ids(planner, 1.0)
    planner.finish(running[0])
    assert ids(planner, 1.1) == ["new"]


def test_weights_divide_the_fleet() -> None:
    planner = fleet(60, fairness=Fairness(tenant_weights={"a": 2.0}, kind_weights={"eval": 3.0}))
    for n in range(100):
        for tenant, kind in (("a", "train"), ("a", "eval"), ("b", "train")):
            planner.offer(ask(f"{tenant}{kind}{n}", tenant=tenant, kind=kind), at=0.0)
    planner.decide(0.0)
    assert {(s.tenant, s.kind): s.running for s in planner.shares()} == {
        ("a", "eval"): 30, ("a", "train"): 10, ("b", "train"): 20,
    }


def test_a_large_ask_is_not_passed_over_for_ever() -> None:
    planner = fleet(4, 4, fairness=Fairness(hold_seconds=10.0))
    for n in range(8):
        planner.offer(ask(f"small{n}"), at=0.0)
    running = [(float(n), id) for n, id in enumerate(ids(planner, 0.0), 1)]  # one ends each second
    planner.offer(ask("large", 4.0), at=0.0)
    for n in range(8, 200):
        planner.offer(ask(f"small{n}"), at=1.0)
    began = None
    while began is None:
        now, id = heapq.heappop(running)
        planner.finish(id)
        for found in ids(planner, now):
            if found == "large":
                began = now
            heapq.heappush(running, (now + 8.0, found))
    assert 10.0 < began <= 1.0 + 10.0 + 8.0
    assert planner.held == ()


def test_a_gang_that_the_whole_fleet_could_not_hold_blocks_nobody_and_says_so() -> None:
    planner = fleet(4, fairness=Fairness(hold_seconds=0.0))
    planner.offer_gang("g", [ask(f"g{n}", 3.0) for n in range(2)], at=0.0)
    for n in range(20):
        planner.offer(ask(f"s{n}"), at=1.0)
        assert ids(planner, 1.0 + n) == [f"s{n}"]
        planner.finish(f"s{n}")
    assert planner.why("g0") is Why.TOO_BIG
    planner.host("h1", Room(cpus=4.0), slots=8)
    assert ids(planner, 50.0) == ["g0", "g1"]


def test_a_stopped_kind_begins_nothing_and_loses_nothing() -> None:
    planner = fleet(2)
    planner.offer(ask("bad", kind="bad"), at=0.0)
    planner.offer(ask("good", kind="good"), at=1.0)
    planner.stop("bad")
    assert ids(planner, 1.0) == ["good"]
    assert planner.why("bad") is Why.STOPPED
    planner.resume("bad")
    assert ids(planner, 2.0) == ["bad"]


def test_a_quota_bounds_what_runs() -> None:
    planner = fleet(10)
    planner.limit("t", 2)
    planner.limit("u", 1, kind="k")
    for n in range(4):
        planner.offer(ask(f"t{n}", tenant="t"), at=0.0)
        planner.offer(ask(f"u{n}", tenant="u", kind="k"), at=0.0)
    assert sorted(ids(planner, 0.0)) == ["t0", "t1", "u0"]
    assert planner.why("t2") is planner.why("u1") is Why.LIMITED
    planner.finish("t0")
    assert ids(planner, 1.0) == ["t2"]
    planner.limit("t", None)
    assert ids(planner, 2.0) == ["t3"]


def test_a_lost_host_gives_back_what_ran_there_and_only_that() -> None:
    planner = fleet(2, 2)
    for n in range(4):
        planner.offer(ask(f"a{n}"), at=0.0)
    placed = {p.id: p.host for p in planner.decide(0.0)}
    lost = planner.lose("h0")
    assert lost == sorted(id for id, host in placed.items() if host == "h0")
    assert planner.running == 2
    for id in lost:
        planner.offer(ask(id), at=1.0)
    assert ids(planner, 1.0) == []
    with pytest.raises(KeyError):
        planner.lose("h0")


def test_tokens_of_inference_are_shared_by_the_fleet() -> None:
    planner = fleet(100, tokens=10_000)
    for n in range(5):
        planner.offer(Ask(id=f"a{n}", need=Room(cpus=1.0, inference_tokens=4_000)), at=0.0)
    planner.offer(ask("free"), at=1.0)
    assert sorted(ids(planner, 1.0)) == ["a0", "a1", "free"]
    assert planner.why("a2") is Why.TOKENS
    planner.tokens(12_000)
    assert ids(planner, 2.0) == ["a2"]


def test_a_worker_is_given_only_what_fits_on_its_own_host() -> None:
    planner = fleet(4, 1)
    planner.offer(ask("large", 2.0), at=0.0)
    planner.offer(ask("small", 1.0), at=1.0)
    assert ids(planner, 1.0, host="h1") == ["small"]
    assert ids(planner, 1.0, host="h0", most=5) == ["large"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p.offer(ask("a"), at=0.0), "expected a new id, found 'a'"),
        (lambda p: p.offer_gang("g", [ask("b"), ask("b")], at=0.0), "expected new ids"),
        (lambda p: p.offer_gang("g", [ask("b"), ask("c", kind="k")], at=0.0), "one tenant, kind and priority"),
        (lambda p: p.offer_gang("g", [], at=0.0), "one tenant, kind and priority"),
        (lambda p: p.host("h", Room(), slots=-1), "slots must be at least 0, found -1"),
        (lambda p: p.limit("t", -2), "expected at least 0, found -2"),
        (lambda p: p.tokens(-1), "inference_tokens must be at least 0, found -1"),
        (lambda p: Room(cpus=float("nan")), "room.cpus must be finite"),
        (lambda p: Fairness(tenant_weights={"a": 0.0}), "the weight of 'a' must be finite and greater than 0"),
    ],
)
def test_bad_input_is_told_what_was_expected(change: object, message: str) -> None:
    planner = fleet(1)
    planner.offer(ask("a"), at=0.0)
    with pytest.raises(ValueError, match=message):
        change(planner)  # type: ignore[operator]


SHAPES = [(0.25, 1, 0), (1.0, 1, 10), (1.0, 4, 0), (2.0, 2, 40), (3.0, 8, 0)]  # cpus, GiB, tokens


class Life:
    """The planner beside a plain account of what waits, what runs where, and who uses how much."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.weights = {"a": 2.0}
        self.kind_weights = {"x": 3.0}
        self.ageing = chance.choice([0.0, 5.0])
        self.tokens = chance.choice([30, 60])
        self.planner = Planner(
            Fairness(ageing_seconds=self.ageing, hold_seconds=chance.choice([0.0, 3.0, 1000.0]),
                     tenant_weights=self.weights, kind_weights=self.kind_weights),
            inference_tokens=self.tokens,
        )
        self.now = 0.0
        self.count = 0
        self.hosts: dict[str, tuple[int, int, int]] = {}  # millicpus, GiB, slots
        self.waiting: dict[str, Ask] = {}
        self.offered: dict[str, float] = {}
        self.gangs: dict[str, list[str]] = {}
        self.gang_of: dict[str, str] = {}
        self.running: dict[str, tuple[Ask, str]] = {}
        self.stopped: set[str] = set()
        self.limits: dict[tuple[str, str | None], int] = {}
        self.placed = self.turns = self.cleared = 0
        for name in ("h0", "h1", "h2"):
            self.host(name)

    def live(self, steps: int) -> None:
        acts = {
            self.offer: 30, self.offer_gang: 6, self.finish: 30, self.wait: 15, self.withdraw: 3, self.limit: 2,
            self.stop_or_resume: 3, self.change_tokens: 2, self.change_host: 2, self.lose: 2,
        }
        for act in self.chance.choices(list(acts), list(acts.values()), k=steps):
            act()
            while self.one():
                pass
            self.check_accounts()
            self.check_that_no_room_is_left()
            self.check_what_is_held()

    def new(self, shape: int, kind: str, tenant: str, priority: int) -> Ask:
        self.count += 1
        cpus, gib, tokens = SHAPES[shape]
        need = Room(cpus=cpus, memory_bytes=gib * GIB, inference_tokens=tokens)
        return Ask(id=f"{self.count:04}", need=need, kind=kind, tenant=tenant, priority=priority)

    def some(self, shapes: int) -> tuple[int, str, str, int]:
        return self.chance.randrange(shapes), self.chance.choice("xy"), self.chance.choice("ab"), 0

    def host(self, name: str) -> None:
        cpus, gib, slots = self.chance.randint(2, 6), self.chance.randint(4, 16), self.chance.randint(2, 6)
        self.planner.host(name, Room(cpus=cpus, memory_bytes=gib * GIB), slots=slots)
        self.hosts[name] = (cpus * 1000, gib, slots)

    def change_host(self) -> None:
        self.host(self.chance.choice(["h0", "h1", "h2", "h3"]))

    def lose(self) -> None:
        if len(self.hosts) < 2:
            return
        name = self.chance.choice(sorted(self.hosts))
        lost = self.planner.lose(name)
        assert lost == sorted(id for id, (_, host) in self.running.items() if host == name)
        del self.hosts[name]
        for id in lost:
            del self.running[id]

    def offer(self) -> None:
        if len(self.waiting) > 40:
            return
        shape, kind, tenant, _ = self.some(5)
        for _ in range(self.chance.randint(1, 4)):
            wanted = self.new(shape, kind, tenant, self.chance.randint(0, 3))
            self.planner.offer(wanted, at=self.now)
            self.waiting[wanted.id] = wanted
            self.offered[wanted.id] = self.now

    def offer_gang(self) -> None:
        asks = [self.new(*self.some(4)) for _ in range(1)]
        asks += [self.new(SHAPES.index(self.shape_of(asks[0])), asks[0].kind, asks[0].tenant, 0)
                 for _ in range(self.chance.randint(0, 4))]
        self.planner.offer_gang(asks[0].id, asks, at=self.now)
        for wanted in asks:
            self.waiting[wanted.id] = wanted
            self.offered[wanted.id] = self.now
            self.gang_of[wanted.id] = asks[0].id
        self.gangs[asks[0].id] = [wanted.id for wanted in asks]

    @staticmethod
    def shape_of(ask: Ask) -> tuple[float, int, int]:
        return ask.need.cpus, ask.need.memory_bytes // GIB, ask.need.inference_tokens

    def withdraw(self) -> None:
        if self.waiting:
            id = self.chance.choice(sorted(self.waiting))
            assert self.planner.withdraw(id)
            for member in self.gangs.get(self.gang_of.get(id, ""), [id]):
                del self.waiting[member]

    def finish(self) -> None:
        for id in self.chance.sample(sorted(self.running), min(len(self.running), self.chance.randint(1, 3))):
            assert self.planner.finish(id)
            assert not self.planner.finish(id)
            del self.running[id]

    def stop_or_resume(self) -> None:
        if self.stopped:
            for kind in self.stopped:
                self.planner.resume(kind)
            self.stopped = set()
        else:
            kind = self.chance.choice("xy")
            self.planner.stop(kind)
            self.stopped = {kind}

    def limit(self) -> None:
        tenant, kind, most = self.chance.choice("ab"), self.chance.choice([None, "x"]), self.chance.choice([None, 1, 3])
        self.planner.limit(tenant, most, kind=kind)
        self.limits.pop((tenant, kind), None)
        if most is not None:
            self.limits[tenant, kind] = most

    def change_tokens(self) -> None:
        self.tokens = self.chance.choice([15, 30, 60])
        self.planner.tokens(self.tokens)

    def wait(self) -> None:
        self.now += self.chance.choice([1.0, 4.0])

    def one(self) -> bool:
        cleared = {id for id in self.waiting if self.planner.why(id) is Why.HELD_FOR}
        placed = self.planner.decide(self.now, most=1)
        if not placed:
            return False
        chosen = self.waiting[placed[0].id]
        assert {p.gang for p in placed} == {self.gang_of.get(chosen.id, "")}
        assert sorted(p.id for p in placed) == sorted(self.gangs.get(placed[0].gang, [chosen.id]))
        assert not self.barred(chosen)
        if chosen.id not in cleared and not placed[0].gang:
            self.check_turn(chosen)
        self.placed += len(placed)
        self.cleared += chosen.id in cleared
        for p in placed:
            self.running[p.id] = (self.waiting.pop(p.id), p.host)
        for name in {p.host for p in placed}:
            assert all(left >= 0 for left in self.free(name)), f"{name} is above its capacity"
        assert sum(ask.need.inference_tokens for ask, _ in self.running.values()) <= self.tokens or not any(
            self.running[p.id][0].need.inference_tokens for p in placed
        )
        return True

    def check_turn(self, chosen: Ask) -> None:
        """Nobody who waits for the same shape had a smaller share, and nobody in the same line a smaller rank."""
        mine = self.key(chosen)
        for other in self.waiting.values():
            if other.need == chosen.need and not self.barred(other) and other.id not in self.gang_of:
                self.turns += other is not chosen
                same = 1 + (other.tenant == chosen.tenant) * (1 + (other.kind == chosen.kind))
                assert mine[:same] <= self.key(other)[:same], f"{chosen.id} before {other.id}"

    def key(self, ask: Ask) -> tuple[float, float, float]:
        tenant = sum(self.charge(a) for a, _ in self.running.values() if a.tenant == ask.tenant)
        kind = sum(self.charge(a) for a, _ in self.running.values() if (a.tenant, a.kind) == (ask.tenant, ask.kind))
        return (
            tenant / self.weights.get(ask.tenant, 1.0), kind / self.kind_weights.get(ask.kind, 1.0),
            self.offered[ask.id] - ask.priority * self.ageing,
        )

    def charge(self, ask: Ask) -> int:
        total = [sum(host[n] for host in self.hosts.values()) for n in range(3)]
        needs = [round(ask.need.cpus * 1000), ask.need.memory_bytes // GIB, 1]
        parts = [WHOLE * need // has if has else WHOLE for need, has in zip(needs, total, strict=True) if need]
        if ask.need.inference_tokens:
            parts.append(WHOLE * ask.need.inference_tokens // self.tokens if self.tokens else WHOLE)
        return max(1, *parts)

    def barred(self, ask: Ask) -> bool:
        def at_limit(kind: str | None) -> bool:
            limit = self.limits.get((ask.tenant, kind))
            return limit is not None and limit <= sum(
                a.tenant == ask.tenant and kind in (None, a.kind) for a, _ in self.running.values()
            )

        return ask.kind in self.stopped or at_limit(None) or at_limit(ask.kind)

    def free(self, name: str) -> tuple[int, int, int]:
        there = [ask for ask, host in self.running.values() if host == name]
        cpus, gib, slots = self.hosts[name]
        return (
            cpus - sum(round(ask.need.cpus * 1000) for ask in there),
            gib - sum(ask.need.memory_bytes // GIB for ask in there), slots - len(there),
        )

    def times(self, name: str, ask: Ask) -> int:
        cpus, gib, slots = self.free(name)
        if min(cpus, gib, slots) < 0:
            return 0
        return min(cpus // round(ask.need.cpus * 1000), gib // (ask.need.memory_bytes // GIB), slots)

    def check_accounts(self) -> None:
        assert self.planner.waiting == len(self.waiting)
        assert {id: self.planner.where(id) for id in self.running} == {id: h for id, (_, h) in self.running.items()}
        assert set(self.planner.held) <= self.hosts.keys()

    def check_that_no_room_is_left(self) -> None:
        open_hosts = [name for name in self.hosts if name not in self.planner.held]
        used = sum(ask.need.inference_tokens for ask, _ in self.running.values())
        holding = [id for id in self.waiting if self.planner.why(id) is Why.HELD_FOR]
        kept = sum(self.waiting[id].need.inference_tokens for id in holding)
        for id, ask in self.waiting.items():
            members = self.gangs[self.gang_of[id]] if id in self.gang_of else [id]
            tokens = ask.need.inference_tokens * len(members)
            if self.barred(ask) or (tokens and tokens > self.tokens - used - kept):
                continue
            room = sum(self.times(name, ask) for name in open_hosts)
            assert room < len(members), f"{id} waits while {room} places for {len(members)} are free"

    def check_what_is_held(self) -> None:
        if self.planner.held:
            holding = {self.gang_of.get(id, id) for id in self.waiting if self.planner.why(id) is Why.HELD_FOR}
            assert len(holding) == 1


@given(seed=st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_the_planner_keeps_its_promises(seed: int) -> None:
    """Never above capacity, nobody out of turn, no room left that somebody who may begin would fit in, hosts held for
    one bid at a time that may begin, and accounts that agree: after each of 120 random steps."""
    life = Life(random.Random(seed))
    life.live(120)
    assert life.placed > 10


def test_the_random_lives_reach_what_they_are_to_check() -> None:
    lives = [Life(random.Random(seed)) for seed in range(10)]
    for life in lives:
        life.live(120)
    assert sum(life.turns for life in lives) > 500
    assert sum(life.cleared for life in lives) > 3


def _played(seed: int, *, hold: float, gangs: bool) -> None:
    """A stream that keeps the fleet full; no ask may wait longer than the holds and the runs before it allow."""
    chance = random.Random(seed)
    longest = 10.0
    planner = fleet(4, 4, 4, fairness=Fairness(hold_seconds=hold))
    offered: dict[str, float] = {}
    big = 0
    ends: list[tuple[float, str]] = []
    now, number = 0.0, 0
    while now < 600.0:
        while planner.waiting < 30:
            number += 1
            id = f"{number}"
            if gangs and number % 12 == 0:
                size = chance.randint(2, 6)
                planner.offer_gang(id, [ask(f"{id}.{n}", chance.choice([1.0, 2.0])) for n in range(size)], at=now)
                offered |= {f"{id}.{n}": now for n in range(size)}
            else:
                planner.offer(ask(id, chance.choice([0.5, 1.0, 1.0, 2.0, 4.0])), at=now)
                offered[id] = now
        for placement in planner.decide(now):
            waited = now - offered.pop(placement.id)
            # all that was offered before it, on the whole fleet, and a hold for each of the ten kinds of sizes
            assert waited <= 30 * longest + 10 * (hold + longest)
            heapq.heappush(ends, (now + chance.uniform(0.1, longest), placement.id))
            big += placement.gang != ""
        now, id = heapq.heappop(ends)
        planner.finish(id)
    assert planner.decide(now) or planner.running
    assert big > 20 or not gangs
    oldest = min(offered.values())
    assert now - oldest <= 30 * longest + 10 * (hold + longest)


@given(seed=st.integers(0, 10_000), hold=st.sampled_from([0.0, 5.0, 20.0]), gangs=st.booleans())
@settings(max_examples=25, deadline=None)
def test_nothing_starves_and_no_two_gangs_lock_each_other_out(seed: int, hold: float, gangs: bool) -> None:
    _played(seed, hold=hold, gangs=gangs)


@given(
    weights=st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=2, max_size=5),
    sizes=st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=5, max_size=5), seed=st.integers(0, 1000),
)
@settings(max_examples=40, deadline=None)
def test_tenants_that_always_wait_get_their_weights_within_one_ask(
    weights: list[float], sizes: list[float], seed: int,
) -> None:
    """After every decision, no tenant that began something is ahead of another by more than the charge of one ask."""
    chance = random.Random(seed)
    names = [f"t{n}" for n in range(len(weights))]
    planner = fleet(24, fairness=Fairness(tenant_weights=dict(zip(names, weights, strict=True))))
    count = 0
    running: list[str] = []
    for _ in range(60):
        for n, name in enumerate(names):
            for _ in range(4):
                count += 1
                planner.offer(ask(f"{name}-{count}", sizes[n], tenant=name), at=0.0)
        before = {share.tenant: share.share for share in planner.shares()}
        placed = planner.decide(0.0, most=1)
        after = {share.tenant: share.share for share in planner.shares()}
        for placement in placed:
            tenant = placement.id.partition("-")[0]
            n = names.index(tenant)
            # among the sizes that still fit, nobody was further behind
            fitting = [m for m in range(len(names)) if sizes[m] <= sizes[n]]
            assert all(
                before[tenant] / weights[n] <= before[names[m]] / weights[m] + 1e-9 for m in fitting
            )
            assert after[tenant] >= before[tenant]
            running.append(placement.id)
        while len(running) > 40 or (running and chance.random() < 0.3):
            planner.finish(running.pop(chance.randrange(len(running))))
