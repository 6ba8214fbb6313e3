/* The warm interpreter: the library that makes one of a Python process, and how an agent asks it for a program.
   It stands beside the spawner, in a root of its own that is built of the same words, so that sandboxes stay small and a program
   costs one fork of the interpreter. One thread, and the interpreter's lock held throughout.
   Who asks is told by the kernel (pid, user), or by namespaces that it has: an agent can have programs in its own sandbox only.
   Covers: what a program of the agent's own would have: namespaces, groups, limits, user, filter. Does not cover: rootless, a
   sandbox's own programs have the user of the process that forks the next one, and could stop it: no other program is run warm
   while it stands, until that sandbox is closed. */
#include "agent.h"
#include "root.h"
#include <fcntl.h>
#include <grp.h>
#include <linux/securebits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct { const char *name; int kind; } SPACES[WARM_FDS - WARM_USER] = {{"user", CLONE_NEWUSER}, {"pid", CLONE_NEWPID}, {"mnt", CLONE_NEWNS},
  {"uts", CLONE_NEWUTS}, {"net", CLONE_NEWNET}, {"cgroup", CLONE_NEWCGROUP}};
static const int KINDS[WARM_LIMITS] = {RLIMIT_CORE, RLIMIT_NOFILE, RLIMIT_NPROC, RLIMIT_MEMLOCK, RLIMIT_MSGQUEUE, RLIMIT_SIGPENDING, RLIMIT_AS};

/* ---- the agent's side ---- */

/* Rootless, to enter an undumpable process's namespaces takes rights over the host. */
static int open_spaces(int all[WARM_FDS]) {
  char path[40];
  for (int i = WARM_USER; i < WARM_FDS; i++) {
    snprintf(path, sizeof path, "/proc/self/ns/%s", SPACES[i - WARM_USER].name);
    if ((all[i] = open(path, O_RDONLY | O_CLOEXEC)) < 0) return errno;
  }
  return 0;
}

static int post(const struct warm_request *r, const char *strings, size_t n, const int *given, size_t k) {
  struct iovec v[2] = {{(void *)r, sizeof *r}, {(void *)strings, n}};
  char control[CMSG_SPACE(WARM_FDS * sizeof(int))];
  memset(control, 0, sizeof control);
  struct msghdr m = {.msg_iov = v, .msg_iovlen = 2, .msg_control = control, .msg_controllen = CMSG_SPACE(k * sizeof(int))};
  struct cmsghdr *h = CMSG_FIRSTHDR(&m);
  h->cmsg_level = SOL_SOCKET; h->cmsg_type = SCM_RIGHTS; h->cmsg_len = CMSG_LEN(k * sizeof(int));
  memcpy(CMSG_DATA(h), given, k * sizeof(int));
  ssize_t sent;
  while ((sent = sendmsg(walls.warm_fd, &m, MSG_NOSIGNAL)) < 0 && errno == EINTR) ;
  return sent < 0 ? errno : 0;
}

static int file_words(const char *strings, size_t n, int *fd) {
  if ((*fd = memfd_create("words", MFD_CLOEXEC)) < 0) return errno;
  for (size_t at = 0; at < n;) {
    ssize_t done = write(*fd, strings + at, n - at);
    if (done <= 0) return errno;
    at += (size_t)done;
  }
  return 0;
}

/* Sends the request; the program, or the word of its failure, comes through `report`. Returns errno. */
int warm_ask(struct command *c, const struct run_request *want, const char *strings, size_t n, const int fds[3], int report) {
  struct warm_request r;
  if (walls.warm_fd < 0) return ENOSYS;
  memset(&r, 0, sizeof r);
  r.want = *want; r.slot = walls.slot; r.program_uid = program_uid; r.words_bytes = n;
  for (int i = 0; i < WARM_LIMITS; i++) if (getrlimit((__rlimit_resource_t)KINDS[i], &r.limits[i])) return errno;
  int all[WARM_FDS] = {fds[1], fds[2], report, fds[0], c->channel, -1, -1, -1, -1, -1, -1, -1}, given[WARM_FDS], error = 0;
  size_t k = 0;
  if (n > WARM_INLINE) error = file_words(strings, n, &all[WARM_WORDS]);
  if (!error && geteuid() == program_uid) error = open_spaces(all);
  for (int i = 0; i < WARM_FDS; i++) if (all[i] >= 0) { r.given |= 1u << i; given[k++] = all[i]; }
  if (!error) error = post(&r, strings, n > WARM_INLINE ? 0 : n, given, k);
  for (int i = WARM_WORDS; i < WARM_FDS; i++) if (all[i] >= 0) close(all[i]);
  return error;
}

