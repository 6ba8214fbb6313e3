/* The root file system of an engine's sandboxes: plain (read-only pieces of the host), layered (an overlay of image layers,
   read-only, made once), or writable (an overlay of its own for each sandbox, bounded with the rest of its files).
   A layered root is put together in a workshop, a small tmpfs: `top` holds every mount point as a real directory or file and
   lies above all layers, so that no link of an image decides where something is mounted. */
#include "root.h"
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_LAYERS 480 /* of overlayfs: 500 */
#define MAX_BINDS 128

static const char *binds[MAX_BINDS]; /* targets, relative to the root; the sources are b0, b1, ... in the workshop */
static struct { const char *to, *lowers; } overs[MAX_UPPERS];
static int nbinds, novers, nlayers;
struct upper uppers[MAX_UPPERS];
int nuppers;

static _Noreturn void fail(const char *what, const char *about) {
  fprintf(stderr, "quintain-sandbox: %s %s: %s\n", what, about ? about : "", strerror(errno));
  _exit(70);
}

static void make_parents(char *path) {
  for (char *at = strchr(path, '/'); at; at = strchr(at + 1, '/')) { *at = 0; mkdir(path, 0755); *at = '/'; }
}

/* An empty place of the same kind as `from`, to mount upon. */
static void make_place(const char *from, const char *to) {
  struct stat st;
  if (stat(from, &st)) fail("find", from);
  if (S_ISDIR(st.st_mode)) { if (mkdir(to, 0755) && errno != EEXIST) fail("mkdir", to); return; }
  int fd = open(to, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
  if (fd < 0) fail("create", to);
  close(fd);
}

static void bind_read_only(const char *from, const char *to) {
  if (mount(from, to, NULL, MS_BIND | MS_REC, NULL)) fail("bind", from);
  /* locked flags of the original mount must be kept, or the kernel refuses in a user namespace */
  unsigned long keep[] = {MS_NOSUID | MS_NODEV, MS_NOSUID | MS_NODEV | MS_NOEXEC, MS_NOSUID};
  for (unsigned i = 0; i < 3; i++)
    if (!mount(NULL, to, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | keep[i], NULL)) return;
  fail("make read-only", to);
}

/* A device of our own is one mount less in every sandbox. Not where we may not make one: it is bound then. */
static int own_nodes;
static int make_node(const char *from, const char *to) {
  struct stat st;
  if (!own_nodes || stat(from, &st) || !S_ISCHR(st.st_mode)) return 0;
  if (mknod(to, S_IFCHR | 0666, st.st_rdev)) return own_nodes = 0;
  if (chmod(to, 0666)) fail("open to all", to);
  int fd = open(to, O_RDONLY | O_CLOEXEC); /* a mount of this user namespace may have no devices */
  if (fd < 0) { unlink(to); return own_nodes = 0; }
  close(fd);
  return 1;
}

static void write_file(const char *path, const char *text) {
  int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0 || write(fd, text, strlen(text)) < 0) fail("write", path);
  close(fd);
}

/* What any user of the host may read of `name` in `from`, as files of our own; links stay links. Sockets and such stay away. */
static void copy(int from, int to, const char *name) {
  struct stat st;
  char text[4096];
  if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW)) fail("find", name);
  if (S_ISLNK(st.st_mode)) {
    ssize_t n = readlinkat(from, name, text, sizeof text - 1);
    if (n < 0) fail("read the link", name);
    text[n] = 0;
    if (symlinkat(text, to, name)) fail("link", name);
    return;
  }
  int directory = S_ISDIR(st.st_mode);
  if ((!directory && !S_ISREG(st.st_mode)) || !(st.st_mode & S_IROTH) || (directory && !(st.st_mode & S_IXOTH))) return;
  int source = openat(from, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (source < 0) fail("open", name);
  if (directory) {
    DIR *list = fdopendir(source);
    if (!list || (mkdirat(to, name, 0755) && errno != EEXIST)) fail("mkdir", name);
    int target = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (target < 0) fail("open", name);
    for (struct dirent *e; (e = readdir(list));) if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) copy(dirfd(list), target, e->d_name);
    close(target);
    closedir(list);
    return;
  }
  int target = openat(to, name, O_CREAT | O_WRONLY | O_EXCL | O_CLOEXEC, st.st_mode & 0111 ? 0755 : 0644);
  if (target < 0) fail("create", name);
  for (ssize_t n; (n = read(source, text, sizeof text)) != 0;) if (n < 0 || write(target, text, (size_t)n) != n) fail("copy", name);
  close(source); close(target);
}

