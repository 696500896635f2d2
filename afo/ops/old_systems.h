// Included ahead of every file of the library: it asks glibc for no more than TensorFlow's own wheel does (2.27), on
// whatever system it is built. These functions have a newer version, for which the linker would bind them otherwise:
// log and pow handle errno in another way there, which nobody here looks at; pthread_rwlock_* went from libpthread and
// dladdr from libdl, which TensorFlow loads, to libc. tests/test_distribution.py names what is missing here.
#pragma once
__asm__(".symver log, log@GLIBC_2.2.5");
__asm__(".symver pow, pow@GLIBC_2.2.5");
__asm__(".symver dladdr, dladdr@GLIBC_2.2.5");
__asm__(".symver pthread_rwlock_rdlock, pthread_rwlock_rdlock@GLIBC_2.2.5");
__asm__(".symver pthread_rwlock_unlock, pthread_rwlock_unlock@GLIBC_2.2.5");
__asm__(".symver pthread_rwlock_wrlock, pthread_rwlock_wrlock@GLIBC_2.2.5");
// std::condition_variable::wait, which GCC 12 only moved.
__asm__(".symver _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE,"
        "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");
