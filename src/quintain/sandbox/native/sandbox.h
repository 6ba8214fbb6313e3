/* The words shared by keeper, spawner and agent: wire records, small tools. Mirrors sandbox/_wire.py. */
#ifndef QUINTAIN_SANDBOX_H
#define QUINTAIN_SANDBOX_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdint.h>
#include <stddef.h>
#include <sys/types.h>

/* ---- spawner <-> house (SOCK_SEQPACKET, native byte order) ---- */
enum { OP_OPEN = 1, OP_CLOSE = 2, OP_OPENED = 3, OP_DOWN = 4, OP_REFUSED = 5, OP_HELLO = 6, OP_JOIN = 7, OP_JOINED = 8 };
enum { NET_LOOPBACK = 0, NET_EMPTY = 1, NET_HOST = 2 };

struct open_request {
  uint32_t op, first, count, network;
  uint64_t memory_bytes, disk_bytes, inodes;
  uint32_t processes, cpu_percent, flags, pad;
};
/* a devpts of its own; no control groups before they are asked for (v1: on v2 a process is born into them) */
enum { OPEN_TERMINALS = 1, OPEN_BARE = 2 };
struct close_request { uint32_t op, id; };
struct opened { uint32_t op, id; int32_t pid; uint32_t slot, again, bare; }; /* again: its groups have served before, with the same limits */
/* The groups of a bare sandbox, made now: with it come the files through which its agent joins them, the CPU account last. */
struct joined { uint32_t op, id; int32_t error; uint32_t accounts; };
struct refused { uint32_t op, id; int32_t error; char where[64]; };
/* Read before the cgroup goes; UINT64_MAX = not measured. */
struct down { uint32_t op, id; int32_t wait_status; uint32_t pad; uint64_t oom_kills, peak_memory_bytes, cpu_ns, peak_processes; };

/* ---- agent <-> house (SOCK_SEQPACKET) ---- */
enum {
  A_PART = 1,   /* bytes that belong to the next request of the same id */
  A_STDIN = 2,  /* bytes of stdin for the run to come */
  A_RUN = 3, A_KILL = 4, A_READ = 5, A_WRITE = 6, A_LIST = 7, A_STAT = 8, A_REMOVE = 9, A_MKDIR = 10, A_PING = 11,
  A_READY = 32, A_BROKEN = 33, A_OUT = 34, A_ERR = 35, A_EXIT = 36, A_REPLY = 37, A_DATA = 38, A_OUT_TAIL = 39, A_ERR_TAIL = 40, A_PONG = 41,
  A_SIGNAL = 64, A_INPUT = 65, A_INPUT_END = 66, A_CREDIT = 67, A_RESIZE = 68, A_RENAME = 69, A_PROCESSES = 70, A_READ_AT = 71,
  A_FREEZE = 72, A_LISTEN = 73, A_JOIN = 74,
  A_STARTED = 96, /* the program's pid, where there is a warden */ A_TAKEN = 97, /* so many bytes of input were passed on */
  A_GONE = 98     /* nothing of a lingering command is left */
};
struct frame { uint32_t op, id; };
/* STREAM: all output goes out, as far as the house gives credit; WARDEN: a subreaper of its own; INPUT: stdin is a pipe that
   stays open; TERMINAL: a pty of that size; LINGER: what the program leaves behind lives on after its end */
enum { RUN_CHANNEL = 1, RUN_STREAM = 2, RUN_WARM = 4, RUN_WARDEN = 8, RUN_INPUT = 16, RUN_TERMINAL = 32, RUN_LINGER = 64,
       RUN_SAVE = 256, RUN_RESTORE = 512 };
