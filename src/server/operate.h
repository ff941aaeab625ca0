/* operate.h: what an operator asks for while the server runs (switches.h): handle.c's `finish`. */
#ifndef SERVER_OPERATE_H
#define SERVER_OPERATE_H

#include "server/work.h"

void operate_shed(struct worker *worker, struct work *work, struct reply *reply);
void operate_force(struct worker *worker, struct work *work, struct reply *reply);

#endif
