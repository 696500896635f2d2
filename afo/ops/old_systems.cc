// What the libraries ask of a system, kept as old as TensorFlow's own wheel (glibc 2.27) on whatever system they are built.
// Functions of these names belong to each library that this file is linked into, for itself alone: its own code and the
// static libraries in it (OpenSSL) are bound to them, not to the newest version that the C library of the build has.
// tests/test_distribution.py names what is missing here.
#include <new>

// A jump to the function of that version, with whatever arguments. No declaration: headers name only the newest one.
#define AFO_BIND_TO(version, symbol)                       \
  __asm__(".pushsection .text\n.globl " #symbol            \
          "\n.hidden " #symbol                             \
          "\n.type " #symbol ", @function\n" #symbol       \
          ":\n  jmp *afo_old_" #symbol "@GOTPCREL(%rip)\n" \
          ".size " #symbol ", .-" #symbol                  \
          "\n.symver afo_old_" #symbol ", " #symbol "@" version "\n.popsection")

// They handle errno in another way since 2.29, which nobody here looks at.
AFO_BIND_TO("GLIBC_2.2.5", log);
AFO_BIND_TO("GLIBC_2.2.5", pow);
// They went from libdl and libpthread to libc in 2.34. Before that both libraries must be there: TensorFlow loads them, and
// a library for processes without it names them itself.
AFO_BIND_TO("GLIBC_2.2.5", dladdr);
AFO_BIND_TO("GLIBC_2.2.5", dlclose);
AFO_BIND_TO("GLIBC_2.2.5", dlerror);
AFO_BIND_TO("GLIBC_2.2.5", dlopen);
AFO_BIND_TO("GLIBC_2.2.5", dlsym);
AFO_BIND_TO("GLIBC_2.2.5", pthread_create);
AFO_BIND_TO("GLIBC_2.2.5", pthread_detach);
AFO_BIND_TO("GLIBC_2.2.5", pthread_getspecific);
AFO_BIND_TO("GLIBC_2.2.5", pthread_join);
AFO_BIND_TO("GLIBC_2.2.5", pthread_key_create);
AFO_BIND_TO("GLIBC_2.2.5", pthread_key_delete);
AFO_BIND_TO("GLIBC_2.2.5", pthread_once);
AFO_BIND_TO("GLIBC_2.2.5", pthread_rwlock_destroy);
AFO_BIND_TO("GLIBC_2.2.5", pthread_rwlock_init);
AFO_BIND_TO("GLIBC_2.2.5", pthread_rwlock_rdlock);
AFO_BIND_TO("GLIBC_2.2.5", pthread_rwlock_unlock);
AFO_BIND_TO("GLIBC_2.2.5", pthread_rwlock_wrlock);
AFO_BIND_TO("GLIBC_2.2.5", pthread_setspecific);
AFO_BIND_TO("GLIBC_2.2.5", pthread_sigmask);
AFO_BIND_TO("GLIBC_2.3.3", pthread_condattr_setclock);
// std::condition_variable::wait, which GCC 12 only moved.
AFO_BIND_TO("GLIBCXX_3.4.11", _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE);

extern "C" {
// glibc 2.32. Once it is not zero, reference counts of std::shared_ptr are no longer atomic.
extern __attribute__((visibility("hidden"))) char __libc_single_threaded;
char __libc_single_threaded = 0;

// Functions since 2.33; before, headers made these calls of them (1: the layout of struct stat on x86-64).
int __xstat(int layout, const char* path, void* found);
int __fxstat(int layout, int file, void* found);
__attribute__((visibility("hidden"))) int OldStat(const char* path, void* found) __asm__("stat");
__attribute__((visibility("hidden"))) int OldFstat(int file, void* found) __asm__("fstat");
int OldStat(const char* path, void* found) { return __xstat(1, path, found); }
int OldFstat(int file, void* found) { return __fxstat(1, file, found); }

// GCC 11, whose std::exception_ptr is inline over these two. Before, copying and destroying one were the library's, and
// did the same first; of the copy nothing but its count is left.
void afo_old_copy(void* to, const void* from);
void afo_old_destroy(void* held);
__asm__(".symver afo_old_copy, _ZNSt15__exception_ptr13exception_ptrC1ERKS0_@CXXABI_1.3.3");
__asm__(".symver afo_old_destroy, _ZNSt15__exception_ptr13exception_ptrD1Ev@CXXABI_1.3.3");
__attribute__((visibility("hidden"))) void AddReference(void* held) __asm__(
    "_ZNSt15__exception_ptr13exception_ptr9_M_addrefEv");
__attribute__((visibility("hidden"))) void Release(void* held) __asm__(
    "_ZNSt15__exception_ptr13exception_ptr10_M_releaseEv");
void AddReference(void* held) {
  void* copy;
  afo_old_copy(&copy, held);
}
void Release(void* held) { afo_old_destroy(held); }
}

namespace std {

// libstdc++ of GCC 11.
[[noreturn]] __attribute__((visibility("hidden"))) void __throw_bad_array_new_length();
void __throw_bad_array_new_length() { throw bad_array_new_length(); }

}  // namespace std
