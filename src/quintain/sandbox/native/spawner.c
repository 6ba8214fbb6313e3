/* Makes sandboxes of one image in batches, watches them, and takes them down. Single-threaded: one request after another,
   so that a sandbox costs one clone3 of a small process in a tiny mount table. */
#include "sandbox.h"
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct plan *plan;
static struct cell *cells;         /* indexed by slot; a slot is a pair of uids and a cgroup name */
static uint32_t ncells, used;   /* slots from `used` on have never been taken */

static void tell_with(const void *message, size_t n, const int *fds, size_t count) {
  struct iovec v = {(void *)message, n};
  char control[CMSG_SPACE((MAX_CGROUPS + 1) * sizeof(int))];
  memset(control, 0, sizeof control);
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
  if (count) {
    m.msg_control = control; m.msg_controllen = CMSG_SPACE(count * sizeof(int));
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    h->cmsg_level = SOL_SOCKET; h->cmsg_type = SCM_RIGHTS; h->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(h), fds, count * sizeof(int));
  }
  while (sendmsg(plan->control, &m, MSG_NOSIGNAL) < 0) if (errno != EINTR) _exit(0); /* the house is gone */
}

static void tell(const void *message, size_t n, int fd) { tell_with(message, n, &fd, fd >= 0); }

static void refuse(uint32_t id, int error, const char *where) {
  struct refused r = {OP_REFUSED, id, error, ""};
  snprintf(r.where, sizeof r.where, "%s", where);
  tell(&r, sizeof r, -1);
}

/* A slot whose groups are ready comes first, then the one that was given back last: the fewer were ever used, the less each
   sandbox inherits of this table. Users come back with their slot: when it is free, every process and every file of theirs is
   gone. */
#define KEPT 32      /* how many slots wait with their groups */
#define HOLDING 32   /* up to how many living sandboxes keep descriptors open for the next: each new one must close its copies */
static uint32_t kept[KEPT], nkept, alive, *freed, nfreed;

static int free_slot(int bare) {
  if (nkept && !bare) return (int)kept[--nkept];
  if (nfreed) return (int)freed[--nfreed];
  return used < ncells ? (int)used++ : -1;
}

/* Without its groups, unless they serve again. One whose group could not be removed yet comes last. */
static void free_again(struct cell *cell, uint32_t slot) {
  int gone = cell->bare || !cgroup_remove(plan, slot);
  if (!gone) memmove(freed + 1, freed, nfreed * sizeof *freed);
  freed[gone ? nfreed : 0] = slot;
  nfreed++;
}

static int write_map(pid_t pid, const char *file, const char *text) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t n = write(fd, text, strlen(text));
  close(fd);
  return n < 0 ? -1 : 0;
}

static int bare_possible(void) { /* v2 would have to be left again by a process of its own: it is born into its group */
  for (int i = 0; i < plan->ncgroups; i++) if (plan->cgroups[i].kind == 'u') return 0;
  return plan->ncgroups > 0;
}

