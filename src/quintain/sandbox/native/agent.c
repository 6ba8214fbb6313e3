/* PID 1 of a sandbox: runs commands as the program's user, reaps everything, serves files, answers one socket.
   It runs under a user of its own (not when rootless), is undumpable, and parses nothing that the program wrote. */
#include "agent.h"
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "files.h"

#define LEFTOVER_NS 5000000000ull
#define PIPE_ROUNDS 17 /* the most that a pipe can hold, in frames */

struct command commands[MAX_COMMANDS];
uint32_t program_uid;
struct walls walls;
sigset_t no_signals;
static int sock, highest; /* no command lies above `highest` */
static uint64_t cores, frozen_ns;

uint64_t now_ns(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec; }

void agent_broken(int fd, const char *where, int error) {
  struct { struct frame f; int32_t error; char where[60]; } m = {{A_BROKEN, 0}, error, ""};
  snprintf(m.where, sizeof m.where, "%s", where);
  send(fd, &m, sizeof m, MSG_NOSIGNAL);
}

/* ---- commands ---- */
static struct command *find(uint32_t id, int make) {
  struct command *spare = NULL;
  for (int i = 0; i < MAX_COMMANDS; i++) {
    if (i < highest && commands[i].state != FREE && commands[i].id == id) return &commands[i];
    if (commands[i].state == FREE && !spare) spare = &commands[i];
  }
  if (!make || !spare) return NULL;
  if (spare - commands >= highest) highest = (int)(spare - commands) + 1;
  memset(spare, 0, sizeof *spare);
  spare->state = STAGED; spare->id = id;
  spare->stdin_fd = spare->channel = spare->out[0].fd = spare->out[1].fd = spare->link = spare->input.fd = -1;
  return spare;
}

/* Whose processes besides this one's may be alive: none, only such as have wardens, or some without. */
enum others { NOBODY, WARDED, UNWARDED };
static enum others others_than(const struct command *c) {
  enum others found = NOBODY;
  for (int i = 0; i < highest; i++) {
    const struct command *o = &commands[i];
    if (o == c || o->state < RUNNING || (o->state == ENDING && o->link < 0)) continue;
    if (o->link < 0) return UNWARDED;
    found = WARDED;
  }
  return found;
}

/* Kills what fell to us and belongs to no warden: left by a command without one, or by a killed warden. */
static int sweep_strays(void) {
  pid_t spare[MAX_COMMANDS];
  int n = 0;
  for (int i = 0; i < highest; i++) if (commands[i].state >= RUNNING && commands[i].link >= 0) spare[n++] = commands[i].pid;
  return kill_children(spare, n);
}

static uint64_t reaped_cpu_ns(void) {
  struct rusage r;
  getrusage(RUSAGE_CHILDREN, &r);
  return (uint64_t)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000000ull + (uint64_t)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1000ull;
}

/* CPU time of the whole sandbox, children that nobody waited for included. */
uint64_t used_cpu_ns(void) {
  char text[256];
  if (walls.cpu_fd < 0) return reaped_cpu_ns();
  ssize_t n = pread(walls.cpu_fd, text, sizeof text - 1, 0);
  if (n <= 0) return reaped_cpu_ns();
  text[n] = 0;
  return strncmp(text, "usage_usec ", 11) ? strtoull(text, NULL, 10) : strtoull(text + 11, NULL, 10) * 1000;
}

static void release(struct command *c) {
  for (int i = 0; i < 2; i++) { if (c->out[i].fd >= 0) close(c->out[i].fd); free(c->out[i].ring); }
  int fds[] = {c->stdin_fd, c->channel, c->link, c->input.fd};
  for (int i = 0; i < 4; i++) if (fds[i] >= 0) close(fds[i]);
  free(c->part); free(c->input.bytes);
  memset(c, 0, sizeof *c);
  while (highest && commands[highest - 1].state == FREE) highest--;
}

