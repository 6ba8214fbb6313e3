/* How a command starts: its streams, its limits, its user; from the agent's fork to the program's first instruction. */
#include "agent.h"
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "snapshot.h"

warm_entry warm_program;

static void set_limit(int what, rlim_t value) {
  struct rlimit r;
  if (getrlimit((__rlimit_resource_t)what, &r)) return;
  if (value < r.rlim_max) r.rlim_max = value;
  if (r.rlim_cur > r.rlim_max) r.rlim_cur = r.rlim_max;
  if (what != RLIMIT_NPROC) r.rlim_cur = r.rlim_max;
  setrlimit((__rlimit_resource_t)what, &r);
}

int take_words(struct words *w, const struct run_request *want, char *strings, size_t n) {
  char *at = strings, *end = strings + n;
  size_t count = (size_t)want->argc + want->envc;
  w->cwd = at;
  if (!(w->block = calloc(count + 3, sizeof *w->block))) return ENOMEM;
  w->argv = w->block + 1; /* room for one word more in front: see exec_words */
  w->envp = w->argv + want->argc + 1;
  for (size_t i = 0; i <= count; i++) {
    char *stop = at < end ? memchr(at, 0, (size_t)(end - at)) : NULL;
    if (!stop) return EINVAL;
    if (i > want->argc) w->envp[i - want->argc - 1] = at; else if (i) w->argv[i - 1] = at;
    at = stop + 1;
  }
  return 0;
}

/* execvpe, but by the PATH of the program itself, and without trying an exec where there is nothing: each costs as much as a
   dozen looks. Returns errno. */
static int exec_words(const struct words *w) {
  const char *name = w->argv[0], *path = "/usr/local/bin:/usr/bin:/bin";
  char place[4096];
  int error = ENOENT;
  if (!*name) return ENOENT;
  for (char **e = w->envp; *e; e++) if (!strncmp(*e, "PATH=", 5)) path = *e + 5;
  for (const char *at = strchr(name, '/') ? "" : path; at; at = *at ? strchr(at, ':') : NULL) {
    if (*at == ':') at++;
    size_t n = strcspn(at, ":"), k = strlen(name);
    if (n + k + 2 > sizeof place) { error = ENAMETOOLONG; continue; }
    memcpy(place, at, n);
    if (n) place[n++] = '/';
    memcpy(place + n, name, k + 1);
    if (access(place, F_OK)) { if (errno != ENOENT && errno != ENOTDIR) error = errno; continue; }
    execve(place, w->argv, w->envp);
    if (errno == ENOEXEC) { /* a script without its first line, as execvp takes it; its words are not needed again */
      w->block[0] = "sh"; w->argv[0] = place;
      execve("/bin/sh", w->block, w->envp);
      return ENOEXEC;
    }
    if (errno != EACCES && errno != ENOENT && errno != ENOTDIR && errno != ESTALE && errno != ENODEV && errno != ETIMEDOUT) return errno;
    error = errno;
  }
  return error;
}

/* In the child: become the program. `report` is kept open until it has begun, and may move; NULL for none. Of memory, only the stack is
   written to: the child may share it with its parent, who waits (vfork). Returns errno. */
int become(struct command *c, const struct run_request *want, const struct words *w, const int fds[3], int *report) {
  sigprocmask(SIG_SETMASK, &no_signals, NULL);
  signal(SIGPIPE, want->flags & RUN_WARM ? SIG_IGN : SIG_DFL); /* as each would find it at its start: Python ignores it */
  setsid();
  struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct none[2];
  memset(none, 0, sizeof none);
  if (setresgid(program_uid, program_uid, program_uid) && getgid() != program_uid) return errno;
  if (setresuid(program_uid, program_uid, program_uid) && getuid() != program_uid) return errno;
  if (syscall(SYS_capset, &head, none)) return errno;
  set_limit(RLIMIT_FSIZE, want->file_bytes);
  rlim_t seconds = (rlim_t)(want->cpu_ms / 1000 + 2); /* the agent counts the whole sandbox; this is for when it cannot */
  struct rlimit cpu = {seconds, seconds + 1};
  setrlimit(RLIMIT_CPU, &cpu);
  umask(022);
  if (!(want->flags & (RUN_SAVE | RUN_RESTORE)) && chdir(w->cwd)) return errno;
  if (want->flags & RUN_TERMINAL && ioctl(fds[0], TIOCSCTTY, 0)) return errno;
  if (dup2(fds[0] >= 0 ? fds[0] : open("/dev/null", O_RDONLY | O_CLOEXEC), 0) < 0 || dup2(fds[1], 1) < 0 || dup2(fds[2], 2) < 0) return errno;
  if (want->flags & (RUN_SAVE | RUN_RESTORE)) { /* no program at all: our own code, with the program's rights */
    close(*report);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* it holds the agent's descriptors, and no program may look into it */
    if (want->flags & RUN_SAVE) snapshot_save(c->channel); else snapshot_restore(c->channel);
  }
  if (report) { int moved = fcntl(*report, F_DUPFD_CLOEXEC, 64); if (moved < 0) return errno; *report = moved; }
  if (c->channel >= 0) { if (c->channel == 3) fcntl(3, F_SETFD, 0); else if (dup2(c->channel, 3) < 0) return errno; }
  unsigned first = c->channel >= 0 ? 4 : 3;
  if (report) { syscall(SYS_close_range, first, (unsigned)*report - 1, 0); first = (unsigned)*report + 1; }
  syscall(SYS_close_range, first, 0x7fffffffu, 0); /* gVisor takes the last for a signed number */
  if (want->flags & RUN_WARM) {
    if (!warm_program) return ENOSYS;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return errno; /* nothing of this comes from the agent: see zygote.c */
    filter_scope(); /* where the agent could do without, so can its programs */
    if (filter_latch()) return errno;
    environ = w->envp;
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* as after an exec: the program may look at itself */
    close(*report);
    _exit(warm_program(want->argc, w->argv, want->envc, w->envp));
  }
  return exec_words(w);
}

