/* Writes the writable trees of a sandbox as one tar stream: sorted, so that the same trees give the same bytes. It runs as
   the program's user, inside, so that it can read nothing that the program could not; what the program has made unreadable
   to itself is made readable for a moment. FIFOs, sockets and devices are named on stdout instead of being kept; a
   whiteout becomes `.wh.NAME` and an opaque directory holds `.wh..wh..opq`, as in a layer of an OCI image.
   Does not cover: extended attributes, times below a second, a tree that programs change while it is read (each file is
   whole in length only). */
#include "snapshot.h"
#include "root.h"
#include "tar.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

static int out;
static char buffer[1 << 16]; static size_t filled;
static char *path; static size_t path_len, path_cap; /* of where we are, inside the stream */
static int in_upper;

static _Noreturn void stop(const char *what, const char *name) {
  fprintf(stderr, "%s %.*s%s%s: %s", what, (int)(path_len < 300 ? path_len : 300), path ? path : "", *name ? "/" : "", name, strerror(errno));
  fflush(stderr);
  _exit(1);
}

static void flush(void) {
  for (size_t done = 0; done < filled;) {
    ssize_t n = write(out, buffer + done, filled - done);
    if (n < 0 && errno != EINTR) _exit(2); /* nobody reads any more */
    if (n > 0) done += (size_t)n;
  }
  filled = 0;
}

static void emit(const char *bytes, size_t n) {
  while (n) {
    size_t part = sizeof buffer - filled < n ? sizeof buffer - filled : n;
    memcpy(buffer + filled, bytes, part);
    filled += part; bytes += part; n -= part;
    if (filled == sizeof buffer) flush();
  }
}

static void pad(uint64_t n) {
  static const char zeros[TAR_BLOCK];
  for (; n >= TAR_BLOCK; n -= TAR_BLOCK) emit(zeros, TAR_BLOCK);
  emit(zeros, (size_t)n);
}

static void round_up(uint64_t n) { pad((TAR_BLOCK - n % TAR_BLOCK) % TAR_BLOCK); }

static void finish_header(struct tar_header *h) {
  memcpy(h->magic, "ustar  ", 8);
  snprintf(h->checksum, sizeof h->checksum, "%06o", tar_sum(h));
  h->checksum[7] = ' ';
  emit((const char *)h, TAR_BLOCK);
}

static void emit_long(char type, const char *text) {
  struct tar_header h;
  size_t n = strlen(text) + 1;
  memset(&h, 0, sizeof h);
  strcpy(h.name, TAR_LONG);
  h.type = type;
  tar_put(h.mode, sizeof h.mode, 0); tar_put(h.uid, 8, 0); tar_put(h.gid, 8, 0); tar_put(h.mtime, 12, 0);
  tar_put(h.size, sizeof h.size, (int64_t)n);
  finish_header(&h);
  emit(text, n); round_up(n);
}

/* Everything of a header but its checksum; users are not kept: all belongs to the one who restores. */
static struct tar_header head(const char *link, char type, const struct stat *st, uint64_t size) {
  struct tar_header h;
  if (path_len >= sizeof h.name) emit_long('L', path);
  if (link && strlen(link) >= sizeof h.link) emit_long('K', link);
  memset(&h, 0, sizeof h);
  memcpy(h.name, path, path_len < sizeof h.name - 1 ? path_len : sizeof h.name - 1);
  if (link) memcpy(h.link, link, strlen(link) < sizeof h.link - 1 ? strlen(link) : sizeof h.link - 1);
  h.type = type;
  tar_put(h.mode, sizeof h.mode, st ? st->st_mode & 07777 : 0644); tar_put(h.uid, 8, 0); tar_put(h.gid, 8, 0);
  tar_put(h.size, sizeof h.size, (int64_t)size);
  tar_put(h.mtime, sizeof h.mtime, st ? st->st_mtim.tv_sec : 0);
  return h;
}

static void emit_header(const char *link, char type, const struct stat *st, uint64_t size) {
  struct tar_header h = head(link, type, st, size);
  finish_header(&h);
}

/* ---- hard links: the first name carries the content ---- */
static struct link { dev_t dev; ino_t ino; char *path; } *links; static size_t nlinks, links_cap;

static const char *linked_before(const struct stat *st) {
  for (size_t at = 0; links_cap && at < links_cap; at++) {
    struct link *l = &links[(st->st_ino + at) % links_cap];
    if (!l->path) return NULL;
    if (l->ino == st->st_ino && l->dev == st->st_dev) return l->path;
  }
  return NULL;
}

