/* Terminals, from the sandbox's own devpts: a pty of one sandbox has no name in any other. */
#include "agent.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <unistd.h>

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

static int open_pair(int *master, int *slave) {
  int zero = 0, number;
  char path[32];
  if ((*master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)) < 0) return -1;
  if (ioctl(*master, TIOCSPTLCK, &zero) || ioctl(*master, TIOCGPTN, &number)) return -1;
  if ((*slave = ioctl(*master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC)) >= 0) return 0;
  snprintf(path, sizeof path, "/dev/pts/%d", number);
  return (*slave = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC)) < 0 ? -1 : 0;
}

int terminal_open(const struct run_request *want, int *master, int *slave) {
  *master = *slave = -1;
  uid_t old_uid = (uid_t)setfsuid(program_uid), old_gid = (uid_t)setfsgid(program_uid); /* the program owns its terminal */
  int bad = open_pair(master, slave), error = errno;
  setfsgid(old_gid); setfsuid(old_uid);
  if (bad && *master >= 0) { close(*master); *master = -1; }
  errno = error;
  if (!bad) terminal_resize(*master, want->rows, want->columns);
  return bad;
}

void terminal_resize(int master, uint16_t rows, uint16_t columns) {
  struct winsize size = {.ws_row = rows, .ws_col = columns};
  ioctl(master, TIOCSWINSZ, &size);
}