#ifdef QUINTAIN_LIBRARY
#define FACE __attribute__((visibility("default")))
FACE int quintain_enter(int argc, char **argv);
FACE void quintain_serve(warm_entry entry);
static struct plan plan;
static int inbox, own; /* own: the process itself, to come back to its namespaces */

/* ---- in the program to come ---- */

static int enter_spaces(const int fds[WARM_FDS], int sandbox) {
  if (!plan.rootless) return setns(sandbox, CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWNET | CLONE_NEWCGROUP);
  for (int i = WARM_USER; i < WARM_FDS; i++) if (i != WARM_PID && setns(fds[i], SPACES[i - WARM_USER].kind)) return -1;
  drop_bounding_set(); /* entering a user namespace has brought a full one */
  return 0;
}

static int enter(const struct warm_request *r, const int fds[WARM_FDS], int sandbox) {
  if (cgroup_join(&plan, r->slot) || enter_spaces(fds, sandbox)) return errno;
  int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0 || write(fd, "1000", 4) != 4) return errno; /* the program dies before its agent */
  for (int i = 0; i < WARM_LIMITS; i++) {
    struct rlimit now, want = r->limits[i];
    if (getrlimit((__rlimit_resource_t)KINDS[i], &now)) return errno;
    if (want.rlim_max > now.rlim_max) want.rlim_max = now.rlim_max;
    if (want.rlim_cur > want.rlim_max) want.rlim_cur = want.rlim_max;
    if (setrlimit((__rlimit_resource_t)KINDS[i], &want)) return errno;
  }
  if (prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED)) return errno;
  return plan.rootless || !setgroups(0, NULL) ? 0 : errno;
}

static _Noreturn void program(struct warm_request *r, char *strings, const int fds[WARM_FDS], int sandbox) {
  struct command c;
  struct words w = {NULL, NULL, NULL, NULL};
  int32_t pid = getpid(), error = 0;
  int report = fds[WARM_REPORT], streams[3] = {fds[WARM_IN], fds[WARM_OUT], fds[WARM_ERR]};
  memset(&c, 0, sizeof c);
  c.channel = fds[WARM_CHANNEL];
  program_uid = r->program_uid;
  if (write(report, &pid, sizeof pid) != (ssize_t)sizeof pid) _exit(126);
  error = take_words(&w, &r->want, strings, r->words_bytes);
  if (!error) error = enter(r, fds, sandbox);
  if (!error) error = become(&c, &r->want, &w, streams, &report);
  if (write(report, &error, sizeof error) < 0) _exit(126);
  _exit(127);
}

/* ---- the interpreter ---- */

/* Forks the program from a child that borrows our memory and is in the sandbox's pid namespace: when that one ends, the program
   falls to the agent, which is process 1 there. Whoever calls has said that its children belong there. Returns errno. */
static __attribute__((noinline)) int fork_program(struct warm_request *r, char *strings, const int fds[WARM_FDS], int sandbox) {
  volatile int error = 0;
  pid_t between = vfork();
  if (between == 0) {
    pid_t pid = fork();
    if (pid == 0) program(r, strings, fds, sandbox);
    if (pid < 0) error = errno;
    _exit(0);
  }
  if (between < 0) return errno;
  while (waitpid(between, NULL, 0) < 0 && errno == EINTR) ;
  return error;
}

/* The interpreter must not go on holding a namespace that outlives its sandbox: it turns back, or, where it has no right to
   (rootless), lets another go in its place. */
static __attribute__((noinline)) int fork_into(struct warm_request *r, char *strings, const int fds[WARM_FDS], int sandbox) {
  volatile int error = 0;
  if (!plan.rootless) {
    if (setns(sandbox, CLONE_NEWPID)) return errno;
    error = fork_program(r, strings, fds, sandbox);
    if (setns(own, CLONE_NEWPID)) _exit(77);
    return error;
  }
  pid_t instead = vfork();
  if (instead == 0) {
    error = setns(fds[WARM_PID], CLONE_NEWPID) ? errno : fork_program(r, strings, fds, sandbox);
    _exit(0);
  }
  if (instead < 0) return errno;
  while (waitpid(instead, NULL, 0) < 0 && errno == EINTR) ;
  return error;
}

