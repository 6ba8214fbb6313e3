"""The dashboard: runs as they go, their episodes and tasks, reviews and alerts, as pages that work offline."""

from quintain.serve.dashboard.app import board
from quintain.serve.dashboard.views import (
    Alarms,
    AlarmsView,
    AlertLine,
    CaseView,
    Declined,
    HoldLine,
    Move,
    Replays,
    Reviews,
    ReviewStats,
    SilenceLine,
    Standings,
    TaskStanding,
)

__all__ = [
    "Alarms", "AlarmsView", "AlertLine", "CaseView", "Declined", "HoldLine", "Move", "Replays", "ReviewStats",
    "Reviews", "SilenceLine", "Standings", "TaskStanding", "board",
]
