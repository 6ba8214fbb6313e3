"""Values arrive as what they were, and what cannot arrive is refused on either side."""

from __future__ import annotations

import collections
import datetime
import math
import socket
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.grade.inside.values import Values, has_mutable
from quintain.grade.inside.wire import MAX_FRAME_BYTES, MAX_NODES, Gone, Pipe, WrongType, read_json, write_json

ATOMS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(min_value=-(2**80), max_value=2**80),
    st.floats(allow_nan=False), st.text(st.characters()), st.binary(), st.complex_numbers(allow_nan=False),
    st.decimals(allow_nan=False), st.fractions(), st.dates(), st.datetimes(), st.times(), st.timedeltas(), st.uuids(),
    st.builds(range, st.integers(-9, 9), st.integers(-9, 9), st.integers(1, 5)), st.just(...),
)
HASHABLE = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(), st.binary(), st.tuples(st.integers(), st.text()),
)
PLAIN = st.recursive(ATOMS, lambda inner: st.one_of(
    st.lists(inner, max_size=5), st.lists(inner, max_size=5).map(tuple), st.dictionaries(HASHABLE, inner, max_size=5),
    st.sets(HASHABLE, max_size=5), st.frozensets(HASHABLE, max_size=5), st.binary().map(bytearray),
    st.lists(inner, max_size=4).map(collections.deque),
), max_leaves=20)


def through_json(value: object) -> Any:
    codec = Values()
    return codec.decode(read_json(write_json(codec.encode(value))))


def shape(value: Any) -> Any:
    """The exact types of a value, all the way down."""
    if isinstance(value, dict):
        return type(value), [(shape(k), shape(v)) for k, v in value.items()]
    if isinstance(value, (list, tuple, collections.deque)):
        return type(value), [shape(item) for item in value]
    return type(value)


@given(PLAIN)
def test_a_value_arrives_equal_and_of_exactly_its_types(value: object) -> None:
    arrived = through_json(value)
    assert arrived == value
    assert shape(arrived) == shape(value)


@pytest.mark.parametrize("text", ["\ud800", "\ud83d\ude00 as two halves", "\udfff\ud800", "\x00", "é\u2028"])
def test_text_arrives_with_its_lone_surrogates(text: str) -> None:
    assert through_json(text) == text


@pytest.mark.parametrize("number", [0.0, -0.0, 5e-324, 1.7976931348623157e308, float("inf"), float("-inf"), 0.1])
def test_a_float_arrives_to_its_last_bit(number: float) -> None:
    arrived = through_json(number)
    assert arrived.hex() == number.hex()


def test_nan_arrives_as_nan() -> None:
    assert math.isnan(through_json(float("nan")))


@pytest.mark.parametrize("value", [
    collections.Counter("abca"), collections.OrderedDict(b=1, a=2), collections.defaultdict(list, x=[1]),
    collections.deque([1, 2], maxlen=2), Decimal("1.50"), Fraction(3, 7), UUID(int=5), slice(1, None, 2), int,
    ValueError, datetime.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=datetime.UTC), datetime.time(1, 2, fold=1),
    datetime.timezone(datetime.timedelta(hours=2), "X"), NotImplemented,
], ids=repr)
def test_standard_values_arrive_as_themselves(value: object) -> None:
    arrived = through_json(value)
    assert type(arrived) is type(value)
    assert arrived is value if value is NotImplemented else arrived == value


def test_an_integer_of_any_size_arrives() -> None:
    for number in (2**63, -(2**63) - 1, 10**5000):
        assert through_json(number) == number


def test_the_order_of_a_dict_arrives() -> None:
    assert list(through_json({"b": 1, 2: "x", (1, "y"): None})) == ["b", 2, (1, "y")]


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[object] = [1]
    loop.append({"again": loop})
    with pytest.raises(WrongType, match="contains itself"):
        Values().encode(loop)


def test_a_value_shared_by_two_places_crosses() -> None:
    part = [1]
    first, second = through_json([part, part])
    assert first == [1]
    assert first is second
    wide: list[object] = [0]
    for _ in range(50):
        wide = [wide, wide]
    assert len(through_json(wide)) == 2


