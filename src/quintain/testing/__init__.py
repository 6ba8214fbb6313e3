"""The public test kit: parts that stand in for the dear ones, and say so."""

from quintain.testing.corpus import Corpus, Family, Hack, Trial, read_corpus
from quintain.testing.defects import Defect, Specimen, specimens
from quintain.testing.detectors import check_detector, detector_item
from quintain.testing.fakes import (
    FakeEnvironment,
    FlakyBackend,
    FlakyPolicy,
    Plan,
    fail_first,
    fail_sometimes,
    fake_item,
    never,
)
from quintain.testing.faulty import Blow, FaultyBackend, Planned
from quintain.testing.graders import check_grader
from quintain.testing.process_backend import ProcessBackend
from quintain.testing.queues import QUEUE_CHECKS, QueueOpener, check_queue

__all__ = [
    "Blow", "Corpus", "Defect", "FakeEnvironment", "Family", "FaultyBackend", "FlakyBackend", "FlakyPolicy", "Hack",
    "Plan", "Planned", "ProcessBackend", "QUEUE_CHECKS", "QueueOpener", "Specimen", "Trial", "check_detector",
    "check_grader", "check_queue", "detector_item", "fail_first", "fail_sometimes", "fake_item", "never", "read_corpus",
    "specimens",
]