static void open_one(const struct open_request *want, uint32_t id) {
  int bare = want->flags & OPEN_BARE && bare_possible();
  int slot = free_slot(bare), pair[2] = {-1, -1}, gate[2] = {-1, -1};
  char where[64] = "";
  if (slot < 0) { refuse(id, EAGAIN, "find a free slot"); return; }
  struct cell *cell = &cells[slot];
  if (!cell->made) { for (int i = 0; i < MAX_CGROUPS; i++) cell->fds[i] = -1; cell->cpu_fd = -1; }
  cell->bare = bare; cell->want = *want;
  if (!bare && cgroup_make(plan, want, (uint32_t)slot, cell, where, sizeof where)) {
    int error = errno;
    cell->holds = 0;
    cgroup_done(plan, cell);
    free_again(cell, (uint32_t)slot);
    refuse(id, error, where);
    return;
  }
  struct clone_args args;
  memset(&args, 0, sizeof args);
  struct net net = {-1, -1};
  if (want->network == NET_LOOPBACK) net = netpool_take();
  int net_fd = want->network == NET_EMPTY ? netpool_empty() : net.fd;
  args.flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWUTS; /* ipc: one namespace for all of an engine's, see jail.c */
  if (net_fd < 0 && want->network != NET_HOST) args.flags |= CLONE_NEWNET;
  if (plan->rootless) args.flags |= CLONE_NEWUSER;
  args.exit_signal = SIGCHLD;
  pid_t pid = -1;
  int error = 0;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) { error = errno; snprintf(where, sizeof where, "make a socket pair"); }
  else if (plan->rootless && pipe2(gate, O_CLOEXEC)) { error = errno; snprintf(where, sizeof where, "make a pipe"); }
  else {
    pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0) {
      char go;
      if (plan->rootless) { close(gate[1]); if (read(gate[0], &go, 1) != 1) _exit(75); }
      jail_enter(plan, want, (uint32_t)slot, bare ? NULL : cell->fds, cell->cpu_fd, net_fd, pair[1]);
      _exit(76);
    }
    if (pid < 0) { error = errno; snprintf(where, sizeof where, "clone3"); }
    if (pid > 0 && plan->rootless) {
      const char *map = plan->writable ? "0 0 1" : "1000 0 1";
      if (write_map(pid, "uid_map", map) || write_map(pid, "gid_map", map) || write(gate[1], "g", 1) != 1) {
        error = errno; snprintf(where, sizeof where, "map the user"); kill(pid, SIGKILL); waitpid(pid, NULL, 0); pid = -1;
      }
    }
  }
  cell->holds = pid > 0 && alive < HOLDING && !bare;
  cell->net = net;
  if (net.fd >= 0 && !cell->holds) { netpool_drop(net); cell->net.fd = -1; }
  if (pair[1] >= 0) close(pair[1]);
  for (int i = 0; i < 2; i++) if (gate[i] >= 0) close(gate[i]);
  cgroup_done(plan, cell);
  if (pid < 0) {
    if (pair[0] >= 0) close(pair[0]);
    free_again(cell, (uint32_t)slot);
    refuse(id, error, where);
    return;
  }
  cell->id = id; cell->pid = pid; cell->closing = 0;
  alive++;
  struct opened done = {OP_OPENED, id, pid, (uint32_t)slot, bare ? 0u : (uint32_t)cell->again, (uint32_t)bare};
  tell(&done, sizeof done, pair[0]);
  close(pair[0]);
}

/* The end of one: tell what it used (unless the house asked for its end and knows), and keep what can serve again. */
static void bury(uint32_t slot, int status) {
  struct cell *cell = &cells[slot];
  struct down d;
  memset(&d, 0, sizeof d);
  d.op = OP_DOWN; d.id = cell->id; d.wait_status = status;
  d.oom_kills = d.peak_memory_bytes = d.cpu_ns = d.peak_processes = UINT64_MAX;
  int asked = cell->closing || (WIFEXITED(status) && WEXITSTATUS(status) == 0); /* the agent left when its socket closed */
  if (!asked && !cell->bare) cgroup_usage(plan, slot, &d);
  cell->pid = 0;
  alive--;
  if (cell->net.fd >= 0) netpool_give(cell->net);
  cell->net.fd = -1;
  if (cell->holds && asked && nkept < KEPT && cgroup_reuse(plan, slot, cell)) kept[nkept++] = slot;
  else { cell->holds = 0; cgroup_done(plan, cell); free_again(cell, slot); }
  tell(&d, sizeof d, -1);
}

static void reap(void) {
  int status;
  pid_t pid;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
    for (uint32_t slot = 0; slot < used; slot++)
      if (cells[slot].pid == pid) { bury(slot, status); break; }
}

static void close_one(uint32_t id) {
  for (uint32_t slot = 0; slot < used; slot++)
    if (cells[slot].pid && cells[slot].id == id) { cells[slot].closing = 1; kill(cells[slot].pid, SIGKILL); return; }
}