static void report(struct command *c, int rounds) {
  for (int i = 0; i < 2; i++) { drain(c, i, rounds); send_tail(c, i); }
  c->result.out_bytes = c->out[0].total; c->result.err_bytes = c->out[1].total;
  c->result.cpu_ns = used_cpu_ns() - c->cpu_before_ns;
  c->result.disk_bytes = disk_used_bytes();
  say(A_EXIT, c->id, &c->result, sizeof c->result, NULL, 0);
}

void finish(struct command *c) { c->state = ENDING; report(c, 1 << 14); release(c); }

static void kill_tree(struct command *c) {
  if (c->link >= 0) {
    struct order whole = {SIGKILL, 1};
    send(c->link, &whole, sizeof whole, MSG_DONTWAIT | MSG_NOSIGNAL);
    kill(c->pid, SIGCONT); /* a frozen warden obeys late */
    return;
  }
  if (c->pid > 0) { kill(-c->pid, SIGKILL); if (c->state == RUNNING) kill(c->pid, SIGKILL); }
  if (others_than(c) == NOBODY) kill(-1, SIGKILL); /* nobody else's: whatever fled into another session dies too */
}

static void ended(struct command *c, int status, uint64_t peak_rss_bytes) {
  c->ended = 1;
  c->result.wait_status = status;
  c->result.wall_ns = now_ns() - c->start_ns;
  c->result.peak_rss_bytes = peak_rss_bytes;
  c->leftover_ns = now_ns() + LEFTOVER_NS;
  if (c->flags & RUN_LINGER && c->link >= 0 && !(c->result.flags & (EXIT_KILLED | EXIT_TIMED_OUT | EXIT_CPU))) {
    c->state = ENDING;
    report(c, PIPE_ROUNDS);
    c->state = LINGERING;
    return;
  }
  c->state = ENDING;
  kill_tree(c);
}

