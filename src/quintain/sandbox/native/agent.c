/* PID 1 of a sandbox: runs commands as the program's user, reaps everything, serves files, answers one socket.
   It runs under a user of its own (not when rootless), is undumpable, and parses nothing that the program wrote. */
#include "sandbox.h"
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "files.h"
#include "snapshot.h"

#define MAX_COMMANDS 16
#define LEFTOVER_NS 5000000000ull

struct stream {                 /* stdout or stderr: the first half goes out at once, the last half waits in a ring */
  int fd; uint64_t total, head_left; char *ring; size_t capacity, used, at;
};
enum state { FREE, STAGED, RUNNING, ENDING };
struct command {
  enum state state; uint32_t id; pid_t pid; int streaming;
  struct stream out[2]; uint64_t start_ns, deadline_ns, leftover_ns, cpu_before_ns, cpu_limit_ns, cpu_check_ns;
  char *part; size_t part_len, part_cap; int stdin_fd, channel;
  struct run_exit result;
};
static struct command commands[MAX_COMMANDS];
static int sock, cpu_account; static uint32_t program_uid; static sigset_t no_signals;

uint64_t now_ns(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec; }

/* ---- what goes out: never blocks, bounded by what commands may keep ---- */
struct packet { struct packet *next; size_t len; char bytes[]; };
static struct packet *first, *last; static size_t queued;

static uint64_t cores = 1;

