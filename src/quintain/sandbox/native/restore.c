/* Reads what save.c wrote and makes the trees anew, inside a fresh sandbox and as the program's user: whatever the bytes say,
   nothing is touched that the program could not touch itself. Names that lead up or out are refused; no link is followed. */
#include "snapshot.h"
#include "tar.h"
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LONGEST (1u << 20) /* of a name: deeper than any tree that fits */

static int in;
static const struct { const char *name, *at; } trees[] = {{"work", "/work"}, {"tmp", "/tmp"}, {"shm", "/dev/shm"}, {"root", "/"}};

/* The directories that we are in, from the tree's root down; mode and time are set on the way out. */
static struct level { char *name; mode_t mode; int64_t mtime; int known; } *levels; static size_t depth, levels_cap;

static _Noreturn void stop(const char *what, const char *name) {
  fprintf(stderr, "%s %.300s: %s", what, name, strerror(errno));
  fflush(stderr);
  _exit(1);
}

static _Noreturn void refuse(const char *why, const char *name) { fprintf(stderr, "%s: %.300s", why, name); fflush(stderr); _exit(1); }

static void take(void *into, size_t n) {
  for (char *at = into; n;) {
    ssize_t k = read(in, at, n);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) refuse("expected more bytes", "the snapshot is cut short");
    at += k; n -= (size_t)k;
  }
}

static void skip(uint64_t n) { char bytes[4096]; while (n) { size_t k = n < sizeof bytes ? (size_t)n : sizeof bytes; take(bytes, k); n -= k; } }

static void leave(void) {
  struct level *l = &levels[--depth];
  struct timespec when[2] = {{.tv_nsec = UTIME_NOW}, {.tv_sec = l->mtime}};
  if (depth) {
    if (chdir("..")) stop("leave", l->name);
    if (l->known && (utimensat(AT_FDCWD, l->name, when, AT_SYMLINK_NOFOLLOW) || fchmodat(AT_FDCWD, l->name, l->mode, 0))) stop("set the mode of", l->name);
  } else if (l->known) { /* the root of a tree: its time can be set by its owner only, and / may be the host's own */
    utimensat(AT_FDCWD, ".", when, 0);
    if (chmod(".", l->mode)) stop("set the mode of", l->name);
  }
  free(l->name);
}

static void push(const char *name, size_t n) {
  if (depth == levels_cap && !(levels = realloc(levels, (levels_cap = levels_cap ? 2 * levels_cap : 64) * sizeof *levels))) stop("go down into", name);
  levels[depth] = (struct level){.name = strndup(name, n)};
  if (!levels[depth++].name) stop("go down into", name);
}

