/* The walls of a sandbox: what each adds to the root that its engine has built.
   Order follows what a reviewer checks: groups, mounts, names, loopback, descriptors, limits, identity, filter. */
#include "root.h"
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- inside the new process ---- */
static int sock_fd;
static _Noreturn void broken(const char *where) { agent_broken(sock_fd, where, errno); _exit(71); }

static void writable_tree(const char *options, uint32_t uid) {
  if (mount("tmpfs", "/mnt", "tmpfs", MS_NOSUID | MS_NODEV, options)) broken("mount the work tree");
  static const struct { const char *from, *to; mode_t mode; } parts[] = {
    {"/mnt/work", "/work", 0755}, {"/mnt/tmp", "/tmp", 01777}, {"/mnt/shm", "/dev/shm", 01777}};
  for (unsigned i = 0; i < 3; i++) {
    if (mkdir(parts[i].from, parts[i].mode) || chmod(parts[i].from, parts[i].mode)) broken("make the work tree");
    if (chown(parts[i].from, uid, uid)) broken("give the work tree away");
    if (mount(parts[i].from, parts[i].to, NULL, MS_BIND, NULL)) broken("bind the work tree");
  }
  /* covered, not unmounted: an unmount waits for an RCU grace period, which a busy host hands out in tens of milliseconds */
  if (mount("/run", "/mnt", NULL, MS_BIND, NULL)) broken("cover the work tree's other name");
}

/* Every file of /proc that could do harm belongs to the host's root, and no program here is root or has its rights: masks
   would add six mounts to each sandbox and close nothing. hidepid hides the agent. */
static void proc_tree(const struct plan *plan) {
  if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "hidepid=2") &&
      mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL)) broken("mount /proc");
  if (plan->rootless && root_shield_proc("/proc")) broken("make /proc/sys read-only");
}

/* Terminals of its own, where they were asked for: one more mount. */
static void terminals(const struct open_request *want) {
  if (want->flags & OPEN_TERMINALS && mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0600"))
    broken("mount /dev/pts");
}

static void limit(int what, rlim_t soft, rlim_t hard) {
  struct rlimit now, want = {soft, hard};
  if (getrlimit((__rlimit_resource_t)what, &now)) broken("read a limit");
  if (want.rlim_max > now.rlim_max) want.rlim_max = now.rlim_max; /* raising needs a right that we may lack */
  if (want.rlim_cur > want.rlim_max) want.rlim_cur = want.rlim_max;
  if (setrlimit((__rlimit_resource_t)what, &want)) broken("set a limit");
}

static void limits(const struct plan *plan, const struct open_request *want) {
  limit(RLIMIT_CORE, 0, 0);
  limit(RLIMIT_NOFILE, 1024, 4096);
  limit(RLIMIT_NPROC, want->processes + 1, want->processes + 1);
  limit(RLIMIT_MEMLOCK, 64 << 10, 64 << 10);
  limit(RLIMIT_MSGQUEUE, 0, 0);
  limit(RLIMIT_SIGPENDING, 1024, 1024);
  int memory_group = 0;
  for (int i = 0; i < plan->ncgroups; i++) memory_group |= plan->cgroups[i].kind == 'm' || plan->cgroups[i].kind == 'u';
  if (!memory_group) limit(RLIMIT_AS, want->memory_bytes, want->memory_bytes); /* soft: each process by itself */
}

static void identity(const struct plan *plan, uint32_t agent_uid) {
  struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct caps[2];
  memset(caps, 0, sizeof caps);
  if (prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED))
    broken("lock the secure bits");
  if (!plan->rootless) {
    if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)) broken("keep capabilities");
    if (setgroups(0, NULL)) broken("leave all groups");
    if (setresgid(agent_uid, agent_uid, agent_uid) || setresuid(agent_uid, agent_uid, agent_uid)) broken("change the user");
    /* the agent turns into the program's user before each exec, kills its processes, and can do nothing else */
    caps[0].permitted = caps[0].effective = 1u << CAP_SETUID | 1u << CAP_SETGID | 1u << CAP_KILL;
  }
  if (syscall(SYS_capset, &head, caps)) broken("drop capabilities");
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) broken("set no_new_privs");
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)) broken("become undumpable");
  if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)) broken("tie to the spawner");
}

/* Files lie in the sandbox's memory and outlive the command that wrote them. They leave room for the agent and the commands that
   follow, or a program could end its own sandbox by filling it. */
static unsigned long long file_room(const struct plan *plan, const struct open_request *want) {
  int memory_group = 0;
  for (int i = 0; i < plan->ncgroups; i++) memory_group |= plan->cgroups[i].kind == 'm' || plan->cgroups[i].kind == 'u';
  unsigned long long spare = (16ull << 20) + want->inodes * 1024ull, half = want->memory_bytes / 2; /* an inode costs about 1 KiB */
  unsigned long long most = want->memory_bytes - (spare < half ? spare : half);
  return memory_group && want->disk_bytes > most ? most : want->disk_bytes;
}

