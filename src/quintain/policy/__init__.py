"""Who answers."""

from quintain.policy._chat import Answer, EndpointFailed, Malformed
from quintain.policy._events import EventStream
from quintain.policy._render import Renderer
from quintain.policy.base import Policy
from quintain.policy.local import LocalPolicy, LocalSampling
from quintain.policy.openai import OpenAIPolicy, Retries, Sampling, Timeouts
from quintain.policy.repairing import Draft, RepairingPolicy
from quintain.policy.replayed import ReplayedPolicy
from quintain.policy.scripted import AnswerPolicy, FunctionPolicy, ScriptedPolicy, turn_of

__all__ = [
    "Answer", "AnswerPolicy", "Draft", "EndpointFailed", "EventStream", "FunctionPolicy", "LocalPolicy",
    "LocalSampling", "Malformed", "OpenAIPolicy", "Policy", "Renderer", "RepairingPolicy", "ReplayedPolicy", "Retries",
    "Sampling", "ScriptedPolicy", "Timeouts", "turn_of",
]
