"""A warm interpreter: started once for each engine, it imports what programs will need, then waits to be forked.

Runs as a script of its own (`python3 -I -S _zygote.py FD ENGINE-WORDS...`), standard library only. Sandboxes
stay small; `run(..., warm=True)` has it fork into the one that asks (native/zygote.c), with no new interpreter.
Covers: random state (reseeded by the interpreter, and for numpy here), temp names, argv, environment, standard streams.
Does not cover: the layout of memory and the hash seed, which all forks of one zygote share.
"""

from __future__ import annotations

import atexit
import builtins
import ctypes
import gc
import io
import json
import os
import sys
import threading
import types
from typing import Any

#: Source that programs will be given with -c, compiled beforehand; and streams, made beforehand, by their names in sys.
CODES: dict[str, types.CodeType] = {}
STREAMS: dict[str, io.TextIOWrapper] = {}


def serve(config: Any, words: list[str]) -> int:
    """Enter the image, preload from there, and serve; returns only on a bad command line, or when nobody hears."""
    library = ctypes.PyDLL(config["library"])
    argv = (ctypes.c_char_p * (len(words) + 2))(b"quintain-sandbox", *(os.fsencode(w) for w in words), None)
    code = library.quintain_enter(len(words) + 1, argv)
    if code:
        return int(code)
    sys.path[:0] = config["site"]
    for name in config["preload"]:
        __import__(name)
    if config["prelude"]:
        warm = types.ModuleType("quintain_warm")
        sys.modules["quintain_warm"] = warm
        exec(compile(config["prelude"], "<prelude>", "exec"), warm.__dict__)
    for code in config["codes"]:
        CODES[code] = compile(code, "<string>", "exec")
    STREAMS.update(_streams())
    entry_type = ctypes.PYFUNCTYPE(
        ctypes.c_int, ctypes.c_uint32, ctypes.POINTER(ctypes.c_char_p), ctypes.c_uint32, ctypes.POINTER(ctypes.c_char_p)
    )
    entry = entry_type(begin)
    gc.collect()
    gc.freeze()
    gc.disable()
    library.quintain_serve(entry)
    return 0


def begin(argc: int, argv: Any, envc: int, envp: Any) -> int:
    """In a fresh fork, inside and the program's user already: run what argv says, as `python3` would; returns the exit
    code."""
    try:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        gc.enable()
        words = [os.fsdecode(argv[i]) for i in range(argc)]
        # the C library's own environment has been replaced already
        data = os.environ._data  # type: ignore[attr-defined]
        data.clear()
        for i in range(envc):
            key, _, value = bytes(envp[i]).partition(b"=")
            data[key] = value
        for name, stream in STREAMS.items():
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
        random = sys.modules.get("numpy.random")  # its legacy global state; generators made later seed themselves
        if random is not None:
            random.seed()
        return _finish(_run(words))
    except BaseException as error:
        os.write(2, f"the warm interpreter failed: {type(error).__name__}: {error}\n".encode())
        return 120


def _streams() -> dict[str, io.TextIOWrapper]:
    """The standard streams of the forks to come. For the moment descriptors 0, 1 and 2 are what they will mostly be
    there, a file and two pipes: a stream asks once whether it can seek, and remembers."""
    kept = [os.dup(fd) for fd in range(3)]
    read_end, write_end = os.pipe()
    given = os.memfd_create("stdin")
    for fd, stand_in in ((0, given), (1, write_end), (2, write_end)):
        os.dup2(stand_in, fd)
    stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, "r", closefd=False)), "utf-8")
    streams = {"stdin": stdin, "stdout": _writer(1, "strict"), "stderr": _writer(2, "backslashreplace")}
    for fd, own in enumerate(kept):
        os.dup2(own, fd)
    for fd in (*kept, read_end, write_end, given):
        os.close(fd)
    return streams


def _writer(fd: int, errors: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(fd, "w", closefd=False)), "utf-8", errors=errors, line_buffering=fd == 2,
        write_through=False,
    )


def _run(words: list[str]) -> int:
    """Exit code of `-c CODE`, `-m MODULE` or a path, each with its arguments."""
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    vars(main)["__builtins__"] = builtins
    try:
        if words[0] == "-c":
            sys.argv = ["-c", *words[2:]]
            sys.path.insert(0, "")
            exec(CODES.get(words[1]) or compile(words[1], "<string>", "exec"), main.__dict__)
        elif words[0] == "-m":
            import runpy

            sys.argv = words[1:]
            sys.path.insert(0, os.getcwd())
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = words
            sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
            with open(words[0], "rb") as f:
                source = f.read()
            main.__file__ = words[0]
            exec(compile(source, words[0], "exec"), main.__dict__)
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return stop.code or 0
        sys.stderr.write(f"{stop.code}\n")
        return 1
    except BaseException as error:
        trace = error.__traceback__
        shown = error.with_traceback(trace.tb_next if trace else None)  # without our own frame
        sys.excepthook(type(shown), shown, shown.__traceback__)
        return 1
    return 0


def _finish(code: int) -> int:
    """What an interpreter does at its end: wait for threads, run exit handlers, flush."""
    try:
        getattr(threading, "_shutdown")()  # noqa: B009 - private, and the only way to join what a program started
        atexit._run_exitfuncs()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            code = code or 120
    return code & 0xFF


if __name__ == "__main__":
    with open(int(sys.argv[1]), "rb") as asked:
        wanted = json.load(asked)
    raise SystemExit(serve(wanted, sys.argv[2:]))