/* What the next ones will need alike, made ready before they are forked. */
static char options[96];
void jail_ready(const struct plan *plan, const struct open_request *want) {
  snprintf(options, sizeof options, "size=%llu,nr_inodes=%llu,mode=755", file_room(plan, want), (unsigned long long)want->inodes);
}

/* Turns this fresh process into PID 1 of a sandbox; never returns. */
void jail_enter(const struct plan *plan, const struct open_request *want, uint32_t slot, const int *cgroup_fds, int cpu_fd, int net_fd, int sock) {
  sock_fd = sock;
  uint32_t agent_uid = plan->uid_base + 2 * slot, program_uid = agent_uid + 1;
  if (plan->rootless) agent_uid = program_uid = plan->writable ? 0 : 1000;
  for (int i = 0; cgroup_fds && i < plan->ncgroups; i++) if (write(cgroup_fds[i], "0", 1) != 1) broken("join a cgroup");
  if (unshare(CLONE_NEWCGROUP)) broken("hide the cgroups");
  int users = -1;
  if (plan->writable) {
    const char *failed = root_make_writable(plan, options, agent_uid, program_uid, &users);
    if (failed) broken(failed);
  } else {
    writable_tree(options, program_uid);
    proc_tree(plan);
  }
  terminals(want);
  if (sethostname("sandbox", 7)) broken("set the host name");
  if (net_fd >= 0) { if (setns(net_fd, CLONE_NEWNET)) broken("enter the network namespace"); }
  else if (want->network == NET_LOOPBACK && loopback_raise()) broken("bring up loopback");
  if (users >= 0) { /* from here on there are two users in the world, and the program's is called 0 */
    if (setgroups(0, NULL) || setns(users, CLONE_NEWUSER)) broken("enter the user namespace");
    drop_bounding_set();
    agent_uid = AGENT_INSIDE; program_uid = 0;
  }
  if (plan->rootless) drop_bounding_set(); /* a new user namespace has brought a full one */
  int null = open("/dev/null", O_RDWR);
  if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0) broken("open /dev/null");
  int oom = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
  if (oom < 0) broken("open the OOM score");
  if (oom < 64 && (oom = fcntl(oom, F_DUPFD_CLOEXEC, 64)) < 0) broken("move the OOM score");
  int warm = plan->warm;
  if (warm >= 0 && warm < 64 && (warm = fcntl(warm, F_DUPFD_CLOEXEC, 64)) < 0) broken("move the way to the warm interpreter");
  if (cpu_fd >= 0 && cpu_fd < 5 && (cpu_fd = fcntl(cpu_fd, F_DUPFD_CLOEXEC, 5)) < 0) broken("move the CPU account");
  if (sock != 3 && dup2(sock, 3) < 0) broken("place the socket");
  sock_fd = 3;
  if (cpu_fd >= 0 && cpu_fd != 4 && dup2(cpu_fd, 4) < 0) broken("place the CPU account");
  int keep = cpu_fd >= 0 ? 5 : 4, oom_fd = keep++, warm_fd = -1;
  if (dup3(oom, oom_fd, O_CLOEXEC) < 0) broken("place the OOM score");
  if (warm >= 0 && dup3(warm, warm_fd = keep++, O_CLOEXEC) < 0) broken("place the way to the warm interpreter");
  for (int i = 0; i < nuppers; i++) if ((uppers[i].fd = fcntl(uppers[i].fd, F_DUPFD_CLOEXEC, 64)) < 0) broken("move the upper directories");
  for (int i = 0; i < nuppers; i++, keep++) if ((uppers[i].fd = dup3(uppers[i].fd, keep, O_CLOEXEC)) < 0) broken("place the upper directories");
  if (fcntl(3, F_SETFD, FD_CLOEXEC) || syscall(SYS_close_range, keep, ~0u, 0)) broken("close descriptors");
  if (cpu_fd >= 0) fcntl(4, F_SETFD, FD_CLOEXEC);
  limits(plan, want);
  identity(plan, agent_uid);
  if (filter_scope() && want->network == NET_EMPTY && net_fd >= 0) { errno = ENOSYS; broken("close the shared network namespace to abstract sockets (Landlock scopes need kernel 6.12)"); }
  if (chdir("/work")) broken("enter /work");
  if (filter_latch()) broken("load the system-call filter");
  agent_main(3, (struct walls){cpu_fd >= 0 ? 4 : -1, oom_fd, warm_fd, slot, program_uid});
}
