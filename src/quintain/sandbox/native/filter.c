/* The system-call filter: a deny list over a check of the native architecture, as classic BPF built at start, in two parts.
   The fence holds all that not even the making of a sandbox needs: spawner and warm interpreter load it once, and what they
   fork has it already. The latch closes the rest behind each sandbox: what is translated for every one of them is short.
   Covers: foreign ABIs (killed), new namespaces, mounts, tracing and reading of other processes, kernel modules, bpf, perf,
   io_uring, userfaultfd, keyrings, handles, fanotify, SysV and POSIX message queues, clocks, TIOCSTI/TIOCLINUX,
   socket families other than UNIX, INET, INET6, limits of other processes; with Landlock also abstract sockets and signals across sandboxes.
   Does not cover: bugs in the system calls that ordinary programs need. */
#include "sandbox.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "no filter for this architecture: add its audit number here"
#endif

/* What makes a sandbox, and nothing in it may do. */
static const int MAKE[] = {
  SYS_mount, SYS_umount2, SYS_pivot_root, SYS_setns, SYS_unshare, SYS_sethostname, SYS_move_mount, SYS_open_tree,
#ifdef SYS_mount_setattr
  SYS_mount_setattr,
#endif
};
#define NMAKE (sizeof MAKE / sizeof *MAKE)

static const int DENY[] = {
  SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_kcmp, SYS_pidfd_getfd, SYS_process_madvise,
  SYS_kexec_load, SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_chroot,
  SYS_swapon, SYS_swapoff, SYS_reboot, SYS_bpf, SYS_perf_event_open, SYS_keyctl, SYS_add_key,
  SYS_request_key, SYS_userfaultfd, SYS_open_by_handle_at, SYS_name_to_handle_at, SYS_acct, SYS_quotactl, SYS_syslog,
  SYS_settimeofday, SYS_clock_settime, SYS_adjtimex, SYS_clock_adjtime, SYS_setdomainname, SYS_vhangup,
  SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register, SYS_fsopen, SYS_fsconfig, SYS_fsmount, SYS_fspick,
  SYS_personality, SYS_move_pages, SYS_migrate_pages, SYS_mbind, SYS_set_mempolicy,
  SYS_fanotify_init, SYS_fanotify_mark, SYS_lookup_dcookie, SYS_nfsservctl,
  SYS_shmget, SYS_shmat, SYS_shmctl, SYS_semget, SYS_semop, SYS_semctl, SYS_semtimedop, SYS_msgget, SYS_msgsnd, SYS_msgrcv,
  SYS_msgctl, SYS_mq_open, SYS_mq_unlink,
#ifdef SYS_kexec_file_load
  SYS_kexec_file_load,
#endif
#ifdef SYS_quotactl_fd
  SYS_quotactl_fd,
#endif
#ifdef SYS_process_mrelease
  SYS_process_mrelease,
#endif
#ifdef SYS_set_mempolicy_home_node
  SYS_set_mempolicy_home_node,
#endif
#ifdef SYS_iopl
  SYS_iopl, SYS_ioperm, SYS_modify_ldt, SYS__sysctl, SYS_uselib, SYS_ustat, SYS_sysfs, SYS_create_module, SYS_get_kernel_syms,
  SYS_query_module,
#endif
};
#define NDENY (sizeof DENY / sizeof *DENY)
#define NEW_NAMESPACES 0x7E020080u /* every CLONE_NEW* bit, NEWTIME included */

#define LOAD(field) (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(value) (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, value)
#define JUMP(test, value, yes, no) (struct sock_filter)BPF_JUMP(BPF_JMP | (test) | BPF_K, value, yes, no)
#define FAIL(error) RETURN(SECCOMP_RET_ERRNO | (error))

