"""Questions to a shop's data base: each in words, as a query (the author's answer), and as a rule in Python that knows
nothing of the query and says what has to come out."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import pairwise

import msgspec

Row = tuple[object, ...]
Tables = dict[str, list[tuple[object, ...]]]

COLUMNS = {
    "customers": ("id INTEGER PRIMARY KEY", "name TEXT", "city TEXT", "joined INTEGER"),
    "products": ("id INTEGER PRIMARY KEY", "name TEXT", "category TEXT", "cents INTEGER"),
    "orders": ("id INTEGER PRIMARY KEY", "customer INTEGER", "day INTEGER", "status TEXT"),
    "lines": ("order_id INTEGER", "product INTEGER", "quantity INTEGER"),
}
WORDS = """The data base of a shop (SQLite):
- customers: id, name, city (may be NULL), joined (a day)
- products: id, name, category, cents (price)
- orders: id, customer, day, status ('paid', 'open' or 'cancelled')
- lines: order_id, product, quantity (a product may stand in several lines of one order)
Days are whole numbers. What an order is worth is the sum of quantity * cents over its lines."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """`rule` gives the rows; `ordered` tells that the words ask for an order."""

    name: str
    about: str
    columns: tuple[str, ...]
    query: str
    rule: Callable[[Tables], list[Row]]
    ordered: bool = True


def shop(seed: int, *, size: int) -> Tables:
    """A shop with `size` customers, as the seed has it: ties, customers without an order or a city, empty orders."""
    rng = random.Random(f"shop {seed}")
    cities = ["Ulm", "Bern", "Graz", None]
    customers: list[Row] = [(n, f"{rng.choice('ABCDEFGH')}{n}", rng.choice(cities), rng.randrange(0, 120))
                            for n in rng.sample(range(1, 10 * size + 1), size)]
    products: list[Row] = [(n, f"p{n}", rng.choice(["tea", "tool", "toy"]), rng.choice([100, 150, 250, 999]))
                           for n in rng.sample(range(1, 60), 9)]
    orders: list[Row] = []
    lines: list[Row] = []
    for number in range(1, 3 * size + 1):
        who = rng.choice(customers[: max(1, size * 3 // 4)])
        status = rng.choice(["paid", "paid", "paid", "open", "cancelled"])
        orders.append((number, who[0], rng.randrange(100, 180), status))
        lines += [(number, rng.choice(products[:7])[0], rng.randrange(1, 5)) for _ in range(rng.randrange(0, 4))]
    rng.shuffle(orders)
    return {"customers": customers, "products": products, "orders": orders, "lines": lines}


def _worth(t: Tables) -> dict[object, int]:
    cents = {p[0]: int(str(p[3])) for p in t["products"]}
    worth: Counter[object] = Counter({o[0]: 0 for o in t["orders"]})
    for order, product, quantity in t["lines"]:
        worth[order] += int(str(quantity)) * cents[product]
    return dict(worth)


def _paid(t: Tables) -> dict[object, Row]:
    return {o[0]: o for o in t["orders"] if o[3] == "paid"}


def _revenue_by_category(t: Tables) -> list[Row]:
    kind, paid, total = {p[0]: p for p in t["products"]}, _paid(t), Counter[object]()
    for order, product, quantity in t["lines"]:
        if order in paid:
            total[kind[product][2]] += int(str(quantity)) * int(str(kind[product][3]))
    return sorted(total.items(), key=lambda row: (-int(str(row[1])), str(row[0])))


def _silent(t: Tables) -> list[Row]:
    heard = {o[1] for o in t["orders"]}
    return sorted(((c[0], c[1]) for c in t["customers"] if c[0] not in heard), key=lambda row: int(str(row[0])))


def _best_sellers(t: Tables) -> list[Row]:
    sold, best = Counter[object](), dict[object, Row]()
    for _, product, quantity in t["lines"]:
        sold[product] += int(str(quantity))
    for p in sorted(t["products"], key=lambda p: int(str(p[0]))):
        if sold[p[0]] and (p[2] not in best or sold[p[0]] > int(str(best[p[2]][2]))):
            best[p[2]] = (p[2], p[1], sold[p[0]])
    return [best[c] for c in sorted(best, key=str)]


def _running(t: Tables) -> list[Row]:
    worth, days, total = _worth(t), Counter[int](), 0
    for o in _paid(t).values():
        days[int(str(o[2]))] += worth[o[0]]
    rows: list[Row] = []
    for day in sorted(days):
        total += days[day]
        rows.append((day, days[day], total))
    return rows


def _by_customer(t: Tables) -> dict[object, list[int]]:
    days: dict[object, list[int]] = defaultdict(list)
    for o in t["orders"]:
        days[o[1]].append(int(str(o[2])))
    return {who: sorted(found) for who, found in days.items()}


def _second(t: Tables) -> list[Row]:
    found = [(who, days[1]) for who, days in _by_customer(t).items() if len(days) > 1]
    return sorted(found, key=lambda row: int(str(row[0])))


def _never_bought(t: Tables) -> list[Row]:
    paid = _paid(t)
    sold = {product for order, product, _ in t["lines"] if order in paid}
    return [(p[0], p[1]) for p in t["products"] if p[0] not in sold]


def _median(t: Tables) -> list[Row]:
    worth = _worth(t)
    found = sorted(worth[o] for o in _paid(t))
    if not found:
        return [(None,)]
    half = len(found) // 2
    return [(float(found[half]) if len(found) % 2 else (found[half - 1] + found[half]) / 2,)]


def _city_share(t: Tables) -> list[Row]:
    worth, city, total = _worth(t), {c[0]: c[2] or "unknown" for c in t["customers"]}, Counter[object]()
    for o in _paid(t).values():
        total[city[o[1]]] += worth[o[0]]
    whole = sum(total.values())
    return [(name, 100.0 * cents / whole) for name, cents in total.items() if whole]


def _pairs(t: Tables) -> list[Row]:
    baskets: dict[object, set[int]] = defaultdict(set)
    for order, product, _ in t["lines"]:
        baskets[order].add(int(str(product)))
    seen = Counter((a, b) for basket in baskets.values() for a in basket for b in basket if a < b)
    found = sorted(((-n, a, b) for (a, b), n in seen.items() if n > 1))
    return [(a, b, -n) for n, a, b in found]


def _gaps(t: Tables) -> list[Row]:
    return [(who, max(b - a for a, b in pairwise(days)))
            for who, days in _by_customer(t).items() if len(days) > 1]


def _top_two(t: Tables) -> list[Row]:
    worth, spent = _worth(t), Counter[object]()
    for o in _paid(t).values():
        spent[o[1]] += worth[o[0]]
    rows: list[Row] = []
    by_city: dict[str, list[Row]] = defaultdict(list)
    for c in t["customers"]:
        if c[2] is not None and spent[c[0]] > 0:
            by_city[str(c[2])].append(c)
    for city, found in sorted(by_city.items()):
        levels = sorted({spent[c[0]] for c in found}, reverse=True)[:2]
        rows += [(city, levels.index(spent[c[0]]) + 1, c[0], spent[c[0]])
                 for c in sorted(found, key=lambda c: (-spent[c[0]], int(str(c[0])))) if spent[c[0]] in levels]
    return rows


def _cohorts(t: Tables) -> list[Row]:
    days, cohorts = _by_customer(t), defaultdict[int, list[bool]](list)
    for c in t["customers"]:
        joined = int(str(c[3]))
        cohorts[joined // 30].append(any(joined <= day <= joined + 60 for day in days.get(c[0], [])))
    return [(month, len(found), sum(found)) for month, found in sorted(cohorts.items())]


_WORTH = "WITH worth AS (SELECT o.id, o.customer, o.day, o.status, COALESCE(SUM(l.quantity * p.cents), 0) AS cents " \
    "FROM orders o LEFT JOIN lines l ON l.order_id = o.id LEFT JOIN products p ON p.id = l.product GROUP BY o.id)"

QUESTIONS = (
    Question(name="revenue-by-category", columns=("category", "cents"), rule=_revenue_by_category, about=(
        "For each category of which something was sold in paid orders: what was earned, in cents. The largest "
        "first; equal ones by category."), query="""SELECT p.category AS category, SUM(l.quantity * p.cents) AS cents