/* FROM's last name is TO's: its parent is there already. */
static void copy_in(const char *from, char *to) {
  char *name = strrchr(to, '/'), *last = strrchr(from, '/');
  if (!name || !last || strcmp(name, last)) { errno = EINVAL; fail("copy", from); }
  char above[4096];
  snprintf(above, sizeof above, "%.*s", (int)(last - from + 1), from);
  int source = open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  *name = 0;
  int target = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  *name = '/';
  if (source < 0 || target < 0) fail("open the directories of", from);
  copy(source, target, name + 1);
  close(source); close(target);
}

/* The words, in triples: dir PATH - | file PATH CONTENT | link TARGET PATH | ro FROM TO | copy FROM TO | dev NAME - |
   layer PATH - (numbered l0, l1, ...) | over TO LOWERS ("top:l1:l0", highest first; "." is the root) | rw - - */
static void lay_out(char **m) {
  static const char *const dirs[] = {"dev", "dev/shm", "dev/pts", "proc", "work", "tmp", "run", "mnt", "etc", "root"};
  for (unsigned i = 0; i < sizeof dirs / sizeof *dirs; i++) if (mkdir(dirs[i], 0755)) fail("mkdir", dirs[i]);
  if (chmod("tmp", 01777)) fail("open to all", "tmp");
  if (symlink("pts/ptmx", "dev/ptmx")) fail("link", "dev/ptmx"); /* leads nowhere in a sandbox without a devpts */
  for (; m[0]; m += 3) {
    char *target = !strcmp(m[0], "ro") || !strcmp(m[0], "link") || !strcmp(m[0], "copy") ? m[2] : m[1];
    if (!strcmp(m[0], "dev")) {
      char from[64], to[64];
      snprintf(from, sizeof from, "/dev/%s", m[1]); snprintf(to, sizeof to, "dev/%s", m[1]);
      if (make_node(from, to)) continue;
      make_place(from, to);
      continue;
    }
    if (!strcmp(m[0], "layer") || !strcmp(m[0], "rw")) continue;
    make_parents(target);
    if (!strcmp(m[0], "dir") || !strcmp(m[0], "over")) { if (mkdir(target, 0755) && errno != EEXIST) fail("mkdir", target); }
    else if (!strcmp(m[0], "ro")) make_place(m[1], target);
    else if (!strcmp(m[0], "link")) { if (symlink(m[1], target)) fail("link", target); }
    else if (!strcmp(m[0], "file")) write_file(target, m[2]);
    else if (!strcmp(m[0], "copy")) copy_in(m[1], target);
    else { errno = EINVAL; fail("understand", m[0]); }
  }
}

/* Brings in what comes from outside: in its place in a plain root, under a short name in a workshop. */
static void bring_in(char **m, int layered) {
  static char names[MAX_BINDS][64];
  char at[64];
  for (; m[0]; m += 3) {
    int device = !strcmp(m[0], "dev");
    if (device && own_nodes) continue;
    if (!strcmp(m[0], "over")) {
      if (novers == MAX_UPPERS) { errno = E2BIG; fail("take", "one more overlay"); }
      overs[novers].to = m[1]; overs[novers++].lowers = m[2];
    } else if (!strcmp(m[0], "layer")) {
      if (nlayers == MAX_LAYERS) { errno = E2BIG; fail("take", "one more layer"); }
      snprintf(at, sizeof at, "l%d", nlayers++);
      make_place(m[1], at); bind_read_only(m[1], at);
    } else if (device || !strcmp(m[0], "ro")) {
      char from[64];
      if (nbinds == MAX_BINDS) { errno = E2BIG; fail("take", "one more mount"); }
      snprintf(from, sizeof from, "/dev/%s", m[1]);
      if (device) snprintf(names[nbinds], sizeof names[nbinds], "dev/%s", m[1]);
      binds[nbinds] = device ? names[nbinds] : m[2];
      snprintf(at, sizeof at, "b%d", nbinds);
      const char *source = device ? from : m[1], *place = layered ? at : binds[nbinds];
      if (layered) make_place(source, at);
      if (!device) bind_read_only(source, place);
      else if (mount(from, place, NULL, MS_BIND, NULL)) fail("bind", from);
      /* read-only guards the node (its mode, its owner), not what is written through it */
      else if (mount(NULL, place, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NOEXEC, NULL)) fail("make read-only", from);
      nbinds++;
    }
  }
}

