/* Limits and measurements of one sandbox through control groups, v1 and v2 alike: plain files under directories that the
   house chose. Every function works relative to directories opened at the start, before the root was changed. */
#include "sandbox.h"
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int put(int dir, const char *group, const char *file, const char *value) {
  char path[96];
  snprintf(path, sizeof path, "%s/%s", group, file);
  int fd = openat(dir, path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t n = write(fd, value, strlen(value));
  int saved = errno;
  close(fd);
  errno = saved;
  return n < 0 ? -1 : 0;
}

static int put_number(int dir, const char *group, const char *file, uint64_t value) {
  char text[32];
  snprintf(text, sizeof text, "%llu", (unsigned long long)value);
  return put(dir, group, file, text);
}

static int set_limits(const struct cgroup *cg, const char *group, const struct open_request *want) {
  char quota[48];
  switch (cg->kind) {
    case 'm':
      put(cg->dir, group, "memory.memsw.limit_in_bytes", "-1"); /* a group used again: the sum is never below the other limit */
      if (put_number(cg->dir, group, "memory.limit_in_bytes", want->memory_bytes)) return -1;
      put_number(cg->dir, group, "memory.memsw.limit_in_bytes", want->memory_bytes); /* absent without swap accounting */
      return 0;
    case 'p': return put_number(cg->dir, group, "pids.max", want->processes + 1); /* the agent is one */
    case 'c': return 0; /* the quota comes with the first program (native.py): setting it walks every group of the host */
    case 'a': return 0;
    case 'u':
      snprintf(quota, sizeof quota, "%u 100000", 1000u * want->cpu_percent);
      if (put_number(cg->dir, group, "memory.max", want->memory_bytes)) return -1;
      put(cg->dir, group, "memory.swap.max", "0"); /* absent without swap */
      /* the house has handed down all that it was given, and says what that was: a file that is not there was not among it */
      if (put_number(cg->dir, group, "pids.max", want->processes + 1) && errno != ENOENT) return -1;
      return put(cg->dir, group, "cpu.max", quota) && errno != ENOENT ? -1 : 0;
  }
  return 0;
}

/* Makes the groups of one sandbox, or takes those that an earlier one left, and opens the file through which its first
   process joins each. */
int cgroup_make(const struct plan *plan, const struct open_request *want, uint32_t slot, struct cell *cell, char *where, size_t n) {
  char group[24], path[64];
  snprintf(group, sizeof group, "s%u", slot);
  int again = cell->made && cell->memory_bytes == want->memory_bytes && cell->cpu_percent == want->cpu_percent && cell->processes == want->processes;
  for (int i = 0; i < plan->ncgroups; i++) {
    const struct cgroup *cg = &plan->cgroups[i];
    int kept = cell->made && cell->fds[i] >= 0;
    if (kept && again) continue;
    if (!kept && mkdirat(cg->dir, group, 0755) && errno != EEXIST) { snprintf(where, n, "make cgroup %c", cg->kind); return -1; }
    if (set_limits(cg, group, want)) { snprintf(where, n, "set limits of cgroup %c", cg->kind); return -1; }
    if (kept) continue;
    snprintf(path, sizeof path, "%s/%s", group, cg->kind == 'u' ? "cgroup.procs" : "tasks");
    if ((cell->fds[i] = openat(cg->dir, path, O_WRONLY | O_CLOEXEC)) < 0) { snprintf(where, n, "open cgroup %c", cg->kind); return -1; }
  }
  if (!cell->made) cell->cpu_fd = cgroup_cpu_account(plan, slot);
  cell->again = again;
  cell->made = 1;
  cell->memory_bytes = want->memory_bytes;
  cell->cpu_percent = want->cpu_percent;
  cell->processes = want->processes;
  return 0;
}

/* Close what the spawner needs no longer of a cell's groups: everything, unless the cell holds what may serve again. */
void cgroup_done(const struct plan *plan, struct cell *cell) {
  for (int i = 0; i < plan->ncgroups; i++)
    if (cell->fds[i] >= 0 && !cell->holds) { close(cell->fds[i]); cell->fds[i] = -1; }
  if (!cell->holds) { if (cell->cpu_fd >= 0) close(cell->cpu_fd); cell->cpu_fd = -1; cell->made = 0; }
}

/* Moves this process, of one thread, into the groups of a sandbox that lives. */
int cgroup_join(const struct plan *plan, uint32_t slot) {
  char path[64];
  for (int i = 0; i < plan->ncgroups; i++) {
    snprintf(path, sizeof path, "s%u/%s", slot, plan->cgroups[i].kind == 'u' ? "cgroup.procs" : "tasks");
    int fd = openat(plan->cgroups[i].dir, path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    ssize_t n = write(fd, "0", 1);
    int saved = errno;
    close(fd);
    errno = saved;
    if (n != 1) return -1;
  }
  return 0;
}

/* The file that tells how much CPU a sandbox has used, opened for its agent; -1 where there is none. */
int cgroup_cpu_account(const struct plan *plan, uint32_t slot) {
  char path[64];
  for (int i = 0; i < plan->ncgroups; i++) {
    char kind = plan->cgroups[i].kind;
    if (kind != 'a' && kind != 'u') continue;
    snprintf(path, sizeof path, "s%u/%s", slot, kind == 'a' ? "cpuacct.usage" : "cpu.stat");
    return openat(plan->cgroups[i].dir, path, O_RDONLY | O_CLOEXEC);
  }
  return -1;
}

static uint64_t number(int dir, const char *group, const char *file, const char *key) {
  char path[96], text[512];
  snprintf(path, sizeof path, "%s/%s", group, file);
  int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return UINT64_MAX;
  ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  if (n <= 0) return UINT64_MAX;
  text[n] = 0;
  char *at = text;
  if (key) {
    size_t k = strlen(key);
    for (at = text; at && !(strncmp(at, key, k) == 0 && at[k] == ' '); at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL) ;
    if (!at) return UINT64_MAX;
    at += k;
  }
  return strtoull(at, NULL, 10);
}

void cgroup_usage(const struct plan *plan, uint32_t slot, struct down *down) {
  char group[24];
  snprintf(group, sizeof group, "s%u", slot);
  down->oom_kills = down->peak_memory_bytes = down->cpu_ns = down->peak_processes = UINT64_MAX;
  for (int i = 0; i < plan->ncgroups; i++) {
    int dir = plan->cgroups[i].dir;
    uint64_t us;
    switch (plan->cgroups[i].kind) {
      case 'm':
        down->oom_kills = number(dir, group, "memory.oom_control", "oom_kill");
        down->peak_memory_bytes = number(dir, group, "memory.max_usage_in_bytes", NULL);
        break;
      case 'p': down->peak_processes = number(dir, group, "pids.peak", NULL); break;
      case 'a': down->cpu_ns = number(dir, group, "cpuacct.usage", NULL); break;
      case 'u':
        down->oom_kills = number(dir, group, "memory.events", "oom_kill");
        down->peak_memory_bytes = number(dir, group, "memory.peak", NULL);
        down->peak_processes = number(dir, group, "pids.peak", NULL);
        us = number(dir, group, "cpu.stat", "usage_usec");
        down->cpu_ns = us == UINT64_MAX ? us : us * 1000;
        break;
    }
  }
}

#define LEFT_PROCESSES 2      /* agent and program: whoever runs anything has as many, so that a peak no higher tells nothing of who was here before */
#define LEFT_BYTES (4u << 20) /* what a dead sandbox may leave charged (pages of the system that it read first) */

/* Make the groups of a dead sandbox fit for the next: 1 when they are as new. Nothing was killed for memory, next to
   nothing is charged, the peak is set back. pids.peak cannot be: a group where it is high is removed, and made anew for the
   next. All are where this does not hold. */
int cgroup_reuse(const struct plan *plan, uint32_t slot, struct cell *cell) {
  char group[24];
  snprintf(group, sizeof group, "s%u", slot);
  for (int i = 0; i < plan->ncgroups; i++) {
    int dir = plan->cgroups[i].dir;
    if (plan->cgroups[i].kind == 'u') return 0;
    if (plan->cgroups[i].kind == 'a' && put(dir, group, "cpuacct.usage", "0")) return 0;
    if (plan->cgroups[i].kind != 'm') continue;
    if (number(dir, group, "memory.oom_control", "oom_kill") != 0) return 0;
    if (number(dir, group, "memory.usage_in_bytes", NULL) > LEFT_BYTES) return 0;
    if (put(dir, group, "memory.max_usage_in_bytes", "0")) return 0;
  }
  for (int i = 0; i < plan->ncgroups; i++) {
    if (plan->cgroups[i].kind != 'p' || number(plan->cgroups[i].dir, group, "pids.peak", NULL) <= LEFT_PROCESSES) continue;
    if (unlinkat(plan->cgroups[i].dir, group, AT_REMOVEDIR)) return 0;
    close(cell->fds[i]); cell->fds[i] = -1;
  }
  return 1;
}

int cgroup_remove(const struct plan *plan, uint32_t slot) {
  char group[24];
  int left = 0;
  snprintf(group, sizeof group, "s%u", slot);
  for (int i = 0; i < plan->ncgroups; i++) {
    int tries = 0;
    while (unlinkat(plan->cgroups[i].dir, group, AT_REMOVEDIR) && errno == EBUSY && ++tries < 200) usleep(500);
    if (tries >= 200) left++;
  }
  return left;
}

static void kill_members(int dir, const char *group) {
  char path[64], text[4096];
  put(dir, group, "cgroup.kill", "1"); /* v2: all at once, and no fork escapes */
  snprintf(path, sizeof path, "%s/cgroup.procs", group);
  int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  ssize_t n;
  while ((n = read(fd, text, sizeof text - 1)) > 0) {
    text[n] = 0;
    for (char *at = strtok(text, "\n"); at; at = strtok(NULL, "\n")) {
      pid_t pid = (pid_t)atol(at);
      if (pid > 1) kill(pid, SIGKILL);
    }
  }
  close(fd);
}

/* The keeper's last act: whoever still lives in our groups dies, and the groups go. */
void cgroup_sweep(const struct plan *plan) {
  for (int i = 0; i < plan->ncgroups; i++) {
    for (int round = 0; round < 400; round++) {
      int copy = openat(plan->cgroups[i].dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), left = 0;
      DIR *list = copy < 0 ? NULL : fdopendir(copy);
      if (!list) break;
      for (struct dirent *e; (e = readdir(list));) {
        if (e->d_name[0] != 's' || e->d_type != DT_DIR) continue;
        kill_members(plan->cgroups[i].dir, e->d_name);
        if (unlinkat(plan->cgroups[i].dir, e->d_name, AT_REMOVEDIR)) left++;
      }
      closedir(list);
      if (!left) break;
      usleep(5000);
    }
    rmdir(plan->cgroup_paths[i]);
  }
}
