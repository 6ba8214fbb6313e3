"""Work on files of data: each in words, as a function (the author's answer), and as a maker of files that knows, mostly
because it made them so, what has to come out."""

from __future__ import annotations

import random
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from datetime import date, timedelta

import msgspec

Table = list[list[object]]
Made = tuple[dict[str, str], Table]


class Chore(msgspec.Struct, frozen=True, kw_only=True):
    """`make` gives the files of an instance (name → text) and the table that has to come out, its header first."""

    name: str
    about: str
    make: Callable[[random.Random], Made]
    answer: str
    ordered: bool = True
    tolerance: float = 1e-6


def _csv(rows: Sequence[Sequence[object]]) -> str:
    return "".join(",".join("" if cell is None else str(cell) for cell in row) + "\n" for row in rows)


def _contacts(rng: random.Random) -> Made:
    people = [f"{rng.choice('abcdef')}{n}@x.org" for n in range(rng.randrange(3, 9))]
    rows, last = list[list[object]](), dict[str, tuple[int, str]]()
    for number in rng.sample(range(1000), rng.randrange(8, 30)):
        mail, name = rng.choice(people), f"N{rng.randrange(50)}"
        if mail not in last or number > last[mail][0]:
            last[mail] = (number, name)
        rows.append([rng.choice([mail, mail.upper(), f"  {mail} ", mail.title()]), name, number])
    expected = [["email", "name"], *([mail, last[mail][1]] for mail in sorted(last))]
    return {"contacts.csv": _csv([["email", "name", "updated"], *rows])}, [list(row) for row in expected]


def _dates(rng: random.Random) -> Made:
    lines: list[list[object]] = []
    table: Table = [["id", "date"]]
    for number in range(rng.randrange(10, 30)):
        day = date(2000, 1, 1) + timedelta(days=rng.randrange(9000))
        shape = rng.choice(["%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%d %B %Y", "bad"])
        bad = rng.choice(["31.02.2011", "13/13/2004", "soon", "", "2001-02-29"])
        text = bad if shape == "bad" else day.strftime(shape)
        table.append([number, None if shape == "bad" else day.isoformat()])
        lines.append([number, text])
    return {"dates.csv": _csv([["id", "date"], *lines])}, table


def _money(rng: random.Random) -> Made:
    lines: list[str] = []
    table: Table = [["id", "amount"]]
    for number in range(rng.randrange(8, 25)):
        cents = rng.choice([rng.randrange(0, 99), rng.randrange(100, 99_999), rng.randrange(10**5, 10**9)])
        english = f"{cents // 100:,}.{cents % 100:02}"
        german = english.replace(",", " ").replace(".", ",").replace(" ", ".") + " €"
        text, sign = rng.choice([(f"${english}", 1), (german, 1), (f"(${english})", -1), (f"-{german}", -1)])
        lines.append(f"{number};{text}")
        table.append([number, sign * cents / 100])
    return {"money.txt": "id;amount\n" + "\n".join(lines) + "\n"}, table


def _gaps(rng: random.Random) -> Made:
    size = rng.randrange(5, 30)
    values: list[float | None] = [None if rng.random() < 0.4 else float(rng.randrange(-50, 50)) for _ in range(size)]
    known = [n for n, value in enumerate(values) if value is not None]
    table: Table = [["minute", "value"]]
    for n, value in enumerate(values):
        left = [k for k in known if k <= n]
        right = [k for k in known if k >= n]
        if value is None and left and right:
            a, b = values[left[-1]], values[right[0]]
            assert a is not None and b is not None
            value = a + (b - a) * (n - left[-1]) / (right[0] - left[-1])
        table.append([n, value])
    return {"sensor.csv": _csv([["minute", "value"], *enumerate(values)])}, table


def _as_of(rng: random.Random) -> Made:
    rates = {(rng.choice(["EUR", "CHF"]), day): rng.randrange(80, 130) / 100 for day in rng.sample(range(100), 12)}
    sales = [(n, rng.randrange(100), rng.choice(["EUR", "CHF", "SEK"]), rng.randrange(1, 500)) for n in range(15)]
    table: Table = [["id", "usd"]]
    for n, day, currency, amount in sales:
        before = [(d, rate) for (c, d), rate in rates.items() if c == currency and d <= day]
        table.append([n, amount * max(before)[1] if before else None])
    shown = [[c, d, rate] for (c, d), rate in rates.items()]
    return {"rates.csv": _csv([["currency", "day", "rate"], *shown]),
            "sales.csv": _csv([["id", "day", "currency", "amount"], *sales])}, table


