/* What the parts of the agent share: commands and their streams. */
#ifndef QUINTAIN_AGENT_H
#define QUINTAIN_AGENT_H
#include "sandbox.h"
#include <signal.h>
#include <sys/resource.h>

#define MAX_COMMANDS 64
#define WINDOW_BYTES (256u << 10) /* how much a stream may be ahead of the house's credit; mirrors _wire.WINDOW_BYTES */

struct stream {                 /* stdout or stderr: the first half goes out at once, the last half waits in a ring */
  int fd; uint64_t total, head_left; char *ring; size_t capacity, used, at;
};
struct input { int fd; char *bytes; size_t used, at, capacity; int ends; };
enum state { FREE, STAGED, RUNNING, ENDING, LINGERING };
struct command {
  enum state state; uint32_t id, flags;
  pid_t pid;                    /* our own child: the program, or its warden */
  int link;                     /* to the warden, -1 without one */
  struct stream out[2]; uint64_t credit; struct input input;
  uint64_t start_ns, deadline_ns, leftover_ns, cpu_before_ns, cpu_limit_ns, cpu_check_ns;
  char *part; size_t part_len, part_cap; int stdin_fd, channel, ended;
  struct run_exit result;
};
extern struct command commands[MAX_COMMANDS];
extern uint32_t program_uid;
extern struct walls walls;
extern sigset_t no_signals;
extern char **environ;

/* outbox.c: what goes out; never blocks, bounded by what commands may keep */
void outbox_open(int fd);
void say(uint32_t op, uint32_t id, const void *head, size_t n, const void *body, size_t m);
void say_fd(uint32_t op, uint32_t id, const void *head, size_t n, int fd); /* takes the descriptor over */
void flush_packets(void);
size_t packets_queued(void);

/* streams.c */
int may_read(const struct command *c, int which);
int drain(struct command *c, int which, int rounds);
void send_tail(struct command *c, int which);
void take_input(struct command *c, const char *bytes, size_t n);
void pass_input(struct command *c);
void end_input(struct command *c);

/* run.c */
void lay_ahead(void);
void start(struct command *c, const char *body, size_t n);
/* The words of a request: its directory, then argv and the environment, NULL-terminated, pointing into the request. */
struct words { char *cwd, **block, **argv, **envp; };
_Noreturn void exec_program(struct command *c, const struct run_request *want, const struct words *w, const int fds[3], int report);
void not_started(struct command *c, int error);
int take_words(struct words *w, const struct run_request *want, char *strings, size_t n);
int become(struct command *c, const struct run_request *want, const struct words *w, const int fds[3], int *report);

/* agent.c */
void finish(struct command *c);
uint64_t used_cpu_ns(void);
void agent_expendable(int yes);

/* warden.c */
struct order { int32_t signal; uint32_t whole; };            /* agent -> warden */
struct news { int32_t pid, status; uint64_t peak_rss_bytes; }; /* warden -> agent: first the program's pid, then its end (pid 0) */
_Noreturn void warden_main(struct command *c, const struct run_request *want, const struct words *w, const int fds[3], int report, int link);
int kill_children(const pid_t *spare, int n);

/* zygote.c: a program in the warm interpreter, asked for by the agent; what it needs of the agent travels along */
#define WARM_LIMITS 7
struct warm_request {
  struct run_request want; uint32_t slot, program_uid, given, pad; /* given: which of WARM_FDS come with it */
  uint64_t words_bytes; struct rlimit limits[WARM_LIMITS];
};
/* words: a file, where a packet is too small; from WARM_USER on the agent's namespaces, where it is not to be entered by its pid */
enum { WARM_OUT, WARM_ERR, WARM_REPORT, WARM_IN, WARM_CHANNEL, WARM_WORDS, WARM_USER, WARM_PID, WARM_MNT, WARM_UTS, WARM_NET, WARM_CGROUP, WARM_FDS };
#define WARM_INLINE (32u << 10)
int warm_ask(struct command *c, const struct run_request *want, const char *strings, size_t n, const int fds[3], int report);

/* terminal.c */
int terminal_open(const struct run_request *want, int *master, int *slave);
void terminal_resize(int master, uint16_t rows, uint16_t columns);

/* service.c: what is neither a command nor a file */
void send_processes(uint32_t id);
void open_door(uint32_t id, uint16_t port);
void join_groups(uint32_t id, const int *fds, size_t count, const char *body, size_t n);
uint64_t disk_used_bytes(void);
#endif
