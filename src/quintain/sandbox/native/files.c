/* The file service of a sandbox: every path is resolved inside its walls, with the rights of its program. A link leads
   nowhere that the program could not go itself; a FIFO or a device is refused instead of waited for. */
#include "files.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <unistd.h>

#define LIST_LIMIT 65536
#define DEPTH_LIMIT 64
#define WRITE_APPEND 0x10000u
#define PIECE_LIMIT (4u << 20)

static void answer(uint32_t id, int error, uint64_t size) { struct reply r = {error, 0, size}; say(A_REPLY, id, &r, sizeof r, NULL, 0); }

/* Returns the path when a NUL-terminated one begins at `at`, and moves past it. */
static char *take_path(char **at, size_t *n) {
  char *stop = memchr(*at, 0, *n), *path = *at;
  if (!stop || stop == *at) return NULL;
  *n -= (size_t)(stop + 1 - *at);
  *at = stop + 1;
  return path;
}

static void read_file(uint32_t id, const char *path, uint64_t most) {
  static char bytes[FRAME_BYTES - 512];
  struct stat st;
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) { answer(id, errno, 0); return; }
  if (fstat(fd, &st)) { answer(id, errno, 0); close(fd); return; }
  if (!S_ISREG(st.st_mode)) { answer(id, S_ISDIR(st.st_mode) ? EISDIR : EINVAL, 0); close(fd); return; }
  if ((uint64_t)st.st_size > most) { answer(id, EFBIG, (uint64_t)st.st_size); close(fd); return; }
  uint64_t total = 0;
  for (;;) {
    ssize_t n = read(fd, bytes, sizeof bytes);
    if (n < 0) { answer(id, errno, total); break; }
    if (n == 0) { answer(id, 0, total); break; }
    total += (uint64_t)n;
    if (total > most) { answer(id, EFBIG, total); break; }
    say(A_DATA, id, NULL, 0, bytes, (size_t)n);
  }
  close(fd);
}

/* One piece of a file; shorter than asked at the end of the file. */
static void read_piece(uint32_t id, const char *path, uint64_t at, uint64_t most) {
  static char bytes[FRAME_BYTES - 512];
  struct stat st;
  uint64_t total = 0;
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) { answer(id, errno, 0); return; }
  int error = fstat(fd, &st) ? errno : S_ISREG(st.st_mode) ? 0 : S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
  if (most > PIECE_LIMIT) most = PIECE_LIMIT;
  while (!error && total < most) {
    ssize_t n = pread(fd, bytes, most - total < sizeof bytes ? (size_t)(most - total) : sizeof bytes, (off_t)(at + total));
    if (n < 0) error = errno;
    if (n <= 0) break;
    say(A_DATA, id, NULL, 0, bytes, (size_t)n);
    total += (uint64_t)n;
  }
  close(fd);
  answer(id, error, total);
}

static int make_parents(char *path, mode_t mode) {
  for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
    *at = 0;
    int bad = mkdir(path, mode) && errno != EEXIST;
    *at = '/';
    if (bad) return -1;
  }
  return 0;
}

static void write_file(uint32_t id, char *path, mode_t mode, int append, const char *bytes, size_t n) {
  struct stat st;
  if (make_parents(path, 0755)) { answer(id, errno, 0); return; }
  int fd = open(path, O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC | O_NOCTTY | (append ? O_APPEND : 0), mode);
  if (fd < 0) { answer(id, errno, 0); return; }
  if (fstat(fd, &st) || !S_ISREG(st.st_mode)) { answer(id, EINVAL, 0); close(fd); return; }
  int error = (!append && ftruncate(fd, 0)) || fchmod(fd, mode) ? errno : 0;
  for (size_t done = 0; !error && done < n;) {
    ssize_t k = write(fd, bytes + done, n - done);
    if (k < 0) error = errno; else done += (size_t)k;
  }
  close(fd);
  answer(id, error, n);
}

struct entry { uint32_t kind, mode; uint64_t size, modified_ns; };
static char page[FRAME_BYTES - 512]; static size_t page_used, listed;

static void flush_page(uint32_t id) { if (page_used) say(A_DATA, id, NULL, 0, page, page_used); page_used = 0; }