/* The whole life of a forked child. Any failure is written to `report` as errno. */
_Noreturn void exec_program(struct command *c, const struct run_request *want, const struct words *w, const int fds[3], int report) {
  int error = 0;
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd >= 0) { if (write(fd, "1000", 4) != 4) error = errno; close(fd); } /* the program dies before its agent */
  error = become(c, want, w, fds, &report);
  if (write(report, &error, sizeof error) < 0) _exit(126);
  _exit(127);
}

void not_started(struct command *c, int error) {
  c->result.error = error; c->result.flags |= EXIT_NOT_STARTED;
  finish(c);
}

/* What passes between agent and program: their ends are `theirs`, ours go into the command. */
struct ends { int theirs[3], report[2], link[2]; };

static void close_pair(int pair[2]) { for (int i = 0; i < 2; i++) if (pair[i] >= 0) { close(pair[i]); pair[i] = -1; } }

/* What the first command will need, made while nobody waits for it. */
static struct { int pipes[2][2], null; } ahead = {{{-1, -1}, {-1, -1}}, -1};

void lay_ahead(void) {
  for (int i = 0; i < 2; i++) if (pipe2(ahead.pipes[i], O_CLOEXEC)) { ahead.pipes[i][0] = ahead.pipes[i][1] = -1; return; }
  ahead.null = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static int lay_pipe(int *read_end, int *write_end) {
  int pair[2] = {-1, -1};
  for (int i = 0; i < 2 && pair[0] < 0; i++) { memcpy(pair, ahead.pipes[i], sizeof pair); ahead.pipes[i][0] = ahead.pipes[i][1] = -1; }
  if (pair[0] < 0 && pipe2(pair, O_CLOEXEC)) return -1;
  *read_end = pair[0]; *write_end = pair[1];
  return 0;
}

/* Whether nothing comes between the agent and the program's exec: then the child borrows the agent's memory until there, which
   saves a copy of it (vfork). */
static int straight(const struct run_request *want) { return !(want->flags & (RUN_WARDEN | RUN_WARM | RUN_SAVE | RUN_RESTORE)); }

static int lay_streams(struct command *c, const struct run_request *want, struct ends *e) {
  if (want->flags & RUN_TERMINAL) {
    if (terminal_open(want, &c->out[0].fd, &e->theirs[0])) return -1;
    if ((c->input.fd = fcntl(c->out[0].fd, F_DUPFD_CLOEXEC, 3)) < 0) return -1;
    e->theirs[1] = e->theirs[2] = e->theirs[0];
  } else {
    if (lay_pipe(&c->out[0].fd, &e->theirs[1]) || lay_pipe(&c->out[1].fd, &e->theirs[2])) return -1;
    if (want->flags & RUN_INPUT) { if (lay_pipe(&e->theirs[0], &c->input.fd)) return -1; }
    else if (c->stdin_fd >= 0) { e->theirs[0] = c->stdin_fd; c->stdin_fd = -1; }
    else if (ahead.null >= 0) { e->theirs[0] = ahead.null; ahead.null = -1; }
  }
  for (int i = 0; i < 2; i++) if (c->out[i].fd >= 0) fcntl(c->out[i].fd, F_SETFL, O_NONBLOCK);
  if (c->input.fd >= 0) fcntl(c->input.fd, F_SETFL, O_NONBLOCK);
  if (!straight(want) && pipe2(e->report, O_CLOEXEC)) return -1;
  return want->flags & RUN_WARDEN ? socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, e->link) : 0;
}

static void drop_theirs(struct ends *e) {
  for (int i = 0; i < 3; i++) {
    int again = 0;
    for (int k = 0; k < i; k++) again |= e->theirs[k] == e->theirs[i];
    if (e->theirs[i] >= 0 && !again) close(e->theirs[i]);
  }
}

/* Staged stdin is handed over as a read-only description, at its beginning. */
static void rewind_stdin(struct command *c) {
  char path[40];
  if (c->stdin_fd < 0) return;
  snprintf(path, sizeof path, "/proc/self/fd/%d", c->stdin_fd);
  int again = open(path, O_RDONLY | O_CLOEXEC);
  if (again >= 0) { close(c->stdin_fd); c->stdin_fd = again; } else lseek(c->stdin_fd, 0, SEEK_SET);
}