static void flush_packets(void) {
  while (first) {
    if (send(sock, first->bytes, first->len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
      if (errno == EAGAIN || errno == ENOBUFS || errno == EINTR) return;
      _exit(0); /* the house is gone, and so are we */
    }
    struct packet *sent = first;
    if (!(first = first->next)) last = NULL;
    queued -= sent->len;
    free(sent);
  }
}

void say(uint32_t op, uint32_t id, const void *head, size_t n, const void *body, size_t m) {
  struct packet *p = malloc(sizeof *p + sizeof(struct frame) + n + m);
  if (!p) _exit(72);
  struct frame f = {op, id};
  memcpy(p->bytes, &f, sizeof f);
  if (n) memcpy(p->bytes + sizeof f, head, n);
  if (m) memcpy(p->bytes + sizeof f + n, body, m);
  p->len = sizeof f + n + m; p->next = NULL;
  if (last) last->next = p; else first = p;
  last = p; queued += p->len;
  flush_packets();
}

void agent_broken(int fd, const char *where, int error) {
  struct { struct frame f; int32_t error; char where[60]; } m = {{A_BROKEN, 0}, error, ""};
  snprintf(m.where, sizeof m.where, "%s", where);
  send(fd, &m, sizeof m, MSG_NOSIGNAL);
}

/* ---- bounded output ---- */
static void keep(struct command *c, int which, const char *bytes, size_t n) {
  struct stream *s = &c->out[which];
  s->total += n;
  size_t now = c->streaming ? n : (n < s->head_left ? n : (size_t)s->head_left);
  if (now) { say(which ? A_ERR : A_OUT, c->id, NULL, 0, bytes, now); if (!c->streaming) s->head_left -= now; bytes += now; n -= now; }
  if (!n || !s->capacity) return;
  if (!s->ring && !(s->ring = malloc(s->capacity))) { s->capacity = 0; return; }
  if (n > s->capacity) { bytes += n - s->capacity; n = s->capacity; }
  size_t end = s->capacity - s->at, part = n < end ? n : end;
  memcpy(s->ring + s->at, bytes, part);
  memcpy(s->ring, bytes + part, n - part);
  s->at = (s->at + n) % s->capacity;
  s->used = s->used + n > s->capacity ? s->capacity : s->used + n;
}

/* Returns 0 when the pipe is at its end. Reads a bounded amount so that a flood cannot hold the loop. */
static int drain(struct command *c, int which, int rounds) {
  static char bytes[FRAME_BYTES - 512];
  struct stream *s = &c->out[which];
  while (s->fd >= 0 && rounds--) {
    ssize_t n = read(s->fd, bytes, sizeof bytes);
    if (n > 0) { keep(c, which, bytes, (size_t)n); continue; }
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 1;
    close(s->fd); s->fd = -1;
  }
  return s->fd >= 0;
}

static void send_tail(struct command *c, int which) {
  struct stream *s = &c->out[which];
  size_t start = s->used < s->capacity ? 0 : s->at, left = s->used;
  while (left) {
    size_t n = s->capacity - start < left ? s->capacity - start : left;
    if (n > FRAME_BYTES - 512) n = FRAME_BYTES - 512;
    say(which ? A_ERR_TAIL : A_OUT_TAIL, c->id, NULL, 0, s->ring + start, n);
    start = (start + n) % s->capacity; left -= n;
  }
  free(s->ring); s->ring = NULL; s->used = s->at = 0;
}

/* ---- commands ---- */
static struct command *find(uint32_t id, int make) {
  struct command *spare = NULL;
  for (int i = 0; i < MAX_COMMANDS; i++) {
    if (commands[i].state != FREE && commands[i].id == id) return &commands[i];
    if (commands[i].state == FREE && !spare) spare = &commands[i];
  }
  if (!make || !spare) return NULL;
  memset(spare, 0, sizeof *spare);
  spare->state = STAGED; spare->id = id; spare->stdin_fd = spare->channel = spare->out[0].fd = spare->out[1].fd = -1;
  return spare;
}

static int alive(void) { int n = 0; for (int i = 0; i < MAX_COMMANDS; i++) n += commands[i].state == RUNNING; return n; }

static uint64_t reaped_cpu_ns(void) {
  struct rusage r;
  getrusage(RUSAGE_CHILDREN, &r);
  return (uint64_t)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000000ull + (uint64_t)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1000ull;
}

/* CPU time of the whole sandbox, children that nobody waited for included. */
static uint64_t used_cpu_ns(void) {
  char text[256];
  if (cpu_account < 0) return reaped_cpu_ns();
  ssize_t n = pread(cpu_account, text, sizeof text - 1, 0);
  if (n <= 0) return reaped_cpu_ns();
  text[n] = 0;
  return strncmp(text, "usage_usec ", 11) ? strtoull(text, NULL, 10) : strtoull(text + 11, NULL, 10) * 1000;
}

warm_entry agent_warm;

static void release(struct command *c) {
  for (int i = 0; i < 2; i++) { if (c->out[i].fd >= 0) close(c->out[i].fd); free(c->out[i].ring); }
  if (c->stdin_fd >= 0) close(c->stdin_fd);
  if (c->channel >= 0) close(c->channel);
  free(c->part);
  memset(c, 0, sizeof *c);
}

static void finish(struct command *c) {
  for (int i = 0; i < 2; i++) { drain(c, i, 1 << 14); send_tail(c, i); }
  c->result.out_bytes = c->out[0].total; c->result.err_bytes = c->out[1].total;
  c->result.cpu_ns = used_cpu_ns() - c->cpu_before_ns;
  say(A_EXIT, c->id, &c->result, sizeof c->result, NULL, 0);
  release(c);
}

static void kill_tree(struct command *c) {
  if (c->pid > 0) { kill(-c->pid, SIGKILL); if (c->state == RUNNING) kill(c->pid, SIGKILL); }
  if (alive() - (c->state == RUNNING) == 0) kill(-1, SIGKILL); /* nobody else's: whatever fled into another session dies too */
}

static void set_limit(int what, rlim_t value) {
  struct rlimit r;
  if (getrlimit((__rlimit_resource_t)what, &r)) return;
  if (value < r.rlim_max) r.rlim_max = value;
  if (r.rlim_cur > r.rlim_max) r.rlim_cur = r.rlim_max;
  if (what != RLIMIT_NPROC) r.rlim_cur = r.rlim_max;
  setrlimit((__rlimit_resource_t)what, &r);
}

/* In the child: become the program. Any failure is written to `report` as errno. */
static _Noreturn void exec_program(struct command *c, const struct run_request *want, char *strings, size_t n, int out, int err, int report) {
  char **argv = calloc(want->argc + 1, sizeof *argv), **envp = calloc(want->envc + 1, sizeof *envp), *at = strings, *end = strings + n;
  char *cwd = at;
  int error = 0;
  if (!argv || !envp) { error = ENOMEM; goto out; }
  for (uint32_t i = 0; i <= want->argc + want->envc; i++) {
    char *stop = at < end ? memchr(at, 0, (size_t)(end - at)) : NULL;
    if (!stop) { error = EINVAL; goto out; }
    if (i > want->argc) envp[i - want->argc - 1] = at; else if (i) argv[i - 1] = at;
    at = stop + 1;
  }
  sigprocmask(SIG_SETMASK, &no_signals, NULL);
  signal(SIGPIPE, SIG_DFL);
  setsid();
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd >= 0) { if (write(fd, "1000", 4) != 4) error = errno; close(fd); } /* the program dies before its agent */
  struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct none[2];
  memset(none, 0, sizeof none);
  if (setresgid(program_uid, program_uid, program_uid) && getgid() != program_uid) { error = errno; goto out; }
  if (setresuid(program_uid, program_uid, program_uid) && getuid() != program_uid) { error = errno; goto out; }
  if (syscall(SYS_capset, &head, none)) { error = errno; goto out; }
  set_limit(RLIMIT_FSIZE, want->file_bytes);
  rlim_t seconds = (rlim_t)(want->cpu_ms / 1000 + 2); /* the agent counts the whole sandbox; this is for when it cannot */
  struct rlimit cpu = {seconds, seconds + 1};
  setrlimit(RLIMIT_CPU, &cpu);
  umask(022);
  error = 0;
  if (chdir(cwd)) { error = errno; goto out; }
  if (dup2(c->stdin_fd >= 0 ? c->stdin_fd : open("/dev/null", O_RDONLY), 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0) { error = errno; goto out; }
  if (want->flags & (RUN_SAVE | RUN_RESTORE)) { /* no program at all: our own code, with the program's rights */
    close(report);
    if (want->flags & RUN_SAVE) snapshot_save(c->channel); else snapshot_restore(c->channel);
  }
  int keep_report = fcntl(report, F_DUPFD_CLOEXEC, 64);
  if (c->channel >= 0) { if (c->channel == 3) fcntl(3, F_SETFD, 0); else if (dup2(c->channel, 3) < 0) { error = errno; goto out; } }
  syscall(SYS_close_range, c->channel >= 0 ? 4 : 3, (unsigned)keep_report - 1, 0);
  syscall(SYS_close_range, (unsigned)keep_report + 1, ~0u, 0);
  report = keep_report;
  environ = envp;
  if (want->flags & RUN_WARM) {
    if (!agent_warm) { error = ENOSYS; goto out; }
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* as after an exec: the program may look at itself */
    close(report);
    _exit(agent_warm(want->argc, argv, want->envc, envp));
  }
  execvp(argv[0], argv);
  error = errno;
out:
  if (write(report, &error, sizeof error) < 0) _exit(126);
  _exit(127);
}

static void not_started(struct command *c, int error) {
  c->result.error = error; c->result.flags |= EXIT_NOT_STARTED;
  finish(c);
}

static void start(struct command *c, const char *body, size_t n) {
  struct run_request want;
  char *all = malloc(c->part_len + n + 1);
  if (!all) { not_started(c, ENOMEM); return; }
  if (c->part_len) memcpy(all, c->part, c->part_len);
  memcpy(all + c->part_len, body, n);
  n += c->part_len;
  if (n < sizeof want) { free(all); not_started(c, EINVAL); return; }
  memcpy(&want, all, sizeof want);
  int out[2] = {-1, -1}, err[2] = {-1, -1}, report[2] = {-1, -1};
  if (want.argc == 0 || want.argc > 65536 || want.envc > 65536 || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC) || pipe2(report, O_CLOEXEC)) {
    int error = errno ? errno : EINVAL;
    for (int i = 0; i < 2; i++) { if (out[i] >= 0) close(out[i]); if (err[i] >= 0) close(err[i]); if (report[i] >= 0) close(report[i]); }
    free(all); not_started(c, error); return;
  }
  if (c->stdin_fd >= 0) { /* hand over a read-only description, at its beginning */
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", c->stdin_fd);
    int again = open(path, O_RDONLY | O_CLOEXEC);
    if (again >= 0) { close(c->stdin_fd); c->stdin_fd = again; } else lseek(c->stdin_fd, 0, SEEK_SET);
  }
  c->streaming = (want.flags & RUN_STREAM) != 0;
  c->cpu_before_ns = used_cpu_ns();
  c->cpu_limit_ns = want.cpu_ms * 1000000ull;
  c->start_ns = now_ns();
  c->deadline_ns = c->start_ns + want.wall_ms * 1000000ull;
  c->cpu_check_ns = c->start_ns + c->cpu_limit_ns;
  pid_t pid = fork();
  if (pid == 0) exec_program(c, &want, all + sizeof want, n - sizeof want, out[1], err[1], report[1]);
  int error = pid < 0 ? errno : 0;
  close(out[1]); close(err[1]); close(report[1]);
  free(all); free(c->part); c->part = NULL; c->part_len = c->part_cap = 0;
  if (c->channel >= 0) { close(c->channel); c->channel = -1; }
  if (c->stdin_fd >= 0) { close(c->stdin_fd); c->stdin_fd = -1; }
  if (pid > 0 && read(report[0], &error, sizeof error) == (ssize_t)sizeof error) waitpid(pid, NULL, 0);
  else if (pid > 0) error = 0;
  close(report[0]);
  for (int i = 0; i < 2; i++) {
    struct stream *s = &c->out[i];
    s->fd = i ? err[0] : out[0];
    fcntl(s->fd, F_SETFL, O_NONBLOCK);
    s->head_left = (want.output_bytes + 1) / 2; s->capacity = c->streaming ? 0 : (size_t)(want.output_bytes - s->head_left);
  }
  if (error) { not_started(c, error); return; }
  c->pid = pid; c->state = RUNNING;
}

