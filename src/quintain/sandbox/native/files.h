#ifndef QUINTAIN_FILES_H
#define QUINTAIN_FILES_H
#include "sandbox.h"
#include <sys/stat.h>
/* Queues one message to the house (agent.c). */
void say(uint32_t op, uint32_t id, const void *head, size_t n, const void *body, size_t m);
/* Serves one file request as the program's user: what it may not touch, we may not either. */
void files_serve(uint32_t op, uint32_t id, char *body, size_t n, uint32_t uid);
extern char **environ;
#endif
