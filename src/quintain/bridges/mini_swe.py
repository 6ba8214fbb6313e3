"""A sandbox of ours as mini-swe-agent's environment. Written against mini-swe-agent 2.4.

    mini -c mini.yaml -c environment.environment_class=quintain.bridges.mini_swe.QuintainEnvironment
"""

from __future__ import annotations

import platform
from typing import Any

import msgspec
from minisweagent.exceptions import Submitted
from minisweagent.utils.serialize import recursive_merge

from quintain.sdk import SANDBOX_LIMITS, CommandResult, SyncSandbox
from quintain.types import MEBIBYTE, Network

_SUBMITS = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an environment can be told in mini-swe-agent's YAML. `timeout` in seconds is each command's, `lifetime` the
    whole sandbox's. `allow` lists the hosts that can be reached ('pypi.org:443'); empty: none."""

    image: str = "host"
    cwd: str = "/work"
    env: dict[str, str] = {}
    timeout: float = 30.0
    lifetime: float = 3600.0
    memory_mb: int = 1024
    allow: tuple[str, ...] = ()


class QuintainEnvironment:
    """One sandbox, for as long as the agent works; `close` ends it, as does the process's end. Files stay between
    commands, processes do not: whatever a command leaves behind is killed with it."""

    def __init__(self, **settings: Any) -> None:
        """Raises ValueError for a setting that is not known, HouseError where no sandbox can be had."""
        self.config = msgspec.convert(settings, Settings)
        limits = msgspec.structs.replace(SANDBOX_LIMITS, memory_bytes=self.config.memory_mb * MEBIBYTE)
        self.sandbox = SyncSandbox.create(
            self.config.image, timeout=self.config.lifetime, env=self.config.env, limits=limits,
            network=Network.ALLOW_LIST if self.config.allow else Network.NONE, allow=self.config.allow)

    def execute(self, action: dict[str, Any], cwd: str = "", *, timeout: int | None = None) -> dict[str, Any]:
        """Run one action's command. What goes wrong in it is told to the agent; raises Submitted for one that hands
        in, and HouseError when the sandbox is gone: nothing that an agent does can end it."""
        command = "exec 2>&1\n" + str(action.get("command", ""))
        result = self.sandbox.commands.run(
            ["/bin/bash", "-c", command], cwd=cwd or self.config.cwd, timeout=timeout or self.config.timeout)
        output = _told(result)
        lines = result.stdout.lstrip().splitlines(keepends=True)
        if lines and lines[0].strip() == _SUBMITS and result.ok:
            submission = "".join(lines[1:])
            raise Submitted({
                "role": "exit", "content": submission,
                "extra": {"exit_status": "Submitted", "submission": submission}})
        return output

    def get_template_vars(self, **kwargs: Any) -> dict[str, Any]:
        """Nothing of the house's environment variables is among them: the agent reads these."""
        merged: dict[str, Any] = recursive_merge(
            msgspec.to_builtins(self.config), {"system": "Linux", "machine": platform.machine(),
                                               "release": platform.release(), "version": platform.version()}, kwargs)
        return merged

    def serialize(self) -> dict[str, Any]:
        kind = f"{type(self).__module__}.{type(self).__name__}"
        return {"info": {"config": {"environment": msgspec.to_builtins(self.config), "environment_type": kind}}}

    def close(self) -> None:
        self.sandbox.kill()


def _told(result: CommandResult) -> dict[str, Any]:
    """As mini-swe-agent's own environments tell it: -1 and a reason for what did not end by itself."""
    if result.exit_code is not None:
        return {"output": result.stdout, "returncode": result.exit_code, "exception_info": ""}
    why = result.status.value + (f": {result.stderr.strip()}" if result.stderr.strip() else "")
    reason = f"An error occurred while executing the command: {why}"
    return {
        "output": result.stdout, "returncode": -1, "exception_info": reason,
        "extra": {"exception_type": result.status.value, "exception": reason},
    }