static void ended(struct command *c, int status, const struct rusage *r) {
  c->result.wait_status = status;
  c->result.wall_ns = now_ns() - c->start_ns;
  c->result.peak_rss_bytes = (uint64_t)r->ru_maxrss * 1024ull;
  c->state = ENDING;
  c->leftover_ns = now_ns() + LEFTOVER_NS;
  kill_tree(c);
}

static void reap(void) {
  int status; struct rusage r; pid_t pid;
  while ((pid = wait4(-1, &status, WNOHANG | __WALL, &r)) > 0)
    for (int i = 0; i < MAX_COMMANDS; i++)
      if (commands[i].state == RUNNING && commands[i].pid == pid) { ended(&commands[i], status, &r); break; }
  int childless = pid < 0 && errno == ECHILD, others = alive();
  for (int i = 0; i < MAX_COMMANDS; i++) {
    struct command *c = &commands[i];
    if (c->state != ENDING) continue;
    if (childless || others) { finish(c); continue; }
    if (now_ns() > c->leftover_ns) { c->result.flags |= EXIT_LEFTOVER; finish(c); continue; }
    kill(-1, SIGKILL); /* a fork that was under way when the first one fell */
  }
}

static int wait_ms(void) {
  uint64_t now = now_ns(), next = UINT64_MAX;
  for (int i = 0; i < MAX_COMMANDS; i++) {
    if (commands[i].state == RUNNING && commands[i].deadline_ns < next) next = commands[i].deadline_ns;
    if (commands[i].state == RUNNING && commands[i].cpu_check_ns < next) next = commands[i].cpu_check_ns;
    if (commands[i].state == ENDING && now + 20000000ull < next) next = now + 20000000ull;
  }
  if (next == UINT64_MAX) return -1;
  return next <= now ? 0 : (int)((next - now) / 1000000ull + 1 > 3600000 ? 3600000 : (next - now) / 1000000ull + 1);
}