FROM lines l JOIN orders o ON o.id = l.order_id JOIN products p ON p.id = l.product
WHERE o.status = 'paid' GROUP BY p.category ORDER BY cents DESC, category"""),
    Question(name="silent-customers", columns=("id", "name"), rule=_silent, about=(
        "Customers without any order, whatever its status, by id."), query="""SELECT id, name FROM customers c
WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id) ORDER BY id"""),
    Question(name="best-sellers", columns=("category", "name", "pieces"), rule=_best_sellers, about=(
        "For each category of which anything was ordered (in orders of any status): the product with the most "
        "pieces ordered, and how many; of equal ones that with the smallest id. By category."), query="""
WITH sold AS (SELECT p.id, p.category, p.name, SUM(l.quantity) AS pieces
FROM lines l JOIN products p ON p.id = l.product GROUP BY p.id),
ranked AS (SELECT *, ROW_NUMBER() OVER (PARTITION BY category ORDER BY pieces DESC, id) AS place FROM sold)
SELECT category, name, pieces FROM ranked WHERE place = 1 ORDER BY category"""),
    Question(name="running-total", columns=("day", "cents", "total"), rule=_running, about=(
        "For each day with a paid order: what the paid orders of the day are worth in cents (an order without "
        "lines is worth 0), and the total up to and with it. By day."), query=_WORTH + """
