"""What the dashboard is shown and may do, on the files that the watch of a run keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the dashboard needs the extra serve")

from quintain.cli.seeing import WatchedAlarms
from quintain.serve import Declined
from quintain.watch import Gate, Scope, folder_of


def test_what_the_dashboard_does_to_alerts_is_what_the_commands_do(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    gate = Gate(folder / "gate.json", poll_seconds=0.0)
    gate.stop(Scope.KIND, "ops", reason="it crashes", by="breaker")
    alarms = WatchedAlarms()
    assert [one.key for one in alarms.of(tmp_path).holds] == ["ops"]
    alarms.release(tmp_path, "kind", "ops")
    assert gate.holds == ()
    assert alarms.of(tmp_path).holds == (), "what has changed is read again"
    for scope in ("kind", "moon"):
        with pytest.raises(Declined, match=f"{scope}:ops is not stopped any more"):
            alarms.release(tmp_path, scope, "ops")
    alarms.silence(tmp_path, "crash-*", {"kind": "ops"}, 60.0, "known")
    [hushed] = alarms.of(tmp_path).silences
    assert (hushed.rule, hushed.labels, hushed.reason) == ("crash-*", {"kind": "ops"}, "known")
    alarms.unsilence(tmp_path, hushed.id)
    assert alarms.of(tmp_path).silences == ()
    with pytest.raises(Declined):
        alarms.unsilence(tmp_path, hushed.id)
