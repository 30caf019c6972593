/* A program of a driver, linked with libdoorbell_capi: the command on it. */
#include <doorbell.h>

int main(int argc, char **argv)
{
	return db_main(argc, argv, &db_driver);
}