/* Control groups for one that has lived without: all of them, or an error. */
static void join_one(uint32_t id) {
  struct joined done = {OP_JOINED, id, ESRCH, 0};
  int fds[MAX_CGROUPS + 1];
  size_t n = 0;
  for (uint32_t slot = 0; slot < used; slot++) {
    struct cell *cell = &cells[slot];
    if (!cell->pid || cell->id != id || !(cell->want.flags & OPEN_BARE)) continue; /* may ask twice: who waited for the first may be gone */
    char where[64];
    done.error = cgroup_make(plan, &cell->want, slot, cell, where, sizeof where) ? errno : 0;
    cell->bare = 0; /* from here on there is something to remove */
    for (int i = 0; i < plan->ncgroups && !done.error; i++) fds[n++] = cell->fds[i];
    if (!done.error && cell->cpu_fd >= 0) { fds[n++] = cell->cpu_fd; done.accounts = 1; }
    tell_with(&done, sizeof done, fds, n);
    cell->holds = 0;
    cgroup_done(plan, cell);
    return;
  }
  tell(&done, sizeof done, -1);
}

static void serve(void) {
  char bytes[256];
  ssize_t n = recv(plan->control, bytes, sizeof bytes, 0);
  if (n <= 0) _exit(0); /* our sandboxes die with us; the keeper clears the groups */
  uint32_t op;
  memcpy(&op, bytes, sizeof op);
  if (op == OP_OPEN && (size_t)n == sizeof(struct open_request)) {
    struct open_request want;
    memcpy(&want, bytes, sizeof want);
    jail_ready(plan, &want);
    for (uint32_t i = 0; i < want.count; i++) open_one(&want, want.first + i);
  } else if (op == OP_CLOSE && (size_t)n == sizeof(struct close_request)) {
    struct close_request want;
    memcpy(&want, bytes, sizeof want);
    close_one(want.id);
  } else if (op == OP_JOIN && (size_t)n == sizeof(struct close_request)) {
    struct close_request want;
    memcpy(&want, bytes, sizeof want);
    join_one(want.id);
  }
}

/* Into the image: afterwards this process sees what its sandboxes will see, and nothing of the host. */
void spawner_enter(struct plan *p) {
  plan = p;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  netpool_start(plan->rootless);
  jail_build_root(plan);
}

_Noreturn void spawner_main(struct plan *p) {
  plan = p;
  struct rlimit files;
  if (!getrlimit(RLIMIT_NOFILE, &files)) { files.rlim_cur = files.rlim_max; setrlimit(RLIMIT_NOFILE, &files); }
  ncells = plan->uid_count / 2;
  cells = calloc(ncells, sizeof *cells);
  freed = calloc(ncells, sizeof *freed);
  sigset_t set;
  sigemptyset(&set); sigaddset(&set, SIGCHLD);
  sigprocmask(SIG_BLOCK, &set, NULL);
  int children = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  if (!cells || !freed || children < 0) { refuse(0, errno, "start the spawner"); _exit(70); }
  agent_ready();
  jail_seal_root();
  if (filter_fence()) { refuse(0, errno, "load the system-call filter"); _exit(70); }
  char ready;
  if (plan->warm >= 0 && recv(plan->warm, &ready, 1, 0) != 1) _exit(70); /* the interpreter has said why */
  uint32_t hello[2] = {OP_HELLO, ncells};
  tell(hello, sizeof hello, -1);
  for (;;) {
    struct pollfd poll_fds[2] = {{plan->control, POLLIN, 0}, {children, POLLIN, 0}};
    int more = 1;
    while (more && poll(poll_fds, 2, 0) == 0) more = netpool_refill(); /* nobody waits: stock up */
    if (poll(poll_fds, 2, -1) < 0 && errno != EINTR) _exit(70);
    struct signalfd_siginfo seen[16];
    int died = 0; /* by what was read, not by what poll saw: a signal may come between the two */
    while (read(children, seen, sizeof seen) > 0) died = 1;
    if (died) reap();
    if (poll_fds[0].revents) serve();
  }
}