static int list_entry(uint32_t id, const char *path, const struct stat *st) {
  struct entry e = {S_ISREG(st->st_mode) ? 'f' : S_ISDIR(st->st_mode) ? 'd' : S_ISLNK(st->st_mode) ? 'l' : 'o', st->st_mode & 07777, (uint64_t)st->st_size,
    (uint64_t)st->st_mtim.tv_sec * 1000000000ull + (uint64_t)st->st_mtim.tv_nsec};
  size_t n = strlen(path) + 1;
  if (++listed > LIST_LIMIT) { errno = EOVERFLOW; return -1; }
  if (page_used + sizeof e + n > sizeof page) flush_page(id);
  memcpy(page + page_used, &e, sizeof e); memcpy(page + page_used + sizeof e, path, n);
  page_used += sizeof e + n;
  return 0;
}

static int list_tree(uint32_t id, int dir, const char *path, uint32_t depth) {
  DIR *d = fdopendir(dir);
  if (!d) { close(dir); return -1; }
  int bad = 0;
  char *name = malloc(4200);
  for (struct dirent *e; name && !bad && (e = readdir(d));) {
    struct stat st;
    if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
    if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW)) continue; /* gone in between */
    if (snprintf(name, 4200, "%s/%s", path, e->d_name) >= 4200) { errno = ENAMETOOLONG; bad = -1; break; }
    bad = list_entry(id, name, &st);
    if (!bad && depth > 1 && S_ISDIR(st.st_mode)) {
      int sub = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
      if (sub >= 0) bad = list_tree(id, sub, name, depth - 1);
    }
  }
  free(name);
  int saved = errno;
  closedir(d);
  errno = saved;
  return bad;
}

static int remove_tree(int at, const char *name, int depth) {
  if (!unlinkat(at, name, 0)) return 0;
  if (errno != EISDIR && errno != EPERM) return -1;
  if (!unlinkat(at, name, AT_REMOVEDIR)) return 0;
  if (errno != ENOTEMPTY) return -1;
  if (depth == 0) { errno = ENAMETOOLONG; return -1; }
  int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR *d = fd < 0 ? NULL : fdopendir(fd);
  if (!d) return -1;
  int bad = 0;
  for (struct dirent *e; !bad && (e = readdir(d));)
    if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) bad = remove_tree(dirfd(d), e->d_name, depth - 1);
  int saved = errno;
  closedir(d);
  errno = saved;
  return bad ? -1 : unlinkat(at, name, AT_REMOVEDIR);
}

void files_serve(uint32_t op, uint32_t id, char *body, size_t n, uint32_t uid) {
  uint64_t number = 0;
  struct stat st;
  if (n < sizeof number) { answer(id, EINVAL, 0); return; }
  memcpy(&number, body, sizeof number);
  body += sizeof number; n -= sizeof number;
  char *path = take_path(&body, &n);
  if (!path) { answer(id, EINVAL, 0); return; }
  uid_t old_uid = (uid_t)setfsuid(uid), old_gid = (uid_t)setfsgid(uid);
  mode_t old_mask = umask(0);
  switch (op) {
    case A_READ: read_file(id, path, number); break;
    case A_WRITE: write_file(id, path, (mode_t)(number & 0777), (number & WRITE_APPEND) != 0, body, n); break;
    case A_READ_AT: {
      uint64_t most = 0;
      if (n >= sizeof most) memcpy(&most, body, sizeof most);
      read_piece(id, path, number, most);
      break;
    }
    case A_RENAME: {
      char *to = take_path(&body, &n);
      if (!to) answer(id, EINVAL, 0);
      else answer(id, make_parents(to, 0755) || rename(path, to) ? errno : 0, 0);
      break;
    }
    case A_STAT:
      if (lstat(path, &st)) { answer(id, errno, 0); break; }
      page_used = listed = 0;
      list_entry(id, path, &st); flush_page(id); answer(id, 0, 1);
      break;
    case A_LIST: {
      int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
      page_used = listed = 0;
      if (fd < 0) { answer(id, errno, 0); break; }
      int bad = list_tree(id, fd, path, number > DEPTH_LIMIT ? DEPTH_LIMIT : (uint32_t)number), saved = errno;
      flush_page(id); answer(id, bad ? saved : 0, listed);
      break;
    }
    case A_REMOVE: answer(id, remove_tree(AT_FDCWD, path, 256) ? errno : 0, 0); break;
    case A_MKDIR: answer(id, make_parents(path, 0755) || (mkdir(path, 0755) && errno != EEXIST) ? errno : 0, 0); break;
    default: answer(id, ENOSYS, 0);
  }
  umask(old_mask);
  setfsgid(old_gid); setfsuid(old_uid);
}