/* News of a warden: its program has ended, or it is gone itself and with it all that it had to watch. */
static void hear(struct command *c) {
  struct news n;
  ssize_t k = recv(c->link, &n, sizeof n, MSG_DONTWAIT);
  if (k < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (k == (ssize_t)sizeof n) { if (c->state == RUNNING) ended(c, n.status, n.peak_rss_bytes); return; }
  if (c->state == RUNNING) ended(c, SIGKILL, 0); /* somebody killed the warden */
  close(c->link); c->link = -1;
  if (c->state == LINGERING) { uint32_t id = c->id; release(c); say(A_GONE, id, NULL, 0, NULL, 0); }
}

static int may_finish(struct command *c, int childless) {
  if (c->link >= 0) return 0; /* its warden has not said that all are gone */
  if (childless) return 1;
  switch (others_than(c)) {
    case NOBODY: kill(-1, SIGKILL); return 0; /* a fork that was under way when the first one fell */
    case WARDED: return sweep_strays() <= 0;
    default: return 1;
  }
}

static void reap(void) {
  int status; struct rusage r; pid_t pid;
  while ((pid = wait4(-1, &status, WNOHANG | __WALL, &r)) > 0)
    for (int i = 0; i < highest; i++) {
      struct command *c = &commands[i];
      if (c->state != RUNNING || c->link >= 0 || c->pid != pid) continue;
      ended(c, status, (uint64_t)r.ru_maxrss * 1024ull);
      break;
    }
  int childless = pid < 0 && errno == ECHILD;
  for (int i = 0; i < highest; i++) {
    struct command *c = &commands[i];
    if (c->state != ENDING) continue;
    if (may_finish(c, childless)) { finish(c); continue; }
    if (now_ns() > c->leftover_ns && !frozen_ns) { c->result.flags |= EXIT_LEFTOVER; finish(c); }
  }
}

static int is_ending(void) {
  for (int i = 0; i < highest; i++) if (commands[i].state == ENDING) return 1;
  return 0;
}

static int wait_ms(void) {
  uint64_t now = now_ns(), next = UINT64_MAX;
  for (int i = 0; i < highest; i++) {
    const struct command *c = &commands[i];
    if (c->state == RUNNING && !frozen_ns && c->deadline_ns < next) next = c->deadline_ns;
    if (c->state == RUNNING && !frozen_ns && c->cpu_check_ns < next) next = c->cpu_check_ns;
    if (c->state == ENDING && now + 20000000ull < next) next = now + 20000000ull;
  }
  if (next == UINT64_MAX) return -1;
  return next <= now ? 0 : (int)((next - now) / 1000000ull + 1 > 3600000 ? 3600000 : (next - now) / 1000000ull + 1);
}

static void expire(void) {
  uint64_t now = now_ns();
  if (frozen_ns) return;
  for (int i = 0; i < highest; i++) {
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

/* Stops every process but us, or lets them go on with the time of the pause given back. The kernel stops all at once: a fork
   under way is restarted after its stop. The program's parents can see it (WUNTRACED). */
static void freeze(uint32_t id, int stop) {
  struct reply r = {0, 0, 0};
  if (stop && !frozen_ns) { frozen_ns = now_ns(); kill(-1, SIGSTOP); }
  else if (!stop && frozen_ns) {
    uint64_t pause = now_ns() - frozen_ns;
    frozen_ns = 0;
    for (int i = 0; i < highest; i++) { commands[i].deadline_ns += pause; commands[i].cpu_check_ns += pause; commands[i].leftover_ns += pause; }
    kill(-1, SIGCONT);
  }
  say(A_REPLY, id, &r, sizeof r, NULL, 0);
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

/* To a command that runs already. */
static void steer(struct command *c, uint32_t op, const char *body, size_t n) {
  struct order o = {0, 0};
  uint64_t number = 0;
  if (op == A_SIGNAL) {
    if (n < sizeof o || c->state != RUNNING) return;
    memcpy(&o, body, sizeof o);
    if (c->link >= 0) send(c->link, &o, sizeof o, MSG_DONTWAIT | MSG_NOSIGNAL); else kill(-c->pid, o.signal);
  } else if (op == A_KILL) {
    if (c->state == RUNNING) c->result.flags |= EXIT_KILLED;
    if (c->state == RUNNING || c->state == LINGERING) kill_tree(c);
  } else if (op == A_INPUT) take_input(c, body, n);
  else if (op == A_INPUT_END) end_input(c);
  else if (n >= sizeof number) {
    memcpy(&number, body, sizeof number);
    if (op == A_CREDIT) c->credit += number;
    else if (op == A_RESIZE && c->flags & RUN_TERMINAL && c->out[0].fd >= 0) terminal_resize(c->out[0].fd, (uint16_t)(number >> 16), (uint16_t)number);
  }
}

static int is_steering(uint32_t op) { return op == A_KILL || (op >= A_SIGNAL && op <= A_RESIZE); }

/* What needs no command: answered at once. */
static int answer_now(uint32_t op, uint32_t id, const char *body, size_t n) {
  uint64_t number = 0;
  if (n >= sizeof number) memcpy(&number, body, sizeof number);
  if (op == A_PING) say(A_PONG, id, NULL, 0, body, n);
  else if (op == A_PROCESSES) send_processes(id);
  else if (op == A_FREEZE) freeze(id, number != 0);
  else if (op == A_LISTEN) open_door(id, (uint16_t)number);
  else return 0;
  return 1;
}

static void receive(void) {
  static char bytes[FRAME_BYTES + 4096];
  char control[CMSG_SPACE((MAX_CGROUPS + 1) * sizeof(int))];
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
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    if (h && h->cmsg_type != SCM_RIGHTS) h = NULL;
    if (f.op == A_JOIN) { join_groups(f.id, h ? (const int *)CMSG_DATA(h) : NULL, h ? (h->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0, body, len); continue; }
    if (answer_now(f.op, f.id, body, len)) continue;
    if (is_steering(f.op)) {
      struct command *c = find(f.id, 0);
      if (c && c->state >= RUNNING) steer(c, f.op, body, len);
      continue;
    }
    struct command *c = find(f.id, 1);
    if (!c || c->state != STAGED) { reply_error(f.id, EBUSY); continue; }
    if (h) memcpy(&c->channel, CMSG_DATA(h), sizeof(int));
    if (f.op == A_PART) stage_part(c, body, len);
    else if (f.op == A_STDIN) stage_stdin(c, body, len);
    else if (f.op == A_RUN) start(c, body, len);
    else serve_files(f.op, c, body, len);
  }
}

enum line { OUT, ERR, LINK, IN };
struct watch { struct command *c; uint32_t id; enum line line; };

static nfds_t watch_commands(struct pollfd *p, struct watch *who, nfds_t n) {
  for (int i = 0; i < highest; i++) {
    struct command *c = &commands[i];
    int fds[] = {may_read(c, 0) ? c->out[0].fd : -1, may_read(c, 1) ? c->out[1].fd : -1, c->state >= RUNNING ? c->link : -1,
                 c->state >= RUNNING && c->input.at < c->input.used ? c->input.fd : -1};
    for (enum line line = OUT; line <= IN; line++)
      if (fds[line] >= 0) { p[n] = (struct pollfd){fds[line], line == IN ? POLLOUT : POLLIN, 0}; who[n++] = (struct watch){c, c->id, line}; }
  }
  return n;
}

static void attend(const struct watch *w) {
  struct command *c = w->c;
  if (c->state < RUNNING || c->id != w->id) return; /* it has ended in this very round */
  if (w->line == LINK) { if (c->link >= 0) hear(c); }
  else if (w->line == IN) pass_input(c);
  else drain(c, w->line == ERR, 16);
}

/* While it is so, whatever we start inherits a high place among those whom the kernel kills for memory. So do we for the moment;
   each time it is a little lower, so that what ran before comes first, and never as low as where we came from. */
void agent_expendable(int yes) {
  static char own[12] = "";
  static int started;
  char score[12];
  if (walls.oom_fd < 0) return;
  if (!*own) { ssize_t n = pread(walls.oom_fd, own, sizeof own - 1, 0); own[n > 0 ? n : 0] = 0; }
  int level = 1000 - 10 * (started < 50 ? started : 50), floor = atoi(own);
  snprintf(score, sizeof score, "%d", level > floor ? level : floor);
  if (!yes) started++;
  const char *text = yes ? score : own;
  if (pwrite(walls.oom_fd, text, strlen(text), 0) < 0) _exit(75);
}

/* Ahead of need, so that what is forked finds it ready: to count the cores is to read half of /proc/stat. */
void agent_ready(void) {
  long n = cores ? (long)cores : sysconf(_SC_NPROCESSORS_ONLN);
  cores = n > 0 ? (uint64_t)n : 1;
}

_Noreturn void agent_main(int socket_fd, struct walls given) {
  static struct pollfd p[2 + 4 * MAX_COMMANDS];
  static struct watch who[2 + 4 * MAX_COMMANDS];
  sock = socket_fd; walls = given; program_uid = given.program_uid;
  outbox_open(sock);
  agent_ready();
  sigset_t set;
  sigemptyset(&set); sigaddset(&set, SIGCHLD);
  sigprocmask(SIG_SETMASK, NULL, &no_signals);
  sigemptyset(&no_signals);
  sigprocmask(SIG_SETMASK, &set, NULL);
  signal(SIGPIPE, SIG_IGN);
  int children = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  if (children < 0) { agent_broken(sock, "make a signalfd", errno); _exit(73); }
  say(A_READY, 0, NULL, 0, NULL, 0);
  if (walls.cpu_fd >= 0) lay_ahead(); /* not where thousands are made at once, which may run nothing */
  for (;;) {
    p[0] = (struct pollfd){sock, (short)(POLLIN | (packets_queued() ? POLLOUT : 0)), 0};
    p[1] = (struct pollfd){children, POLLIN, 0};
    nfds_t n = watch_commands(p, who, 2);
    if (poll(p, n, wait_ms()) < 0 && errno != EINTR) _exit(74);
    flush_packets();
    for (nfds_t i = 2; i < n; i++) if (p[i].revents) attend(&who[i]);
    struct signalfd_siginfo seen[8];
    while (p[1].revents && read(children, seen, sizeof seen) > 0) ;
    if (p[1].revents || is_ending()) reap();
    expire();
    if (p[0].revents & (POLLIN | POLLHUP | POLLERR)) receive();
  }
}
