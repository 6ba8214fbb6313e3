"""A task gets the cheapest backend whose walls are strong enough, and never a weaker one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.sandbox import DEFAULT_LIMITS, Backend, Capabilities, Sandbox, choose
from quintain.types import FaultKind, HouseError, Isolation, Limits, Network

LEVELS = list(Isolation)


class Declared:
    """A backend that only says what it can do."""

    def __init__(
        self, name: str, isolation: Isolation, *, available: bool = True,
        networks: tuple[Network, ...] = (Network.NONE,),
    ) -> None:
        self.name = name
        self._can = Capabilities(
            name=name, available=available, isolation=isolation, networks=networks,
            missing={} if available else {"program": "install it"},
        )

    def probe(self) -> Capabilities:
        return self._can

    def open(
        self, image: str = "host", *, limits: Limits = DEFAULT_LIMITS, count: int = 1, network: Network = Network.NONE,
    ) -> AbstractAsyncContextManager[Sequence[Sandbox]]:
        raise AssertionError("nothing is opened by choosing")

    async def aclose(self) -> None:
        return None


def test_the_cheapest_that_satisfies_is_taken() -> None:
    backends = [Declared("gvisor", Isolation.GVISOR), Declared("process", Isolation.PROCESS),
                Declared("native", Isolation.NAMESPACE), Declared("bubblewrap", Isolation.NAMESPACE)]
    assert choose(backends).name == "native"
    assert choose(backends, Isolation.GVISOR).name == "gvisor"
    assert choose(backends, Isolation.PROCESS).name == "process"


def test_what_is_not_available_is_passed_over() -> None:
    backends = [Declared("native", Isolation.NAMESPACE, available=False), Declared("gvisor", Isolation.GVISOR)]
    assert choose(backends).name == "gvisor"


def test_a_backend_without_the_network_is_passed_over() -> None:
    backends = [Declared("native", Isolation.NAMESPACE),
                Declared("open", Isolation.GVISOR, networks=(Network.NONE, Network.FULL))]
    assert choose(backends, network=Network.FULL).name == "open"


def test_the_refusal_says_of_each_backend_what_it_lacks() -> None:
    backends: list[Backend] = [
        Declared("native", Isolation.NAMESPACE), Declared("gvisor", Isolation.GVISOR, available=False),
        Declared("vm", Isolation.MICROVM),
    ]
    with pytest.raises(HouseError) as caught:
        choose(backends, Isolation.GVISOR, Network.FULL)
    assert caught.value.kind is FaultKind.SANDBOX_CREATE_FAILED
    for words in ("native isolates as namespace only", "gvisor is missing program: install it",
                  "vm offers network 'none'"):
        assert words in caught.value.message


@given(st.lists(st.tuples(st.sampled_from(LEVELS), st.booleans()), max_size=6), st.sampled_from(LEVELS))
def test_there_is_never_a_silent_downgrade(declared: list[tuple[Isolation, bool]], minimum: Isolation) -> None:
    backends = [Declared(f"b{n}", level, available=available) for n, (level, available) in enumerate(declared)]
    fit = [level for level, available in declared if available and LEVELS.index(level) >= LEVELS.index(minimum)]
    if not fit:
        with pytest.raises(HouseError):
            choose(backends, minimum)
        return
    assert LEVELS.index(choose(backends, minimum).probe().isolation) == min(map(LEVELS.index, fit))
