/* A wall clock that differs by CLOCK_OFFSET seconds from the machine's, for LD_PRELOAD. File times
 * stay the kernel's, as with a file server. What waits until a wall time is told the kernel's. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

#define STOCK(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define YEAR_2001 1000000000

static long offset(void) {
  const char* seconds = getenv("CLOCK_OFFSET");
  return seconds ? atol(seconds) : 0;
}

/* A time of the kernel's clock; times since the machine started stay. */
static const struct timespec* of_kernel(const struct timespec* until, struct timespec* changed) {
  if (!until || until->tv_sec < YEAR_2001) return until;
  *changed = *until;
  changed->tv_sec -= offset();
  return changed;
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  int failed = STOCK(clock_gettime)(clock, now);
  if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    now->tv_sec += offset();
  }
  return failed;
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  int failed = STOCK(gettimeofday)(now, zone);
  if (!failed) now->tv_sec += offset();
  return failed;
}

time_t time(time_t* now) {
  struct timespec found;
  clock_gettime(CLOCK_REALTIME, &found);
  if (now) *now = found.tv_sec;
  return found.tv_sec;
}

int sem_timedwait(sem_t* restrict sem, const struct timespec* restrict until) {
  struct timespec changed;
  return STOCK(sem_timedwait)(sem, of_kernel(until, &changed));
}

int pthread_cond_timedwait(pthread_cond_t* restrict cond, pthread_mutex_t* restrict mutex,
                           const struct timespec* restrict until) {
  struct timespec changed;
  return STOCK(pthread_cond_timedwait)(cond, mutex, of_kernel(until, &changed));
}

long syscall(long number, ...) {
  long (*stock)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
  struct timespec changed;
  long a[6];
  va_list rest;
  va_start(rest, number);
  for (int at = 0; at < 6; at++) a[at] = va_arg(rest, long);
  va_end(rest);
  if (number == SYS_futex && (a[1] & FUTEX_CLOCK_REALTIME)) {
    a[3] = (long)of_kernel((const struct timespec*)a[3], &changed);
  }
  return stock(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
