from __future__ import annotations

import asyncio

import pytest

from quintain.rollout import settle


async def slowly(done: list[str], seconds: float) -> str:
    await asyncio.sleep(seconds)
    done.append("done")
    return "result"


def test_what_settles_in_time_gives_its_result() -> None:
    assert asyncio.run(settle(slowly([], 0.0), within=1.0)) == "result"


def test_a_cancellation_waits_for_the_teardown_and_then_goes_on() -> None:
    async def main() -> list[str]:
        done: list[str] = []
        async with asyncio.TaskGroup() as group:
            child = group.create_task(settle(slowly(done, 0.05), within=5.0))
            await asyncio.sleep(0.01)
            child.cancel()
            await asyncio.sleep(0.01)
            child.cancel()  # a second one is no quicker
        assert child.cancelled()
        return done

    assert asyncio.run(main()) == ["done"]


def test_a_deadline_around_it_does_not_cut_it_short() -> None:
    async def main() -> list[str]:
        done: list[str] = []
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await settle(slowly(done, 0.05), within=5.0)
        return done

    assert asyncio.run(main()) == ["done"]


def test_what_does_not_settle_is_bounded() -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError, match=r"expected it to settle within 0\.02 s"):
            await settle(slowly([], 30.0), within=0.02)

    asyncio.run(main())


def test_its_error_is_raised() -> None:
    async def failing() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        asyncio.run(settle(failing(), within=1.0))
