// Runs a command and measures it: `run RESULT COMMAND...` writes wall time and CPU time (seconds)
// and peak resident memory (KiB) to RESULT, sends the command's output to /dev/null and ends with
// its exit code. A small program of its own, because Linux counts what resided before the exec for
// the command too, and a Python that forks has more than what is measured here.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds(struct timeval t)
{
	return t.tv_sec + t.tv_usec / 1e6;
}

int main(int argc, char **argv)
{
	struct timespec start, end;
	struct rusage usage;
	int status;
	pid_t child;
	FILE *result;

	if (argc < 3) {
		fprintf(stderr, "usage: %s RESULT COMMAND...\n", argv[0]);
		return 2;
	}
	clock_gettime(CLOCK_MONOTONIC, &start);
	child = fork();
	if (child == 0) {
		int null = open("/dev/null", O_WRONLY);

		if (null >= 0)
			dup2(null, STDOUT_FILENO);
		execvp(argv[2], argv + 2);
		perror(argv[2]);
		_exit(127);
	}
	if (child < 0 || wait4(child, &status, 0, &usage) != child) {
		perror("run");
		return 1;
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	result = fopen(argv[1], "w");
	if (!result) {
		perror(argv[1]);
		return 1;
	}
	fprintf(result, "%.6f %.6f %ld\n",
		(end.tv_sec - start.tv_sec) + (end.tv_nsec - start.tv_nsec) / 1e9,
		seconds(usage.ru_utime) + seconds(usage.ru_stime), usage.ru_maxrss);
	fclose(result);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
