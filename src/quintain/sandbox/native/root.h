#ifndef QUINTAIN_ROOT_H
#define QUINTAIN_ROOT_H
#include "sandbox.h"
#define MAX_UPPERS 16
#define AGENT_INSIDE 65533u /* the agent's user inside a sandbox with a writable root, where the program's is 0 */
/* What a writable root has gathered, one for each overlay; held open by the agent, read when a snapshot is taken. */
struct upper { const char *to; int fd; };
extern struct upper uppers[MAX_UPPERS];
extern int nuppers;
void drop_bounding_set(void);
/* Makes the settings below a /proc read-only; returns -1 when that fails. */
int root_shield_proc(const char *proc);
/* In a new sandbox: turns the workshop into a root of its own. `options` are those of its tmpfs; `users` becomes the user
   namespace to enter (-1 when rootless). Returns what failed, or NULL. */
const char *root_make_writable(const struct plan *plan, const char *options, uint32_t agent, uint32_t program, int *users);
#endif
