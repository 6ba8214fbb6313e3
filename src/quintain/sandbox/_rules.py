"""Which hosts and which addresses a sandbox may reach. Pure; the proxy's own interpreter loads it too: stdlib only.

A name must be listed to be asked for, and what it resolves to must be a public address or be listed as an address: a
name that an attacker points at the metadata service or at our own loopback (DNS rebinding) is refused.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import NamedTuple

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Range = ipaddress.IPv4Network | ipaddress.IPv6Network

#: Public by number, and yet doors to a cloud's own control: Azure's wire server, Oracle's metadata service.
CONTROL_ADDRESSES = frozenset({ipaddress.ip_address("168.63.129.16"), ipaddress.ip_address("192.0.0.192")})
#: IPv6 ranges that carry an IPv4 address within: what counts is the address inside.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")


class Rule(NamedTuple):
    """One entry of an allow list. Exactly one of `host`, `suffix` and `addresses` is set; `port` None means any."""

    host: str | None = None
    suffix: str | None = None
    addresses: Range | None = None
    port: int | None = None


def parse_rule(text: str) -> Rule:
    """'pypi.org:443', '*.python.org', '10.1.2.3:8080', '10.0.0.0/8', '[::1]:80'. Raises ValueError."""
    host, port = _split_port(text.strip(), text)
    if not host or host == "*":
        raise ValueError(f"expected 'host', '*.suffix', an address or a range, with ':port' or without, found {text!r}")
    try:
        return Rule(addresses=ipaddress.ip_network(host, strict=False), port=port)
    except ValueError:
        if "/" in host or ":" in host:
            raise ValueError(f"expected an address or a range, found {text!r}") from None
    if host.startswith("*."):
        return Rule(suffix="." + canonical(host[2:]), port=port)
    return Rule(host=canonical(host), port=port)


def _split_port(text: str, whole: str) -> tuple[str, int | None]:
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise ValueError(f"expected '[address]' or '[address]:port', found {whole!r}")
        return host, _port(rest[1:], whole) if rest else None
    if text.count(":") == 1:
        host, _, port = text.partition(":")
        return host, _port(port, whole)
    return text, None


def _port(text: str, whole: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65536):
        raise ValueError(f"expected a port from 1 to 65535, found {text!r} in {whole!r}")
    return int(text)


def canonical(host: str) -> str:
    """A host name as it is compared: lower case, ASCII, no dot at its end. Raises ValueError for what is no name."""
    try:
        name = host.rstrip(".") if host.isascii() else host.rstrip(".").encode("idna").decode("ascii")
    except UnicodeError:
        raise ValueError(f"expected a host name, found {host!r}") from None
    name = name.lower()
    if len(name) > 253 or not _NAME.fullmatch(name):
        raise ValueError(f"expected a host name, found {host!r}")
    return name


def literal(host: str) -> Address | None:
    """The address, if the host is one. Forms that only some resolvers read (017700000001, 127.1) are not."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def is_public(address: Address) -> bool:
    """Whether an address belongs to the open Internet and to nobody's inside."""
    if isinstance(address, ipaddress.IPv6Address):
        within = address.ipv4_mapped or address.sixtofour
        if within is None and address.teredo is not None:
            within = address.teredo[1]
        if within is None and address in _NAT64:
            within = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if within is not None:
            return is_public(within)
    if address.is_multicast or address.is_reserved or address in CONTROL_ADDRESSES:
        return False
    return address.is_global


class Policy:
    """What one sandbox may reach: its rules, and whether every public host is allowed (`full`)."""

    def __init__(self, rules: Iterable[Rule], *, full: bool) -> None:
        self._rules = tuple(rules)
        self._full = full

    def admits_name(self, host: str, port: int) -> bool:
        """Whether a name, as `canonical` gives it, may be asked for."""
        return self._full or any(
            (rule.port is None or rule.port == port)
            and (rule.host == host or (rule.suffix is not None and host.endswith(rule.suffix)))
            for rule in self._rules if rule.addresses is None
        )

    def admits_address(self, address: Address, port: int, *, named: bool) -> bool:
        """Whether it may be connected to; `named` tells that an admitted name has led there."""
        return self.lists(address, port) or ((self._full or named) and is_public(address))

    def lists(self, address: Address, port: int) -> bool:
        """Whether the address itself is in the list."""
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        return any(
            rule.addresses is not None and (rule.port is None or rule.port == port)
            and (address in rule.addresses or (mapped is not None and mapped in rule.addresses))
            for rule in self._rules
        )
