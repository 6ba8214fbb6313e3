"""A sandbox reaches what its list names and nothing else, whatever a name resolves to; what is refused is counted."""

from __future__ import annotations

import asyncio
import http.server
import ipaddress
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.sandbox import NativeBackend
from quintain.sandbox._proxy import parse_head
from quintain.sandbox._rules import Policy, is_public, parse_rule
from quintain.sdk import Sandbox
from quintain.types import FaultKind, HouseError, Network


class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.answer(f"hello {self.path} {self.headers['Host']} {self.headers['Proxy-Authorization']}".encode())

    def do_POST(self) -> None:
        self.answer(self.rfile.read(int(self.headers["Content-Length"])))

    def answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def server() -> Iterator[int]:
    """A server on the loopback of the host; yields its port."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hello) as listening:
        thread = threading.Thread(target=listening.serve_forever, daemon=True)
        thread.start()
        try:
            yield listening.server_address[1]
        finally:
            listening.shutdown()
            thread.join()


def in_sandbox(play: Callable[[Sandbox], Awaitable[None]], network: Network, *allow: str) -> None:
    async def main() -> None:
        async with asyncio.timeout(90), await Sandbox.create(network=network, allow=allow) as sandbox:
            await play(sandbox)

    asyncio.run(main())


FETCH = """
import sys, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": "http://127.0.0.1:3128"}))
try:
    with opener.open(sys.argv[1], data=sys.stdin.buffer.read() or None, timeout=20) as answer:
        sys.stdout.buffer.write(answer.read())
except OSError as error:
    print(getattr(error, "code", ""), getattr(error, "read", lambda: b"")().decode().strip())