def test_nesting_and_sharing_without_measure_are_refused_at_once() -> None:
    deep: list[object] = []
    for _ in range(100):
        deep = [deep]
    for value in (deep, [0] * (MAX_NODES + 1)):
        with pytest.raises(WrongType, match=r"nested deeper|parts"):
            Values().encode(value)


@pytest.mark.parametrize("raw", [
    ["?"], [], ["f", "x"], ["f", 3], ["i", 5], ["d", 1], ["d", ["l"], 1], ["S", ["l"]], ["b", "é"], ["ty", "no_such"],
    ["rg", "a"], ["D", "many"], ["Q", 1, 0], ["dt", None, 1], ["tz", 3, "x"], ["l", ["?"]], {"a": 1}, [["l"]],
])
def test_what_no_honest_side_sends_ends_the_conversation(raw: object) -> None:
    with pytest.raises(Gone) as caught:
        Values().decode(raw)
    assert caught.value.why == "forged"


def test_a_floating_number_in_the_frame_itself_is_not_json_of_ours() -> None:
    for text in ("[1.5]", "[NaN]", "[1] 2", "", "[1e5]"):
        with pytest.raises(ValueError, match=r"expected|JSON"):
            read_json(text)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, Pipe]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, Pipe(theirs.fileno())


@pytest.mark.parametrize(("data", "why"), [
    (b"", "exited"), (b"\0\0\0\5[1,2", "exited"), (b"\0\0\0\3abc", "forged"),
    ((MAX_FRAME_BYTES + 1).to_bytes(4, "big"), "forged"), (b"\0\0\0\2\xff\xff", "forged"),
    (len(b"[" * 90_000).to_bytes(4, "big") + b"[" * 90_000, "forged"),
])
def test_a_broken_frame_has_a_name(data: bytes, why: str, ends: tuple[socket.socket, Pipe]) -> None:
    ours, pipe = ends
    ours.sendall(data)
    ours.shutdown(socket.SHUT_WR)
    with pytest.raises(Gone) as caught:
        pipe.receive()
    assert caught.value.why == why


def test_waiting_ends_at_the_deadline(ends: tuple[socket.socket, Pipe]) -> None:
    _, pipe = ends
    pipe.deadline = 0.0
    with pytest.raises(Gone) as caught:
        pipe.receive()
    assert caught.value.why == "hung"


def test_a_message_larger_than_a_frame_is_refused_before_it_is_sent(ends: tuple[socket.socket, Pipe]) -> None:
    _, pipe = ends
    with pytest.raises(WrongType, match="too large"):
        pipe.send("x" * (MAX_FRAME_BYTES + 1))


def answered(asked: list[Any], change: Callable[[list[Any]], object]) -> object:
    """What comes back when the other side does `change` to the arguments; both sides by hand."""
    here, there = Values(), Values()
    sent: list[Any] = []
    built: list[Any] = []
    given = there.decode_all(here.encode_all(asked, sent=sent), built=built)
    result = change(given)
    now = there.encode_all(given, known=built, full=True)
    answer = there.encode_all([result], known=built)
    here.decode_all(now, originals=sent)
    return here.decode_all(answer, originals=sent)[0]


def test_changes_in_place_come_back_into_the_same_objects() -> None:
    first, second, mapping = [3], [4], {"a": [1]}
    asked = [[first, second, mapping], mapping]

    def change(given: list[Any]) -> object:
        del given[0][0]
        given[0][0].append(5)
        given[1]["b"] = given[0][0]
        return given[0]

    result = answered(asked, change)
    assert result is asked[0]
    assert first == [3]
    assert second == [4, 5]
    assert asked[0] == [second, mapping]
    assert asked[0][0] is second
    assert mapping == {"a": [1], "b": [4, 5]}
    assert mapping["b"] is second


def test_only_containers_are_looked_at_for_changes() -> None:
    encode = Values().encode
    assert has_mutable(encode([1]))
    assert has_mutable(encode((1, {2: 3})))
    assert not has_mutable(encode((1, "a", (2.5, b"x"))))
