/* static_program.c: settings of the C library for a program that is linked statically. */
#include <nss.h>

/*
 * The modules that /etc/nsswitch.conf may name are shared objects of the system's C library, which
 * may be of another version than ours. Looking up a name would load such a module, and its errors
 * end the program. Therefore we use the two services that the C library itself contains.
 */
__attribute__((constructor)) static void use_services_of_c_library(void)
{
	__nss_configure_lookup("hosts", "files dns");
	__nss_configure_lookup("passwd", "files");
	__nss_configure_lookup("group", "files");
}