"""


async def fetch(sandbox: Sandbox, url: str, body: str = "") -> tuple[str, dict[str, int]]:
    everything = {"no_proxy": "", "NO_PROXY": ""}  # our server is on a loopback, which programs ask directly by default
    result = await sandbox.commands.run(["python3", "-c", FETCH, url], stdin=body, timeout=30, env=everything)
    return result.stdout.strip() or result.stderr, result.denials


def test_a_listed_address_is_reached_through_the_proxy_and_only_so() -> None:
    with server() as port:
        async def play(sandbox: Sandbox) -> None:
            text, denials = await fetch(sandbox, f"http://127.0.0.1:{port}/a?b=c")
            assert (text, denials) == (f"hello /a?b=c 127.0.0.1:{port} None", {})
            assert (await fetch(sandbox, f"http://127.0.0.1:{port}/", "x" * 200_000))[0] == "x" * 200_000
            direct = await sandbox.commands.run(f"exec 3<>/dev/tcp/127.0.0.1/{port}")
            assert not direct.ok

        in_sandbox(play, Network.ALLOW_LIST, f"127.0.0.1:{port}")


def test_connect_makes_a_tunnel() -> None:
    with server() as port:
        async def play(sandbox: Sandbox) -> None:
            talk = (f"exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT 127.0.0.1:{port} HTTP/1.1\\r\\n\\r\\n' >&3; "
                    "read -r line <&3; echo \"$line\"; read -r line <&3; "
                    "printf 'GET /tunnel HTTP/1.0\\r\\nHost: me\\r\\n\\r\\n' >&3; cat <&3")
            result = await sandbox.commands.run(talk)
            assert result.stdout.startswith("HTTP/1.1 200 Connection established")
            assert result.stdout.endswith("hello /tunnel me None")

        in_sandbox(play, Network.ALLOW_LIST, f"127.0.0.1:{port}")


def test_what_is_not_listed_is_refused_and_counted() -> None:
    with server() as port:
        async def play(sandbox: Sandbox) -> None:
            for _ in range(2):
                text, denials = await fetch(sandbox, "http://192.0.2.1/")
                assert text == "403 192.0.2.1:80: the address is not allowed"
                assert denials == {"192.0.2.1:80": 1}
            text, denials = await fetch(sandbox, "http://elsewhere.example/")
            assert text == "403 elsewhere.example:80: the host is not on the allow list"
            assert (await fetch(sandbox, f"http://127.0.0.1:{port}/"))[0].startswith("403")  # another port than listed
            assert await sandbox.denied() == {
                "192.0.2.1:80": 2, "elsewhere.example:80": 1, f"127.0.0.1:{port}": 1,
            }
            assert (await sandbox.commands.run("true")).denials == {}

        in_sandbox(play, Network.ALLOW_LIST, "127.0.0.1:1")


def test_a_listed_name_that_leads_to_our_loopback_is_refused() -> None:
    with server() as port:
        async def refused(sandbox: Sandbox) -> None:
            text, denials = await fetch(sandbox, f"http://localhost:{port}/")
            assert text == f"403 localhost:{port}: it leads to a private or otherwise closed address"
            assert denials == {f"localhost:{port}": 1}

        async def reached(sandbox: Sandbox) -> None:
            assert (await fetch(sandbox, f"http://localhost:{port}/"))[0].startswith("hello")

        in_sandbox(refused, Network.ALLOW_LIST, "localhost")
        in_sandbox(refused, Network.FULL)
        in_sandbox(reached, Network.ALLOW_LIST, "localhost", "127.0.0.0/8", "[::1]")


def test_full_is_not_the_hosts_inside() -> None:
    with server() as port:
        async def play(sandbox: Sandbox) -> None:
            for target in (f"127.0.0.1:{port}", "169.254.169.254", "[fd00:ec2::254]", "[::ffff:127.0.0.1]", "10.0.0.1",
                           "0.0.0.0", "168.63.129.16"):
                assert (await fetch(sandbox, f"http://{target}/"))[0].startswith("403"), target

        in_sandbox(play, Network.FULL)


def test_without_a_network_there_is_no_proxy_and_no_name() -> None:
    async def play(sandbox: Sandbox) -> None:
        script = "exec 3<>/dev/tcp/127.0.0.1/3128 || env | grep -i proxy || getent hosts example.com || echo nothing"
        assert (await sandbox.commands.run(script)).stdout == "nothing\n"
        assert await sandbox.denied() == {}

    in_sandbox(play, Network.NONE)


def test_a_sandbox_with_a_network_has_still_no_interface_and_no_dns() -> None:
    async def play(sandbox: Sandbox) -> None:
        names = await sandbox.commands.run("cat /proc/net/dev | tail -n +3 | cut -d: -f1; getent hosts example.com")
        assert names.stdout.split() == ["lo"]
        assert (await sandbox.commands.run("echo $http_proxy $HTTPS_PROXY")).stdout == (
            "http://127.0.0.1:3128 http://127.0.0.1:3128\n"
        )
        out = await sandbox.commands.run("exec 3<>/dev/tcp/192.0.2.1/80")
        assert "unreachable" in out.stderr

    in_sandbox(play, Network.FULL)


@pytest.mark.parametrize("request_bytes", [
    b"GARBAGE\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"CONNECT nowhere HTTP/1.1\r\n\r\n",
    b"GET ftp://a/ HTTP/1.1\r\n\r\n",
    b"GET http://a:99999/ HTTP/1.1\r\n\r\n", b"GET http://u@a/ HTTP/1.1\r\n\r\n", b"\xff\xfe\r\n\r\n",
    b"GET http://a/ HTTP/1.1\r\nX: a\nY: b\r\n\r\n", b"GET http://[::1/ HTTP/1.1\r\n\r\n",
])
def test_what_is_no_proxy_request_is_refused(request_bytes: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_head(request_bytes)


def test_the_proxy_survives_what_hostile_programs_send() -> None:
    hostile = """
import socket, os
def say(data, read=True):
    s = socket.create_connection(("127.0.0.1", 3128)); s.sendall(data); s.shutdown(1)
    while read and s.recv(65536): pass
    return s
