/* Reads what an engine is told at its start, from the words of its command line. */
#include "sandbox.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int refuse(const char *why) {
  fprintf(stderr, "quintain-sandbox: %s\nusage: quintain-sandbox CONTROL_FD UID_BASE UID_COUNT root|rootless [cgroup KIND PATH]... mounts N [OP A B]x N [zygote WORD...]\n"
                  "Started by Quintain; see docs/rooms/sandbox.md.\n", why);
  return -1;
}

int plan_read(struct plan *plan, int argc, char **argv) {
  memset(plan, 0, sizeof *plan);
  if (argc < 7) return refuse("too few arguments");
  plan->control = atoi(argv[1]);
  plan->warm = -1;
  plan->uid_base = (uint32_t)strtoul(argv[2], NULL, 10);
  plan->uid_count = (uint32_t)strtoul(argv[3], NULL, 10);
  plan->rootless = !strcmp(argv[4], "rootless");
  int i = 5;
  for (; i + 2 < argc && !strcmp(argv[i], "cgroup"); i += 3) {
    if (plan->ncgroups == MAX_CGROUPS) return refuse("too many cgroups");
    int dir = open(argv[i + 2], O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) { fprintf(stderr, "quintain-sandbox: open %s: %s\n", argv[i + 2], strerror(errno)); return -1; }
    plan->cgroup_paths[plan->ncgroups] = argv[i + 2];
    plan->cgroups[plan->ncgroups++] = (struct cgroup){dir, argv[i + 1][0]};
  }
  if (i + 1 >= argc || strcmp(argv[i], "mounts")) return refuse("expected 'mounts' and their number");
  int n = atoi(argv[i + 1]);
  if (n < 0 || i + 2 + 3 * n > argc) return refuse("expected three words for each mount");
  plan->mounts = calloc(3 * (size_t)n + 1, sizeof *plan->mounts);
  if (!plan->mounts) return refuse("out of memory");
  memcpy(plan->mounts, argv + i + 2, 3 * (size_t)n * sizeof *plan->mounts);
  for (char **m = plan->mounts; *m; m += 3) plan->writable |= !strcmp(m[0], "rw");
  i += 2 + 3 * n;
  if (i < argc && !strcmp(argv[i], "zygote") && i + 1 < argc) plan->zygote = argv + i + 1;
  return 0;
}
