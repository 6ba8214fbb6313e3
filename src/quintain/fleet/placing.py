"""The process that places hosts on a Ray cluster, and the settings that a cluster should be started with.

    python -m quintain.fleet.placing ADDRESS    keeps hosts there; QUINTAIN_POST in its environment says what is sent
    python -m quintain.fleet.placing settings   prints what to set before `ray start`
"""

from __future__ import annotations

import logging
import sys

from quintain.fleet.ray import SETTINGS, main

if __name__ == "__main__":
    if sys.argv[1:] == ["settings"]:
        print("\n".join(f"export {name}={value}" for name, value in SETTINGS.items()))
    else:
        logging.basicConfig(level=logging.INFO, format="%(message)s")
        sys.exit(main(sys.argv[1]))