def _pivot(rng: random.Random) -> Made:
    people, kinds = [f"w{n}" for n in range(rng.randrange(2, 6))], rng.sample(["art", "box", "cup", "dog"], 3)
    rows = [(rng.choice(people), rng.choice(kinds), rng.randrange(1, 9)) for _ in range(rng.randrange(5, 25))]
    total = Counter[tuple[str, str]]()
    for who, kind, hours in rows:
        total[who, kind] += hours
    columns = sorted({kind for _, kind, _ in rows})
    table: Table = [["person", *columns]]
    table += [[who, *(total[who, kind] for kind in columns)] for who in sorted({row[0] for row in rows})]
    return {"hours.csv": _csv([["person", "kind", "hours"], *rows])}, table


def _unpivot(rng: random.Random) -> Made:
    months = [f"m{n}" for n in range(1, rng.randrange(3, 8))]
    table: Table = [["site", "month", "rain"]]
    rows: list[list[object]] = []
    for site in rng.sample("ABCDEFG", rng.randrange(1, 6)):
        rain = [rng.choice([None, "n/a", rng.randrange(0, 90)]) for _ in months]
        rows.append([site, *rain])
        table += [[site, month, value] for month, value in zip(months, rain, strict=True) if isinstance(value, int)]
    return {"rain.csv": _csv([["site", *months], *rows])}, table


def _outliers(rng: random.Random) -> Made:
    values = [rng.randrange(96, 105) for _ in range(rng.randrange(4, 16))]
    values += [100 + rng.choice([-1, 1]) * rng.randrange(5, 20) for _ in range(rng.randrange(1, 7))]
    rng.shuffle(values)
    middle = statistics.median(values)
    spread = statistics.median(abs(v - middle) for v in values)
    table: Table = [["row", "value"]]
    table += [[n, v] for n, v in enumerate(values) if abs(v - middle) > 5 * spread]
    return {"values.csv": _csv([["value"], *([v] for v in values)])}, table


def _sessions(rng: random.Random) -> Made:
    events: list[list[object]] = []
    table: Table = [["user", "start", "end", "events"]]
    for user in rng.sample(["ann", "bob", "cat", "dan"], rng.randrange(1, 5)):
        now = rng.randrange(0, 500)
        for _ in range(rng.randrange(1, 5)):
            start, count = now, rng.randrange(1, 6)
            events.append([user, now])
            for _ in range(count - 1):
                now += rng.choice([0, 1, 600, 1800])
                events.append([user, now])
            table.append([user, start, now, count])
            now += rng.choice([1801, 5000])
    table[1:] = sorted(table[1:], key=lambda row: (str(row[0]), int(str(row[1]))))
    rng.shuffle(events)
    return {"events.csv": _csv([["user", "second"], *events])}, table


def _scaled(rng: random.Random) -> Made:
    rows = [[rng.randrange(0, 100), rng.uniform(-1, 1), 7] for _ in range(rng.randrange(3, 20))]
    scales = [(statistics.fmean(column), statistics.pstdev(column)) for column in zip(*rows, strict=True)]
    table: Table = [["a", "b", "c"]]
    table += [[(v - mean) / spread if spread else 0.0 for v, (mean, spread) in zip(row, scales, strict=True)]
              for row in rows]
    return {"points.csv": _csv([["a", "b", "c"], *rows])}, table


def _line(rng: random.Random) -> Made:
    slope, start = rng.uniform(-3, 3), rng.uniform(-9, 9)
    points = [(x, slope * x + start + rng.gauss(0, 2)) for x in rng.sample(range(100), rng.randrange(5, 30))]
    xs, ys = [float(x) for x, _ in points], [y for _, y in points]
    fit = statistics.linear_regression(xs, ys)
    return ({"train.csv": _csv([["x", "y"], *points])},
            [["slope", "intercept", "r2"], [fit.slope, fit.intercept, statistics.correlation(xs, ys) ** 2]])


