/* The library that a warm interpreter loads to become a spawner: its sandboxes are forks of itself, so that their programs
   find the interpreter and its modules already in memory. One thread, and the interpreter's lock held throughout. */
#include "sandbox.h"

#ifdef QUINTAIN_LIBRARY
__attribute__((visibility("default"))) int quintain_zygote(int argc, char **argv, warm_entry entry);
int quintain_zygote(int argc, char **argv, warm_entry entry) {
  static struct plan plan;
  if (plan_read(&plan, argc, argv)) return 64;
  agent_warm = entry;
  spawner_main(&plan);
}
#else
typedef int quintain_program_has_no_zygote; /* an empty translation unit is not C */
#endif