static int is_honest(const struct warm_request *r, size_t n, const struct ucred *who, int sandbox) {
  if (sandbox < 0 || !(r->given & 1u << WARM_OUT) || !(r->given & 1u << WARM_ERR) || r->want.flags & ~(uint32_t)(RUN_WARM | RUN_CHANNEL | RUN_STREAM)) return 0;
  for (int i = WARM_USER; plan.rootless && i < WARM_FDS; i++) if (!(r->given & 1u << i)) return 0;
  if (!plan.rootless && (who->uid != plan.uid_base + 2 * r->slot || r->program_uid != who->uid + 1)) return 0;
  return r->want.argc && r->want.argc <= 65536 && r->want.envc <= 65536 && (r->given & 1u << WARM_WORDS || n == sizeof *r + r->words_bytes);
}

static void answer(struct warm_request *r, char *inlined, size_t n, const struct ucred *who, const int fds[WARM_FDS]) {
  int32_t failed[2] = {0, EINVAL};
  int sandbox = (int)syscall(SYS_pidfd_open, who->pid, 0);
  if (is_honest(r, n, who, sandbox)) {
    char *strings = inlined;
    struct stat st;
    int filed = fds[WARM_WORDS];
    if (filed >= 0) strings = !fstat(filed, &st) && (uint64_t)st.st_size >= r->words_bytes
                                ? mmap(NULL, r->words_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, filed, 0) : MAP_FAILED;
    failed[1] = strings == MAP_FAILED ? ENOMEM : fork_into(r, strings, fds, sandbox);
    if (filed >= 0 && strings != MAP_FAILED) munmap(strings, r->words_bytes);
  }
  if (failed[1] && write(fds[WARM_REPORT], failed, sizeof failed) < 0) fprintf(stderr, "quintain-sandbox: nobody hears that a warm program failed\n");
  if (sandbox >= 0) close(sandbox);
}

static void receive(void) {
  static char bytes[sizeof(struct warm_request) + WARM_INLINE + 1];
  static struct warm_request r;
  char control[CMSG_SPACE(WARM_FDS * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
  struct iovec v = {bytes, sizeof bytes};
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  ssize_t n = recvmsg(inbox, &m, MSG_CMSG_CLOEXEC);
  if (n < 0 && errno == EINTR) return;
  if (n <= 0) _exit(0); /* the spawner is gone, and every sandbox */
  int got[WARM_FDS], k = 0, fds[WARM_FDS];
  struct ucred who = {0, 0, 0};
  for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); h; h = CMSG_NXTHDR(&m, h)) {
    if (h->cmsg_level != SOL_SOCKET) continue;
    if (h->cmsg_type == SCM_CREDENTIALS) memcpy(&who, CMSG_DATA(h), sizeof who);
    if (h->cmsg_type == SCM_RIGHTS) { k = (int)((h->cmsg_len - CMSG_LEN(0)) / sizeof(int)); memcpy(got, CMSG_DATA(h), (size_t)k * sizeof(int)); }
  }
  memset(&r, 0, sizeof r);
  if ((size_t)n >= sizeof r) memcpy(&r, bytes, sizeof r);
  int used = 0;
  for (int i = 0; i < WARM_FDS; i++) fds[i] = r.given & 1u << i && used < k ? got[used++] : -1;
  if (who.pid > 0 && fds[WARM_REPORT] >= 0) answer(&r, bytes + sizeof r, (size_t)n, &who, fds);
  for (int i = 0; i < k; i++) close(got[i]);
}

/* Enter the image; what is imported afterwards comes from there, under the names that programs will see. */
int quintain_enter(int argc, char **argv) {
  int yes = 1;
  if (plan_read(&plan, argc, argv)) return 64;
  inbox = plan.control; plan.control = -1;
  fcntl(inbox, F_SETFD, FD_CLOEXEC);
  own = (int)syscall(SYS_pidfd_open, getpid(), 0);
  if (own < 0 || setsockopt(inbox, SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes)) return 70;
  jail_build_root(&plan);
  return 0;
}

void quintain_serve(warm_entry entry) {
  warm_program = entry;
  jail_seal_root();
  if (filter_fence()) { perror("quintain-sandbox: load the system-call filter"); return; }
  sigemptyset(&no_signals);
  if (send(inbox, "r", 1, MSG_NOSIGNAL) != 1) return;
  for (;;) receive();
}
#endif