/* Steps into `name`, a real directory, making it if need be. */
static void enter(const char *name, size_t n) {
  char one[NAME_MAX + 1];
  if (n > NAME_MAX) refuse("expected a name that a file can have", name);
  memcpy(one, name, n); one[n] = 0;
  if (mkdir(one, 0700) && errno != EEXIST) stop("make", one);
  int fd = open(one, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 && errno == EACCES && !fchmodat(AT_FDCWD, one, 0700, 0)) fd = open(one, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat st;
  if (fd < 0 || fstat(fd, &st)) stop("enter", one);
  if ((st.st_mode & 0300) != 0300) fchmod(fd, (st.st_mode & 07777) | 0700); /* its own mode comes back on the way out, if it is ours to say */
  if (fchdir(fd)) stop("enter", one);
  close(fd);
  push(name, n);
  levels[depth - 1].mode = st.st_mode & 07777;
}

static void go_to_tree(const char *name, size_t n) {
  while (depth) leave();
  for (size_t i = 0; i < sizeof trees / sizeof *trees; i++)
    if (strlen(trees[i].name) == n && !memcmp(trees[i].name, name, n)) {
      if (chdir(trees[i].at)) stop("enter", trees[i].at);
      push(name, n);
      return;
    }
  refuse("expected a name below work/, tmp/, shm/ or root/, found", name);
}

/* Makes the working directory the parent of `path`; returns its last part. */
static const char *go_to(char *path) {
  size_t level = 0, length = strlen(path);
  while (length > 1 && path[length - 1] == '/') path[--length] = 0;
  char *at = path;
  for (char *slash; (slash = strchr(at, '/')); at = slash + 1, level++) {
    size_t n = (size_t)(slash - at);
    if (n == 0 || (n == 1 && *at == '.') || (n == 2 && at[0] == '.' && at[1] == '.')) refuse("expected a plain name, found", path);
    if (level < depth && strlen(levels[level].name) == n && !memcmp(levels[level].name, at, n)) continue;
    if (level == 0) { go_to_tree(at, n); continue; }
    while (depth > level) leave();
    enter(at, n);
  }
  if (!*at || !strcmp(at, ".") || !strcmp(at, "..")) refuse("expected a plain name, found", path);
  if (level == 0) { if (!depth || strcmp(levels[0].name, at)) go_to_tree(at, strlen(at)); }
  else while (depth > level) leave();
  return at;
}

/* Removes whatever bears the name, one descriptor however deep. */
static void clear_here(void);
static void remove_any(const char *name) {
  struct stat st;
  if (!unlink(name) || errno == ENOENT) return;
  if (lstat(name, &st) || !S_ISDIR(st.st_mode)) stop("remove", name);
  if (!rmdir(name)) return;
  if (chmod(name, 0700) || chdir(name)) stop("empty", name);
  clear_here();
  if (chdir("..") || rmdir(name)) stop("remove", name);
}

static void clear_here(void) {
  for (size_t n = 1; n;) { /* names first: removing while reading may skip some */
    char **names = NULL;
    size_t cap = n = 0;
    int fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) stop("list", ".");
    for (struct dirent *e; (e = readdir(d));) {
      if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
      if (n == cap && !(names = realloc(names, (cap = cap ? 2 * cap : 64) * sizeof *names))) stop("list", ".");
      if (!(names[n++] = strdup(e->d_name))) stop("list", ".");
    }
    closedir(d);
    for (size_t i = 0; i < n; i++) { remove_any(names[i]); free(names[i]); }
    free(names);
  }
}

static void put_bytes(int fd, uint64_t at, uint64_t n, const char *name) {
  static char bytes[1 << 16];
  while (n) {
    size_t k = n < sizeof bytes ? (size_t)n : sizeof bytes;
    take(bytes, k);
    for (size_t done = 0; done < k;) {
      ssize_t w = pwrite(fd, bytes + done, k - done, (off_t)(at + done));
      if (w < 0) stop("write", name);
      done += (size_t)w;
    }
    at += k; n -= k;
  }
}

static void put_file(const char *name, const struct tar_header *h, uint64_t size) {
  struct tar_span *spans = NULL;
  size_t n = 0;
  if (h->type == 'S') {
    struct tar_more more = {.extended = h->extended};
    if (!(spans = malloc(4 * sizeof *spans))) stop("map the holes of", name);
    memcpy(spans, h->spans, sizeof h->spans); n = 4;
    while (more.extended) {
      take(&more, sizeof more);
      if (n > (1u << 20) || !(spans = realloc(spans, (n + 21) * sizeof *spans))) stop("map the holes of", name);
      memcpy(spans + n, more.spans, sizeof more.spans); n += 21;
    }
  }
  int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) stop("make", name);
  uint64_t left = size;
  if (!spans) put_bytes(fd, 0, size, name);
  for (size_t i = 0; i < n; i++) {
    uint64_t offset = (uint64_t)tar_get(spans[i].offset, 12), bytes = (uint64_t)tar_get(spans[i].bytes, 12);
    if (bytes > left) refuse("expected spans that add up to the size of", name);
    put_bytes(fd, offset, bytes, name);
    left -= bytes;
  }
  if (spans && ftruncate(fd, (off_t)tar_get(h->real_size, 12))) stop("stretch", name);
  free(spans);
  struct timespec when[2] = {{.tv_nsec = UTIME_NOW}, {.tv_sec = tar_get(h->mtime, 12)}};
  if (fchmod(fd, (mode_t)tar_get(h->mode, 8) & 07777) || futimens(fd, when) || close(fd)) stop("finish", name);
}

