/* The library that a warm interpreter loads to become a spawner: its sandboxes are forks of itself, so that their programs
   find the interpreter and its modules already in memory. One thread, and the interpreter's lock held throughout. */
#include "sandbox.h"

#ifdef QUINTAIN_LIBRARY
#define FACE __attribute__((visibility("default")))
FACE int quintain_enter(int argc, char **argv);
FACE void quintain_serve(warm_entry entry);
static struct plan plan;

/* Enter the image; what is imported afterwards comes from there, under the names that programs will see. */
int quintain_enter(int argc, char **argv) {
  if (plan_read(&plan, argc, argv)) return 64;
  spawner_enter(&plan);
  return 0;
}

void quintain_serve(warm_entry entry) {
  agent_warm = entry;
  spawner_main(&plan);
}
#else
typedef int quintain_program_has_no_zygote; /* an empty translation unit is not C */
#endif
