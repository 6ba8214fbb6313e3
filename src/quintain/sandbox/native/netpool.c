/* Network namespaces made while nobody waits: making one costs more than all the rest of a sandbox, entering one next to
   nothing. Each is used once and dies with its sandbox. */
#include "sandbox.h"
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define PARKED 32
static int parked[PARKED], count, proc = -1, own = -1, empty = -1;

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
  if (own < 0 || count == PARKED) return 0;
  if (unshare(CLONE_NEWNET)) return 0;
  int fd = loopback_raise() ? -1 : openat(proc, "self/ns/net", O_RDONLY | O_CLOEXEC);
  if (setns(own, CLONE_NEWNET)) _exit(77); /* a spawner in the wrong network would be a leak */
  if (fd < 0) return 0;
  parked[count++] = fd;
  return count < PARKED;
}

/* A namespace to enter, or -1: then make one. */
int netpool_take(void) { return count ? parked[--count] : -1; }