static void set_bounds(struct command *c, const struct run_request *want) {
  c->flags = want->flags;
  c->cpu_before_ns = used_cpu_ns();
  c->cpu_limit_ns = want->cpu_ms * 1000000ull;
  c->start_ns = now_ns();
  c->deadline_ns = c->start_ns + want->wall_ms * 1000000ull;
  c->cpu_check_ns = c->start_ns + c->cpu_limit_ns;
  c->credit = WINDOW_BYTES;
  for (int i = 0; i < 2; i++) {
    struct stream *s = &c->out[i];
    s->head_left = (want->output_bytes + 1) / 2;
    s->capacity = want->flags & RUN_STREAM ? 0 : (size_t)(want->output_bytes - s->head_left);
  }
}

/* Starts the program in a child that borrows our memory; we are stopped until its exec, or its end. */
static int borrow(struct command *c, const struct run_request *want, const struct words *w, const int fds[3]) {
  volatile int error = 0;
  agent_expendable(1); /* inherited: the program dies before its agent */
  pid_t pid = vfork();
  if (pid == 0) { error = become(c, want, w, fds, NULL); _exit(127); }
  if (pid < 0) error = errno;
  agent_expendable(0);
  if (pid > 0 && error) waitpid(pid, NULL, 0);
  if (!error) c->pid = pid;
  return error;
}

/* Has the warm interpreter fork the program into this sandbox: it becomes our child when the one who forked it ends. */
static int launch_warm(struct command *c, const struct run_request *want, const char *strings, size_t n, struct ends *e) {
  int32_t pid = 0, error = warm_ask(c, want, strings, n, e->theirs, e->report[1]);
  close(e->report[1]); e->report[1] = -1;
  if (error) return error;
  if (read(e->report[0], &pid, sizeof pid) != (ssize_t)sizeof pid) return ESRCH;
  if (read(e->report[0], &error, sizeof error) != (ssize_t)sizeof error) error = 0;
  if (error && pid > 0) waitpid(pid, NULL, 0);
  if (!error) c->pid = pid;
  return error;
}

/* Forks the program, or its warden first. Returns 0 when the program has begun. */
static int launch(struct command *c, const struct run_request *want, const struct words *w, struct ends *e) {
  if (straight(want)) return borrow(c, want, w, e->theirs);
  int warded = e->link[1] >= 0, error = 0;
  struct news begun = {0, 0, 0};
  pid_t pid = fork();
  if (pid == 0) {
    if (warded) warden_main(c, want, w, e->theirs, e->report[1], e->link[1]);
    exec_program(c, want, w, e->theirs, e->report[1]);
  }
  error = pid < 0 ? errno : 0;
  close(e->report[1]); e->report[1] = -1;
  if (warded) { close(e->link[1]); e->link[1] = -1; }
  if (pid < 0) return error;
  if (read(e->report[0], &error, sizeof error) != (ssize_t)sizeof error) error = 0;
  if (!error && warded && recv(e->link[0], &begun, sizeof begun, 0) != (ssize_t)sizeof begun) error = ESRCH;
  if (error && warded) { close(e->link[0]); e->link[0] = -1; } /* it ends by itself, having nobody left */
  if (error && !warded) waitpid(pid, NULL, 0);
  if (error) return error;
  c->pid = pid;
  if (!warded) return 0;
  c->link = e->link[0]; e->link[0] = -1;
  uint64_t number = (uint64_t)begun.pid;
  say(A_STARTED, c->id, &number, sizeof number, NULL, 0);
  return 0;
}

void start(struct command *c, const char *body, size_t n) {
  struct run_request want;
  struct ends e = {{-1, -1, -1}, {-1, -1}, {-1, -1}};
  struct words w = {NULL, NULL, NULL, NULL};
  char *all = malloc(c->part_len + n + 1);
  if (!all) { not_started(c, ENOMEM); return; }
  if (c->part_len) memcpy(all, c->part, c->part_len);
  memcpy(all + c->part_len, body, n);
  n += c->part_len;
  if (n < sizeof want) { free(all); not_started(c, EINVAL); return; }
  memcpy(&want, all, sizeof want);
  rewind_stdin(c);
  set_bounds(c, &want);
  int error = want.argc == 0 || want.argc > 65536 || want.envc > 65536 ? EINVAL : take_words(&w, &want, all + sizeof want, n - sizeof want);
  if (!error && lay_streams(c, &want, &e)) error = errno;
  if (!error) error = want.flags & RUN_WARM ? launch_warm(c, &want, all + sizeof want, n - sizeof want, &e) : launch(c, &want, &w, &e);
  drop_theirs(&e);
  close_pair(e.report); close_pair(e.link);
  free(all); free(w.block); free(c->part); c->part = NULL; c->part_len = c->part_cap = 0;
  if (c->channel >= 0) { close(c->channel); c->channel = -1; }
  if (error) not_started(c, error);
  else c->state = RUNNING;
}
