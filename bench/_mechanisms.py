"""Pack the adversary corpus into the battery that comes with the package: `python bench/_mechanisms.py` writes it.

Packed is what can be written into any task: mechanisms whose files are templates, or that are tried at every family.
What acts before grading (`before`), brings its own tests or knows one family by heart stays in the corpus.
"""

from __future__ import annotations

from pathlib import Path

import tomli_w

from quintain.testing import Corpus, Hack, read_corpus

ROOT = Path(__file__).parent.parent
PLACE = ROOT / "src" / "quintain" / "curate" / "mechanisms.toml"
HEAD = "# Packed by bench/_mechanisms.py from tests/adversary/hacks: change it there.\n\n"


def is_portable(hack: Hack, corpus: Corpus) -> bool:
    if hack.before or hack.name in corpus.own:
        return False
    return not hack.families or any(b"@@" in content for content in hack.files.values())


def packed(corpus: Corpus) -> str:
    rows = []
    for hack in corpus.hacks:
        if is_portable(hack, corpus):
            kinds = sorted({family.kind for family in corpus.families_of(hack)})
            rows.append({
                "name": hack.name, "group": hack.group, "mechanism": hack.mechanism, "language": hack.language,
                "kinds": kinds, "wall_seconds": float(hack.wall_seconds),
                "files": {path: content.decode() for path, content in hack.files.items()},
            })
    return HEAD + tomli_w.dumps({"mechanism": rows}, multiline_strings=True)


if __name__ == "__main__":
    PLACE.write_text(packed(read_corpus(ROOT / "tests" / "adversary" / "hacks")))
