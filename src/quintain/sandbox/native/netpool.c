/* Network namespaces made while nobody waits: making one costs more than all the rest of a sandbox, entering one next to
   nothing. Each is used once and dies with its sandbox. */
#include "sandbox.h"
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define PARKED 32
static int parked[2 * PARKED], count, lent, proc = -1, own = -1, empty = -1;

int loopback_raise(void) {
  struct ifreq request;
  memset(&request, 0, sizeof request);
  strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  int bad = ioctl(fd, SIOCSIFFLAGS, &request), saved = errno;
  close(fd);
  errno = saved;
  return bad;
}

/* Before the root changes: afterwards no /proc names our namespaces. Rootless spawners make each namespace with its
   sandbox instead, because it must belong to the sandbox's own user namespace. */
void netpool_start(int rootless) {
  if (rootless) return;
  proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
  own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
}

/* The one namespace without any interface, shared by all that asked for none: no socket can be bound or reached in it
   but those of the sandbox's own file system. */
int netpool_empty(void) {
  if (empty >= 0) return empty;
  if (own < 0 || unshare(CLONE_NEWNET)) return -1;
  empty = openat(proc, "self/ns/net", O_RDONLY | O_CLOEXEC);
  if (setns(own, CLONE_NEWNET)) _exit(77);
  return empty;
}

/* Makes at most one; returns 1 while there is room for more. */
int netpool_refill(void) {
  if (own < 0 || count + (lent < PARKED / 2 ? lent : PARKED / 2) >= PARKED) return 0; /* what is out may come back */
  if (unshare(CLONE_NEWNET)) return 0;
  int fd = loopback_raise() ? -1 : openat(proc, "self/ns/net", O_RDONLY | O_CLOEXEC);
  if (setns(own, CLONE_NEWNET)) _exit(77); /* a spawner in the wrong network would be a leak */
  if (fd < 0) return 0;
  parked[count++] = fd;
  return 1;
}

/* Take back a namespace whose sandbox is gone, if not one packet ever passed in it: then no connection can linger, its
   sockets died with their processes, and nothing tells it from a new one. Any other is let go. */
void netpool_give(int fd) {
  char text[1024];
  int clean = 0;
  lent--;
  if (count < 2 * PARKED && !setns(fd, CLONE_NEWNET)) {
    int dev = openat(proc, "self/net/dev", O_RDONLY | O_CLOEXEC);
    ssize_t n = dev < 0 ? -1 : read(dev, text, sizeof text - 1);
    if (dev >= 0) close(dev);
    if (n > 0) {
      unsigned long long in = 1, out = 1;
      text[n] = 0;
      char *at = strstr(text, "lo:");
      clean = at && sscanf(at + 3, "%*u %llu %*u %*u %*u %*u %*u %*u %*u %llu", &in, &out) == 2 && !in && !out;
    }
    if (setns(own, CLONE_NEWNET)) _exit(77);
  }
  if (clean) parked[count++] = fd; else close(fd);
}

/* A namespace to enter, or -1: then make one. */
int netpool_take(void) {
  if (!count) return -1;
  lent++;
  return parked[--count];
}

/* One that its taker closes instead of giving it back. */
void netpool_forget(void) { lent--; }
