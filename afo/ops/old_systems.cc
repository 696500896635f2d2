// What headers of newer compilers refer to and the libraries of older systems do not have: the library brings its own,
// for itself alone.
#include <new>

// glibc 2.32. Once it is not zero, reference counts of std::shared_ptr are no longer atomic.
extern "C" {
extern __attribute__((visibility("hidden"))) char __libc_single_threaded;
char __libc_single_threaded = 0;
}

namespace std {

// libstdc++ of GCC 11.
[[noreturn]] __attribute__((visibility("hidden"))) void __throw_bad_array_new_length();
void __throw_bad_array_new_length() { throw bad_array_new_length(); }

}  // namespace std
