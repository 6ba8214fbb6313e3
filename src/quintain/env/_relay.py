"""The program that speaks to services from inside their sandbox: one line of JSON in, one out. It knows no answers.

It is sent as text into the sandbox where the services are, and trusted with nothing: whoever takes its place would have
to give the replies that are asked for, and so do the work.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time

MOST = 1 << 20


def request(call: dict[str, object], seconds: float = 10.0) -> list[object]:
    """[status, headers, body as latin-1]; status 0 where nobody answers. Only 127.0.0.1, no proxy, no name is asked."""
    from http.client import HTTPConnection, HTTPException

    connection = HTTPConnection("127.0.0.1", int(str(call["port"])), timeout=seconds)
    try:
        headers = dict(call.get("headers") or {})  # type: ignore[call-overload]
        body = call.get("body")
        sent = None if body is None else str(body).encode("latin-1")
        connection.request(str(call["method"]), str(call["path"]), sent, headers)
        reply = connection.getresponse()
        return [reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read(MOST).decode("latin-1")]
    except (OSError, HTTPException, ValueError) as error:
        return [0, {}, f"{type(error).__name__}: {error}"]
    finally:
        connection.close()


def line(call: dict[str, object], seconds: float = 10.0) -> list[object]:
    """What a service on a plain socket says to some bytes, until it says no more for a moment or closes."""
    heard = b""
    try:
        with socket.create_connection(("127.0.0.1", int(str(call["port"]))), timeout=seconds) as link:
            link.sendall(str(call["body"]).encode("latin-1"))
            link.shutdown(socket.SHUT_WR)
            while len(heard) < MOST and (piece := link.recv(65536)):
                heard += piece
    except OSError as error:
        if not heard:
            return [0, {}, f"{type(error).__name__}: {error}"]
    return [200, {}, heard.decode("latin-1")]


def many(calls: list[dict[str, object]]) -> list[object]:
    """All at once, each in a thread of its own."""
    found: list[object] = [None] * len(calls)

    def one(number: int) -> None:
        found[number] = request(calls[number])

    threads = [threading.Thread(target=one, args=(n,)) for n in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def listens(port: int, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1.0):
                return True
        except OSError:
            time.sleep(0.02)
    return False


def main() -> None:
    for text in sys.stdin:
        asked = json.loads(text)
        what = asked["do"]
        value: object
        if what == "wait":
            value = listens(asked["port"], asked["seconds"])
        elif what == "many":
            value = many(asked["calls"])
        elif what == "line":
            value = line(asked)
        else:
            value = [request(call) for call in asked["calls"]]
        print(json.dumps({"value": value}), flush=True)


if __name__ == "__main__":
    main()