struct part { struct sock_filter code[512]; unsigned short length; };
static struct part fence, latch, *now; /* now: the one that is being built */
static void add(struct sock_filter f) { now->code[now->length++] = f; }
static int by_number(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

/* The refused numbers as ranges, [bounds[0], bounds[1]), [bounds[2], bounds[3]) ...: a balanced search over their bounds, about
   seven comparisons for each system call. */
static unsigned bounds[2 * NDENY];
static int nbounds;
static struct { unsigned short at; uint8_t yes, refused; } ends[4 * NDENY]; /* jumps to one of the two last words */
static int nends;

/* Which of two ends a number between bounds[i - 1] and bounds[i] comes to is told by whether i is odd. */
static void leave(int at, int yes, int i) {
  ends[nends].at = (unsigned short)at; ends[nends].yes = (uint8_t)yes; ends[nends++].refused = i & 1;
}

static void search(int from, int to) { /* at least one bound */
  int middle = from + (to - from) / 2, at = now->length;
  add(JUMP(BPF_JGE, bounds[middle], 0, 0));
  if (middle > from) search(from, middle); else leave(at, 0, middle);
  if (middle + 1 < to) { now->code[at].jt = (uint8_t)(now->length - at - 1); search(middle + 1, to); } else leave(at, 1, middle + 1);
}

static void find_bounds(const int *refused, size_t n) {
  int sorted[NDENY];
  nbounds = nends = 0;
  for (size_t i = 0; i < n; i++) sorted[i] = refused[i];
  qsort(sorted, n, sizeof *sorted, by_number);
  for (size_t i = 0; i < n; i++) {
    if (nbounds && bounds[nbounds - 1] == (unsigned)sorted[i]) bounds[nbounds - 1]++;
    else if (!nbounds || bounds[nbounds - 1] < (unsigned)sorted[i]) { bounds[nbounds++] = (unsigned)sorted[i]; bounds[nbounds++] = (unsigned)sorted[i] + 1; }
  }
}

_Static_assert(2 * NDENY < 240, "a jump of the filter reaches 255 words");
_Static_assert(NMAKE <= NDENY, "room to sort the shorter list");

/* The end of a part: what is on the list is refused, everything else allowed. */
static void refuse(const int *refused, size_t n) {
  find_bounds(refused, n);
  search(0, nbounds);
  for (int i = 0; i < nends; i++) { /* 127 bounds keep every jump in reach */
    uint8_t far = (uint8_t)(now->length + ends[i].refused - ends[i].at - 1);
    if (ends[i].yes) now->code[ends[i].at].jt = far; else now->code[ends[i].at].jf = far;
  }
  add(RETURN(SECCOMP_RET_ALLOW));
  add(FAIL(EPERM));
}

static void build_fence(void) {
  now = &fence;
  add(LOAD(arch));
  add(JUMP(BPF_JEQ, NATIVE_ARCH, 1, 0));
  add(RETURN(SECCOMP_RET_KILL_PROCESS));
  add(LOAD(nr));
#if defined(__x86_64__)
  add(JUMP(BPF_JGE, 0x40000000u, 0, 1)); /* x32 */
  add(RETURN(SECCOMP_RET_KILL_PROCESS));
#endif
  add(JUMP(BPF_JEQ, SYS_socket, 0, 6));
  add(LOAD(args[0]));
  add(JUMP(BPF_JEQ, AF_UNIX, 3, 0));
  add(JUMP(BPF_JEQ, AF_INET, 2, 0));
  add(JUMP(BPF_JEQ, AF_INET6, 1, 0));
  add(FAIL(EAFNOSUPPORT));
  add(RETURN(SECCOMP_RET_ALLOW));
  add(JUMP(BPF_JEQ, SYS_ioctl, 0, 5));
  add(LOAD(args[1]));
  add(JUMP(BPF_JEQ, 0x5412u /* TIOCSTI */, 1, 0));
  add(JUMP(BPF_JEQ, 0x541Cu /* TIOCLINUX */, 0, 1));
  add(FAIL(EPERM));
  add(RETURN(SECCOMP_RET_ALLOW));
  add(JUMP(BPF_JEQ, SYS_prlimit64, 0, 4)); /* of itself only: a rootless agent shares its program's user */
  add(LOAD(args[0]));
  add(JUMP(BPF_JEQ, 0, 1, 0));
  add(FAIL(EPERM));
  add(RETURN(SECCOMP_RET_ALLOW));
  refuse(DENY, NDENY);
}

static void build_latch(void) {
  now = &latch;
  add(LOAD(nr));
  add(JUMP(BPF_JEQ, SYS_clone3, 0, 1));
  add(FAIL(ENOSYS)); /* its flags cannot be seen from here; callers fall back to clone */
  add(JUMP(BPF_JEQ, SYS_clone, 0, 4));
  add(LOAD(args[0]));
  add(JUMP(BPF_JSET, NEW_NAMESPACES, 0, 1));
  add(FAIL(EPERM));
  add(RETURN(SECCOMP_RET_ALLOW));
  refuse(MAKE, NMAKE);
}

/* Ahead of need, so that what is forked finds it ready. */
static void ready(void) { if (!fence.length) { build_fence(); build_latch(); } }

static int load(struct part *part) {
  struct sock_fprog program = {part->length, part->code};
  return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

/* For this process, which goes on to make sandboxes, and all that it forks. */
int filter_fence(void) { ready(); return load(&fence); }

/* Behind the fence: from here on nothing of what makes a sandbox can be done. */
int filter_latch(void) { ready(); return load(&latch); }

/* Landlock, where the kernel has scopes (6.12): no abstract socket reaches out of this sandbox. Signals do not need it (the pid
   namespace names nobody outside), and an agent must reach its warm programs, which have a scope of their own. Returns 0 when it
   holds. Declared here because older headers lack the field. */
int filter_scope(void) {
  struct { uint64_t fs, net, scoped; } rules = {0, 0, 1 /* abstract unix sockets */};
  if (syscall(444 /* landlock_create_ruleset */, NULL, 0, 1 /* version */) < 6) return -1;
  int fd = (int)syscall(444, &rules, sizeof rules, 0);
  if (fd < 0) return -1;
  int bad = (int)syscall(446 /* landlock_restrict_self */, fd, 0);
  close(fd);
  return bad;
}
