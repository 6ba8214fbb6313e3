/* The warden of one command: the parent of its program, and the one to whom all that the program leaves behind falls, however
   often it forks or starts a session. So several commands can live in one sandbox, and each can be killed whole.
   Covers: double forks, setsid, fork bombs (their processes fall to us as their parents die), programs that are subreapers
   themselves. As root the warden has the agent's user and no program can signal it. Does not cover: rootless, where a program
   can kill its warden; then the agent kills what falls to it instead, see sweep_strays. Kernels without subreapers (gVisor of
   2022): there the tree is found by parentage at the time of the kill, and orphans end with the last command that runs. */
#include "agent.h"
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SCANNED 4096

/* The same by parentage, for kernels that list no children: whoever descends from us right now. */
static int kill_descendants(void) {
  static struct { pid_t pid, parent; int ours; } seen[SCANNED];
  char path[320], text[1024];
  int n = 0, found = 0;
  DIR *d = opendir("/proc");
  for (struct dirent *e; d && n < SCANNED && (e = readdir(d));) {
    if (e->d_name[0] < '1' || e->d_name[0] > '9') continue;
    snprintf(path, sizeof path, "/proc/%s/stat", e->d_name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t k = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    text[k > 0 ? k : 0] = 0;
    char *rest = strrchr(text, ')');
    if (rest && sscanf(rest + 1, " %*c %d", &seen[n].parent) == 1) { seen[n].pid = (pid_t)atoi(e->d_name); seen[n++].ours = 0; }
  }
  if (d) closedir(d);
  for (int more = 1; more;) {
    more = 0;
    for (int i = 0; i < n; i++) {
      int ours = seen[i].parent == getpid();
      for (int k = 0; k < n && !ours; k++) ours = seen[k].ours && seen[k].pid == seen[i].parent;
      if (ours && !seen[i].ours) { seen[i].ours = more = 1; found++; }
    }
  }
  for (int i = 0; i < n; i++) if (seen[i].ours) kill(seen[i].pid, SIGKILL);
  return found;
}

/* SIGKILLs our own children but those to be spared; their children become ours. Returns how many there were, -1 where the
   kernel does not list them. */
int kill_children(const pid_t *spare, int n) {
  char path[64], text[4096];
  int found = 0, used = 0;
  snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)syscall(SYS_gettid));
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  pid_t pid = 0;
  for (ssize_t k; (k = read(fd, text, sizeof text)) > 0;)
    for (ssize_t i = 0; i < k; i++) {
      if (text[i] >= '0' && text[i] <= '9') { pid = pid * 10 + (text[i] - '0'); used = 1; continue; }
      if (!used) continue;
      int spared = 0;
      for (int s = 0; s < n; s++) spared |= spare[s] == pid;
      if (!spared && pid > 1) { kill(pid, SIGKILL); found++; }
      pid = 0; used = 0;
    }
  close(fd);
  return found;
}

static pid_t leader;

static void obey(int link, int *killing) {
  struct order o;
  ssize_t n = recv(link, &o, sizeof o, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n != (ssize_t)sizeof o) { *killing = 1; return; } /* the agent let go of us */
  if (o.whole) *killing = 1;
  else if (leader > 0) kill(-leader, o.signal);
}

static void end_tree(void) { if (kill_children(NULL, 0) < 0) kill_descendants(); }

_Noreturn void warden_main(struct command *c, const struct run_request *want, const struct words *w, const int fds[3], int report, int link) {
  int killing = 0, status;
  struct rusage r;
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  leader = fork();
  if (leader == 0) exec_program(c, want, w, fds, report);
  if (leader < 0) { int error = errno; if (write(report, &error, sizeof error) < 0) _exit(126); _exit(127); }
  if (link != 3 && dup2(link, 3) < 0) _exit(127);
  fcntl(3, F_SETFD, FD_CLOEXEC);
  /* the agent's socket, pipes and accounts are not ours; where the kernel has no close_range (gVisor), one by one */
  if (syscall(SYS_close_range, 4, ~0u, 0)) for (int fd = 4; fd < sysconf(_SC_OPEN_MAX); fd++) close(fd);
  struct news begun = {leader, 0, 0};
  send(3, &begun, sizeof begun, MSG_NOSIGNAL);
  sigset_t set;
  sigemptyset(&set); sigaddset(&set, SIGCHLD);
  int children = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  for (;;) {
    struct pollfd p[2] = {{3, POLLIN, 0}, {children, POLLIN, 0}};
    if (poll(p, 2, killing ? 2 : -1) < 0 && errno != EINTR) _exit(74);
    struct signalfd_siginfo seen[8];
    while (read(children, seen, sizeof seen) > 0) ;
    if (p[0].revents) obey(3, &killing);
    if (killing) { end_tree(); if (leader > 0) kill(-leader, SIGKILL); }
    pid_t pid;
    while ((pid = wait4(-1, &status, WNOHANG | __WALL, &r)) > 0) {
      if (pid != leader) continue;
      leader = 0;
      struct news ended = {0, status, (uint64_t)r.ru_maxrss * 1024ull};
      send(3, &ended, sizeof ended, MSG_NOSIGNAL);
      if (!(want->flags & RUN_LINGER)) { killing = 1; end_tree(); }
    }
    if (pid < 0 && errno == ECHILD && !leader) _exit(0);
  }
}
