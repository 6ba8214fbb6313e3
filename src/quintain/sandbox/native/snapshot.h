#ifndef QUINTAIN_SNAPSHOT_H
#define QUINTAIN_SNAPSHOT_H
#include "sandbox.h"
/* Both run in a process of their own, as the program's user; they exit 0 when done, else stderr says why. */
_Noreturn void snapshot_save(int fd);
_Noreturn void snapshot_restore(int fd);
#endif