def _classes(rng: random.Random) -> Made:
    centres = {name: (rng.uniform(-9, 9), rng.uniform(-9, 9)) for name in "uvw"}
    seen: list[tuple[float, float, str]] = []
    for name, (x, y) in centres.items():
        seen += [(x + rng.gauss(0, 3), y + rng.gauss(0, 3), name) for _ in range(rng.randrange(4, 12))]
    rng.shuffle(seen)
    asked = [(n, rng.uniform(-12, 12), rng.uniform(-12, 12)) for n in range(25)]
    middles = {name: (statistics.fmean(p[0] for p in seen if p[2] == name),
                      statistics.fmean(p[1] for p in seen if p[2] == name)) for name in centres}
    table: Table = [["id", "class"]]
    table += [[n, min(middles, key=lambda c: (x - middles[c][0]) ** 2 + (y - middles[c][1]) ** 2)] for n, x, y in asked]
    return {"train.csv": _csv([["x", "y", "class"], *seen]), "new.csv": _csv([["id", "x", "y"], *asked])}, table


def _forecast(rng: random.Random) -> Made:
    season = [rng.randrange(-20, 20) for _ in range(7)]
    weeks = rng.randrange(3, 9)
    sold = [100 + season[day % 7] + rng.randrange(-5, 6) for day in range(7 * weeks)]
    table: Table = [["day", "sold"]]
    table += [[7 * weeks + n, statistics.fmean(sold[n::7])] for n in range(7)]
    return {"sales.csv": _csv([["day", "sold"], *enumerate(sold)])}, table


def _log(rng: random.Random) -> Made:
    lines: list[str] = []
    found: dict[tuple[str, int], int] = defaultdict(int)
    for _ in range(rng.randrange(10, 60)):
        hour, service = rng.randrange(0, 24), rng.choice(["api", "db-1", "web.eu"])
        level = rng.choice(["INFO", "ERROR", "WARN"])
        said = rng.choice(["done", "ERROR in text only", "timeout [x] after 3s", "retry"])
        lines.append(f"2026-01-02T{hour:02}:{rng.randrange(60):02}:00Z [{service}] {level}: {said}")
        if level == "ERROR":
            found[service, hour] += 1
        if rng.random() < 0.1:
            lines.append("    at frame 0x1 ERROR: of a trace")
    table: Table = [["service", "hour", "errors"], *([s, h, n] for (s, h), n in sorted(found.items()))]
    return {"app.log": "\n".join(lines) + "\n"}, table


_READ = "import csv, io\n\n\ndef rows(text):\n    return list(csv.DictReader(io.StringIO(text)))\n\n\n"

