"""The prelude of a warm pytest: a session made ready once, so that a fork of it only collects and runs.

Run as trusted source inside the zygote (see `Warm.pytest`); standard library and pytest only. What it leaves in the
module `quintain_warm` is `run(path)`. Follows pytest's own `pytest_cmdline_main`, cut where the answer arrives.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
import tempfile
from typing import Any

os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # a plug-in found by accident would decide what a verdict means

import _pytest.config
import _pytest.main
import pytest

# These two walk every object at the end of each test, which after a fork means copying every page.
OPTIONS = ["-q", "-s", "--rootdir=/", "-p", "no:cacheprovider"]
OPTIONS += ["-p", "no:unraisableexception", "-p", "no:threadexception"]
sys.dont_write_bytecode = True


def _rehearse() -> None:
    """Run one test that passes and one that fails, so that what pytest imports late is imported already."""
    folder = tempfile.mkdtemp()
    name = os.path.join(folder, "test_rehearsal.py")
    try:
        with open(name, "w") as f:
            f.write("def test_right():\n    assert 1 == 1\n\n\ndef test_wrong():\n    assert [1, 2] == [1, 3]\n")
        with contextlib.redirect_stdout(io.StringIO()):
            pytest.main([*OPTIONS, name])
    finally:
        shutil.rmtree(folder)
        sys.modules.pop("test_rehearsal", None)
        if folder in sys.path:
            sys.path.remove(folder)


def _ready() -> Any:
    here = os.getcwd()
    os.chdir("/")
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            config = _pytest.config._prepareconfig([*OPTIONS, "/work"])
            config._do_configure()
            session = _pytest.main.Session.from_config(config)
            config.hook.pytest_sessionstart(session=session)
    finally:
        os.chdir(here)
    return session


_rehearse()
_session = _ready()


def run(path: str) -> int:
    """Collect and run one test file; returns pytest's exit code (0 all passed, 1 some failed, 5 none found)."""
    session, config = _session, _session.config
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:
        terminal._tw._file = sys.stdout
    config.args = [path]
    try:
        config.hook.pytest_collection(session=session)
        config.hook.pytest_runtestloop(session=session)
        code = 1 if session.testsfailed else 5 if session.testscollected == 0 else 0
    except session.Failed:
        code = 1
    except session.Interrupted:
        config.hook.pytest_keyboard_interrupt(excinfo=pytest.ExceptionInfo.from_current())
        code = 2
    except pytest.UsageError as error:
        sys.stderr.write(f"{error}\n")
        code = 4
    config.hook.pytest_sessionfinish(session=session, exitstatus=code)
    return int(code)