/* The first name of a hard link, from its tree's root down; without following anything. */
static void put_link(const char *name, const char *target) {
  const char *at = strchr(target, '/'), *where = NULL;
  for (size_t i = 0; at && i < sizeof trees / sizeof *trees; i++)
    if (strlen(trees[i].name) == (size_t)(at - target) && !memcmp(trees[i].name, target, (size_t)(at - target))) where = trees[i].at;
  int fd = where ? open(where, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
  if (fd < 0) refuse("expected a link to a file of the snapshot, found", target);
  for (const char *slash; at++, (slash = strchr(at, '/')); at = slash) {
    char one[NAME_MAX + 1];
    if ((size_t)(slash - at) > NAME_MAX) refuse("expected a name that a file can have", target);
    memcpy(one, at, (size_t)(slash - at)); one[slash - at] = 0;
    int next = strcmp(one, "..") ? openat(fd, one, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (next < 0) stop("follow the link", target);
    close(fd); fd = next;
  }
  if (linkat(fd, at, AT_FDCWD, name, 0)) stop("link", name);
  close(fd);
}

static void put_directory(const char *name, const struct tar_header *h) {
  struct stat st;
  if (!lstat(name, &st) && !S_ISDIR(st.st_mode)) remove_any(name);
  enter(name, strlen(name));
  levels[depth - 1].mode = (mode_t)tar_get(h->mode, 8) & 07777;
  levels[depth - 1].mtime = tar_get(h->mtime, 12);
  levels[depth - 1].known = 1;
}

static void put_marker(const char *name) {
  if (strcmp(name, ".wh..wh..opq")) { remove_any(name + 4); return; }
  struct level *l = &levels[depth - 1];
  if (depth == 1) { clear_here(); return; }
  if (chdir("..")) stop("leave", l->name);
  remove_any(l->name); /* made anew, it hides what lies below it */
  if (mkdir(l->name, 0700) || chdir(l->name)) stop("make", l->name);
}

static void put_entry(char *path, const char *link, const struct tar_header *h, uint64_t size) {
  const char *name = go_to(path);
  int in_root = !strcmp(levels[0].name, "root"), top = !strchr(path, '/');
  if (h->type == '5' && top) { levels[0].mode = (mode_t)tar_get(h->mode, 8) & 07777; levels[0].mtime = tar_get(h->mtime, 12); levels[0].known = 1; return; }
  if (top) refuse("expected a directory, found", path);
  if (h->type == '5') { put_directory(name, h); return; }
  if (in_root && !strncmp(name, ".wh.", 4)) { put_marker(name); return; }
  remove_any(name);
  struct timespec when[2] = {{.tv_nsec = UTIME_NOW}, {.tv_sec = tar_get(h->mtime, 12)}};
  switch (h->type) {
    case '0': case 0: case 'S': put_file(name, h, size); break;
    case '1': put_link(name, link); break;
    case '2': if (symlink(link, name) || utimensat(AT_FDCWD, name, when, AT_SYMLINK_NOFOLLOW)) stop("link", name); break;
    default: refuse("expected a file, a directory or a link, found another kind", path);
  }
}

static char *take_text(uint64_t size) {
  if (size > LONGEST) refuse("expected a name of at most 1 MiB", "found a longer one");
  char *text = calloc(1, (size_t)size + 1);
  if (!text) stop("remember", "a name");
  take(text, (size_t)size);
  skip((TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK);
  return text;
}

_Noreturn void snapshot_restore(int fd) {
  static struct tar_header h, none;
  char *name = NULL, *link = NULL;
  in = fd;
  signal(SIGXFSZ, SIG_IGN); /* too large is an error like any other */
  for (;;) {
    take(&h, sizeof h);
    if (!memcmp(&h, &none, sizeof h)) break;
    if ((unsigned)tar_get(h.checksum, 8) != tar_sum(&h)) refuse("expected a tar header, found other bytes", "the snapshot is damaged");
    uint64_t size = (uint64_t)tar_get(h.size, 12);
    if (h.type == 'L') { free(name); name = take_text(size); continue; }
    if (h.type == 'K') { free(link); link = take_text(size); continue; }
    if (!name) name = strndup(h.name, sizeof h.name);
    if (!link) link = strndup(h.link, sizeof h.link);
    if (!name || !link) stop("remember", "a name");
    put_entry(name, link, &h, size);
    if (h.type == '0' || h.type == 0 || h.type == 'S') skip((TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK);
    else if (size) refuse("expected no content, found some in", name);
    free(name); free(link); name = link = NULL;
  }
  while (depth) leave();
  skip(TAR_BLOCK);
  _exit(0);
}