CHORES = (
    Chore(name="clean-contacts", make=_contacts, about=(
        "`contacts.csv` has email, name, updated (a number). E-mails differ in case and blanks around them. Give "
        "email (in lower case, without the blanks) and name of the row with the largest `updated` of each, by "
        "email."), answer=_READ + '''\
def answer(files):
    latest = {}
    for row in sorted(rows(files["contacts.csv"]), key=lambda r: int(r["updated"])):
        latest[row["email"].strip().lower()] = row["name"]
    return [["email", "name"]] + [[mail, latest[mail]] for mail in sorted(latest)]
'''),
    Chore(name="read-dates", make=_dates, about=(
        "`dates.csv` has id and date, written as 2004-12-31, 31.12.2004, 12/31/2004 (month first) or 31 December "
        "2004. Give id (a whole number) and date as YYYY-MM-DD, or None for what is no date of these, in the "
        "order of the file."),
        answer="from datetime import datetime\n" + _READ + '''\
def read(text):
    for shape in ("%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%d %B %Y"):
        try:
            return datetime.strptime(text, shape).date().isoformat()
        except ValueError:
            pass
    return None


def answer(files):
    return [["id", "date"]] + [[int(row["id"]), read(row["date"])] for row in rows(files["dates.csv"])]
'''),
    Chore(name="read-money", make=_money, about=(
        "`money.txt` has lines `id;amount` below a header. Amounts are written as $1,234.50 or 1.234,50 €; a "
        "minus before them or brackets around them make them negative. Give id (a whole number) and amount (a "
        "float), in the order of the file."),
        answer='''\
def amount(text):
    sign = -1 if text.startswith(("-", "(")) else 1
    text = text.strip("-()")
    if text.endswith("€"):
        text = text.strip(" €").replace(".", "").replace(",", ".")
    return sign * float(text.replace("$", "").replace(",", ""))


def answer(files):
    lines = files["money.txt"].splitlines()[1:]
    return [["id", "amount"]] + [[int(a), amount(b)] for a, b in (line.split(";") for line in lines)]
'''),
    Chore(name="fill-gaps", make=_gaps, about=(
        "`sensor.csv` has minute (0, 1, 2 …) and value, which is empty where it is missing. Give minute and value "
        "(floats), missing ones by the straight line between the nearest known before and after; None where there "
        "is none on one side."),
        answer=_READ + '''\
def answer(files):
    values = [float(r["value"]) if r["value"] else None for r in rows(files["sensor.csv"])]
    known = [n for n, v in enumerate(values) if v is not None]
    for a, b in zip(known, known[1:]):
        for n in range(a + 1, b):
            values[n] = values[a] * (b - n) / (b - a) + values[b] * (n - a) / (b - a)
    return [["minute", "value"]] + [[n, v] for n, v in enumerate(values)]
'''),
    Chore(name="rates-as-of", make=_as_of, about=(
        "`sales.csv` has id, day, currency, amount; `rates.csv` has currency, day, rate. Give id and usd: amount "
        "times the rate of the currency on the latest day that is not after the sale's; None without one. In the "
        "order of sales.csv."),
        answer="from bisect import bisect_right\n" + _READ + '''\
def answer(files):
    known = {}
    for r in sorted(rows(files["rates.csv"]), key=lambda r: int(r["day"])):
        known.setdefault(r["currency"], []).append((int(r["day"]), float(r["rate"])))
    table = [["id", "usd"]]
    for r in rows(files["sales.csv"]):
        rates = known.get(r["currency"], [])
        at = bisect_right(rates, (int(r["day"]), float("inf")))
        table.append([int(r["id"]), float(r["amount"]) * rates[at - 1][1] if at else None])
    return table
'''),
    Chore(name="hours-by-kind", make=_pivot, about=(
        "`hours.csv` has person, kind, hours. Give one row a person (sorted), and one column a kind (sorted, "
        "after `person`) with the sum of hours as a whole number, 0 where there is none."), answer=_READ + '''\
def answer(files):
    found = rows(files["hours.csv"])
    kinds = sorted({r["kind"] for r in found})
    table = [["person"] + kinds]
    for who in sorted({r["person"] for r in found}):
        own = [r for r in found if r["person"] == who]
        table.append([who] + [sum(int(r["hours"]) for r in own if r["kind"] == k) for k in kinds])
    return table
'''),
    Chore(name="rain-in-rows", make=_unpivot, about=(
        "`rain.csv` has a column `site` and one for each month. Give site, month, rain (a whole number), one row "
        "for each cell that is neither empty nor n/a: in the order of the file's rows, then of its columns."),
        answer=_READ + '''\
def answer(files):
    table = [["site", "month", "rain"]]
    for r in rows(files["rain.csv"]):
        site = r.pop("site")
        table += [[site, month, int(v)] for month, v in r.items() if v not in ("", "n/a")]
    return table
'''),
    Chore(name="far-values", make=_outliers, about=(
        "`values.csv` has one column `value`. Let m be the median and s the median of all distances from m. Give "
        "row (counted from 0) and value (whole numbers) of each value further from m than 5 times s, in the order "
        "of the file."),
        answer=_READ + '''\
def median(xs):
    xs, n = sorted(xs), len(xs)
    return (xs[(n - 1) // 2] + xs[n // 2]) / 2


def answer(files):
    values = [int(r["value"]) for r in rows(files["values.csv"])]
    m = median(values)
    s = median([abs(v - m) for v in values])
    return [["row", "value"]] + [[n, v] for n, v in enumerate(values) if abs(v - m) > 5 * s]
'''),
    Chore(name="sessions", make=_sessions, about=(
        "`events.csv` has user and second, in no order. Events of a user belong to one session as long as no more "
        "than 1800 seconds lie between one and the next. Give user, start, end, events (how many), by user, then "
        "start."), answer=_READ + '''\
def answer(files):
    found = sorted((r["user"], int(r["second"])) for r in rows(files["events.csv"]))
    sessions = []
    for user, second in found:
        if sessions and sessions[-1][0] == user and second - sessions[-1][2] <= 1800:
            sessions[-1][2] = second
            sessions[-1][3] += 1
        else:
            sessions.append([user, second, second, 1])
    return [["user", "start", "end", "events"]] + sessions
'''),
    Chore(name="standard-scores", make=_scaled, about=(
        "`points.csv` has the columns a, b, c. Give the same table with each value less its column's mean and "
        "divided by its column's population standard deviation; 0.0 where that is 0."), answer=_READ + '''\
def answer(files):
    found = [[float(r[c]) for c in "abc"] for r in rows(files["points.csv"])]
    n, columns = len(found), list(zip(*found))
    means = [sum(c) / n for c in columns]
    spread = [(sum((v - m) ** 2 for v in c) / n) ** 0.5 for c, m in zip(columns, means)]
    scores = [[(v - m) / s if s > 1e-12 else 0.0 for v, m, s in zip(row, means, spread)] for row in found]
    return [["a", "b", "c"]] + scores
'''),
    Chore(name="fit-a-line", make=_line, about=(
        "`train.csv` has x and y. Fit y = slope * x + intercept by least squares; give slope, intercept and r2 "
        "(the coefficient of determination) in one row."), answer=_READ + '''\
def answer(files):
    points = [(float(r["x"]), float(r["y"])) for r in rows(files["train.csv"])]
    mx, my = (sum(p[n] for p in points) / len(points) for n in (0, 1))
    slope = sum((x - mx) * (y - my) for x, y in points) / sum((x - mx) ** 2 for x, _ in points)
    start = my - slope * mx
    left = sum((y - slope * x - start) ** 2 for x, y in points)
    return [["slope", "intercept", "r2"], [slope, start, 1 - left / sum((y - my) ** 2 for _, y in points)]]
'''),
    Chore(name="nearest-mean", make=_classes, about=(
        "`train.csv` has x, y, class. Each class is its mean point. Give for each row of `new.csv` (id, x, y) id "
        "and the class whose mean is nearest, in the order of the file."), answer=_READ + '''\
def answer(files):
    groups = {}
    for r in rows(files["train.csv"]):
        groups.setdefault(r["class"], []).append(complex(float(r["x"]), float(r["y"])))
    means = {name: sum(points) / len(points) for name, points in groups.items()}
    table = [["id", "class"]]
    for r in rows(files["new.csv"]):
        point = complex(float(r["x"]), float(r["y"]))
        table.append([int(r["id"]), min(means, key=lambda name: abs(means[name] - point))])
    return table
'''),
    Chore(name="next-week", make=_forecast, about=(
        "`sales.csv` has day (0, 1, 2 … for some whole weeks) and sold. Forecast the next seven days: each by the "
        "mean of all earlier ones of the same weekday (day modulo 7). Give day and sold (a float)."),
        answer=_READ + '''\
def answer(files):
    sold = [float(r["sold"]) for r in rows(files["sales.csv"])]
    table = [["day", "sold"]]
    for n in range(7):
        same = [v for day, v in enumerate(sold) if day % 7 == n]
        table.append([len(sold) + n, sum(same) / len(same)])
    return table
'''),
    Chore(name="errors-by-hour", make=_log, ordered=False, about=(
        "`app.log` has lines such as `2026-01-02T13:05:00Z [api] ERROR: text`, and indented lines that belong to "
        "the one before. Give service, hour (a whole number), errors: how many lines of the level ERROR each "
        "service has in each hour, where it has any. Any order of rows."), answer='''\
import re
from collections import Counter


def answer(files):
    found = re.findall(r"^\\S+T(\\d\\d):\\S+ \\[(.+?)\\] ERROR: ", files["app.log"], re.M)
    counted = Counter((service, int(hour)) for hour, service in found)
    return [["service", "hour", "errors"]] + [[s, h, n] for (s, h), n in counted.items()]
'''),
)