static void remember(const struct stat *st, char *name) {
  if (2 * (nlinks + 1) > links_cap) {
    struct link *old = links; size_t n = links_cap;
    links_cap = n ? 4 * n : 256; nlinks = 0;
    if (!(links = calloc(links_cap, sizeof *links))) stop("remember the links of", "");
    for (size_t i = 0; i < n; i++) if (old[i].path) { struct stat s = {.st_dev = old[i].dev, .st_ino = old[i].ino}; remember(&s, old[i].path); }
    free(old);
  }
  size_t at = st->st_ino % links_cap;
  while (links[at].path) at = (at + 1) % links_cap;
  links[at] = (struct link){st->st_dev, st->st_ino, name}; nlinks++;
}

/* ---- content ---- */
static void emit_content(int fd, uint64_t from, uint64_t n) {
  static char bytes[1 << 16];
  while (n) {
    ssize_t k = pread(fd, bytes, n < sizeof bytes ? (size_t)n : sizeof bytes, (off_t)from);
    if (k < 0) stop("read", "");
    if (k == 0) { pad(n); return; } /* it has shrunk since: the header has spoken */
    emit(bytes, (size_t)k);
    from += (uint64_t)k; n -= (uint64_t)k;
  }
}

struct span { uint64_t offset, bytes; };

static void emit_sparse(int fd, const struct stat *st) {
  struct span *spans = NULL;
  size_t n = 0, cap = 0;
  uint64_t total = 0;
  for (off_t at = 0;;) {
    off_t data = lseek(fd, at, SEEK_DATA), hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
    int last = data < 0 || data >= st->st_size;
    if (n == cap && !(spans = realloc(spans, (cap = cap ? 2 * cap : 64) * sizeof *spans))) stop("map the holes of", "");
    if (last) { spans[n++] = (struct span){(uint64_t)st->st_size, 0}; break; }
    if (hole > st->st_size || hole < 0) hole = st->st_size;
    spans[n++] = (struct span){(uint64_t)data, (uint64_t)(hole - data)};
    total += (uint64_t)(hole - data); at = hole;
  }
  struct tar_header h = head(NULL, 'S', st, total);
  size_t next = 0;
  for (int i = 0; i < 4 && next < n; i++, next++) { tar_put(h.spans[i].offset, 12, (int64_t)spans[next].offset); tar_put(h.spans[i].bytes, 12, (int64_t)spans[next].bytes); }
  h.extended = next < n;
  tar_put(h.real_size, 12, st->st_size);
  finish_header(&h);
  while (next < n) {
    struct tar_more more;
    memset(&more, 0, sizeof more);
    for (int i = 0; i < 21 && next < n; i++, next++) { tar_put(more.spans[i].offset, 12, (int64_t)spans[next].offset); tar_put(more.spans[i].bytes, 12, (int64_t)spans[next].bytes); }
    more.extended = next < n;
    emit((const char *)&more, sizeof more);
  }
  for (size_t i = 0; i < n; i++) emit_content(fd, spans[i].offset, spans[i].bytes);
  round_up(total);
  free(spans);
}

