"""The HTTP faces: a model that is served, and a gateway that records what agents sample of one."""

from quintain.serve.base import Asked, Exchange, Refused, Sampler, Upstream
from quintain.serve.capture import Captured, threads_of
from quintain.serve.dashboard import (
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
    Standings,
    TaskStanding,
    board,
)
from quintain.serve.gateway import Allowance, Gateway
from quintain.serve.listening import listening
from quintain.serve.metrics import metrics_app
from quintain.serve.model_server import ModelServer
from quintain.serve.upstream import ChatUpstream, CompletionsSampler, TokenUpstream

__all__ = [
    "Alarms", "AlarmsView", "AlertLine", "Allowance", "Asked", "Captured", "CaseView", "ChatUpstream",
    "CompletionsSampler", "Declined", "Exchange", "Gateway", "HoldLine", "ModelServer", "Move", "Refused", "Replays",
    "ReviewStats", "Reviews", "Sampler", "Standings", "TaskStanding", "TokenUpstream", "Upstream", "board",
    "listening", "metrics_app", "threads_of",
]
