"""The HTTP faces: a model that is served, and a gateway that records what agents sample of one."""

from quintain.serve.base import Asked, Exchange, Refused, Sampler, Upstream
from quintain.serve.capture import Captured, threads_of
from quintain.serve.gateway import Allowance, Gateway
from quintain.serve.listening import listening
from quintain.serve.metrics import metrics_app
from quintain.serve.model_server import ModelServer
from quintain.serve.upstream import ChatUpstream, CompletionsSampler, TokenUpstream

__all__ = [
    "Allowance", "Asked", "Captured", "ChatUpstream", "CompletionsSampler", "Exchange", "Gateway", "ModelServer",
    "Refused", "Sampler", "TokenUpstream", "Upstream", "listening", "metrics_app", "threads_of",
]