/* Opens what may be unreadable to its own owner. */
static int open_own(const char *name, const struct stat *st, int flags) {
  int fd = open(name, flags | O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd >= 0 || errno != EACCES) return fd;
  if (chmod(name, (st->st_mode & 07777) | (S_ISDIR(st->st_mode) ? 0700 : 0400))) return -1;
  fd = open(name, flags | O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (!S_ISDIR(st->st_mode)) chmod(name, st->st_mode & 07777);
  return fd;
}

static void enter_name(const char *name) {
  size_t n = strlen(name);
  if (path_len + n + 2 > path_cap && !(path = realloc(path, path_cap = 2 * (path_len + n + 2)))) _exit(3);
  if (path_len) path[path_len++] = '/';
  memcpy(path + path_len, name, n + 1);
  path_len += n;
}

static void leave_name(size_t back) { path_len = back; path[back] = 0; }

static void report(const char *kind) { printf("%s %s", kind, path); putchar(0); }

static void save_file(const char *name, const struct stat *seen) {
  struct stat st;
  const char *before = seen->st_nlink > 1 ? linked_before(seen) : NULL;
  if (before) { emit_header(before, '1', seen, 0); return; }
  int fd = open_own(name, seen, 0);
  if (fd < 0) { if (errno == ENOENT) return; report("unreadable"); return; }
  if (fstat(fd, &st) || !S_ISREG(st.st_mode)) { report("changed"); close(fd); return; }
  st.st_mode = seen->st_mode;
  if (seen->st_nlink > 1) { char *copy = strdup(path); if (!copy) stop("remember", ""); remember(seen, copy); }
  if ((uint64_t)st.st_blocks * 512 < (uint64_t)st.st_size) emit_sparse(fd, &st);
  else { emit_header(NULL, '0', &st, (uint64_t)st.st_size); emit_content(fd, 0, (uint64_t)st.st_size); round_up((uint64_t)st.st_size); }
  close(fd);
}

static int by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* The names in the working directory, sorted; NULL-terminated. */
static char **names_here(void) {
  size_t n = 0, cap = 16;
  char **names = malloc(cap * sizeof *names);
  int fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *d = fd < 0 ? NULL : fdopendir(fd);
  if (!d || !names) stop("list", "");
  for (struct dirent *e; (e = readdir(d));) {
    if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
    if (n + 1 == cap && !(names = realloc(names, (cap *= 2) * sizeof *names))) stop("list", "");
    if (!(names[n++] = strdup(e->d_name))) stop("list", "");
  }
  closedir(d);
  names[n] = NULL;
  qsort(names, n, sizeof *names, by_bytes);
  return names;
}

static void save_here(void);

/* No descriptor is kept on the way down: down by name, back by `..`, and only if that is where we came from. */
static void save_directory(const char *name, const struct stat *st) {
  struct stat above, now;
  int fd = open_own(name, st, O_DIRECTORY);
  if (fd < 0) { if (errno != ENOENT) report("unreadable"); return; }
  int shut = (st->st_mode & 0700) != 0700 && !fchmod(fd, (st->st_mode & 07777) | 0700);
  if (stat(".", &above) || fchdir(fd)) { report("unreadable"); close(fd); return; }
  close(fd);
  save_here();
  if (chdir("..") || stat(".", &now) || now.st_ino != above.st_ino || now.st_dev != above.st_dev) { errno = ESTALE; stop("come back from", ""); }
  if (shut && !lstat(name, &now) && S_ISDIR(now.st_mode)) chmod(name, st->st_mode & 07777);
}

static void save_link(const char *name, const struct stat *st) {
  char *target = calloc(1, (size_t)st->st_size + 1);
  if (!target || readlinkat(AT_FDCWD, name, target, (size_t)st->st_size) != st->st_size) report("changed");
  else emit_header(target, '2', st, 0);
  free(target);
}

static void save_whiteout(const char *name, size_t back) {
  char *hidden = malloc(strlen(name) + 5);
  if (!hidden) stop("name a whiteout in", "");
  sprintf(hidden, ".wh.%s", name);
  leave_name(back);
  enter_name(hidden);
  emit_header(NULL, '0', NULL, 0);
  free(hidden);
}

static void save_here(void) {
  char **names = names_here(), opaque;
  size_t back = path_len;
  if (in_upper && getxattr(".", "user.overlay.opaque", &opaque, 1) == 1 && opaque == 'y') { enter_name(".wh..wh..opq"); emit_header(NULL, '0', NULL, 0); leave_name(back); }
  for (char **at = names; *at; free(*at++)) {
    struct stat st;
    if (fstatat(AT_FDCWD, *at, &st, AT_SYMLINK_NOFOLLOW)) continue; /* gone in between */
    enter_name(*at);
    if (in_upper && S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0)) save_whiteout(*at, back);
    else if (in_upper && !strncmp(*at, ".wh.", 4)) report("unnameable");
    else if (S_ISREG(st.st_mode)) save_file(*at, &st);
    else if (S_ISLNK(st.st_mode)) save_link(*at, &st);
    else if (S_ISDIR(st.st_mode)) {
      enter_name(""); emit_header(NULL, '5', &st, 0); leave_name(path_len - 1);
      save_directory(*at, &st);
    } else report(S_ISFIFO(st.st_mode) ? "fifo" : S_ISSOCK(st.st_mode) ? "socket" : "device");
    leave_name(back);
  }
  free(names);
}

/* `where` is a path, or NULL when `fd` is open already. */
static void save_tree(const char *name, const char *where, int fd) {
  struct stat st;
  enter_name(name);
  if (where && !lstat(where, &st)) fd = open_own(where, &st, O_DIRECTORY);
  if (fd < 0 && where) { report("unreadable"); leave_name(0); return; } /* its root has been shut */
  if (!where && fstat(fd, &st)) stop("open", "");
  enter_name(""); emit_header(NULL, '5', &st, 0); leave_name(path_len - 1);
  if ((st.st_mode & 0700) != 0700) fchmod(fd, (st.st_mode & 07777) | 0700);
  if (fchdir(fd)) stop("enter", "");
  save_here();
  if ((st.st_mode & 0700) != 0700) fchmod(fd, st.st_mode & 07777);
  close(fd);
  leave_name(0);
}

_Noreturn void snapshot_save(int fd) {
  out = fd;
  for (int i = 0; i < nuppers; i++) {
    char name[512];
    in_upper = 1;
    snprintf(name, sizeof name, strcmp(uppers[i].to, ".") ? "root/%s" : "root", uppers[i].to);
    save_tree(name, NULL, uppers[i].fd);
  }
  in_upper = 0;
  if (!nuppers) { save_tree("work", "/work", -1); save_tree("tmp", "/tmp", -1); }
  save_tree("shm", "/dev/shm", -1);
  pad(2 * TAR_BLOCK);
  flush();
  fflush(stdout);
  _exit(0);
}