say(b"A" * 100000 + b"\\r\\n\\r\\n"); say(b""); say(b"\\0" * 5000); say(os.urandom(20000))
say(b"GET " + b"x" * 20000, False)
held = [socket.create_connection(("127.0.0.1", 3128)) for _ in range(30)]
print(len(held))
"""
    with server() as port:
        async def play(sandbox: Sandbox) -> None:
            assert (await sandbox.commands.run(["python3", "-c", hostile], timeout=40)).stdout == "30\n"
            assert (await fetch(sandbox, f"http://127.0.0.1:{port}/"))[0].startswith("hello")

        in_sandbox(play, Network.ALLOW_LIST, f"127.0.0.1:{port}")


def test_a_request_goes_out_in_origin_form_for_the_host_it_names() -> None:
    target = parse_head(
        b"GET http://Example.COM:8080/p?q HTTP/1.1\r\nHost: other\r\nProxy-Authorization: secret\r\nAccept: */*\r\n\r\n"
    )
    assert (target.host, target.port) == ("example.com", 8080)
    assert target.head == b"GET /p?q HTTP/1.1\r\nHost: Example.COM:8080\r\nAccept: */*\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize("text", [
    "", "*", "*.", "a b", "host:0", "host:70000", "host:x", "10.0.0.0/40", "[::1", "-a.com", "http://a.com", "a..b",
    "[::1]x",
])
def test_an_entry_that_is_none_is_refused_with_what_was_found(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_rule(text)


def test_an_allow_list_is_checked_before_anything_is_opened() -> None:
    async def main() -> None:
        async with NativeBackend(engines=1) as backend:
            with pytest.raises(ValueError, match="http://"):
                backend.open(network=Network.ALLOW_LIST, allow=("http://a.com",))
            with pytest.raises(ValueError, match="found 'none'"):
                backend.open(allow=("a.com",))
        async with NativeBackend(engines=1, loopback=False) as backend:
            with pytest.raises(HouseError) as caught:
                async with backend.open(network=Network.FULL):
                    pass
            assert caught.value.kind is FaultKind.SANDBOX_CREATE_FAILED

    asyncio.run(main())


def test_names_match_whole_labels_only() -> None:
    policy = Policy(map(parse_rule, ("pypi.org:443", "*.python.org", "Bücher.example")), full=False)
    assert policy.admits_name("pypi.org", 443)
    assert policy.admits_name("docs.python.org", 80)
    assert policy.admits_name("xn--bcher-kva.example", 443)
    for host, port in (("pypi.org", 80), ("evil-pypi.org", 443), ("python.org", 443), ("evilpython.org", 443),
                       ("pypi.org.evil.com", 443), ("a.pypi.org", 443)):
        assert not policy.admits_name(host, port), host


PRIVATE = ("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10",
           "0.0.0.0/8", "224.0.0.0/4", "240.0.0.0/4", "192.0.2.0/24", "198.18.0.0/15")


@given(st.sampled_from(PRIVATE), st.integers(min_value=0, max_value=2**24))
def test_no_private_address_is_public_in_any_of_its_disguises(block: str, offset: int) -> None:
    network = ipaddress.IPv4Network(block)
    address = network[offset % network.num_addresses]
    number = int(address)
    disguises = [
        address, ipaddress.IPv6Address((0xFFFF << 32) | number), ipaddress.IPv6Address((0x64FF9B << 96) | number),
        ipaddress.IPv6Address((0x2002 << 112) | (number << 80)),
        ipaddress.IPv6Address((0x20010000 << 96) | (number ^ 0xFFFFFFFF)), ipaddress.IPv6Address(number),
    ]
    assert not any(is_public(a) for a in disguises)


@pytest.mark.parametrize("address", ["::1", "fe80::1", "fd00::1", "ff02::1", "::", "168.63.129.16", "64:ff9b:1::1"])
def test_no_inside_address_is_public(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["1.1.1.1", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"])
def test_an_address_of_the_open_internet_is_public(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))
