"""The HTTP faces: the API and its client, a model that is served, and a gateway that records what agents sample."""

from quintain.serve.api import OPERATIONS, Api
from quintain.serve.base import Asked, Exchange, Refused, Sampler, Upstream
from quintain.serve.capture import Captured, threads_of
from quintain.serve.client import ApiError, AsyncClient, Client
from quintain.serve.connections import Doorkeeper
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
    SilenceLine,
    Standings,
    TaskStanding,
    board,
)
from quintain.serve.gateway import Gateway
from quintain.serve.gateway_admin import GatewayAdmin, Opened, gateway_admin
from quintain.serve.homes import Home
from quintain.serve.keys import Key, KeyRing, Quota
from quintain.serve.listening import listening, listening_at, refuse_another
from quintain.serve.metrics import metrics_app
from quintain.serve.model_server import ModelServer
from quintain.serve.openapi import document
from quintain.serve.playing import Player
from quintain.serve.seats import Allowance
from quintain.serve.upstream import ChatUpstream, CompletionsSampler, TokenUpstream
from quintain.serve.words import (
    Done,
    Ended,
    Numbered,
    Offer,
    Piece,
    Problem,
    Refusal,
    RunAsked,
    RunState,
    RunView,
    Scope,
    TasksetView,
    To,
)

__all__ = [
    "Alarms", "AlarmsView", "AlertLine", "Allowance", "Api", "ApiError", "Asked", "AsyncClient", "Captured",
    "CaseView", "ChatUpstream", "Client", "CompletionsSampler", "Declined", "Done", "Doorkeeper", "Ended", "Exchange",
    "Gateway", "GatewayAdmin", "HoldLine", "Home", "Key", "KeyRing", "ModelServer", "Move", "Numbered", "OPERATIONS",
    "Offer", "Opened", "Piece", "Player", "Problem", "Quota", "Refusal", "Refused", "Replays", "ReviewStats",
    "Reviews", "RunAsked", "RunState", "RunView", "Sampler", "Scope", "SilenceLine", "Standings", "TaskStanding",
    "TasksetView", "To", "TokenUpstream", "Upstream", "board", "document", "gateway_admin", "listening",
    "listening_at", "metrics_app", "refuse_another", "threads_of",
]
