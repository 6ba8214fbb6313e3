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
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static _Noreturn void usage(const char *why) {
  fprintf(stderr, "quintain-sandbox: %s\nusage: quintain-sandbox CONTROL_FD UID_BASE UID_COUNT root|rootless [cgroup KIND PATH]... mounts [OP A B]...\n"
                  "Started by Quintain; see docs/rooms/sandbox.md.\n", why);
  exit(64);
}

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

int main(int argc, char **argv) {
  struct plan plan;
  memset(&plan, 0, sizeof plan);
  if (argc < 6) usage("too few arguments");
  plan.control = atoi(argv[1]);
  plan.uid_base = (uint32_t)strtoul(argv[2], NULL, 10);
  plan.uid_count = (uint32_t)strtoul(argv[3], NULL, 10);
  plan.rootless = !strcmp(argv[4], "rootless");
  int i = 5;
  for (; i + 2 < argc && !strcmp(argv[i], "cgroup"); i += 3) {
    if (plan.ncgroups == MAX_CGROUPS) usage("too many cgroups");
    int dir = open(argv[i + 2], O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) { fprintf(stderr, "quintain-sandbox: open %s: %s\n", argv[i + 2], strerror(errno)); return 70; }
    plan.cgroup_paths[plan.ncgroups] = argv[i + 2];
    plan.cgroups[plan.ncgroups++] = (struct cgroup){dir, argv[i + 1][0]};
  }
  if (i >= argc || strcmp(argv[i], "mounts") || (argc - i - 1) % 3) usage("expected 'mounts' and triples after it");
  plan.mounts = argv + i + 1;
  fcntl(plan.control, F_SETFD, FD_CLOEXEC);
  if (plan.rootless) become_namespace_root();
  sigset_t set;
  sigemptyset(&set); sigaddset(&set, SIGINT); sigaddset(&set, SIGTERM); sigaddset(&set, SIGHUP);
  sigprocmask(SIG_BLOCK, &set, NULL); /* the house decides when we end, by closing the socket */
  pid_t spawner = fork();
  if (spawner < 0) { perror("quintain-sandbox: fork"); return 70; }
  if (spawner == 0) spawner_main(&plan);
  close(plan.control);
  int status = 0;
  while (waitpid(spawner, &status, 0) < 0 && errno == EINTR) ;
  cgroup_sweep(&plan);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 70;
}
