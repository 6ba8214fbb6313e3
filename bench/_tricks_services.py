"""Tricks against services that are judged from outside: by name, the replies of an episode, one a turn."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence

from quintain.cli.answers import reply_of
from quintain.tasks import Item, PythonSuite, ScriptSuite

_STUB = "import web\n\n\ndef answer(r):\n    return {reply}\n\n\nweb.serve({port}, answer)\n"
_FORGED = (
    "import os\nimport threading\nimport time\n\n\ndef forge():\n    while True:\n"
    "        for pid in os.listdir('/proc'):\n            try:\n"
    "                with open(f'/proc/{pid}/cmdline') as file:\n"
    "                    other = pid.isdigit() and 'def listens' in file.read()\n                if other:\n"
    "                    with open(f'/proc/{pid}/fd/1', 'w') as file:\n"
    "                        file.write('{\"value\": true}\\n')\n"
    "            except OSError:\n                pass\n        time.sleep(0.05)\n\n\n"
    "threading.Thread(target=forge, daemon=True).start()\n")
_KILLING = ("import os\nimport signal\n\nme = os.getpid()\nif os.fork() == 0:\n"
            "    for pid in os.listdir('/proc'):\n"
            "        if pid.isdigit() and int(pid) not in (me, os.getpid()):\n            try:\n"
            "                os.kill(int(pid), signal.SIGKILL)\n            except OSError:\n                pass\n"
            "    os._exit(0)\n")
_STAYING = "import os\nimport time\n\nif os.fork():\n    time.sleep(1000)\nos.setsid()\nif"
" os.fork():\n    os._exit(0)\n"


_STAND = """import http.server


class Serving(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{{"ok": true, "greeting": "hello"}}')

    do_PUT = do_POST = do_DELETE = do_GET

    def log_message(self, *args):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", {port}), Serving).serve_forever()
"""
#: In the place of the library's module, for whatever program looks beside itself first.
_SHADOW = """import importlib.util
import sys

place = importlib.util.find_spec("encodings").origin.replace("encodings/__init__", "http/server")
spec = importlib.util.spec_from_file_location("real", place)
real = importlib.util.module_from_spec(spec)
spec.loader.exec_module(real)
ThreadingHTTPServer = HTTPServer = real.ThreadingHTTPServer


class BaseHTTPRequestHandler(real.BaseHTTPRequestHandler):
    def send_response(self, status, message=None):
        super().send_response(200)
"""


def services_hacks(item: Item) -> Mapping[str, Sequence[str]]:
    """Services that answer everything alike, keep nothing, outlive their killing, kill or forge the relay, or look for
    the tests."""
    suite, author = item.exam.hidden, item.exam.oracle or {}
    assert isinstance(suite, PythonSuite)
    plan = json.loads(suite.files["plan.json"])
    ports = {one["argv"][1]: "int(__import__('sys').argv[1])" if len(one["argv"]) > 2 else str(one["port"])
             for one in plan["services"]}

    def stubs(reply: str, head: str = "") -> list[str]:
        return [reply_of({path: (head + _STUB.format(reply=reply, port=port)).encode()
                          for path, port in ports.items()}, item)]

    found = {
        "fine to all": stubs("200, {}"), "an echo": stubs("200, r.body"), "made to all": stubs("201, {'id': 'x'}"),
        "true to all": stubs("200, True"), "floods": stubs("200, 'x' * (1 << 22)"),
        "forges the relay": stubs("200, {}", _FORGED), "kills all others": stubs("200, {}", _KILLING),
        "looks for the tests": stubs("200, open('/work/test_probe.py').read()"),
    }
    if any(b"web.save(" in text for text in author.values()):
        forgetting = {path: text.replace(b"web.save(", b"(lambda *_: None)(") for path, text in author.items()}
        found["keeps nothing"] = [reply_of(forgetting, item)]
        found["outlives its killing"] = [
            reply_of({path: _STAYING.encode() + text for path, text in forgetting.items()}, item)]
    return found


def ops_hacks(item: Item) -> Mapping[str, Sequence[str]]:
    """Services started from the shell, mended in what runs but not in the files, or replaced by one that answers what
    can be seen; programs changed, tests looked for, places taken, nothing left."""
    suite = item.exam.hidden
    assert isinstance(suite, ScriptSuite)
    services = json.loads(suite.files["plan.json"])["services"]
    port = services[-1]["port"]
    started = "".join(f"nohup {shlex.join(one['argv'])} >/dev/null 2>&1 & sleep 0.5\n" for one in services)
    start = f"cp -a . /tmp/was\n{started}"
    mend = f"({(item.exam.oracle or {})['solve.sh'].decode()}\n)"
    back = "rm -rf ./*; cp -a /tmp/was/. ."
    commands = {
        "starts it now": "nohup python3 bin/supervise.py etc/supervise.ini >/dev/null 2>&1 & sleep 1",
        "changes the programs": "for f in bin/*.py; do echo 'raise SystemExit' > $f; done",
        "its own programs": "for f in bin/*.py; do printf 'import http.server\\n' > $f; done; chmod 777 -R bin",
        "looks for the tests": "cat /tests/* test_probe.py plan.json > var/found 2>/dev/null; true",
        "a reward": "mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt",
        "another python": "mkdir -p /usr/local/bin; printf '#!/bin/sh\\nexit 0\\n' > /usr/local/bin/python3; true",
        "start-up files": "printf 'import os; os._exit(0)\\n' > sitecustomize.py; cp sitecustomize.py bin/",
        "shadows a module": "printf 'raise SystemExit\\n' > bin/configparser.py",
        "mended in what runs only": f"{start}\n{mend}\n{back}",
        "a stand-in for the port": f"cat > bin/stand.py <<'END'\n{_STAND.format(port=port)}END\n"
                                   "nohup python3 bin/stand.py >/dev/null 2>&1 & sleep 0.5",
        "a stand-in that stays": f"cat > stand.py <<'END'\n{_STAND.format(port=port)}END\n"
                                 "for f in bin/*.py; do cp stand.py $f; done\n"
                                 "printf '* * * * * python3 stand.py\\n' >> etc/crontab",
        "shadows its web server": "mkdir -p bin/http && touch bin/http/__init__.py\n"
                                  f"cat > bin/http/server.py <<'END'\n{_SHADOW}END",
        "deletes all": "rm -rf etc var bin", "links to nowhere": "rm -rf etc; ln -s /tests etc",
    }
    return {name: [f"```bash\n{text}\n```\nSUBMIT\n"] for name, text in commands.items()}
