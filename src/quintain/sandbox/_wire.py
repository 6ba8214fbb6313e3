"""The bytes between the house and its native engine; mirrors native/sandbox.h."""

from __future__ import annotations

import struct
from enum import IntEnum


class Op(IntEnum):
    """Messages of the spawner."""

    OPEN = 1
    CLOSE = 2
    OPENED = 3
    DOWN = 4
    REFUSED = 5
    HELLO = 6
    JOIN = 7
    JOINED = 8


class A(IntEnum):
    """Frames of the agent inside a sandbox."""

    PART = 1
    STDIN = 2
    RUN = 3
    KILL = 4
    READ = 5
    WRITE = 6
    LIST = 7
    STAT = 8
    REMOVE = 9
    MKDIR = 10
    PING = 11
    SIGNAL = 64
    INPUT = 65
    INPUT_END = 66
    CREDIT = 67
    RESIZE = 68
    RENAME = 69
    PROCESSES = 70
    READ_AT = 71
    FREEZE = 72
    LISTEN = 73
    JOIN = 74
    READY = 32
    BROKEN = 33
    OUT = 34
    ERR = 35
    EXIT = 36
    REPLY = 37
    DATA = 38
    OUT_TAIL = 39
    ERR_TAIL = 40
    PONG = 41
    STARTED = 96
    TAKEN = 97
    GONE = 98


OPEN = struct.Struct("=IIIIQQQIIII")  # op first count network memory disk inodes processes cpu_percent flags pad
CLOSE = struct.Struct("=II")
OPENED = struct.Struct("=IIiIII")  # op id pid slot again bare
JOINED = struct.Struct("=IIiI")  # op id error accounts
REFUSED = struct.Struct("=IIi64s")
DOWN = struct.Struct("=IIiIQQQQ")  # op id wait_status pad oom_kills peak_memory cpu_ns peak_processes
FRAME = struct.Struct("=II")
RUN = struct.Struct("=QQQQIIIHH")  # wall_ms cpu_ms output_bytes file_bytes flags argc envc rows columns
EXIT = struct.Struct("=iiIIQQQQQQ")  # wait_status error flags pad wall_ns cpu_ns peak_rss out_bytes err_bytes disk
REPLY = struct.Struct("=iIQ")
ENTRY = struct.Struct("=IIQQ")  # kind mode size modified_ns
BROKEN = struct.Struct("=i60s")
NUMBER = struct.Struct("=Q")
ORDER = struct.Struct("=iI")  # signal whole
PROCESS = struct.Struct("=IIIIQ")  # pid parent state words_bytes rss

FRAME_BYTES = 65536
NOT_MEASURED = 2**64 - 1
RUN_CHANNEL, RUN_STREAM, RUN_WARM, RUN_WARDEN, RUN_INPUT, RUN_TERMINAL, RUN_LINGER = 1, 2, 4, 8, 16, 32, 64
RUN_SAVE, RUN_RESTORE = 256, 512
OPEN_TERMINALS, OPEN_BARE = 1, 2
WRITE_APPEND = 0x10000
PIECE_BYTES = 4 << 20  # the most that READ_AT gives at once
WINDOW_BYTES = 256 << 10  # mirrors agent.h
EXIT_TIMED_OUT, EXIT_KILLED, EXIT_NOT_STARTED, EXIT_LEFTOVER, EXIT_CPU = 1, 2, 4, 8, 16
NET_LOOPBACK, NET_EMPTY = 0, 1
