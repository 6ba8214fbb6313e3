/* PID 1's part alone, for walls that somebody else built. */
#ifndef QUINTAIN_GUEST_H
#define QUINTAIN_GUEST_H
/* `quintain-sandbox agent WHERE AGENT_UID UID`; never returns. */
_Noreturn void guest_main(char **words);
#endif
