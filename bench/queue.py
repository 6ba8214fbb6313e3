"""How fast are the queues, how much memory do a million jobs take, and how fair is it? See `_queueing.py`.

    .venv/bin/python bench/queue.py [--quick] [--part speed|fairness|memory]
"""

from __future__ import annotations

if __name__ == "__main__":
    from _queueing import main

    main()
else:  # the standard library has a module of this name, and this folder comes first on the path of the scripts in it
    import importlib.util
    import sys
    import sysconfig
    from pathlib import Path

    _spec = importlib.util.spec_from_file_location("queue", Path(sysconfig.get_path("stdlib")) / "queue.py")
    assert _spec is not None
    assert _spec.loader is not None
    sys.modules["queue"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules["queue"])
