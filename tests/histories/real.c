/* real.c: time and network as they are, for the program `library` (play.c with this in place of
 * virtual.c). */
#include "virtual.h"

#include "base/os/os.h"

bool virtual_share_clock(const char *path)
{
	(void)path;
	return false;
}

void virtual_begin(uint64_t now_ns)
{
	(void)now_ns;
}

uint64_t virtual_now_ns(void)
{
	return os_wall_ns();
}

void virtual_pass(uint64_t ns)
{
	(void)ns;
}

void virtual_act(unsigned server, int64_t ahead_ns)
{
	(void)server;
	(void)ahead_ns;
}

uint64_t virtual_wall_ns(void)
{
	return os_wall_ns();
}

void virtual_set_fault(unsigned server, enum virtual_fault fault)
{
	(void)server;
	(void)fault;
}
