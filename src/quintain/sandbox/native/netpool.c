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
static struct net parked[2 * PARKED];
static int count, lent, proc = -1, own = -1, empty = -1;

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
  struct net made = {-1, -1};
  if (!loopback_raise()) {
    made.fd = openat(proc, "self/ns/net", O_RDONLY | O_CLOEXEC);
    made.traffic = openat(proc, "self/net/dev", O_RDONLY | O_CLOEXEC); /* of this namespace, whoever reads it */
  }
  if (setns(own, CLONE_NEWNET)) _exit(77); /* a spawner in the wrong network would be a leak */
  if (made.fd < 0) return 0;
  parked[count++] = made;
  return 1;
}

static int is_untouched(int traffic) {
  char text[1024];
  unsigned long long in = 1, out = 1;
  ssize_t n = traffic < 0 ? -1 : pread(traffic, text, sizeof text - 1, 0);
  if (n <= 0) return 0;
  text[n] = 0;
  char *at = strstr(text, "lo:");
  return at && sscanf(at + 3, "%*u %llu %*u %*u %*u %*u %*u %*u %*u %llu", &in, &out) == 2 && !in && !out;
}

/* Lets go of one for good. */
void netpool_drop(struct net net) {
  lent--;
  close(net.fd);
  if (net.traffic >= 0) close(net.traffic);
}

/* Take back a namespace whose sandbox is gone, if not one packet ever passed in it: then no connection can linger, its
   sockets died with their processes, and nothing tells it from a new one. Any other is let go. */
void netpool_give(struct net net) {
  if (count < 2 * PARKED && is_untouched(net.traffic)) { lent--; parked[count++] = net; } else netpool_drop(net);
}

/* A namespace to enter, or one without a descriptor: then make one. */
struct net netpool_take(void) {
  if (!count) return (struct net){-1, -1};
  lent++;
  return parked[--count];
}
