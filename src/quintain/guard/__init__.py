"""Whether an answer was honest: detectors of hacks, and the evidence that they rest on."""

from quintain.guard.base import Detector

__all__ = ["Detector"]