/* Stacks the layers at `root` and mounts the rest in it. Returns what failed, or NULL. */
static const char *compose(int writable) {
  static char options[4096];
  char to[512], at[64];
  for (int i = 0; i < novers; i++) {
    snprintf(to, sizeof to, "root/%s", overs[i].to);
    int n = snprintf(options, sizeof options, "userxattr,lowerdir=%s", overs[i].lowers);
    if (writable) n += snprintf(options + n, sizeof options - (size_t)n, ",upperdir=box/u%d,workdir=box/w%d", i, i);
    if ((size_t)n >= sizeof options - 1) { errno = E2BIG; return "stack the layers of the image"; }
    if (mount("overlay", to, "overlay", MS_NOSUID | MS_NODEV | (writable ? 0ul : MS_RDONLY), options)) return "stack the layers (overlay)";
  }
  for (int i = 0; i < nbinds; i++) {
    snprintf(at, sizeof at, "b%d", i); snprintf(to, sizeof to, "root/%s", binds[i]);
    if (mount(at, to, NULL, MS_BIND | MS_REC, NULL)) return "bind into the root";
  }
  return NULL;
}

static int has(char **m, const char *word) { for (; m[0]; m += 3) if (!strcmp(m[0], word)) return 1; return 0; }

/* Any directory will do, in our own mount namespace and for the moment of building, but one that covers none of the sources. */
static const char *building_site(char **mounts) {
  static const char *const sites[] = {"/tmp", "/mnt", "/srv", "/media", "/sys", "/run"};
  for (unsigned i = 0; i < sizeof sites / sizeof *sites; i++) {
    size_t n = strlen(sites[i]);
    int covers = access(sites[i], X_OK) != 0;
    for (char **m = mounts; m[0] && !covers; m += 3)
      covers = (!strcmp(m[0], "ro") || !strcmp(m[0], "layer")) && !strncmp(m[1], sites[i], n) && (!m[1][n] || m[1][n] == '/');
    if (!covers) return sites[i];
  }
  errno = ENOENT;
  fail("find", "a directory to build the root at (/tmp, /mnt, /srv, /media, /sys and /run all hold layers)");
}

void jail_build_root(const struct plan *plan) {
  const char *site = building_site(plan->mounts);
  int layered = has(plan->mounts, "over");
  own_nodes = !layered && !plan->rootless;
  umask(022);
  /* SysV and POSIX queues are closed by the filter; this keeps the host's own out of sight as well. A namespace for each
     sandbox would cost one more superblock, and those make every later memory cgroup dearer (docs/log.md). */
  if (unshare(CLONE_NEWNS | CLONE_NEWIPC)) fail("unshare", "mount and ipc namespaces");
  if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) fail("make private", "/");
  if (mount("tmpfs", site, "tmpfs", MS_NOSUID | (own_nodes ? 0ul : MS_NODEV), "size=32m,mode=755")) fail("mount", "tmpfs for the root");
  if (chdir(site)) fail("enter", site);
  static const char *const rooms[] = {"top", "root", "box", "proc"};
  for (unsigned i = 0; layered && i < sizeof rooms / sizeof *rooms; i++) if (mkdir(rooms[i], 0755)) fail("mkdir", rooms[i]);
  if (layered && chdir("top")) fail("enter", "top");
  lay_out(plan->mounts);
  if (layered && chdir("..")) fail("leave", "top");
  bring_in(plan->mounts, layered);
  if (layered && !plan->writable) {
    const char *failed = compose(0);
    if (failed) fail(failed, plan->rootless ? "(rootless: needs kernel 5.11)" : "");
    if (chdir("root")) fail("enter", "root");
  }
  if (plan->rootless && mount("/proc", "proc", NULL, MS_BIND | MS_REC, NULL)) fail("bind", "/proc");
  if (syscall(SYS_pivot_root, ".", ".")) fail("pivot_root", NULL);
  if (umount2(".", MNT_DETACH)) fail("detach", "the old root");
  if (chdir("/")) fail("enter", "/");
}

/* The last act before any sandbox is made: until here a zygote may still import, and write to the root's /tmp. */
void jail_seal_root(void) {
  /* what is made here inherits an empty bounding set: no exec can ever gain a capability */
  drop_bounding_set();
  unsigned long flags = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | (own_nodes ? 0ul : MS_NODEV);
  if (mount(NULL, "/", NULL, flags, NULL)) fail("make read-only", "/");
}

void drop_bounding_set(void) {
  for (int c = 0; c <= 63; c++) if (prctl(PR_CAPBSET_DROP, c, 0, 0, 0) && errno != EINVAL) fail("drop", "the bounding set");
}

/* ---- a writable root, inside the new process ---- */

static int put(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t n = write(fd, text, strlen(text));
  close(fd);
  return n < 0 ? -1 : 0;
}

