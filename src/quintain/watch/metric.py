"""What a metric is: a name, what it counts in, and labels that cannot multiply without end."""

from __future__ import annotations

import re
from enum import StrEnum

import msgspec

#: What a label's value becomes that is not one of the declared ones, or one too many.
OTHER = "other"
#: How many values an open label keeps, where its declaration does not say.
MOST = 32
#: So many characters of a label's value are kept.
LABEL_CHARACTERS = 80

_NAME = re.compile(r"quintain_[a-z][a-z0-9_]*[a-z0-9]")
_LABEL = re.compile(r"[a-z][a-z0-9_]*")


class Kind(StrEnum):
    COUNTER = "counter"  # only grows; starts at 0 with its process
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Merge(StrEnum):
    """What the gauges of several processes come to together. Counters and histograms are added up."""

    SUM = "sum"
    MOST = "most"
    LEAST = "least"


class Label(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`values` are all that there are; where none are given the label is open and keeps the first `most` that come.
    Whatever else comes is counted under OTHER."""

    name: str
    values: tuple[str, ...] = ()
    most: int = MOST

    def __post_init__(self) -> None:
        if not _LABEL.fullmatch(self.name) or self.name in ("le", "quantile"):
            raise ValueError(f"expected a label of lower-case letters that is not le or quantile, found {self.name!r}")
        if self.most < 1:
            raise ValueError(f"label {self.name}: expected at least 1 value, found {self.most}")


class Metric(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`unit` is what the name ends in (`seconds`, `bytes`, `share` in [0, 1], `reward` in [-1, 1]) or nothing for plain
    counts. `buckets` are upper bounds, rising; one without an end is always added. Raises ValueError for what
    Prometheus would refuse, or a reader would mistake."""

    name: str
    kind: Kind
    help: str
    unit: str = ""
    labels: tuple[Label, ...] = ()
    buckets: tuple[float, ...] = ()
    merge: Merge = Merge.SUM

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"expected a name quintain_… of lower-case letters, found {self.name!r}")
        if (self.kind is Kind.COUNTER) != self.name.endswith("_total"):
            raise ValueError(f"{self.name}: expected counters, and they alone, to end in _total")
        if self.unit and not self.name.removesuffix("_total").endswith(f"_{self.unit}"):
            raise ValueError(f"{self.name}: expected a name that ends in its unit, {self.unit}")
        if (self.kind is Kind.HISTOGRAM) != bool(self.buckets) or list(self.buckets) != sorted(set(self.buckets)):
            raise ValueError(f"{self.name}: expected rising buckets for a histogram only, found {self.buckets}")
        names = [label.name for label in self.labels]
        if len(names) != len(set(names)):
            raise ValueError(f"{self.name}: expected each label once, found {names}")

    @property
    def label_names(self) -> tuple[str, ...]:
        return tuple(label.name for label in self.labels)


def clean_label(value: str) -> str:
    """A value that can stand in one line of any reader: what is not printable becomes U+FFFD, and it is cut."""
    if len(value) > LABEL_CHARACTERS:
        value = value[:LABEL_CHARACTERS - 1] + "…"
    return value if value.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in value)