SELECT day, SUM(cents) AS cents, SUM(SUM(cents)) OVER (ORDER BY day) AS total FROM worth WHERE status = 'paid'
GROUP BY day ORDER BY day"""),
    Question(name="second-orders", columns=("customer", "day"), rule=_second, about=(
        "For each customer with at least two orders of any status: the day of the second. Orders of one day count "
        "each. By customer."), query="""SELECT customer, day FROM (SELECT customer, day,
ROW_NUMBER() OVER (PARTITION BY customer ORDER BY day) AS n FROM orders) WHERE n = 2 ORDER BY customer"""),
    Question(name="never-paid-for", columns=("id", "name"), rule=_never_bought, ordered=False, about=(
        "Products that stand in no paid order. Any order of rows will do."), query="""SELECT id, name FROM products
WHERE id NOT IN (SELECT l.product FROM lines l JOIN orders o ON o.id = l.order_id WHERE o.status = 'paid')"""),
    Question(name="median-order", columns=("cents",), rule=_median, about=(
        "The median of what paid orders are worth in cents (without lines: 0), the mean of the two in the middle "
        "where their number is even; NULL where there is none. One row."), query=_WORTH + """,
ranked AS (SELECT cents, ROW_NUMBER() OVER (ORDER BY cents) AS n, COUNT(*) OVER () AS many FROM worth
WHERE status = 'paid')
SELECT AVG(cents) AS cents FROM ranked WHERE n IN ((many + 1) / 2, (many + 2) / 2)"""),
    Question(name="city-share", columns=("city", "percent"), rule=_city_share, ordered=False, about=(
        "For each city with a paid order: which part of the worth of all paid orders, in percent, is that of its "
        "customers. No city is 'unknown'. No row at all where paid orders are worth nothing. Any order of rows."),
        query=_WORTH + """
SELECT COALESCE(c.city, 'unknown') AS city, 100.0 * SUM(w.cents) / (SELECT SUM(cents) FROM worth WHERE status = 'paid')
AS percent FROM worth w JOIN customers c ON c.id = w.customer WHERE w.status = 'paid' GROUP BY 1
HAVING (SELECT SUM(cents) FROM worth WHERE status = 'paid') > 0"""),
    Question(name="bought-together", columns=("a", "b", "orders"), rule=_pairs, about=(
        "Pairs of products, a the smaller id, that stand together in at least two orders of any status, and in "
        "how many. Most orders first, then by a, then by b."),
        query="""WITH basket AS (SELECT DISTINCT order_id, product FROM lines)
SELECT x.product AS a, y.product AS b, COUNT(*) AS orders FROM basket x JOIN basket y ON x.order_id = y.order_id
AND x.product < y.product GROUP BY a, b HAVING COUNT(*) > 1 ORDER BY orders DESC, a, b"""),
    Question(name="longest-gaps", columns=("customer", "days"), rule=_gaps, ordered=False, about=(
        "For each customer with at least two orders of any status: the most days between an order and the next "
        "one. Any order of rows."), query="""SELECT customer, MAX(day - before) AS days FROM (SELECT customer, day,
LAG(day) OVER (PARTITION BY customer ORDER BY day) AS before
FROM orders) WHERE before IS NOT NULL GROUP BY customer"""),
    Question(name="top-two-of-cities", columns=("city", "place", "customer", "cents"), rule=_top_two, about=(
        "For each city (not NULL) the customers of the two highest levels of spending by paid orders, in cents "
        "and more than 0; those who spent the same share a place (1 or 2). By city, place, customer."),
        query=_WORTH + """,
spent AS (SELECT c.city, c.id AS customer, SUM(w.cents) AS cents FROM worth w JOIN customers c ON c.id = w.customer
WHERE w.status = 'paid' AND c.city IS NOT NULL GROUP BY c.id HAVING SUM(w.cents) > 0),
ranked AS (SELECT city, DENSE_RANK() OVER (PARTITION BY city ORDER BY cents DESC) AS place, customer, cents FROM spent)
SELECT city, place, customer, cents FROM ranked WHERE place <= 2 ORDER BY city, place, customer"""),
    Question(name="cohorts", columns=("month", "customers", "active"), rule=_cohorts, about=(
        "Customers by the month in which they joined (the day divided by 30, whole numbers): how many, and how "
        "many of them ordered (any status) on that day or within 60 days after it. By month."), query="""
SELECT joined / 30 AS month, COUNT(*) AS customers, SUM(EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id
AND o.day BETWEEN c.joined AND c.joined + 60)) AS active FROM customers c GROUP BY month ORDER BY month"""),
)
