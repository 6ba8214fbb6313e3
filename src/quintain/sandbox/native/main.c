/* quintain-sandbox: the keeper. It starts a spawner for one image and outlives it: whatever ends the spawner (the house
   going away, a crash, SIGKILL), its control groups are emptied and removed.
   Covers: the death of the house and of the spawner. Does not cover: SIGKILL of the keeper itself (the next start or
   `quintain doctor --clean` sweeps by the slot's lock). */
#include "sandbox.h"
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void put(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0 || write(fd, text, strlen(text)) < 0) { fprintf(stderr, "quintain-sandbox: write %s: %s\n", path, strerror(errno)); exit(70); }
  close(fd);
}

static void become_namespace_root(void) {
  char map[64];
  uid_t uid = geteuid();
  gid_t gid = getegid();
  if (unshare(CLONE_NEWUSER)) { fprintf(stderr, "quintain-sandbox: unshare user namespace: %s\n", strerror(errno)); exit(70); }
  put("/proc/self/setgroups", "deny");
  snprintf(map, sizeof map, "0 %u 1", uid); put("/proc/self/uid_map", map);
  snprintf(map, sizeof map, "0 %u 1", gid); put("/proc/self/gid_map", map);
}

/* What the words of a root no longer needed are to every process that is forked from here: baggage. */
static void forget_words(char **words) {
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  char *end = words[0];
  for (char **w = words; *w; w++) if (*w + strlen(*w) + 1 > end) end = *w + strlen(*w) + 1;
  uintptr_t from = ((uintptr_t)words[0] + page) & ~(page - 1), to = (uintptr_t)end & ~(page - 1);
  if (to > from) madvise((void *)from, to - from, MADV_DONTNEED);
}

/* The warm interpreter finds its socket where the engine's words name that of the house. */
static pid_t start_interpreter(const struct plan *plan, const int warm[2]) {
  pid_t pid = fork();
  if (pid) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (dup2(warm[1], plan->control) >= 0) execv(plan->zygote[0], plan->zygote);
  fprintf(stderr, "quintain-sandbox: exec %s: %s\n", plan->zygote[0], strerror(errno));
  _exit(70);
}

int main(int argc, char **argv) {
  struct plan plan;
  if (plan_read(&plan, argc, argv)) return 64;
  signals_as_new();
  fcntl(plan.control, F_SETFD, FD_CLOEXEC);
  if (plan.rootless) become_namespace_root();
  sigset_t set, before;
  sigemptyset(&set); sigaddset(&set, SIGINT); sigaddset(&set, SIGTERM); sigaddset(&set, SIGHUP);
  sigprocmask(SIG_BLOCK, &set, &before); /* the house decides when we end, by closing the socket */
  int warm[2] = {-1, -1};
  if (plan.zygote && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, warm)) { perror("quintain-sandbox: make a socket pair"); return 70; }
  pid_t interpreter = plan.zygote ? start_interpreter(&plan, warm) : 0;
  pid_t spawner = interpreter < 0 ? -1 : fork();
  if (spawner < 0) { perror("quintain-sandbox: fork"); return 70; }
  if (spawner == 0) {
    close(warm[1]);
    plan.warm = warm[0];
    spawner_enter(&plan);
    if (!plan.writable && plan.mounts[0]) forget_words(plan.mounts); /* a root for each sandbox reads them again */
    spawner_main(&plan);
  }
  close(plan.control); close(warm[0]); close(warm[1]);
  int status = 0;
  pid_t first;
  while ((first = waitpid(-1, &status, 0)) < 0 && errno == EINTR) ;
  if (interpreter > 0) { /* neither is of use without the other */
    kill(first == spawner ? interpreter : spawner, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR) ;
  }
  cgroup_sweep(&plan);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 70;
}