static void expire(void) {
  uint64_t now = now_ns();
  for (int i = 0; i < MAX_COMMANDS; i++) {
    struct command *c = &commands[i];
    if (c->state != RUNNING || c->result.flags & (EXIT_TIMED_OUT | EXIT_CPU)) continue;
    if (c->deadline_ns <= now) { c->result.flags |= EXIT_TIMED_OUT; kill_tree(c); continue; }
    if (c->cpu_check_ns > now) continue;
    uint64_t used = used_cpu_ns() - c->cpu_before_ns;
    if (used >= c->cpu_limit_ns) { c->result.flags |= EXIT_CPU; kill_tree(c); c->cpu_check_ns = UINT64_MAX; }
    else { /* no sooner can it be over: what is left, were every core at work */
      uint64_t wait = (c->cpu_limit_ns - used) / cores;
      c->cpu_check_ns = now + (wait < 10000000ull ? 10000000ull : wait);
    }
  }
}

static void stage_part(struct command *c, const char *body, size_t n) {
  if (c->part_len + n > PART_LIMIT) return; /* the request that follows will be short, and refused */
  if (c->part_len + n > c->part_cap) {
    size_t cap = (c->part_len + n) * 2;
    char *more = realloc(c->part, cap);
    if (!more) return;
    c->part = more; c->part_cap = cap;
  }
  memcpy(c->part + c->part_len, body, n);
  c->part_len += n;
}