struct run_request { uint64_t wall_ms, cpu_ms, output_bytes, file_bytes; uint32_t flags, argc, envc; uint16_t rows, columns; };
enum { EXIT_TIMED_OUT = 1, EXIT_KILLED = 2, EXIT_NOT_STARTED = 4, EXIT_LEFTOVER = 8, EXIT_CPU = 16 };
struct run_exit {
  int32_t wait_status, error; uint32_t flags, pad;
  uint64_t wall_ns, cpu_ns, peak_rss_bytes, out_bytes, err_bytes, disk_bytes; /* disk: UINT64_MAX = not measured */
};
struct reply { int32_t error; uint32_t pad; uint64_t size; };
#define FRAME_BYTES 65536
#define PART_LIMIT (20u << 20)

/* ---- what the spawner is told at its start ---- */
#define MAX_CGROUPS 5
struct cgroup { int dir; char kind; /* m p c a = v1 memory pids cpu cpuacct; u = unified */ };
struct plan {
  int control;              /* socket to the house */
  int rootless;
  int writable;             /* each sandbox has a root of its own to write to, and is root there */
  int warm;                 /* where the warm interpreter is asked for programs; in that one, where it is asked; -1 without */
  uint32_t uid_base;        /* first of two uids per sandbox (agent, program); ignored when rootless */
  uint32_t uid_count;
  int ncgroups;
  struct cgroup cgroups[MAX_CGROUPS];
  const char *cgroup_paths[MAX_CGROUPS];
  char **mounts;            /* the root file system, op by op, NULL-terminated triples */
  char **zygote;            /* keeper only: how the warm interpreter is started, or NULL */
};


struct net { int fd, traffic; }; /* a network namespace, and the counters of its interfaces; -1 = none */
struct cell {               /* one sandbox, as the spawner sees it; what it holds outlives it where it may be used again */
  uint32_t id; pid_t pid; int closing, holds, made, again, cpu_fd, fds[MAX_CGROUPS]; struct net net;
  uint64_t memory_bytes; uint32_t cpu_percent, processes;
  int bare; struct open_request want; /* bare: it lives without groups until it is to run a program */
};

/* root.c, jail.c */
void jail_build_root(const struct plan *plan);
void jail_seal_root(void);
void jail_ready(const struct plan *plan, const struct open_request *want);
void jail_enter(const struct plan *plan, const struct open_request *want, uint32_t slot, const int *cgroup_fds, int cpu_fd, int net_fd, int sock);
/* filter.c */
int filter_fence(void);
int filter_latch(void);
int filter_scope(void);
/* netpool.c: network namespaces with loopback up, made ahead of need */
void netpool_start(int rootless);
struct net netpool_take(void);
void netpool_give(struct net net);
void netpool_drop(struct net net);
int netpool_empty(void);
int netpool_refill(void);
int loopback_raise(void);
/* agent.c */
void agent_ready(void);
void signals_as_new(void);
struct walls { int cpu_fd, oom_fd, warm_fd; uint32_t slot, program_uid; }; /* what its jail leaves to an agent; -1 = none */
_Noreturn void agent_main(int sock, struct walls walls);
void agent_broken(int sock, const char *where, int error);
/* cgroup.c */
int cgroup_make(const struct plan *plan, const struct open_request *want, uint32_t slot, struct cell *cell, char *where, size_t n);
void cgroup_done(const struct plan *plan, struct cell *cell);
int cgroup_reuse(const struct plan *plan, uint32_t slot, struct cell *cell);
int cgroup_cpu_account(const struct plan *plan, uint32_t slot);
int cgroup_join(const struct plan *plan, uint32_t slot);
void cgroup_usage(const struct plan *plan, uint32_t slot, struct down *down);
int cgroup_remove(const struct plan *plan, uint32_t slot);
void cgroup_sweep(const struct plan *plan);
/* run.c: what a warm interpreter does instead of exec; set only in the library that a zygote loads */
typedef int (*warm_entry)(uint32_t argc, char **argv, uint32_t envc, char **envp);
extern warm_entry warm_program;
/* plan.c */
int plan_read(struct plan *plan, int argc, char **argv);
/* spawner.c */
void spawner_enter(struct plan *plan);
_Noreturn void spawner_main(struct plan *plan);

uint64_t now_ns(void);
#endif