/* A user namespace with two users: 0 is the program, AGENT_INSIDE the agent. Needs /proc of this process's own. */
static int make_users(uint32_t agent, uint32_t program) {
  int up[2], hold[2], fd = -1;
  char go, path[64], map[96];
  if (pipe2(up, O_CLOEXEC) || pipe2(hold, O_CLOEXEC)) return -1;
  pid_t pid = fork();
  if (pid == 0) {
    close(hold[1]);
    if (unshare(CLONE_NEWUSER) || write(up[1], "u", 1) != 1 || read(hold[0], &go, 1) < 0) _exit(1);
    _exit(0);
  }
  close(up[1]); close(hold[0]);
  snprintf(map, sizeof map, "0 %u 1\n%u %u 1\n", program, AGENT_INSIDE, agent);
  if (pid > 0 && read(up[0], &go, 1) == 1) {
    snprintf(path, sizeof path, "/proc/%d/uid_map", pid);
    int bad = put(path, map);
    snprintf(path, sizeof path, "/proc/%d/gid_map", pid);
    if (!bad && !put(path, map)) {
      snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
      fd = open(path, O_RDONLY | O_CLOEXEC);
    }
  }
  int saved = errno;
  close(up[0]); close(hold[1]);
  if (pid > 0) waitpid(pid, NULL, 0);
  errno = saved;
  return fd;
}

/* Shows a layer's files as the program's own, without touching them. */
static int own(const char *at, int users) {
  struct { uint64_t set, clear, propagation, fd; } change = {0x00100000 /* MOUNT_ATTR_IDMAP */, 0, 0, (uint64_t)users};
  int fd = (int)syscall(428 /* open_tree */, AT_FDCWD, at, 1 /* OPEN_TREE_CLONE */ | O_CLOEXEC);
  if (fd < 0) return -1;
  int bad = (int)syscall(442 /* mount_setattr */, fd, "", AT_EMPTY_PATH, &change, sizeof change) ||
            (int)syscall(429 /* move_mount */, fd, "", AT_FDCWD, at, 4 /* MOVE_MOUNT_F_EMPTY_PATH */);
  int saved = errno;
  close(fd);
  errno = saved;
  return bad;
}

/* Whoever starts us rootless while being the host's root is still, to the kernel, the owner of every setting of the host. */
int root_shield_proc(const char *proc) {
  static const char *const parts[] = {"sys", "sysrq-trigger", "irq", "bus", "fs"};
  char at[64];
  for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++) {
    snprintf(at, sizeof at, "%s/%s", proc, parts[i]);
    if (access(at, F_OK)) continue;
    if (mount(at, at, NULL, MS_BIND | MS_REC, NULL) ||
        mount(NULL, at, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL)) return -1;
  }
  return 0;
}

const char *root_make_writable(const struct plan *plan, const char *options, uint32_t agent, uint32_t program, int *users) {
  char at[64], to[64];
  *users = -1;
  if (chdir("/")) return "enter the workshop";
  if (mount("tmpfs", "box", "tmpfs", MS_NOSUID | MS_NODEV, options)) return "mount the writable files";
  if (mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "hidepid=2") &&
      mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL)) return "mount /proc";
  if (plan->rootless && root_shield_proc("proc")) return "make /proc/sys read-only";
  if (!plan->rootless) {
    if ((*users = make_users(agent, program)) < 0) return "make the users of a writable root";
    if (own("top", *users)) return "id-map tmpfs (kernel 6.3)";
    for (int i = 0; i < nlayers; i++) {
      snprintf(at, sizeof at, "l%d", i);
      if (own(at, *users)) return "id-map a layer's file system";
    }
  }
  for (int i = 0; i < novers; i++) {
    snprintf(at, sizeof at, "box/u%d", i); snprintf(to, sizeof to, "box/w%d", i);
    if (mkdir(at, 0755) || mkdir(to, 0755)) return "make the upper directories";
    if (!plan->rootless && chown(at, program, program)) return "give the upper directories away";
    uppers[i].to = overs[i].to;
    if ((uppers[i].fd = open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) return "open the upper directories";
  }
  nuppers = novers;
  const char *failed = compose(1);
  if (failed) return failed;
  if (mkdir("box/shm", 01777) || chmod("box/shm", 01777)) return "make /dev/shm";
  if (!plan->rootless && chown("box/shm", program, program)) return "give /dev/shm away";
  if (mount("box/shm", "root/dev/shm", NULL, MS_BIND, NULL)) return "bind /dev/shm";
  if (mount("proc", "root/proc", NULL, MS_MOVE, NULL)) return "move /proc";
  if (chdir("root") || syscall(SYS_pivot_root, ".", ".")) return "enter the writable root";
  if (umount2(".", MNT_DETACH)) return "detach the workshop";
  return chdir("/") ? "enter /" : NULL;
}
