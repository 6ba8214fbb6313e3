/* Small questions about the sandbox itself: who lives in it, how much it has written, its control groups, and a door on its loopback. */
#include "agent.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

struct process { uint32_t pid, parent, state, words_bytes; uint64_t rss_bytes; };

static ssize_t slurp(const char *pid, const char *name, char *text, size_t most) {
  char path[320];
  snprintf(path, sizeof path, "/proc/%s/%s", pid, name);
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return -1;
  ssize_t n = read(fd, text, most);
  close(fd);
  return n;
}

/* One record, or 0 when the process has gone or is not to be seen. */
static size_t describe(const char *pid, char *at) {
  char stat[1024], words[4096], state = '?';
  int parent = 0;
  long rss = 0;
  ssize_t n = slurp(pid, "stat", stat, sizeof stat - 1);
  if (n <= 0) return 0;
  stat[n] = 0;
  char *name = strchr(stat, '('), *rest = strrchr(stat, ')'); /* the name between may hold anything */
  if (!name || !rest || sscanf(rest + 1, " %c %d", &state, &parent) != 2) return 0;
  char *field = rest + 1;
  for (int i = 0; i < 21 && (field = strchr(field + 1, ' ')); i++) ;
  if (field) rss = atol(field); /* field 24 */
  n = slurp(pid, "cmdline", words, sizeof words);
  if (n <= 0) { n = rest - name - 1; memcpy(words, name + 1, (size_t)n); words[n++] = 0; }
  struct process p = {(uint32_t)atoi(pid), (uint32_t)parent, (uint32_t)state, (uint32_t)n, (uint64_t)rss * (uint64_t)sysconf(_SC_PAGESIZE)};
  memcpy(at, &p, sizeof p); memcpy(at + sizeof p, words, (size_t)n);
  return sizeof p + (size_t)n;
}

static int is_warden(pid_t pid) {
  for (int i = 0; i < MAX_COMMANDS; i++) if (commands[i].state >= RUNNING && commands[i].link >= 0 && commands[i].pid == pid) return 1;
  return 0;
}

/* As the program's user, to whom hidepid shows the program's processes only. A process that made itself undumpable is not
   listed. */
void send_processes(uint32_t id) {
  static char page[FRAME_BYTES - 512];
  struct reply r = {0, 0, 0};
  size_t used = 0;
  uid_t old_uid = (uid_t)setfsuid(program_uid), old_gid = (uid_t)setfsgid(program_uid);
  DIR *d = opendir("/proc");
  if (!d) r.error = errno;
  for (struct dirent *e; d && (e = readdir(d));) {
    if (e->d_name[0] < '1' || e->d_name[0] > '9' || !strcmp(e->d_name, "1") || is_warden((pid_t)atoi(e->d_name))) continue;
    if (used + sizeof(struct process) + 4096 > sizeof page) { say(A_DATA, id, NULL, 0, page, used); used = 0; }
    size_t n = describe(e->d_name, page + used);
    used += n; r.size += n != 0;
  }
  if (d) closedir(d);
  setfsgid(old_gid); setfsuid(old_uid);
  if (used) say(A_DATA, id, NULL, 0, page, used);
  say(A_REPLY, id, &r, sizeof r, NULL, 0);
}

/* Listens on the sandbox's own loopback and hands the listening socket to the house: whoever connects in here talks to it. */
void open_door(uint32_t id, uint16_t port) {
  struct reply r = {0, 0, port};
  struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int yes = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) || bind(fd, (struct sockaddr *)&name, sizeof name) || listen(fd, 128)) {
    r.error = errno;
    if (fd >= 0) close(fd);
    say(A_REPLY, id, &r, sizeof r, NULL, 0);
    return;
  }
  say_fd(A_REPLY, id, &r, sizeof r, fd);
}

/* Into the control groups whose files came along, before the first program; the last is the CPU account, if the body says so. */
void join_groups(uint32_t id, const int *fds, size_t count, const char *body, size_t n) {
  struct reply r = {0, 0, 0};
  uint64_t accounts = 0;
  if (n >= sizeof accounts) memcpy(&accounts, body, sizeof accounts);
  if (accounts && count) {
    if (walls.cpu_fd >= 0) close(walls.cpu_fd);
    walls.cpu_fd = fds[--count];
  }
  for (size_t i = 0; i < count; i++) {
    if (write(fds[i], "0", 1) != 1 && !r.error) r.error = errno;
    close(fds[i]);
  }
  say(A_REPLY, id, &r, sizeof r, NULL, 0);
}

/* Of the writable tree as a whole; measured only where it is a file system of its own. */
uint64_t disk_used_bytes(void) {
  struct statfs s;
  if (statfs("/work", &s) || s.f_type != TMPFS_MAGIC) return UINT64_MAX;
  return (uint64_t)(s.f_blocks - s.f_bfree) * (uint64_t)s.f_bsize;
}

/* What the house ignores (SIGINT, where a shell started it in the background) no program shall find ignored. */
void signals_as_new(void) {
  static const unsigned long as_new[8]; /* the kernel's own record: glibc keeps some signals to itself */
  for (int n = 1; n <= 64; n++) syscall(SYS_rt_sigaction, n, as_new, NULL, 8);
}