static void stage_stdin(struct command *c, const char *body, size_t n) {
  if (c->stdin_fd < 0) c->stdin_fd = memfd_create("stdin", MFD_CLOEXEC);
  while (c->stdin_fd >= 0 && n) {
    ssize_t k = write(c->stdin_fd, body, n);
    if (k <= 0) return;
    body += k; n -= (size_t)k;
  }
}

static void reply_error(uint32_t id, int error) { struct reply r = {error, 0, 0}; say(A_REPLY, id, &r, sizeof r, NULL, 0); }

static void serve_files(uint32_t op, struct command *c, char *body, size_t n) {
  char *all = body; size_t len = n;
  uint32_t id = c->id;
  if (c->part_len) {
    if (!(all = malloc(c->part_len + n + 1))) { reply_error(id, ENOMEM); release(c); return; }
    memcpy(all, c->part, c->part_len); memcpy(all + c->part_len, body, n); len = c->part_len + n;
  }
  files_serve(op, id, all, len, program_uid);
  if (all != body) free(all);
  release(c);
}

static void receive(void) {
  static char bytes[FRAME_BYTES + 4096];
  char control[CMSG_SPACE(sizeof(int))];
  for (int round = 0; round < 64; round++) {
    struct iovec v = {bytes, sizeof bytes - 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(sock, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) _exit(0);
    struct frame f;
    if ((size_t)n < sizeof f) continue;
    memcpy(&f, bytes, sizeof f);
    char *body = bytes + sizeof f; size_t len = (size_t)n - sizeof f;
    body[len] = 0;
    if (f.op == A_PING) { say(A_PONG, f.id, NULL, 0, body, len); continue; }
    if (f.op == A_KILL) { struct command *c = find(f.id, 0); if (c && c->state == RUNNING) { c->result.flags |= EXIT_KILLED; kill_tree(c); } continue; }
    struct command *c = find(f.id, 1);
    if (!c || c->state != STAGED) { reply_error(f.id, EBUSY); continue; }
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    if (h && h->cmsg_type == SCM_RIGHTS) memcpy(&c->channel, CMSG_DATA(h), sizeof(int));
    if (f.op == A_PART) stage_part(c, body, len);
    else if (f.op == A_STDIN) stage_stdin(c, body, len);
    else if (f.op == A_RUN) start(c, body, len);
    else serve_files(f.op, c, body, len);
  }
}

_Noreturn void agent_main(int socket_fd, int cpu_fd, uint32_t uid) {
  sock = socket_fd; cpu_account = cpu_fd; program_uid = uid;
  cores = (uint64_t)(sysconf(_SC_NPROCESSORS_ONLN) > 0 ? sysconf(_SC_NPROCESSORS_ONLN) : 1);
  sigset_t set;
  sigemptyset(&set); sigaddset(&set, SIGCHLD);
  sigprocmask(SIG_SETMASK, NULL, &no_signals);
  sigemptyset(&no_signals);
  sigprocmask(SIG_SETMASK, &set, NULL);
  signal(SIGPIPE, SIG_IGN);
  int children = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  if (children < 0) { agent_broken(sock, "make a signalfd", errno); _exit(73); }
  say(A_READY, 0, NULL, 0, NULL, 0);
  for (;;) {
    struct pollfd p[2 + 2 * MAX_COMMANDS] = {{sock, (short)(POLLIN | (first ? POLLOUT : 0)), 0}, {children, POLLIN, 0}};
    struct { struct command *c; int which; } who[2 + 2 * MAX_COMMANDS];
    nfds_t n = 2;
    for (int i = 0; i < MAX_COMMANDS; i++)
      for (int w = 0; w < 2; w++)
        if (commands[i].state >= RUNNING && commands[i].out[w].fd >= 0 && (!commands[i].streaming || queued < 4 * FRAME_BYTES)) {
          p[n] = (struct pollfd){commands[i].out[w].fd, POLLIN, 0};
          who[n].c = &commands[i]; who[n++].which = w;
        }
    if (poll(p, n, wait_ms()) < 0 && errno != EINTR) _exit(74);
    flush_packets();
    for (nfds_t i = 2; i < n; i++) if (p[i].revents) drain(who[i].c, who[i].which, 16);
    struct signalfd_siginfo seen[8];
    while (read(children, seen, sizeof seen) > 0) ;
    reap();
    expire();
    if (p[0].revents & (POLLIN | POLLHUP | POLLERR)) receive();
  }
}
