/* The agent as a guest: `quintain-sandbox agent WHERE AGENT_UID UID` is PID 1's part alone, inside walls that another
   launcher has built (bubblewrap, gVisor, a container engine). WHERE is an inherited descriptor, or the path of a
   SOCK_SEQPACKET socket to connect to. It still gives up what it can by itself: user, capabilities, descriptors, and it loads
   the system-call filter. Does not cover: the walls; they are the launcher's. */
#include "sandbox.h"
#include "guest.h"
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static int reach(const char *where) {
  if (*where != '/') return fcntl(atoi(where), F_DUPFD_CLOEXEC, 5);
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  snprintf(name.sun_path, sizeof name.sun_path, "%s", where);
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd >= 0 && connect(fd, (struct sockaddr *)&name, sizeof name)) { int error = errno; close(fd); errno = error; return -1; }
  return fd;
}

/* From the launcher's user to one of our own, keeping just what turning into the program's user takes. */
static int change_user(uid_t uid) {
  struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct caps[2];
  memset(caps, 0, sizeof caps);
  caps[0].permitted = caps[0].effective = 1u << CAP_SETUID | 1u << CAP_SETGID | 1u << CAP_KILL;
  return prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) || setgroups(0, NULL) || setresgid(uid, uid, uid) || setresuid(uid, uid, uid) ||
         syscall(SYS_capset, &head, caps);
}

/* The file service works under the program's rights by setfsuid. Where the kernel lacks it (gVisor), the agent takes the
   program's user as its effective one: files belong to the program, and its signals still do not reach the agent, whose
   real and saved users stay its own. */
static int serve_as(uid_t uid) {
  uid_t own = (uid_t)setfsuid(uid);
  int works = (uid_t)setfsuid((uid_t)-1) == uid;
  setfsuid(own);
  return works || uid == geteuid() ? 0 : setresgid((gid_t)-1, uid, (gid_t)-1) || setresuid((uid_t)-1, uid, (uid_t)-1);
}

_Noreturn void guest_main(char **words) {
  int sock = reach(words[0]);
  uid_t agent_uid = (uid_t)strtoul(words[1], NULL, 10);
  if (sock < 0) { fprintf(stderr, "quintain-sandbox: reach the house at %s: %s\n", words[0], strerror(errno)); exit(70); }
  signals_as_new();
  int null = open("/dev/null", O_RDWR);
  for (int i = 0; i < 3; i++) if (null < 0 || dup2(null, i) < 0) { agent_broken(sock, "open /dev/null", errno); exit(71); }
  if (sock > 3) syscall(SYS_close_range, 3, sock - 1, 0);
  syscall(SYS_close_range, sock + 1, ~0u, 0);
  if (agent_uid != geteuid() && change_user(agent_uid)) { agent_broken(sock, "change the user", errno); exit(71); }
  if (serve_as((uid_t)strtoul(words[2], NULL, 10))) { agent_broken(sock, "take the program's user", errno); exit(71); }
  setsid();
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)) { agent_broken(sock, "harden the agent", errno); exit(71); }
  if (filter_fence() || filter_latch()) { agent_broken(sock, "load the system-call filter", errno); exit(71); }
  agent_main(sock, (struct walls){-1, -1, -1, 0, (uint32_t)strtoul(words[2], NULL, 10)});
}

#if defined(__GLIBC__) && !defined(QUINTAIN_LIBRARY)
/* Taken before main: its words are another's (CONTROL_FD is a number, so `agent` can mean nothing else). glibc hands the
   arguments to constructors; elsewhere main has to call guest_main itself. */
__attribute__((constructor)) static void enter_as_guest(int argc, char **argv) {
  if (argc == 5 && !strcmp(argv[1], "agent")) guest_main(argv + 2);
}
#endif
