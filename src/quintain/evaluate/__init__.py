"""How good a policy is: what it completes, what that takes, how surely, and against another; and what stays apart."""

from quintain.evaluate.apart import Listed, content_of, in_both, listed, read_list, write_list
from quintain.evaluate.attempt import Attempted, Facts, attempted
from quintain.evaluate.compare import Comparison, Gap, compare
from quintain.evaluate.intervals import Range, bootstrap, mean_share, pass_all, pass_any, wilson
from quintain.evaluate.measures import Curve, Measures, Unit, measures_of
from quintain.evaluate.report import markdown_of, page_of

__all__ = [
    "Attempted", "Comparison", "Curve", "Facts", "Gap", "Listed", "Measures", "Range", "Unit", "attempted",
    "bootstrap", "compare", "content_of", "in_both", "listed", "markdown_of", "mean_share", "measures_of", "page_of",
    "pass_all", "pass_any", "read_list", "wilson", "write_list",
]
